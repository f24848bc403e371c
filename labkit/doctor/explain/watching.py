"""Explain as it happens: errors that leave a `with` block, and warnings that are silent traps."""

import sys
import warnings
from collections.abc import Callable
from types import FrameType, TracebackType

from labkit.doctor.explain.explaining import explain_exception, explain_raised
from labkit.doctor.explain.explanation import Explanation
from labkit.doctor.explain.frames import Raised, places_above

Show = Callable[[Explanation], None]


def print_explanation(explanation: Explanation) -> None:
    """Write an explanation to stderr, where the traceback goes too."""
    print(f"\n{explanation.text()}\n", file=sys.stderr)


class WarningWatch:
    """Shows an explanation under every warning that is a silent trap, once for each line of the user's.

    The warning itself is shown as always, by whatever showed it before.
    """

    def __init__(self, show: Show) -> None:
        self._show = show
        self._seen: set[tuple[str, str]] = set()
        self._before: Callable | None = None

    def start(self) -> None:
        """Begin to listen, unless another watch does: that one will speak."""
        if not isinstance(getattr(warnings.showwarning, "__self__", None), WarningWatch):
            self._before = warnings.showwarning
            warnings.showwarning = self._showwarning

    def stop(self) -> None:
        """Give the place back, if nobody else has taken it since."""
        if warnings.showwarning == self._showwarning:
            warnings.showwarning = self._before

    def _showwarning(self, message: Warning, category: type[Warning], *where: object) -> None:
        self._before(message, category, *where)
        explanation = explain_warning(message, sys._getframe(1))
        if explanation is not None and (explanation.row, explanation.where) not in self._seen:
            self._seen.add((explanation.row, explanation.where))
            self._show(explanation)


def explain_warning(message: Warning, frame: FrameType) -> Explanation | None:
    """Return what a warning means that a frame, or one that it called, has given; None if it is not known."""
    return explain_raised(lambda: [Raised(type(message).__name__, str(message), tuple(places_above(frame)))])


class explain:
    """Explain the error that leaves a block, and the warnings in it: `with explain(): train()`.

    The error goes on as it was, with its traceback. `explanations` keeps what was said, the latest last.
    show: what to do with an explanation in place of printing it to stderr. `explain.latest`: the latest of all blocks.
    """

    latest: Explanation | None = None
    _open = 0

    def __init__(self, show: Show = print_explanation) -> None:
        self.explanations: list[Explanation] = []
        self._show = show
        self._watch = WarningWatch(self._say)

    def __enter__(self) -> "explain":
        explain._open += 1
        self._watch.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._watch.stop()
        explain._open -= 1
        explanation = explain_exception(error) if error is not None and explain._open == 0 else None
        if explanation is not None:  # an inner block leaves the word to the outer one: the error may still be handled
            self._say(explanation)

    def _say(self, explanation: Explanation) -> None:
        self.explanations.append(explanation)
        explain.latest = explanation
        self._show(explanation)
