"""One neuron with switches: the code that runs, the gradients that come of it, and torch's error where there is one."""

import textwrap

import ipywidgets
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from labkit.autograd.switches import SWITCHES, UPDATES, Outcome, run
from labkit.errors import ConfigError
from labkit.show.controls import Control
from labkit.show.picture import Picture
from labkit.show.style import QUIET, SERIES, course_style, line_style, new_figure

_CUTS = ("detach_hidden", "no_grad_hidden")  # two ways to the same cut: one at a time


def switches(**on: bool) -> Picture:
    """Draw what the program of one neuron does with some switches on, beside what it does without.

    on: the switches of `labkit.autograd.switches`. Raises ConfigError as `run` does.
    """
    outcome, plain = run(**on), run()
    with course_style():
        figure = new_figure(9.5, 3.9)
        left, right = figure.subplots(1, 2, width_ratios=[1.15, 1])
        _code(left, outcome)
        _gradients(right, outcome, plain)
    rows = [dict(row) for row in outcome.rows]
    return Picture(figure, rows, _summary(outcome, [name for name, value in on.items() if value]))


def switches_control() -> Control:
    """Return a control with a box to tick for each switch."""
    return SwitchesControl()


class SwitchesControl(Control):
    """Ticks instead of sliders; of the two switches that cut the graph at one place only one can be on."""

    def __init__(self) -> None:
        super().__init__(switches, **{name: (False, True) for name in SWITCHES})

    def _slider(self, name: str, values: tuple) -> ipywidgets.Checkbox:
        return ipywidgets.Checkbox(
            value=False, description=SWITCHES[name].replace("`", ""), indent=False, layout={"width": "32em"}
        )

    def set(self, **state: bool) -> Picture:
        """Turn switches on or off and return the picture."""
        for name, value in state.items():
            if name not in self._sliders or not isinstance(value, bool):
                raise ConfigError(f"The switches are {', '.join(SWITCHES)}, each True or False.")
            self._sliders[name].value = value
        return self.picture

    def _moved(self, change: dict) -> None:
        name = next(name for name, slider in self._sliders.items() if slider is change["owner"])
        if name in _CUTS and change["new"]:
            for other in set(_CUTS) - {name}:
                self._sliders[other].value = False
        super()._moved(change)


def _code(panel: Axes, outcome: Outcome) -> None:
    """Write the program; lines that a switch changed are marked, so is the one that raised."""
    panel.set_axis_off()
    panel.set(xlim=(0, 1), ylim=(14.5, -0.8))  # the longest program, and an error below it
    for number, line in enumerate(outcome.code):
        is_changed = number in outcome.changed
        style = {"family": "monospace", "fontsize": 8.5, "va": "center"}
        if is_changed:
            panel.axhspan(number - 0.46, number + 0.46, color="#f6e3da", zorder=0)
        panel.text(0.04, number, line, fontweight="bold" if is_changed else "normal", **style)
        if number == outcome.error_line:
            panel.text(0.0, number, "✗", color=SERIES[1].color, fontweight="bold", fontsize=11, va="center")
    if outcome.error:
        message = "\n".join(textwrap.wrap("RuntimeError: " + outcome.error.split(". ")[0], 66))
        panel.text(0.0, len(outcome.code) + 0.2, message, color=SERIES[1].color, fontsize=8.5, va="top")


def _gradients(panel: Axes, outcome: Outcome, plain: Outcome) -> None:
    """Draw the gradient of the weight that the optimizer reads in each update."""
    updates = list(range(1, UPDATES + 1))
    panel.plot(
        updates, [row["weight.grad"] for row in plain.rows], **line_style(0, UPDATES), label="weight.grad, all right"
    )
    given = [(row["update"], row["weight.grad"]) for row in outcome.rows if row["weight.grad"] is not None]
    if given and outcome.changed:
        panel.plot(*zip(*given, strict=True), **line_style(1, UPDATES), label="weight.grad, with the switches")
    elif not given:
        reason = "no update happened" if outcome.error else "weight.grad is None in every update"
        panel.text(0.04, 0.12, reason, transform=panel.transAxes, color=SERIES[1].color, fontweight="bold")
    panel.axhline(0, color=QUIET, linewidth=0.8)
    panel.set(title="What the optimizer reads", xlabel="update")
    panel.xaxis.set_major_locator(MaxNLocator(integer=True))
    panel.legend(fontsize=8.5)


def _summary(outcome: Outcome, on: list[str]) -> str:
    what = ", ".join(SWITCHES[name].replace("`", "") for name in on) or "nothing is broken"
    if outcome.error:
        return f"One neuron, {what}: torch raises at `{outcome.code[outcome.error_line].strip()}`."
    gradients = ", ".join("None" if row["weight.grad"] is None else f"{row['weight.grad']:.3g}" for row in outcome.rows)
    return (
        f"One neuron, {what}: the gradients of weight are {gradients}; the loss goes to {outcome.rows[-1]['loss']:.3g}."
    )
