"""A folder or tar of pictures becomes ImageSets: exactly, in little memory, and with every loss named."""

import io
import re
import subprocess
import sys
import tarfile
import warnings
from pathlib import Path

import numpy
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from labkit.data import pictures
from labkit.data.pictures import DataWarning, folder
from labkit.errors import DataError

CIFAR_10 = Path(__file__).parents[2] / ".." / "shared" / "data" / "cifar10-images.tar.gz"


def picture(number: int, height: int = 6, width: int = 5) -> bytes:
    """Return a small PNG that is different for every number."""
    values = numpy.arange(height * width * 3) * (number + 3) % 256
    stream = io.BytesIO()
    Image.fromarray(values.astype(numpy.uint8).reshape(height, width, 3)).save(stream, "PNG")
    return stream.getvalue()


def pixels(number: int) -> torch.Tensor:
    return torch.from_numpy(numpy.array(Image.open(io.BytesIO(picture(number))))).permute(2, 0, 1)


def write(root: Path, files: dict[str, bytes]) -> Path:
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)
    return root


def pack(path: Path, files: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w:gz" if path.name.endswith("gz") else "w") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


GOOD = {f"{label}/{number}.png": picture(number) for number, label in enumerate(["dog", "cat", "cat", "dog", "emu"])}


def test_class_folders(tmp_path: Path) -> None:
    sets = folder(write(tmp_path, GOOD))
    assert list(sets) == ["all"]
    assert sets["all"].classes == ("cat", "dog", "emu") and sets["all"].labels.tolist() == [0, 0, 1, 1, 2]
    assert torch.equal(sets["all"].images, torch.stack([pixels(number) for number in (1, 2, 0, 3, 4)]))
    assert sets["all"].notes == ()


def test_part_folders(tmp_path: Path) -> None:
    files = {f"{part}/{name}": content for part in ("Training", "validation", "TEST") for name, content in GOOD.items()}
    del files["TEST/emu/4.png"]
    sets = folder(write(tmp_path, files))
    assert list(sets) == ["train", "val", "test"]
    assert [len(part) for part in sets.values()] == [5, 5, 4]
    assert all(part.classes == ("cat", "dog", "emu") for part in sets.values())
    sizes = {part.images.untyped_storage().nbytes() for part in sets.values()}
    assert sizes == {5 * 3 * 6 * 5, 4 * 3 * 6 * 5}, "a part keeps the pixels of another alive"


@pytest.mark.parametrize("ending", [".tar", ".tar.gz", ".tgz"])
@pytest.mark.parametrize("prefix", ["", "archive/", "./"])
def test_a_tar_in_any_order_gives_the_same_as_the_folder(tmp_path: Path, ending: str, prefix: str) -> None:
    files = {**GOOD, "dog/bad.png": b"no picture", "cat/wide.JPG": picture(9, 20, 40), "notes.txt": b"hello"}
    reordered = {prefix + name: files[name] for name in sorted(files, key=lambda name: name[::-1])}
    with pytest.warns(DataWarning):
        from_folder = folder(write(tmp_path / "pictures", files))["all"]
    with pytest.warns(DataWarning):
        from_tar = folder(pack(tmp_path / f"pictures{ending}", reordered))["all"]
    assert from_tar.fingerprint() == from_folder.fingerprint()
    assert [note.replace(prefix, "") for note in from_tar.notes] == list(from_folder.notes)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(data=st.data())
def test_folder_and_tar_agree_whatever_is_in_them(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    labels = data.draw(st.lists(st.sampled_from(["a", "b", "C c", "ü"]), min_size=2, max_size=12))
    good = {f"{label}/{number}.png": picture(number) for number, label in enumerate(labels)}
    bad = {f"{label}/bad{number}.jpg": b"?" for number, label in enumerate(labels) if data.draw(st.booleans())}
    files = dict(data.draw(st.permutations(sorted({**good, **bad}.items()))))
    root = tmp_path_factory.mktemp("agree")
    outcomes = []
    for path in (write(root / "x", files), pack(root / "x.tar.gz", files)):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DataWarning)
                read = folder(path)["all"]
            outcomes.append((read.fingerprint(), read.notes, len(read)))
        except DataError as error:
            outcomes.append(str(error).replace("x.tar.gz", "x"))
    assert outcomes[0] == outcomes[1]
    if len(set(labels)) > 1 and len(bad) <= len(good):
        assert outcomes[0][2] == len(good)


def test_names_of_every_kind(tmp_path: Path) -> None:
    names = ["größe/ein bild.PNG", "größe/二.JpEg", "猫/a.b.c.Tif", "猫/x y/z.BMP", "猫/-.webp", "猫/#1%.gif"]
    formats = {".PNG": "PNG", ".JpEg": "JPEG", ".Tif": "TIFF", ".BMP": "BMP", ".webp": "WEBP", ".gif": "GIF"}
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (4, 4), "red").save(tmp_path / name, formats[Path(name).suffix])
    read = folder(tmp_path)["all"]
    assert read.classes == ("größe", "猫") and read.counts().tolist() == [2, 4] and read.notes == ()


# Sizes


@pytest.mark.parametrize(
    ("first", "asked", "expected"),
    [
        ((20, 30), None, (20, 30)),
        ((64, 64), None, (64, 64)),
        ((65, 20), None, (64, 64)),
        ((20, 30), 8, (8, 8)),
        ((20, 30), (5, 9), (5, 9)),
    ],
)
def test_sizes(tmp_path: Path, first: tuple[int, int], asked, expected: tuple[int, int]) -> None:
    files = {"a/1.png": picture(1, *first), "a/2.png": picture(2, 40, 10), "b/3.png": picture(3, 11, 70)}
    assert folder(write(tmp_path, files), asked)["all"].image_shape == (3, *expected)


def test_an_unreadable_first_picture_does_not_decide_the_size(tmp_path: Path) -> None:
    with pytest.warns(DataWarning):
        read = folder(write(tmp_path, {"cat/0.png": b"", **GOOD}))["all"]
    assert read.image_shape == (3, 6, 5)


@pytest.mark.parametrize("size", [0, -1, 2.5, True, "32", (8,), (8, 0), (8, 8, 8)])
def test_impossible_sizes_are_refused(tmp_path: Path, size) -> None:
    with pytest.raises(DataError, match="size must be"):
        folder(write(tmp_path, GOOD), size)


def test_more_pixels_than_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def empty(shape, dtype):
        raise MemoryError

    monkeypatch.setattr(pictures.numpy, "empty", empty)
    with pytest.raises(DataError, match=r"5 pictures of 1000×2000 need 0\.0 GB of memory"):
        folder(write(tmp_path, GOOD), (1000, 2000))


# Files that cannot be read


BAD = {
    "cat/text.jpg": (b"this is no picture", "it holds no picture in a known format"),
    "cat/empty.png": (b"", "the file is empty"),
    "dog/truncated.png": (picture(1, 40, 40)[:-40], "it is damaged"),
}


def test_unreadable_files_are_left_out_named_and_announced_once(tmp_path: Path) -> None:
    files = {**GOOD, **{name: content for name, (content, _) in BAD.items()}}
    with pytest.warns(DataWarning) as caught:
        read = folder(write(tmp_path, files))["all"]
    assert torch.equal(read.images, torch.stack([pixels(number) for number in (1, 2, 0, 3, 4)]))
    assert read.labels.tolist() == [0, 0, 1, 1, 2]
    assert len(read.notes) == len(BAD)
    for note, name in zip(read.notes, sorted(BAD), strict=True):
        assert note.startswith(f"left out {name}: {BAD[name][1]}")
    assert len(caught) == 1 and "3 of the files could not be read" in str(caught[0].message)
    assert all(name in str(caught[0].message) for name in BAD)
    assert caught[0].filename == __file__, "the warning should point to the caller's line"


def test_a_decompression_bomb_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 2000)
    with pytest.warns(DataWarning, match="would unpack to more than 2,000 pixels"):
        read = folder(write(tmp_path, {**GOOD, "cat/bomb.png": picture(1, 50, 50)}))["all"]
    assert len(read) == len(GOOD)


def test_animated_pictures_give_their_first_frame_and_a_note(tmp_path: Path) -> None:
    write(tmp_path, GOOD)
    frames = [Image.new("RGB", (5, 6), colour) for colour in ("red", "blue")]
    frames[0].save(tmp_path / "cat" / "0.gif", save_all=True, append_images=frames[1:])
    read = folder(tmp_path)["all"]
    assert read.images[0, :, 3, 3].tolist() == [255, 0, 0]
    assert read.notes == ("cat/0.gif has several frames; the first one was taken",)


def test_a_file_that_the_system_will_not_read_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, GOOD)
    read_bytes = Path.read_bytes

    def failing(path: Path) -> bytes:
        if path.name == "2.png":
            raise PermissionError(13, "Permission denied", str(path))
        return read_bytes(path)

    monkeypatch.setattr(Path, "read_bytes", failing)
    with pytest.warns(DataWarning, match="Permission denied"):
        assert len(folder(tmp_path)["all"]) == 4


def test_notes_belong_to_their_part(tmp_path: Path) -> None:
    files = {f"{part}/{name}": content for part in ("train", "test") for name, content in GOOD.items()}
    files |= {"train/cat/bad.png": b"", "test/cat/worse.png": b"", "test/info.csv": b"1,2"}
    with pytest.warns(DataWarning):
        sets = folder(write(tmp_path, files))
    assert sets["train"].notes == (
        "left out train/cat/bad.png: the file is empty",
        "left out what does not end like a picture: 1 files (.csv), such as test/info.csv",
    )
    assert sets["test"].notes == ("left out test/cat/worse.png: the file is empty",)


# What is refused as a whole. (Layouts are tested in test_layout.py, damaged archives in test_files.py.)


def test_more_unreadable_than_readable(tmp_path: Path) -> None:
    files = {**GOOD, **{f"cat/bad{number}.png": b"?" for number in range(6)}}
    with pytest.raises(DataError, match=r"6 of the files could not be read .* more than half"):
        folder(write(tmp_path, files))


def test_a_class_without_a_readable_picture(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no picture of class 'fox' can be read"):
        folder(write(tmp_path, {**GOOD, "fox/1.png": b""}))


def test_a_missing_path(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="There is no file or folder"):
        folder(tmp_path / "nowhere")


@pytest.mark.parametrize("name", ["picture.png", "pictures.zip", "words.txt"])
def test_a_file_that_is_no_archive(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(picture(1))
    with pytest.raises(DataError, match=r"is neither a folder nor a \.tar"):
        folder(tmp_path / name)


def test_an_empty_folder(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="there are no pictures"):
        folder(tmp_path)


def test_an_empty_archive(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="there are no pictures"):
        folder(pack(tmp_path / "empty.tar", {}))


def test_loose_pictures(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="pictures lie in no class folder"):
        folder(write(tmp_path, {"1.png": picture(1), "2.png": picture(2)}))


def test_one_class(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="there is one class only, 'cat'"):
        folder(write(tmp_path, {"cat/1.png": picture(1)}))


def test_an_archive_with_a_path_that_escapes_writes_nothing(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    path = pack(tmp_path / "a" / "b" / "evil.tar", {**GOOD, "../../evil.png": picture(1)})
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(DataError, match="leads out of the archive"):
        folder(path)
    assert sorted(tmp_path.rglob("*")) == before


# Progress and memory


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def many(count: int) -> dict[str, bytes]:
    content = picture(1)
    return {f"{'cat' if number % 2 else 'dog'}/{number}.png": content for number in range(count)}


def test_long_reading_is_shown_on_a_terminal_and_the_line_is_wiped(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pictures, "PATIENCE", 0.0)
    monkeypatch.setattr(sys, "stderr", Terminal())
    folder(pack(tmp_path / "many.tar", many(1100)))
    written = sys.stderr.getvalue()
    assert "\rreading many.tar: 500 of 1,100 pictures\r" in written and "1,000 of 1,100" in written
    assert re.search(r"\r +\r$", written) and "\n" not in written


def test_nothing_is_shown_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    monkeypatch.setattr(pictures, "PATIENCE", 0.0)
    folder(pack(tmp_path / "many.tar", many(600)))
    assert capsys.readouterr() == ("", "")


MEASURE = """
import resource, sys
from labkit.data.pictures import folder
folder(sys.argv[1], 8)
def peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
before = peak()
sets = folder(sys.argv[1], int(sys.argv[2]))
held = sum(part.images.untyped_storage().nbytes() for part in sets.values())
print(held, peak() - before)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no resource module to ask for the peak memory")
def test_the_pixels_are_held_once_while_reading(tmp_path: Path) -> None:
    path = pack(tmp_path / "many.tar", {**many(600), "cat/bad.png": b""})
    command = [sys.executable, "-W", "ignore", "-c", MEASURE, str(path), "224"]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    held, growth = map(int, answer.stdout.split())
    assert held >= 600 * 3 * 224 * 224
    assert growth < 1.3 * held, f"{growth / 1e6:.0f} MB were needed for {held / 1e6:.0f} MB of pixels"


@pytest.mark.slow
@pytest.mark.skipif(not CIFAR_10.exists(), reason="needs the archive of CIFAR-10 pictures, which is not in the project")
def test_sixty_thousand_pictures() -> None:
    sets = folder(CIFAR_10)
    assert [len(sets["train"]), len(sets["test"])] == [50_000, 10_000]
    assert sets["train"].counts().tolist() == [5000] * 10 and sets["test"].counts().tolist() == [1000] * 10
    mean, deviation = sets["train"].statistics()
    assert torch.allclose(mean, torch.tensor([0.4913, 0.4821, 0.4465]), atol=1e-4)
    assert torch.allclose(deviation, torch.tensor([0.2452, 0.2428, 0.2606]), atol=1e-4)
