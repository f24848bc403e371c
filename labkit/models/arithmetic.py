"""The arithmetic of convolutions and pooling: how large the output is, and how far one output cell sees.

Everything is about one side; height and width follow the same rules, each with its own numbers.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import torch.nn as nn

from labkit.errors import ConfigError
from labkit.models.dry_run import need_model
from labkit.table import Table


@dataclass(frozen=True)
class Window:
    """What slides over a side: a convolution or a pooling. All whole numbers; padding is what is put on each end."""

    kernel_size: int
    stride: int = 1
    padding: int = 0
    dilation: int = 1

    def __post_init__(self) -> None:
        for name, least in (("kernel_size", 1), ("stride", 1), ("padding", 0), ("dilation", 1)):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise ConfigError(f"{name}={value!r} must be a whole number of at least {least}.")

    @property
    def span(self) -> int:
        """From the first cell that the kernel touches to the last, both counted."""
        return self.dilation * (self.kernel_size - 1) + 1

    def fits(self, size: int) -> bool:
        """Whether there is room for the window at least once."""
        return size + 2 * self.padding >= self.span

    def output_size(self, size: int) -> int:
        """Return how many places the window has on a side of `size`. Raises ConfigError when it has none."""
        if type(size) is not int:
            raise ConfigError(f"size={size!r} must be a whole number: the cells of a side.")
        if not self.fits(size):
            raise ConfigError(
                f"A window that spans {self.span} does not fit into {size} + 2·{self.padding} = "
                f"{size + 2 * self.padding}. Take a smaller kernel or dilation, or more padding."
            )
        return (size + 2 * self.padding - self.span) // self.stride + 1

    def touched(self, place: int) -> list[int]:
        """Return the cells of the side that output cell `place` sees, from 0; cells outside are padding."""
        first = place * self.stride - self.padding
        return [first + self.dilation * step for step in range(self.kernel_size)]

    def formula(self, size: int) -> str:
        """Return the calculation of the output size as text."""
        inside = f"({size} + 2·{self.padding} - {self.dilation}·({self.kernel_size} - 1) - 1) / {self.stride}"
        return f"floor({inside}) + 1 = {self.output_size(size) if self.fits(size) else 'no place'}"


def output_size(size: int, kernel_size: int, stride: int = 1, padding: int = 0, dilation: int = 1) -> int:
    """Return the size of a side after a convolution or pooling with these settings.

    Raises ConfigError for settings that mean nothing, and when the window does not fit.
    """
    return Window(kernel_size, stride, padding, dilation).output_size(size)


def same_padding(kernel_size: int, dilation: int = 1) -> int:
    """Return the padding with which a side keeps its size at stride 1. Raises ConfigError where there is none."""
    span = Window(kernel_size, dilation=dilation).span
    if span % 2 == 0:
        raise ConfigError(
            f"A window that spans {span} has no middle, so no equal padding on both ends keeps the size. "
            "Take an odd kernel_size."
        )
    return span // 2


@dataclass(frozen=True)
class ReceptiveField:
    """What a cell after some layers sees of the input.

    size: how many cells, padding included. step: how many input cells lie between two neighbours. start: the first
    input cell that output cell 0 sees, negative in the padding.
    """

    size: int = 1
    step: int = 1
    start: int = 0

    def after(self, window: Window) -> "ReceptiveField":
        """Return the field of a cell after one more layer."""
        return ReceptiveField(
            size=self.size + (window.span - 1) * self.step,
            step=self.step * window.stride,
            start=self.start - window.padding * self.step,
        )

    def sees(self, place: int) -> tuple[int, int]:
        """Return the first and the last input cell that output cell `place` sees."""
        first = self.start + place * self.step
        return first, first + self.size - 1


def receptive_field(windows: Iterable[Window]) -> ReceptiveField:
    """Return what one cell sees of the input after these layers, one after the other."""
    field, windows = ReceptiveField(), list(windows)
    if not all(isinstance(window, Window) for window in windows):
        raise ConfigError(f"receptive_field takes windows, such as [Window(3), Window(3, stride=2)]; got {windows!r}.")
    for window in windows:
        field = field.after(window)
    return field


def windows_of(model: nn.Module, axis: int = 0) -> dict[str, Window]:
    """Return the windows of the convolutions and poolings of a model by name, in the order in which they are stored.

    axis: 0 for the height, 1 for the width. For models that are a chain of layers; branches are not looked for.
    Raises ConfigError for layers whose window this arithmetic does not describe.
    """
    need_model(model)
    found = {}
    for name, layer in model.named_modules():
        if isinstance(layer, nn.Conv2d | nn.MaxPool2d | nn.AvgPool2d):
            if isinstance(getattr(layer, "padding", 0), str) or getattr(layer, "ceil_mode", False):
                raise ConfigError(f"The layer {name!r} has its padding as a word or ceil_mode: give it in numbers.")
            numbers = (layer.kernel_size, layer.stride, layer.padding, getattr(layer, "dilation", 1))
            found[name] = Window(*(one[axis] if isinstance(one, tuple) else one for one in numbers))
        elif isinstance(layer, nn.ConvTranspose2d | nn.Upsample):
            raise ConfigError(f"The layer {name!r} makes sides larger, which this arithmetic does not describe.")
    return found


def window_table(windows: dict[str, Window], size: int) -> Table:
    """Return one row for each layer: its settings, the size of the side after it, and what a cell then sees."""
    if not isinstance(windows, dict):
        raise ConfigError(f"window_table takes what windows_of gives, windows by name; got {type(windows).__name__}.")
    rows, field = [], ReceptiveField()
    start = size
    for name, window in windows.items():
        size, field = window.output_size(size), field.after(window)
        rows.append({"layer": name, **vars(window), "output": size, "receptive field": field.size, "step": field.step})
    return Table(rows, f"A side of {start}: after the last layer a cell sees {field.size} cells of it")
