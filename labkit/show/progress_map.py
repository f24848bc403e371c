"""The map of the course: a row for each chapter, a box for each exercise, and how far the learner is."""

import textwrap
from typing import Any

import ipywidgets
from IPython.display import DisplayHandle, display
from matplotlib.axes import Axes
from matplotlib.patches import Patch, Rectangle

from labkit.exercises import overview, progress
from labkit.show.picture import Picture
from labkit.show.style import INK, QUIET, SERIES, course_style, new_figure

#: Each state has its own fill, hatching and colour of text, so that the map can be read in grey.
_LOOKS = {
    overview.RIGHT: (SERIES[0].color, "", "white"),
    overview.BEGUN: ("#f4d9cc", "////", INK),
    overview.WAITING: ("white", "", QUIET),
}
_BOXES = 8  # in a line; a chapter with more goes on in the next


def progress_map(content: dict | None = None) -> Picture:
    """Draw every exercise of the course as a box in the row of its chapter: right, begun, or still to come.

    content: progress as `progress.read` returns it; without it, that of the learner at this computer.
    """
    content = progress.read() if content is None else content
    rows = overview.exercise_rows(content)
    lines = _lines(rows)
    with course_style():
        figure = new_figure(9.5, 0.8 + 0.62 * max(1, len(lines)))
        panel = figure.subplots()
        panel.set(xlim=(0, _BOXES), ylim=(max(1, len(lines)), 0), xticks=[])
        panel.set_yticks([place + 0.5 for place in range(len(lines))], [label for label, _ in lines])
        panel.tick_params(length=0)
        panel.grid(False)
        panel.spines[:].set_visible(False)
        for place, (_, line) in enumerate(lines):
            for position, row in enumerate(line):
                _box(panel, position, place, row)
        counts = {state: sum(row["state"] == state for row in rows) for state in _LOOKS}
        patches = [_patch(state, f"{state}: {count}") for state, count in counts.items()]
        figure.legend(handles=patches, loc="outside lower center", ncols=3)
    return Picture(figure, rows, overview.summary(content))


def _lines(rows: list[dict]) -> list[tuple[str, list[dict]]]:
    """Return the lines of the map from top to bottom, each with its label; the label stands at a chapter's first."""
    lines = []
    for chapter in dict.fromkeys(row["chapter"] for row in rows):
        own = [row for row in rows if row["chapter"] == chapter]
        right = sum(row["state"] == overview.RIGHT for row in own)
        for begin in range(0, len(own), _BOXES):
            label = f"{chapter.replace('_', ' ')}\n{right} of {len(own)}" if begin == 0 else ""
            lines.append((label, own[begin : begin + _BOXES]))
    return lines


def _box(panel: Axes, position: int, place: int, row: dict) -> None:
    fill, hatch, ink = _LOOKS[row["state"]]
    look = {"facecolor": fill, "hatch": hatch, "edgecolor": QUIET, "linewidth": 0.8}
    panel.add_patch(Rectangle((position + 0.04, place + 0.08), 0.92, 0.84, **look))
    mark = {overview.RIGHT: "✓ ", overview.BEGUN: "… "}.get(row["state"], "")
    paper = {"facecolor": fill, "edgecolor": "none", "pad": 1}  # hatching shall not cross the letters
    name = textwrap.fill(mark + row["exercise"].replace("_", " "), 13)
    panel.text(position + 0.5, place + 0.5, name, color=ink, fontsize=8, ha="center", va="center", bbox=paper)


def _patch(state: str, label: str) -> Patch:
    fill, hatch, _ = _LOOKS[state]
    return Patch(facecolor=fill, hatch=hatch, edgecolor=QUIET, label=label)


class ProgressControl:
    """The map with a button that reads the progress anew.

    Left as the last line of a cell it shows itself. `refresh()` presses the button without a mouse; `picture` is the
    map as it was last read.
    """

    def __init__(self) -> None:
        self.picture = progress_map()
        self._button = ipywidgets.Button(description="Refresh", tooltip="Read my progress anew")
        self._button.on_click(self._pressed)
        self._shown: DisplayHandle | None = None

    def refresh(self) -> Picture:
        """Read the progress anew, show and return the map."""
        self.picture = progress_map()
        if self._shown is not None:
            self._shown.update(self.picture)
        return self.picture

    def _pressed(self, button: Any) -> None:
        self.refresh()

    def _ipython_display_(self) -> None:
        # Two outputs on purpose: the button lives only beside a kernel, the picture stays in the file.
        button = self._button._repr_mimebundle_()
        button["text/plain"] = "A button in JupyterLab, once this cell has run: refresh."
        display(button, raw=True)
        self._shown = display(self.picture, display_id=True)


def progress_control() -> ProgressControl:
    """Return the map of the course with a button that reads the progress anew."""
    return ProgressControl()
