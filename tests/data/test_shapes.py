"""Drawn shapes: deterministic, balanced, a pure function of (seed, index)."""

import importlib
import subprocess
import sys

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from labkit.data.shapes import OUTLINES, shapes
from labkit.errors import DataError


def test_contract() -> None:
    drawn = shapes(25)
    assert drawn.images.shape == (25, 3, 32, 32) and drawn.images.dtype == torch.uint8
    assert drawn.labels.tolist() == [number % 10 for number in range(25)]
    assert len(drawn.classes) == 10 and len(set(drawn.classes)) == 10
    assert shapes(200).counts().tolist() == [20] * 10


@settings(max_examples=15, deadline=None, derandomize=True)
@given(count=st.integers(1, 40), more=st.integers(0, 30), seed=st.integers(0, 2**31))
def test_fewer_shapes_are_the_beginning_of_more(count: int, more: int, seed: int) -> None:
    few, many = shapes(count, seed), shapes(count + more, seed)
    assert torch.equal(few.images, many.images[:count])


def test_chunks_leave_no_seam(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = shapes(60)
    monkeypatch.setattr(importlib.import_module("labkit.data.shapes"), "CHUNK", 7)
    assert torch.equal(shapes(60).images, whole.images)


def test_seeds_and_pictures_differ() -> None:
    first, second = shapes(40, seed=0).images, shapes(40, seed=1).images
    assert (first != second).flatten(1).any(dim=1).all()
    assert len(torch.unique(first.flatten(1), dim=0)) == 40


def test_equal_in_another_process_with_other_threads() -> None:
    program = "import torch; torch.set_num_threads(3); from labkit.data.shapes import shapes; "
    program += "print(shapes(300).fingerprint())"
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == shapes(300).fingerprint()


def test_pictures_stay_what_they_were_when_the_course_was_written() -> None:
    """The brightness of each quarter of four pictures, with room for rounding: the lessons' numbers rest on them."""
    quarters = shapes(4).images.float().unfold(2, 16, 16).unfold(3, 16, 16).mean(dim=(1, 4, 5)).flatten(1)
    expected = torch.tensor(
        [
            [89.1, 72.7, 130.4, 121.1],
            [124.3, 127.8, 161.0, 160.1],
            [136.1, 97.2, 120.6, 74.8],
            [94.7, 93.8, 76.0, 76.4],
        ]
    )
    assert torch.allclose(quarters, expected, rtol=0, atol=0.2), quarters


@pytest.mark.parametrize("outline", OUTLINES.values(), ids=OUTLINES)
def test_every_outline_fits_the_unit_circle_and_has_soft_edges(outline) -> None:
    ticks = torch.linspace(-1.2, 1.2, 241)
    y, x = torch.meshgrid(ticks, ticks, indexing="ij")
    distance = outline(x, y)
    outside = (x * x + y * y).sqrt() > 1.05
    assert (distance[outside] > 0).all(), "a part of the shape sticks out"
    assert 0.1 < (distance < 0).float().mean() * 2.4**2 < 2.6, "the shape is too small or too large to be seen"
    steps = distance.diff(dim=1).abs().max() / 0.01
    assert steps <= 1.01, "a distance cannot change faster than one walks"


@pytest.mark.parametrize("count", [0, -3, 2.5, "many", True])
def test_impossible_counts_are_refused(count) -> None:
    with pytest.raises(DataError, match="count must be a whole number"):
        shapes(count)
