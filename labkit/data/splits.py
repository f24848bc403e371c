"""Three parts with three purposes: train to learn from, val to make choices with, test to be looked at last."""

import difflib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from labkit import randomness
from labkit.data import sources
from labkit.data.images import ImageSet
from labkit.data.pictures import folder
from labkit.data.shapes import shapes
from labkit.errors import DataError

TEST_SHARE = 0.2
VAL_SHARE = 0.1
TEST_SEED = 0  # never the user's seed: a model must not meet in training what another seed calls test


@dataclass(frozen=True)
class Splits:
    """The three parts of a data set, with no picture in two of them and the same classes in each."""

    train: ImageSet
    val: ImageSet
    test: ImageSet


def _embedded(make: Callable[[], ImageSet]) -> Callable[[], dict[str, ImageSet]]:
    return lambda: {"all": make()}


def _official(make: Callable[[str], ImageSet]) -> Callable[[], dict[str, ImageSet]]:
    return lambda: {"train": make("train"), "test": make("test")}


NAMES: dict[str, Callable[[], dict[str, ImageSet]]] = {
    "digits": _embedded(sources.digits),
    "shapes": _embedded(shapes),
    "cifar10": _official(sources.cifar10),
    "mnist": _official(sources.mnist),
    "fashion_mnist": _official(sources.fashion_mnist),
}


def load(name_or_path: str | Path, seed: int = 0, limit: int | None = None) -> Splits:
    """Load a data set by its name, or your own pictures by the path of a folder or .tar, in three parts.

    An official or given test part is kept; else 20 % of the pictures, stratified by class, are the test part. It is the
    same for every `seed`. A given val part is kept; else 10 % of the rest, stratified and chosen by `seed`, are val.
    Where there are few pictures it is more than that, about one of each class.

    limit: for quick trials, keep about that many pictures for train and val together, and the same share of test. Which
    ones does not depend on `seed` either; every class keeps its share, and at least one picture of each part.

    Raises DataError for a name or path that does not exist, for a limit below the number of classes, and where there
    is no training part.
    """
    parts = _load_parts(name_or_path)
    if "all" in parts:
        rest, test = _hold_out(parts.pop("all"), TEST_SHARE, TEST_SEED)
        parts = {"train": rest, "test": test}
    if "train" not in parts:
        raise DataError(f"{name_or_path}: there is a folder for {' and '.join(parts)}, but none called train.")
    if "test" not in parts:
        parts["train"], parts["test"] = _hold_out(parts["train"], TEST_SHARE, TEST_SEED)
    if limit is not None:
        parts = _limited(parts, limit)
    if "val" not in parts:
        parts["train"], parts["val"] = _hold_out(parts["train"], VAL_SHARE, seed)
    return Splits(**parts)


def _load_parts(name_or_path: str | Path) -> dict[str, ImageSet]:
    name = str(name_or_path)
    if name in NAMES:
        return NAMES[name]()
    if not name.strip():
        raise DataError(
            "The data have no name. Give one, such as 'digits', or the path of a folder ('.' for this one)."
        )
    if isinstance(name_or_path, Path) or os.path.exists(os.path.expanduser(name)) or "/" in name or "\\" in name:
        return folder(name_or_path)
    close = difflib.get_close_matches(name.lower().replace("-", "_"), NAMES, n=1)
    guess = f" Did you mean {close[0]!r}?" if close else ""
    raise DataError(
        f"There are no data called {name!r}, neither by that name nor as a path here.{guess} "
        f"Names are {', '.join(NAMES)}; the path of a folder or .tar of pictures is good as well."
    )


def _hold_out(images: ImageSet, share: float, seed: int) -> tuple[ImageSet, ImageSet]:
    """Split as ImageSet.split does, with a share large enough for about one picture of each class, but at most half."""
    one_of_each = len(images.classes) / len(images)
    return images.split(min(max(share, one_of_each), 0.5), seed=seed)


def _limited(parts: dict[str, ImageSet], limit: int) -> dict[str, ImageSet]:
    """Keep the same share of every part, so that train and val together have `limit` pictures."""
    class_count = len(parts["train"].classes)
    if type(limit) is not int or limit < 2 * class_count:
        raise DataError(
            f"limit must be a whole number of at least {2 * class_count}, two for each of the {class_count} classes, "
            f"got {limit!r}."
        )
    share = limit / sum(len(images) for part, images in parts.items() if part != "test")
    if share >= 1:
        return parts
    return {part: images.select(_stratified(images, round(len(images) * share))) for part, images in parts.items()}


def _stratified(images: ImageSet, count: int) -> Tensor:
    """Choose about `count` pictures so that every class keeps its share, and at least one: indices in order, int64.

    Within a class the pictures take a random order, and so get the places 0, 1/n, 2/n, … of a queue that all classes
    share; the first `count` of that queue are chosen, and so is the first of each class.
    """
    places = torch.empty(len(images), dtype=torch.float64)
    for label, class_size in enumerate(images.counts().tolist()):
        order = torch.randperm(class_size, generator=randomness.generator(TEST_SEED, "limit", index=label))
        places[images.labels == label] = order.double() / max(class_size, 1)
    chosen = torch.zeros(len(images), dtype=torch.bool)
    chosen[places.argsort(stable=True)[:count]] = True
    return torch.nonzero(chosen | (places == 0)).flatten()
