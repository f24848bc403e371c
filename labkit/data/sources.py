"""Data sets by name: two that come with the installation, three that are downloaded once and kept."""

import importlib.util
import os
import pickle
import warnings
from dataclasses import dataclass
from pathlib import Path

import torch

from labkit.data.downloads import DownloadFailed, archives, fetch
from labkit.data.images import ImageSet
from labkit.errors import DataError


@dataclass(frozen=True)
class Source:
    """What is known about a data set before it is loaded."""

    description: str
    size: str
    megabytes: int = 0  # to download; 0: it comes with the installation
    torchvision_name: str = ""
    folder: str = ""  # where torchvision keeps its files, below a folder for data sets
    files: tuple[str, ...] = ()  # all of them must be there
    archive_folder: str = ""  # where torchvision looks for the archive before it downloads one


_IDX_FILES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
_CIFAR_FILES = (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch", "batches.meta")

SOURCES: dict[str, Source] = {
    "digits": Source("handwritten digits, from scikit-learn", "1,797 pictures of 1×8×8, 10 classes"),
    "shapes": Source("drawn shapes in colour, as many as you like", "2,000 pictures of 3×32×32, 10 classes"),
    "cifar10": Source(
        description="photographs of animals and vehicles",
        size="50,000 + 10,000 pictures of 3×32×32, 10 classes",
        megabytes=170,
        torchvision_name="CIFAR10",
        folder="cifar-10-batches-py",
        files=_CIFAR_FILES,
    ),
    "mnist": Source(
        description="handwritten digits",
        size="60,000 + 10,000 pictures of 1×28×28, 10 classes",
        megabytes=12,
        torchvision_name="MNIST",
        folder="MNIST/raw",
        files=_IDX_FILES,
        archive_folder="MNIST/raw",
    ),
    "fashion_mnist": Source(
        description="clothes, in grey",
        size="60,000 + 10,000 pictures of 1×28×28, 10 classes",
        megabytes=31,
        torchvision_name="FashionMNIST",
        folder="FashionMNIST/raw",
        files=_IDX_FILES,
        archive_folder="FashionMNIST/raw",
    ),
}


def digits() -> ImageSet:
    """Return 1,797 handwritten digits of 1 × 8 × 8 pixels, which come with scikit-learn.

    Its grey values 0..16 are scaled to 0..255. Source: E. Alpaydin and C. Kaynak, UCI repository, 1998.
    """
    from sklearn.datasets import load_digits  # takes a second to import, so only when asked for

    bunch = load_digits()
    images = (torch.from_numpy(bunch.images) * (255 / 16)).round().to(torch.uint8)
    classes = tuple(str(name) for name in bunch.target_names)
    return ImageSet(images[:, None], torch.from_numpy(bunch.target).long(), classes, "digits")


def cifar10(part: str = "train") -> ImageSet:
    """Return CIFAR-10, 3 × 32 × 32: 50,000 photographs in part "train", 10,000 in part "test".

    Looks into the folder that the environment variable LABKIT_DATA names, then into the cache folder, then downloads
    170 MB into the cache and compares the checksum. Raises DataError, which says what to do, where that fails.
    Source: A. Krizhevsky, "Learning multiple layers of features from tiny images", 2009.
    """
    return _load("cifar10", part)


def mnist(part: str = "train") -> ImageSet:
    """Return MNIST, 1 × 28 × 28: 60,000 digits in part "train", 10,000 in part "test"; found as `cifar10` is (12 MB).

    Source: Y. LeCun, C. Cortes, C. Burges, 1998.
    """
    return _load("mnist", part)


def fashion_mnist(part: str = "train") -> ImageSet:
    """Return Fashion-MNIST, 1 × 28 × 28: 60,000 pictures of clothes in "train", 10,000 in "test" (31 MB to download).

    Source: H. Xiao, K. Rasul, R. Vollgraf, "Fashion-MNIST: a novel image dataset", 2017.
    """
    return _load("fashion_mnist", part)


def cache_folder() -> Path:
    """Return where downloads are kept: $LABKIT_CACHE, else the user's cache folder. It need not exist yet."""
    if named := os.environ.get("LABKIT_CACHE"):
        return Path(os.path.expanduser(named))
    if local := os.environ.get("LOCALAPPDATA"):  # Windows
        return Path(local) / "labkit"
    return Path.home() / ".cache" / "labkit"


def cached(name: str) -> Path | None:
    """Return where a data set of SOURCES lies on this disk, or None; looks at names only, so it takes no time."""
    if name == "digits":
        package = importlib.util.find_spec("sklearn")
        return Path(package.origin).parent / "datasets" / "data" if package else None
    if name == "shapes":
        return Path(__file__).with_name("shapes.py")
    root = _local_root(name)
    return root / SOURCES[name].folder if root else None


def _local_root(name: str) -> Path | None:
    """Return the first folder in which torchvision will find this data set complete."""
    source = SOURCES[name]
    for root in _search_folders():
        if all((root / source.folder / file).is_file() for file in source.files):
            return root
    return None


def _search_folders() -> list[Path]:
    named = os.environ.get("LABKIT_DATA")
    return [*([Path(os.path.expanduser(named))] if named else []), cache_folder()]


def _load(name: str, part: str) -> ImageSet:
    if part not in ("train", "test"):
        raise DataError(f'{name} has the parts "train" and "test", not {part!r}.')
    root = _local_root(name) or _download(name)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # NumPy grumbles about the age of CIFAR-10's files
            data = _torchvision_class(name)(root, train=part == "train")
    except (
        RuntimeError,
        OSError,
        EOFError,
        ValueError,
        TypeError,
        LookupError,
        AssertionError,
        pickle.PickleError,
    ) as e:
        raise DataError(
            f"The files of {name} in {root / SOURCES[name].folder} are damaged ({e}). "
            "Delete that folder; the next try fetches them again."
        ) from e
    pixels = torch.as_tensor(data.data)  # no copy: torchvision's array becomes the tensor's memory
    images = pixels.permute(0, 3, 1, 2) if pixels.ndim == 4 else pixels[:, None]
    classes = tuple(label.split(" - ")[0] for label in data.classes)  # "7 - seven" is called "7" here
    return ImageSet(images, torch.as_tensor(data.targets, dtype=torch.int64), classes, f"{name} ({part})")


def _download(name: str) -> Path:
    """Fetch a data set into the cache and return the folder for torchvision, or raise DataError with what to do."""
    source, cache, dataset = SOURCES[name], cache_folder(), _torchvision_class(name)
    try:
        fetch(
            dataset, source.folder, source.archive_folder, cache, _search_folders(), f"{name}, {source.megabytes} MB,"
        )
    except DownloadFailed as reason:
        named = os.environ.get("LABKIT_DATA")
        also = f" (nor in {named}, which LABKIT_DATA names)" if named else ""
        raise DataError(
            f"{name} is not in {cache}{also}, and downloading it failed: {reason}. Put {', '.join(archives(dataset))} "
            f'into {cache / source.archive_folder}, or use "digits" or "shapes", which need no network.'
        ) from reason
    return _local_root(name)


def _torchvision_class(name: str) -> type:
    import torchvision.datasets  # takes a second or two to import, so only when it is needed

    return getattr(torchvision.datasets, SOURCES[name].torchvision_name)
