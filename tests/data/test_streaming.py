"""A folder of pictures that is too large for the memory: found quickly, read one by one, in flat memory."""

import io
import json
import multiprocessing
import os
import pickle
import random
import shutil
import subprocess
import sys
from pathlib import Path

import many_pictures
import numpy
import pytest
import torch
from PIL import Image

from labkit.data import streaming
from labkit.data.collate import missing_samples
from labkit.data.loading import loader
from labkit.data.pictures import DataWarning, folder
from labkit.data.streaming import Names, stream
from labkit.errors import DataError

pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
START_METHODS = [name for name in ("fork", "spawn") if name in multiprocessing.get_all_start_methods()]


def picture(number: int, height: int = 6, width: int = 5) -> bytes:
    values = numpy.arange(height * width * 3) * (number + 3) % 256
    stream = io.BytesIO()
    Image.fromarray(values.astype(numpy.uint8).reshape(height, width, 3)).save(stream, "PNG")
    return stream.getvalue()


def write(root: Path, files: dict[str, bytes]) -> Path:
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)
    return root


GOOD = {f"{label}/{number}.png": picture(number) for number, label in enumerate(["dog", "cat", "größe", "cat", "dog"])}


class Shifted:
    """A transform that draws from the global generators, as those of torchvision do."""

    def __call__(self, pixels: torch.Tensor) -> torch.Tensor:
        return pixels.float() + torch.rand(()) + random.random()


def test_it_gives_what_reading_everything_gives(tmp_path: Path) -> None:
    for size in (6, (3, 9)):
        data, whole = stream(write(tmp_path, GOOD), size)["all"], folder(tmp_path, size)["all"]
        assert data.classes == whole.classes == ("cat", "dog", "größe")
        assert len(data) == 5 and torch.equal(data.labels, whole.labels)
        for index in range(5):
            inputs, label = data[index]
            assert inputs.dtype == torch.float32 and label == whole.labels[index] and type(label) is int
            assert torch.equal(inputs, whole.images[index] / 255)
    assert repr(data) == f"FolderDataset({tmp_path}: 5 pictures 3×3×9, 3 classes)"
    assert [data.name(index) for index in range(5)] == [
        "cat/1.png",
        "cat/3.png",
        "dog/0.png",
        "dog/4.png",
        "größe/2.png",
    ]


def test_parts_wrappers_and_odd_files_are_seen_as_when_reading_everything(tmp_path: Path) -> None:
    files = {f"outer/{part}/{name}": content for part in ("train", "val") for name, content in GOOD.items()}
    parts = stream(write(tmp_path, {**files, "outer/train/notes.txt": b"hello", "outer/.DS_Store": b""}))
    assert {key: len(part) for key, part in parts.items()} == {"train": 5, "val": 5}
    assert parts["train"].notes == folder(tmp_path)["train"].notes != ()


@pytest.mark.skipif(os.name == "nt", reason="making links needs rights on Windows")
def test_links_are_followed_and_never_in_circles(tmp_path: Path) -> None:
    write(tmp_path / "here", GOOD)
    write(tmp_path / "elsewhere", {"1.png": picture(1)})
    (tmp_path / "here" / "linked").symlink_to(tmp_path / "elsewhere", target_is_directory=True)
    (tmp_path / "here" / "cat" / "up").symlink_to(tmp_path / "here", target_is_directory=True)
    data = stream(tmp_path / "here")["all"]
    assert data.classes == ("cat", "dog", "größe", "linked") and len(data) == 6


def test_no_picture_is_opened_before_it_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = []
    read_bytes = Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", lambda path: read.append(path.name) or read_bytes(path))
    data = stream(write(tmp_path, GOOD))["all"]
    assert read == []
    data[2]
    assert read == ["0.png"]


def test_a_broken_file_is_left_out_and_named(tmp_path: Path) -> None:
    broken = {"cat/broken.png": b"no picture", "dog/empty.jpg": b"", "dog/gone.jpg": b"?"}
    data = stream(write(tmp_path, {**GOOD, **broken}), 6)["all"]
    (tmp_path / "dog" / "gone.jpg").unlink()
    batches = loader(data, 3)
    with pytest.warns(DataWarning, match="3 of 8 samples were None and left out"):
        assert sum(len(targets) for _, targets in batches) == 5
    rows = missing_samples(data, sorted(batches.missing)).rows
    assert [(row["name"], row["reason"]) for row in rows] == [
        ("cat/broken.png", "it holds no picture in a known format, whatever its name says"),
        ("dog/empty.jpg", "the file is empty"),
        ("dog/gone.jpg", "it cannot be read (No such file or directory)"),
    ]
    assert data.why_missing(0) == ""


@pytest.mark.parametrize("start_method", [None, *(pytest.param(m, marks=pytest.mark.slow) for m in START_METHODS)])
def test_workers_give_the_same_random_transforms(tmp_path: Path, start_method: str | None) -> None:
    data = stream(write(tmp_path, {**GOOD, "cat/broken.png": b""}), 6, Shifted())["all"]
    found = []
    for num_workers in (0, 2):
        batches = loader(data, 2, seed=1, shuffle=True, num_workers=num_workers, start_method=start_method)
        with pytest.warns(DataWarning):
            found.append([*batches, *batches])
    assert len(found[0]) == len(found[1])
    for one, other in zip(*found, strict=True):
        assert all(torch.equal(*parts) for parts in zip(one, other, strict=True))
    assert not torch.equal(data[0][0], data[0][0]), "the transform does draw"


def test_a_selection_shares_the_names(tmp_path: Path) -> None:
    data = stream(write(tmp_path, GOOD), 6)["all"]
    part = data.select(torch.tensor([4, 0]))
    assert [part.name(0), part.name(1)] == ["größe/2.png", "cat/1.png"] and part.labels.tolist() == [2, 0]
    assert part.names.text is data.names.text
    assert torch.equal(data.select(data.labels == 1)[1][0], data[3][0])
    assert pickle.loads(pickle.dumps(part)).name(0) == "größe/2.png"


def test_names_of_every_kind_come_back() -> None:
    kinds = ["a.png", "größe/猫 x.jpg", "", "b" * 300, os.fsdecode(b"caf\xe9.png") if os.name == "posix" else "c"]
    names = Names.of(kinds)
    assert [names[index] for index in range(len(names))] == kinds
    assert names.text.nbytes == sum(len(os.fsencode(name)) for name in kinds)


def test_progress_is_shown_where_somebody_watches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    files = {f"{label}/{number}.png": b"" for label in "ab" for number in range(1500)}
    write(tmp_path, files)
    monkeypatch.delenv("JPY_SESSION_NAME", raising=False)
    monkeypatch.setattr(streaming, "PATIENCE", 60.0)
    stream(tmp_path)
    assert capsys.readouterr() == ("", ""), "a quick search needs no words"
    monkeypatch.setattr(streaming, "PATIENCE", 0.0)
    said = f"searching {tmp_path.name}:"
    stream(tmp_path)
    assert capsys.readouterr() == ("", ""), "nobody watches: no lines in a log"
    monkeypatch.setenv("JPY_SESSION_NAME", "x")
    stream(tmp_path)
    lines = capsys.readouterr().err.split("\r")[1:]
    assert lines[:3] == [f"{said} {count} files" for count in ("1,000", "2,000", "3,000")]
    assert lines[3].startswith(f"{said} 3,000 files in ") and lines[3].endswith(" seconds\n") and len(lines) == 4


@pytest.mark.parametrize(
    ("size", "sentence"),
    [(0, "size must be a positive whole number"), ((1, 2, 3), "got \\(1, 2, 3\\)"), (2.5, "got 2.5")],
)
def test_a_size_that_cannot_be_is_refused(tmp_path: Path, size: object, sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        stream(tmp_path, size)


def test_a_place_that_is_not_there_or_empty_is_told(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="There is no folder .*nowhere"):
        stream(tmp_path / "nowhere")
    with pytest.raises(DataError, match="there are no pictures"):
        stream(tmp_path)


# --- 200,000 pictures -------------------------------------------------------------------------------------------------

PICTURES, CLASSES, BROKEN = 200_000, 10, 25


@pytest.fixture(scope="module")
def large_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a few pictures, and the rest as further names of the same files where the system can do that."""
    root = tmp_path_factory.mktemp("large") / "pictures"
    noise = numpy.random.default_rng(0)
    masters = []
    for number in range(40):
        path = root.parent / f"{number}.{'jpg' if number % 2 else 'png'}"
        Image.fromarray(noise.integers(0, 256, (24, 20, 3), dtype=numpy.uint8)).save(path)
        masters.append(path)
    for label in range(CLASSES):
        (root / f"class {label}").mkdir(parents=True)
    for number in range(PICTURES - BROKEN):
        master = masters[number % len(masters)]
        place = root / f"class {number % CLASSES}" / f"picture {number:06d}{master.suffix}"
        try:
            os.link(master, place)
        except OSError:
            shutil.copyfile(master, place)
    for number in range(BROKEN):
        (root / "class 0" / f"broken {number}.jpg").write_bytes(b"no picture")
    return root


@pytest.mark.slow
def test_200_000_pictures_stream_in_flat_memory(large_folder: Path) -> None:
    """The memory of the process and its two workers grows by at most a tenth in an epoch."""
    command = [sys.executable, "-W", "ignore", many_pictures.__file__, str(large_folder), "2"]
    answer = subprocess.run(command, capture_output=True, text=True, check=True, timeout=1200)
    facts = json.loads(answer.stdout)
    print(facts, answer.stderr)
    assert (facts["pictures"], facts["read"], facts["missing"]) == (PICTURES, PICTURES - BROKEN, BROKEN)
    assert facts["largest"] <= 1.1 * facts["first"]
