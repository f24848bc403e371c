"""Own parts in a real small training: equal where they are right, found where they are wrong."""

import pytest
import torch
from own_parts import RIGHT, LinearOtherNames
from torch import nn

from labkit.errors import LabkitError
from labkit.exercises import small_training
from labkit.exercises.declaration import defined_by
from labkit.exercises.parts import PARTS
from labkit.exercises.small_training import TORCH, train
from labkit.exercises.swap_in import side_by_side

SEVERAL = [pytest.param(name, answer, id=f"{name}-{answer.__name__}") for name in RIGHT for answer in RIGHT[name]]


@pytest.mark.parametrize(("name", "answer"), SEVERAL)
def test_a_right_part_ends_at_equal_weights(name, answer):
    comparison = side_by_side(**{name: answer}, updates=10)
    assert comparison.is_right, repr(comparison)
    assert (
        comparison.table.rows[0]["training"] == "equal" and float(comparison.table.rows[0]["largest difference"]) < 1e-4
    )


def test_everything_from_the_learner_at_once():
    comparison = side_by_side(**{name: part.reference() for name, part in PARTS.items()})
    assert comparison.is_right, repr(comparison)
    assert [row["yours"] for row in comparison.table.rows] == [*PARTS, "all that are equal"]
    assert "Everything is yours." in comparison.table.caption


def test_the_small_training_learns():
    losses = train({}, 20).losses
    assert losses[-1] < 0.6 * losses[0]


@pytest.mark.parametrize("name", PARTS)
def test_a_wrong_part_is_found_named_and_left_out_of_the_whole(name):
    wrong = PARTS[name].misconceptions[2]
    right = {"linear": RIGHT["linear"][0], "loss": RIGHT["loss"][1], "batch_norm": RIGHT["batch_norm"][0]}
    comparison = side_by_side(**{**right, name: wrong.answer}, updates=5)
    assert not comparison.is_right
    row = next(row for row in comparison.table.rows if row["yours"] == name)
    assert row["check"] == wrong.name and comparison.results[name].misconception == wrong.name
    assert (
        comparison.table.rows[-1]["yours"] == "all that are equal" and comparison.table.rows[-1]["training"] == "equal"
    )
    assert f"`{name}`" in repr(comparison) and wrong.explanation in comparison._repr_markdown_()


def test_what_was_skipped_is_torchs():
    stub = defined_by(PARTS["conv2d"].stub, "Conv2d")
    comparison = side_by_side(linear=..., conv2d=stub, dropout=None, loss=PARTS["loss"].reference(), updates=3)
    assert [row["yours"] for row in comparison.table.rows] == ["loss"] and comparison.is_right
    assert "torch's own: linear, conv2d, batch_norm, dropout, optimizer" in comparison.table.caption


def test_nothing_attempted_is_neither_right_nor_an_error():
    comparison = side_by_side(linear=..., updates=2)
    assert not comparison.is_right and len(comparison.table) == 0 and "digits" in repr(comparison)


def test_a_part_that_passes_its_check_and_breaks_in_training_is_said():
    class Forgetful(LinearOtherNames):
        def forward(self, x):
            return super().forward(x) * (0.5 if len(x) > 20 else 1)

    comparison = side_by_side(linear=Forgetful, updates=3)
    assert not comparison.is_right and "`linear` passes its check, but the training" in repr(comparison)


def test_memory_is_measured():
    """A convolution that multiplies windows keeps them for backward; torch's keeps its input alone."""
    rows = side_by_side(conv2d=PARTS["conv2d"].reference(), loss=TORCH["loss"], updates=3).table.rows
    assert float(rows[0]["memory"].rstrip("×")) > 1.2 and rows[1]["memory"] == "1.0×"
    assert all(float(row["time"].rstrip("×")) > 0 for row in rows)


def test_a_slow_part_is_stopped_early_and_compared_as_far_as_it_came(monkeypatch):
    monkeypatch.setattr(small_training, "PATIENCE", 0.0)
    comparison = side_by_side(linear=RIGHT["linear"][0], dropout=RIGHT["dropout"][0], updates=4)
    assert comparison.is_right, repr(comparison)
    assert comparison.table.rows[1]["training"] == "equal after 1 of 4 updates, for want of time"


def test_trainings_leave_the_random_numbers_alone():
    before = torch.get_rng_state()
    side_by_side(dropout=PARTS["dropout"].reference(), updates=2)
    assert torch.equal(before, torch.get_rng_state())


def test_an_unknown_part_is_a_sentence():
    with pytest.raises(LabkitError, match="no part 'lienar'.*the parts are linear, conv2d"):
        side_by_side(lienar=nn.Linear)
    with pytest.raises(LabkitError, match="updates=0 must be"):
        side_by_side(linear=nn.Linear, updates=0)


def test_batches_that_yield_nothing_are_found():
    comparison = side_by_side(batches=lambda inputs, targets, order, batch_size: [], updates=2)
    assert comparison.table.rows[0]["training"] == "0 updates instead of 2" and not comparison.is_right


def test_nothing_that_a_part_sets_lasts():
    def training_step(*arguments):
        torch.set_default_dtype(torch.float64)
        torch.set_grad_enabled(True)
        return TORCH["training_step"](*arguments)

    train({"training_step": training_step}, 2)
    assert torch.get_default_dtype() == torch.float32
