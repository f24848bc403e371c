"""Figures of pictures: samples, augmented draws, what the model got wrong and how sure it was.

Each function is pure: pictures (uint8, C×H×W) and answers in, a `Picture` out.
"""

import math
from collections.abc import Sequence

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from labkit.data.batches import ImageBatches
from labkit.data.images import ImageSet
from labkit.errors import DataError
from labkit.show.picture import Picture
from labkit.show.style import INK, SERIES, course_style, new_figure
from labkit.training import Predictions


def samples(image_set: ImageSet, per_class: int = 8) -> Picture:
    """Draw the first `per_class` pictures of every class, a row a class."""
    rows = [torch.nonzero(image_set.labels == label).flatten()[:per_class] for label in range(len(image_set.classes))]
    with course_style():
        figure, panels = _grid(len(rows), per_class, size=0.55)
        for name, indices, line in zip(image_set.classes, rows, panels, strict=True):
            for panel, index in zip(line, indices.tolist(), strict=False):
                _draw(panel, image_set.images[index])
            line[0].text(-0.15, 0.5, name, transform=line[0].transAxes, ha="right", va="center", fontsize=9)
    data = [
        {"class": name, "index": index}
        for name, indices in zip(image_set.classes, rows, strict=True)
        for index in indices.tolist()
    ]
    channels, height, width = image_set.image_shape
    summary = (
        f"{len(data)} of the {len(image_set)} pictures of {image_set.source}, {height}×{width} with "
        f"{channels} {'channel' if channels == 1 else 'channels'}: "
        f"{len(rows)} classes, up to {per_class} of each."
    )
    return Picture(figure, data, summary)


def augmented(
    image_set: ImageSet,
    index: int = 0,
    epochs: int = 11,
    *,
    flip: bool = False,
    shift: int = 0,
    cutout: int = 0,
    seed: int = 0,
) -> Picture:
    """Draw one picture as it is and, beside it, as the model gets it in each of the first epochs.

    The draws are those of a training loader with the same settings and seed.
    """
    batches = ImageBatches(image_set, seed, flip, shift, cutout, statistics=None)
    mean, deviation = (value[:, None, None] for value in batches.statistics)
    inputs = [batches[epoch, torch.tensor([index])][0][0] for epoch in range(epochs)]
    seen = [((one * deviation + mean).clamp(0, 1) * 255).round().to(torch.uint8) for one in inputs]
    columns = 6
    with course_style():
        figure, panels = _grid(math.ceil((epochs + 1) / columns), columns, size=1.2, captions=1)
        titles = ["as it is", *(f"epoch {epoch + 1}" for epoch in range(epochs))]
        flat = [panel for line in panels for panel in line]
        for panel, title, image in zip(flat, titles, [image_set.images[index], *seen], strict=False):
            _draw(panel, image)
            panel.set_title(title, fontsize=8.5, fontweight="normal", loc="center")
    changed = [not torch.equal(image, image_set.images[index]) for image in seen]
    data = [{"epoch": epoch + 1, "changed": change} for epoch, change in enumerate(changed)]
    versions = len({image.numpy().tobytes() for image in seen})
    summary = (
        f"One picture of class {image_set.classes[int(image_set.labels[index])]} in {epochs} epochs with "
        f"flip={flip}, shift={shift}, cutout={cutout}: {versions} different "
        f"{'version' if versions == 1 else 'versions'}, {sum(changed)} of {epochs} differ from the original."
    )
    return Picture(figure, data, summary)


def answer(image_set: ImageSet, predictions: Predictions, index: int) -> Picture:
    """Draw one picture and, beside it, the probability that the model gives to each class.

    image_set: the pictures that were predicted, in the same order.
    """
    _check_same(image_set, predictions)
    probabilities = predictions.probabilities[index]
    truth, said = int(image_set.labels[index]), int(probabilities.argmax())
    with course_style():
        figure = new_figure(6.5, 0.8 + 0.24 * len(image_set.classes))
        left, right = figure.subplots(1, 2, width_ratios=[1, 1.6])
        left.set_axis_off()
        _draw(left, image_set.images[index])
        bars = right.barh(image_set.classes, probabilities.tolist(), color=SERIES[2].color, edgecolor=INK)
        bars[truth].set_hatch("///")  # a hatch is seen in grey too
        right.invert_yaxis()
        right.set(xlim=(0, 1), xlabel="probability (hatched: the truth)")
        right.set_title(
            f"it is {image_set.classes[truth]}, the model says {image_set.classes[said]} "
            f"({100 * float(probabilities[said]):.0f} %)"
        )
        right.grid(visible=False, axis="y")
        right.tick_params(labelsize=9)
    data = [
        {"class": name, "probability": float(value), "truth": label == truth}
        for label, (name, value) in enumerate(zip(image_set.classes, probabilities, strict=True))
    ]
    summary = (
        f"Picture {index} is {image_set.classes[truth]}; the model says {image_set.classes[said]} "
        f"with {100 * float(probabilities[said]):.0f} %."
    )
    return Picture(figure, data, summary)


def mistakes(image_set: ImageSet, predictions: Predictions, count: int = 12) -> Picture:
    """Draw the wrong answers of which the model was most sure: the truth, what it said, how sure it was.

    image_set: the pictures that were predicted, in the same order.
    """
    _check_same(image_set, predictions)
    indices = torch.as_tensor(predictions.mistakes(count)).tolist()
    data = [_mistake(image_set, predictions, index) for index in indices]
    columns = 6
    with course_style():
        figure, panels = _grid(max(1, math.ceil(len(data) / columns)), columns, size=1.35, captions=2)
        for panel, mistake in zip((panel for line in panels for panel in line), data, strict=False):
            _draw(panel, image_set.images[mistake["index"]])
            panel.set_title(
                f"{mistake['truth']}, said\n{mistake['predicted']} ({100 * mistake['confidence']:.0f} %)",
                fontsize=8.5,
                fontweight="normal",
                loc="center",
            )
        if not data:
            panels[0][0].text(0, 0.5, "No mistakes.", transform=panels[0][0].transAxes)
    wrong = int((predictions.labels != predictions.targets).sum())
    summary = f"{wrong} of {len(image_set)} answers are wrong"
    if data:
        first = data[0]
        summary += (
            f"; the surest wrong answer takes {first['truth']} for {first['predicted']} "
            f"with {100 * first['confidence']:.0f} %"
        )
    return Picture(figure, data, f"{summary}.")


def _mistake(image_set: ImageSet, predictions: Predictions, index: int) -> dict[str, object]:
    """Return what is known about one answer as a plain row."""
    said = int(predictions.labels[index])
    return {
        "index": index,
        "truth": image_set.classes[int(image_set.labels[index])],
        "predicted": image_set.classes[said],
        "confidence": float(predictions.probabilities[index, said]),
    }


def _check_same(image_set: ImageSet, predictions: Predictions) -> None:
    """Refuse predictions that were made on other pictures or in another order."""
    if not torch.equal(image_set.labels, predictions.targets):
        raise DataError(
            f"These predictions belong to other pictures: {len(image_set)} pictures, "
            f"{len(predictions.targets)} answers, or another order. "
            "Predict with a loader that does not shuffle, on the same pictures."
        )


def _grid(rows: int, columns: int, size: float, captions: int = 0) -> tuple[Figure, Sequence[Sequence[Axes]]]:
    """Return a figure of `rows` × `columns` squares of `size` inches, with room for lines of caption."""
    figure = new_figure(columns * size + 0.9, rows * (size + 0.17 * captions) + 0.1)
    panels = figure.subplots(rows, columns, squeeze=False)
    for panel in panels.flat:
        panel.set_axis_off()
    return figure, panels


def _draw(panel: Axes, image: torch.Tensor) -> None:
    """Draw one uint8 picture (C, H, W) with hard pixels; one channel as grey."""
    pixels = image.permute(1, 2, 0).numpy()
    if pixels.shape[2] == 1:
        panel.imshow(pixels[:, :, 0], cmap="gray", vmin=0, vmax=255, interpolation="nearest")
    else:
        panel.imshow(pixels, interpolation="nearest")
