"""Chapter 03, first part: a Dataset over a folder of pictures."""

import inspect
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image, UnidentifiedImageError
from torch import Tensor
from torch.utils.data import Dataset

from labkit.exercises.declaration import Misconception
from labkit.exercises.differences import shown
from labkit.exercises.exercise import Exercise
from labkit.exercises.families import WrongKind

CHANNELS = {"L": 1, "RGB": 3, "RGBA": 4}


def run_picture_folder(answer: Any, files: dict[str, str]) -> Any:
    """Write the files into a folder and read it by the answer: its length, its samples, and when it reads them.

    files: name -> mode of the picture ("RGB", "L" for grey, "RGBA"), or "text" for a file that is no picture.
    """
    if not inspect.isclass(answer):
        raise WrongKind("This must be a class derived from Dataset. Give the class, without brackets behind it.")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place:
        folder = Path(place)
        sums = {name: _write(folder / name, mode, number) for number, (name, mode) in enumerate(files.items())}
        dataset = answer(folder)
        if (length := _length(dataset)) is ...:
            return ...
        observed = {"len": length, "samples": [_sample(dataset, index) for index in range(min(length, len(files)))]}
        _refuse_another_order(observed["samples"], sums)
        dataset, first = answer(folder), min(name for name, mode in files.items() if mode != "text")
        _write(folder / first, "RGB", len(files))
        observed["sample 0, when its file was replaced before anybody asked for it"] = _sample(dataset, 0)
    return observed


def _length(dataset: Any) -> Any:
    length = dataset.__len__() if hasattr(dataset, "__len__") else None
    if length is not ... and not isinstance(length, int):
        raise WrongKind(f"`__len__` must return how many samples there are, a whole number; got {shown(length)}.")
    return length


def _sample(dataset: Dataset, index: int) -> Any:
    """Return a sample, its label as a number if it is a tensor that holds one, as torch puts them into a batch.

    Where its file is no picture, say that in words, since the error names a folder that is gone.
    """
    try:
        sample = dataset[index]
        is_pair = isinstance(sample, tuple | list) and len(sample) == 2
        if is_pair and isinstance(sample[1], Tensor) and sample[1].ndim == 0 and sample[1].dtype == torch.int64:
            return sample[0], sample[1].item()
        return sample
    except UnidentifiedImageError as error:
        return f"a file that is no picture: {Path(str(error).rstrip(chr(39)).rpartition(chr(39))[2]).name}"


def _write(path: Path, mode: str, number: int) -> int | None:
    """Write a small picture, another one for each number, and return the sum of its red, green and blue."""
    path.parent.mkdir(exist_ok=True)
    if mode == "text":
        path.write_text("Nobody listed me.", encoding="utf-8")
        return None
    draws = torch.Generator().manual_seed(number)
    pixels = torch.randint(256, (4, 5, CHANNELS[mode]), dtype=torch.uint8, generator=draws)
    Image.fromarray(pixels.squeeze(2).numpy()).save(path)
    return int(pixels[..., :3].expand(-1, -1, 3).sum())


def _refuse_another_order(samples: list, sums: dict[str, int | None]) -> None:
    """Raise WrongKind, with the names, if these are the right pictures in another order."""
    names = {total: name for name, total in sums.items() if total is not None}
    pairs = [sample for sample in samples if isinstance(sample, tuple | list) and len(sample) == 2]
    pictures = [picture for picture, _ in pairs if isinstance(picture, Tensor)]
    found, wanted = [names.get(int(picture.sum()), "") for picture in pictures], sorted(names.values())
    if found != wanted and sorted(found) == wanted:
        raise WrongKind(
            f"Your samples come in the order {', '.join(found)}; asked for is the order that `sorted` gives, "
            f"{', '.join(wanted)}. A folder lists its files in an order that differs from disk to disk."
        )


class _Folder(Dataset):
    """A right Dataset. Each wrong one below differs from it in one place."""

    def __init__(self, folder: Path):
        self.paths = sorted(folder.glob("*/*.png"))
        self.classes = sorted({path.parent.name for path in self.paths})

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> tuple[Tensor, Any]:
        path = self.paths[index]
        return self.picture(path), self.label(path.parent.name)

    def picture(self, path: Path) -> Tensor:
        with Image.open(path) as opened:
            return torch.from_numpy(np.array(opened.convert("RGB"))).permute(2, 0, 1)

    def label(self, name: str) -> Any:
        return self.classes.index(name)


class _AsStored(_Folder):
    def picture(self, path: Path) -> Tensor:
        with Image.open(path) as opened:
            pixels = torch.from_numpy(np.array(opened))
        return pixels[None] if pixels.ndim == 2 else pixels.permute(2, 0, 1)


class _ChannelsLast(_Folder):
    def picture(self, path: Path) -> Tensor:
        return super().picture(path).permute(1, 2, 0)


class _Fractions(_Folder):
    def picture(self, path: Path) -> Tensor:
        return super().picture(path) / 255


class _NamesAsLabels(_Folder):
    def label(self, name: str) -> Any:
        return name


class _FilesAsClasses(_Folder):
    def __init__(self, folder: Path):
        super().__init__(folder)
        self.classes = sorted(path.name for path in folder.iterdir())


class _AllInMemory(_Folder):
    def __init__(self, folder: Path):
        super().__init__(folder)
        self.samples = [super(_AllInMemory, self).__getitem__(index) for index in range(len(self))]

    def __getitem__(self, index: int) -> tuple[Tensor, Any]:
        return self.samples[index]


class _EveryFile(_Folder):
    def __init__(self, folder: Path):
        self.paths = sorted(folder.glob("*/*"))
        self.classes = sorted({path.parent.name for path in self.paths})


PICTURE_FOLDER = Exercise(
    name="PictureFolder",
    prompt="A folder holds one folder for each class, and these hold pictures: `cats/1.png`, `cats/2.png`, "
    "`dogs/1.png`. Write a Dataset over it, `PictureFolder(folder)`, where `folder` is a `Path`. Its samples are the "
    ".png files in sorted order, each as `(picture, label)`: uint8 of shape (3, H, W), red, green and blue whatever "
    "the file has, and the number of its class, counted from 0 in the sorted order of the names. A file is opened when "
    "its sample is asked for, not before.",
    stub='''class PictureFolder(torch.utils.data.Dataset):
    """folder/class/name.png -> samples (picture: uint8 (3, H, W), label: int), in sorted order."""

    def __init__(self, folder):
        """Find the files, and read none yet."""
        ...  # your turn

    def __len__(self):
        return ...  # your turn

    def __getitem__(self, index):
        return ...  # your turn''',
    solved='''from PIL import Image


class PictureFolder(torch.utils.data.Dataset):
    """folder/class/name.png -> samples (picture: uint8 (3, H, W), label: int), in sorted order."""

    def __init__(self, folder):
        self.paths = sorted(folder.glob("*/*.png"))
        self.classes = sorted({path.parent.name for path in self.paths})

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        path = self.paths[index]
        with Image.open(path) as opened:
            pixels = np.array(opened.convert("RGB"))
        return torch.from_numpy(pixels).permute(2, 0, 1), self.classes.index(path.parent.name)''',
    hints=(
        '`__init__` only makes a list: `folder.glob("*/*.png")` finds the files, in no certain order. `sorted` gives '
        "the same order on every machine.",
        "`path.parent.name` is the name of the class. The sorted names, each once, number the classes.",
        '`Image.open(path).convert("RGB")` has three channels for certain. As an array it is (H, W, 3), and '
        "`permute` puts the channels first.",
    ),
    cases=lambda generator: [
        ({"dogs/1.png": "RGB", "cats/2.png": "RGB", "cats/10.png": "RGB", "birds/1.png": "L"},),
        (
            {
                "b/x.png": "RGBA",
                "a/y.png": "RGB",
                "b/w.png": "RGB",
                "READ ME": "text",
                "a/notes.txt": "text",
                "a/x.png": "L",
            },
        ),
    ],
    run=run_picture_folder,
    praise="The list is sorted, so sample 17 is the same picture on every machine; the disk alone promises no order.",
    misconceptions=(
        Misconception(
            "the channels of the file",
            _AsStored,
            "A .png may be grey, with one channel, or have transparency, with four. One such file among thousands, and "
            'the batch that has it cannot be stacked. `convert("RGB")` makes all alike.',
        ),
        Misconception(
            "channels last",
            _ChannelsLast,
            "Picture files and NumPy have (H, W, 3), PyTorch has (3, H, W). `permute(2, 0, 1)` changes the order of "
            "the axes. (`view` or `reshape` to that shape would mix up the pixels.)",
        ),
        Misconception(
            "fractions already",
            _Fractions,
            "Divided by 255 here, each pixel takes four bytes instead of one on its way through workers and to the "
            "GPU. Stay with uint8, and let the whole batch be divided at the end of the way.",
        ),
        Misconception(
            "names as labels",
            _NamesAsLabels,
            "A loss wants numbers: the batch would have a list of words where it needs an int64 tensor. The number of "
            "a class is its place among the sorted names.",
        ),
        Misconception(
            "files counted as classes",
            _FilesAsClasses,
            "Beside the class folders lies a file, as it does in many a download, and you counted it as a class. All "
            "labels after it are one too high, with no error, until the last layer has too few outputs.",
        ),
        Misconception(
            "every file is a picture",
            _EveryFile,
            "Among the pictures lies a file of notes, and you opened it as one. Downloads are full of such files: take "
            'only those whose names fit, here `folder.glob("*/*.png")`.',
        ),
        Misconception(
            "all pictures in memory",
            _AllInMemory,
            "You opened all files in `__init__`. That takes minutes before the first batch, the memory of the whole "
            "folder, and once more for each worker that starts anew. `__init__` notes *where* the pictures are.",
        ),
    ),
)
