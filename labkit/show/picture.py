"""What every figure function of the course returns: the figure, its data, and one sentence that says it."""

import base64
import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure


@dataclass(frozen=True, repr=False)
class Picture:
    """A figure that can also be read without seeing it.

    figure: the matplotlib figure, not registered with pyplot.
    data: the plotted values as plain rows, one dict a point, cell or picture.
    summary: one sentence computed from the data; it is the alternative text of the image.
    """

    figure: Figure
    data: list[dict[str, Any]]
    summary: str

    def png(self) -> bytes:
        """Return the figure as PNG bytes; the same figure gives the same bytes on one machine."""
        buffer = io.BytesIO()
        # Software and date are left out, so that building a notebook twice stores the same picture.
        self.figure.savefig(buffer, format="png", metadata={"Software": None})
        return buffer.getvalue()

    def save(self, path: str | Path) -> Path:
        """Write the figure as a PNG file to `path` and return the path."""
        path = Path(path)
        path.write_bytes(self.png())
        return path

    def __repr__(self) -> str:
        return self.summary

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> tuple[dict, dict]:
        """Give Jupyter the image for the eyes, and the sentence for screen readers and terminals."""
        image = base64.b64encode(self.png()).decode("ascii")
        return {"image/png": image, "text/plain": self.summary}, {"image/png": {"alt": self.summary}}
