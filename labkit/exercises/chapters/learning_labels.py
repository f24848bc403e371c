"""Chapter 07, second part: labels that do not belong to their pictures."""

from collections.abc import Callable

import torch
from torch import Tensor

from labkit.exercises import families
from labkit.exercises.declaration import Misconception
from labkit.exercises.drawing import normal
from labkit.exercises.exercise import Exercise

CLASSES = 3


def run_source(answer: object, images: Tensor, labels: Tensor, sources: Tensor) -> object:
    """Return the number of the source, as a plain whole number where it is a tensor."""
    families.need_function(answer)
    result = answer(images, labels, sources)
    return result.item() if isinstance(result, Tensor) and result.numel() == 1 else result


def _agrees(images: Tensor, labels: Tensor, itself: float = float("inf")) -> Tensor:
    """Tell for each picture whether the one nearest to it has the same label; `itself`: the distance to itself."""
    rows = images.flatten(1)
    return labels[torch.cdist(rows, rows).fill_diagonal_(itself).argmin(dim=1)] == labels


def _by(measure: Callable[[Tensor, Tensor, Tensor], float], choose: Callable = min) -> Callable:
    """Return an answer that takes the source with the least of something, which `measure` says of its pictures."""

    def mislabelled_source(images: Tensor, labels: Tensor, sources: Tensor) -> int:
        return choose(sources.unique().tolist(), key=lambda one: measure(images, labels, sources == one))

    return mislabelled_source


def _share(images: Tensor, labels: Tensor, mine: Tensor) -> float:
    return _agrees(images, labels)[mine].float().mean().item()


def _within_the_source(images: Tensor, labels: Tensor, mine: Tensor) -> float:
    return _agrees(images[mine], labels[mine]).float().mean().item()


def _largest_class(labels: Tensor, mine: Tensor) -> float:
    return (torch.bincount(labels[mine]).max() / mine.sum()).item()


def _place(images: Tensor, labels: Tensor, sources: Tensor) -> int:
    return sources.unique().tolist().index(_by(_share)(images, labels, sources))


def _case(generator: torch.Generator, *numbers: int) -> tuple[Tensor, Tensor, Tensor]:
    """Draw pictures of three kinds from six sources with these numbers; the last has every label wrong.

    The others: the largest, with a tenth of the labels wrong; a dark one; one with mostly one class; one whose pictures
    resemble each other; a small one with a quarter of the labels wrong.
    """
    large, dark, uneven, alike, careless, wrong = numbers
    sources = torch.tensor(numbers).repeat_interleave(torch.tensor([90, 24, 24, 18, 24, 12]))
    truth = torch.arange(len(sources)) % CLASSES
    truth[(sources == uneven).nonzero().flatten()[:18]] = 0
    kinds = 3 * normal(generator, CLASSES, 1, 4, 4)
    kinds = kinds - kinds.mean(dim=(1, 2, 3), keepdim=True)
    noise = 0.3 * normal(generator, len(sources), 1, 4, 4)
    noise[sources == alike] /= 10
    noise[sources == dark] -= 0.3
    labels = truth.clone()
    labels[(sources == large).nonzero().flatten()[::10]] += 1
    labels[(sources == careless).nonzero().flatten()[::4]] += 1
    labels[sources == wrong] += 1
    order = torch.randperm(len(sources), generator=generator)
    return (kinds[truth] + noise)[order], labels[order] % CLASSES, sources[order]


MISLABELLED_SOURCE = Exercise(
    name="mislabelled_source",
    prompt="The pictures come from several places; `sources` (int64) has the number of the place for each. A few "
    "labels are wrong everywhere. In *one* place somebody sorted a list, and since then hardly a label there belongs "
    "to its picture. Find it without looking: compare the label of each picture with that of the picture nearest to it "
    "(Euclidean distance of all pixels, itself left out, from whichever place). Return the number of the place where "
    "the smallest share agrees.",
    stub='''def mislabelled_source(images, labels, sources):
    """Return the number of the source whose labels agree least with those of the nearest pictures."""
    return ...  # your turn''',
    solved='''def mislabelled_source(images, labels, sources):
    """Return the number of the source whose labels agree least with those of the nearest pictures."""
    rows = images.flatten(1)
    distances = torch.cdist(rows, rows).fill_diagonal_(float("inf"))
    agrees = labels[distances.argmin(dim=1)] == labels
    return min(sources.unique().tolist(), key=lambda source: agrees[sources == source].float().mean())''',
    hints=(
        "`torch.cdist(rows, rows)` has the distance of each picture to each, as a square.",
        "The nearest of all is the picture itself, at distance 0: put infinity on the diagonal, "
        "`fill_diagonal_(float('inf'))`.",
        "`agrees = labels[distances.argmin(dim=1)] == labels`; then the mean of `agrees[sources == source]` for each "
        "of `sources.unique()`, and the source with the smallest.",
    ),
    cases=lambda generator: [
        _case(generator, 2, 5, 7, 8, 9, 4),
        _case(generator, 8, 1, 3, 0, 6, 2),
        _case(generator, 0, 9, 4, 6, 1, 3),
    ],
    run=run_source,
    praise="It needs no network, and no eyes. It would not have found a place where *all* was swapped the same way "
    "and that held most of the pictures: look at some all the same.",
    misconceptions=(
        Misconception(
            "each is its own neighbour",
            _by(lambda images, labels, mine: _agrees(images, labels, itself=0)[mine].float().mean().item()),
            "The nearest picture was the picture itself, at distance 0, and its label agrees always. Leave it out.",
        ),
        Misconception(
            "how many instead of which share",
            _by(lambda images, labels, mine: _agrees(images, labels)[mine].logical_not().sum().item(), max),
            "The largest place has the most labels that do not agree, since it has the most labels. Divide by how many "
            "pictures it has.",
        ),
        Misconception(
            "neighbours of the same place only",
            _by(_within_the_source),
            "Within that place the labels are wrong *together*: cats are called dogs by all of their neighbours there. "
            "Look for the nearest among all pictures.",
        ),
        Misconception(
            "the place with other shares",
            _by(lambda images, labels, mine: _largest_class(labels, mine), max),
            "You found the place where one class is frequent. That is imbalance, and no error: labels that were "
            "shuffled among pictures keep their shares.",
        ),
        Misconception(
            "the place that looks different",
            _by(lambda images, labels, mine: images[mine].mean().item()),
            "You found the darkest pictures. Another camera is worth knowing, but their labels are in order.",
        ),
        Misconception(
            "the best instead of the worst",
            _by(_share, max),
            "There the labels agree most. The smallest share was asked for.",
        ),
        Misconception(
            "a place in a list",
            _place,
            "The right one, by its place among the sources. Asked for was its number, as `sources` has it.",
        ),
    ),
)
