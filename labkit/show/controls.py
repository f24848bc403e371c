"""Controls: a picture that moves when you move a slider.

Under every control is a pure function `state -> Picture`. The sliders only choose the state, so that a
test, a headless run or a printed page gets the same picture without them.
"""

from collections.abc import Callable, Sequence
from typing import Any

import ipywidgets
from IPython.display import DisplayHandle, display

from labkit.data.images import ImageSet
from labkit.errors import ConfigError
from labkit.show.grids import answer
from labkit.show.picture import Picture
from labkit.training import Predictions


class Control:
    """One slider or menu for each argument of `draw`, and the picture that belongs to their values.

    draw: a pure function of the state, given as keyword arguments.
    choices: argument name -> the values it may take, in order. The first is the start.

    Left as the last line of a cell it shows itself. `set(name=value)` moves it without a mouse;
    `state` and `picture` say where it stands.
    """

    def __init__(self, draw: Callable[..., Picture], **choices: Sequence[Any]) -> None:
        self._draw = draw
        self._sliders = {name: self._slider(name, values) for name, values in choices.items()}
        self._shown: DisplayHandle | None = None
        self.picture = draw(**self.state)
        for slider in self._sliders.values():
            slider.observe(self._moved, names="value")

    @property
    def state(self) -> dict[str, Any]:
        """The present value of each argument."""
        return {name: slider.value for name, slider in self._sliders.items()}

    def set(self, **state: Any) -> Picture:
        """Move to the given values and return the picture there.

        Raises ConfigError for an unknown name or a value that is not among the choices.
        """
        for name, value in state.items():
            if name not in self._sliders:
                raise ConfigError(f"This control has no {name!r}; it has {', '.join(self._sliders)}.")
            options = [option for _, option in self._sliders[name].options]
            if value not in options:
                raise ConfigError(f"{name} cannot be {value!r}; it can be {', '.join(map(repr, options))}.")
        for name, value in state.items():
            self._sliders[name].value = value
        return self.picture

    def _moved(self, change: Any) -> None:
        self.picture = self._draw(**self.state)
        if self._shown is not None:
            self._shown.update(self.picture)

    def _widgets(self) -> list[ipywidgets.Widget]:
        """Return what stands above the picture, from top to bottom."""
        return list(self._sliders.values())

    def _slider(self, name: str, values: Sequence[Any]) -> ipywidgets.SelectionSlider | ipywidgets.Dropdown:
        """Return a menu of words, or a slider over other values, which is written beside it; arrow keys move both."""
        kind = ipywidgets.Dropdown if isinstance(values[0], str) else ipywidgets.SelectionSlider
        return kind(
            options=[(str(value), value) for value in values],
            value=values[0],
            description=name.replace("_", " "),
            style={"description_width": "8em"},
            layout={"width": "32em"},
        )

    def _ipython_display_(self) -> None:
        # Two outputs on purpose: sliders live only beside a kernel, the picture stays in the file.
        sliders = ipywidgets.VBox(self._widgets())._repr_mimebundle_()
        names = ", ".join(name.replace("_", " ") for name in self._sliders)
        sliders["text/plain"] = f"Sliders in JupyterLab, once this cell has run: {names}."
        display(sliders, raw=True)
        self._shown = display(self.picture, display_id=True)


def answers_control(image_set: ImageSet, predictions: Predictions, count: int = 12) -> Control:
    """Return a control that walks through the hardest pictures, one at a time, with the probability of each class.

    The hardest picture is the one to whose true class the model gives the lowest probability.
    """
    of_the_truth = predictions.probabilities.gather(1, predictions.targets[:, None]).flatten()
    hardest = of_the_truth.argsort(stable=True)[:count].tolist()

    def draw(place: int) -> Picture:
        return answer(image_set, predictions, hardest[place - 1])

    return Control(draw, place=range(1, len(hardest) + 1))
