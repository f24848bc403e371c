"""Stop when asked, but not in the middle of a step: Ctrl-C, a kernel interrupt, SIGTERM."""

import signal
import threading
from collections.abc import Iterable, Iterator
from types import FrameType

from labkit import distributed


class StopRequest:
    """Notes the first request to stop instead of obeying at once; the second one interrupts as usual.

    Use it as a context manager around the loop, and look at `requested` between steps. The handlers that were there
    before come back at the end. In a thread other than the main one Python allows no handlers, so there it never asks.
    Processes that train together must stop at the same step: there `requested` waits until they `agree`.
    """

    def __init__(self) -> None:
        self.requested, self._noted = False, False
        self._before: dict[int, object] = {}

    def __enter__(self) -> "StopRequest":
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *exception: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)
        self._before.clear()

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.requested or self._noted:
            raise KeyboardInterrupt
        self._noted, self.requested = True, not distributed.are_several()

    def agree(self) -> None:
        """Let all processes stop when one of them was asked to."""
        self.requested = distributed.any_of(self.requested or self._noted)

    def until(self, items: Iterable) -> Iterator:
        """Pass items on; after a stop was requested, end with the item in hand."""
        for item in items:
            yield item
            if self.requested:
                break
        self.agree()
