"""A training that you can watch and hold: a curve that grows, and buttons to pause, go on and stop.

A kernel answers a click only while no cell keeps it busy. So `fit` works in a thread of its own, and the cell waits
with `await`: that leaves the kernel free for clicks, and yet the next cell begins only when the training is over.
"""

import asyncio
import math
import threading
import time
from collections import deque
from collections.abc import Generator, Mapping, Sequence
from typing import Any

import ipywidgets
import torch.nn as nn
from IPython import get_ipython
from IPython.display import DisplayHandle, display
from matplotlib.ticker import MaxNLocator
from torch import Tensor

from labkit.measuring import LossFunction
from labkit.show.picture import Picture
from labkit.show.style import QUIET, course_style, line_style, new_figure
from labkit.training import Config, Outcome, Run, fit
from labkit.training.interrupts import StopRequest
from labkit.training.state import Training

SECONDS = 1.0  # between two pictures, or four times what drawing one takes: that is time the training does not get
POINTS = 200  # of the curve, at most: each is the mean over equally many updates


def live_picture(
    losses: Sequence[float], history: Sequence[Mapping[str, Any]], epochs: int, updates_per_epoch: int, status: str
) -> Picture:
    """Draw the training loss of the updates so far, and the validation loss after each epoch, if there is one.

    losses: one for each update; the curve shows means over a few of them. history: the rows of `Run.history`.
    status: a few words, such as "training" or "paused".
    """
    step = max(1, math.ceil(len(losses) / POINTS))
    blocks = [losses[start : start + step] for start in range(0, len(losses), step)]
    training = [
        (min((place + 1) * step, len(losses)) / updates_per_epoch, sum(block) / len(block))
        for place, block in enumerate(blocks)
    ]
    validation = [(row["epoch"], row["val_loss"]) for row in history if row["val_loss"] is not None]
    with course_style():
        figure = new_figure(7.5, 3.6)
        panel = figure.subplots()
        panel.axhline(0, color=QUIET, linewidth=0.8)
        for position, (name, points) in enumerate({"training": training, "validation": validation}.items()):
            if points:
                panel.plot(*zip(*points, strict=True), **line_style(position, len(points)), label=name)
                panel.legend(loc="upper right")
        panel.set(xlim=(0, epochs), xlabel="epoch")
        made = f"{len(losses)} of {epochs * updates_per_epoch} updates" if losses else "no update yet"
        panel.set_title(f"Loss, {made}: {status}")
        panel.xaxis.set_major_locator(MaxNLocator(integer=True))
    data = [
        {"line": name, "epoch": epoch, "loss": loss}
        for name, points in (("training", training), ("validation", validation))
        for epoch, loss in points
    ]
    return Picture(figure, data, _summary(losses, training, validation, epochs * updates_per_epoch, status))


def _summary(losses: Sequence[float], training: list, validation: list, total: int, status: str) -> str:
    if not losses:
        return f"Training: {status}, no update yet."
    summary = f"Training: {status}, {len(losses)} of {total} updates, training loss {training[-1][1]:.3f}"
    return summary + (f", validation loss {validation[-1][1]:.3f}." if validation else ".")


class LiveTraining:
    """A training that begins with `await`: `run = await show.live_training(model, train_loader, val_loader, config)`.

    It does what `training.fit` does, to the last bit, and gives the same `Run`. `pause`, `go_on` and `stop` are what
    the buttons call; each takes effect after the update in hand. A kernel interrupt is the same as `stop`: the model
    keeps what it has learned. `picture` is the curve so far.
    """

    def __init__(self, *arguments: Any) -> None:
        self._arguments = arguments
        self._training: Training | None = None  # known from the first update on
        self._request: StopRequest | None = None
        self._new: deque[Tensor] = deque()  # losses that nobody has read yet: the updates need not wait for the device
        self._losses: list[float] = []
        self._may_go_on = threading.Event()
        self._may_go_on.set()
        self._stopping = False
        self._status = "training"
        self._shown: DisplayHandle | None = None
        self._last = self.picture
        self._buttons = {
            name: ipywidgets.Button(description=name, disabled=True) for name in ("Pause", "Go on", "Stop")
        }
        for name, action in (("Pause", self.pause), ("Go on", self.go_on), ("Stop", self.stop)):
            self._buttons[name].on_click(lambda _, action=action: action())

    def pause(self) -> None:
        """Hold after the update in hand."""
        if not self._stopping:
            self._may_go_on.clear()
            self._say("paused")

    def go_on(self) -> None:
        """Go on after a pause."""
        if not self._stopping:
            self._may_go_on.set()
            self._say("training")

    def stop(self) -> None:
        """End after the update in hand, or in the middle of a validation."""
        self._stopping = True
        if self._request is not None:
            self._request.requested = True
        self._may_go_on.set()
        self._say("stopping")

    @property
    def picture(self) -> Picture:
        """The curve of the updates so far."""
        while self._new:
            self._losses.append(float(self._new.popleft()))
        if self._training is None:
            return live_picture([], [], 1, 1, self._status)
        epochs, per_epoch = self._training.config.epochs, self._training.updates_per_epoch
        return live_picture(self._losses, list(self._training.history), epochs, per_epoch, self._status)

    def __await__(self) -> Generator[Any, None, Run]:
        return self._train().__await__()

    def __repr__(self) -> str:
        return "A training that begins with await: run = await show.live_training(…)"

    async def _train(self) -> Run:
        work = asyncio.create_task(asyncio.to_thread(fit, *self._arguments, watch=self._watch))
        self._say("training")
        self._show()
        drawing = 0.0  # seconds
        try:
            while not work.done():
                try:
                    await asyncio.wait([work], timeout=max(SECONDS, 4 * drawing))
                except asyncio.CancelledError:  # a kernel interrupt; the second one goes on as usual
                    if self._stopping:
                        raise
                    self.stop()
                started = time.perf_counter()
                self._redraw()
                drawing = time.perf_counter() - started
            run = work.result()
            self._say(run.status)
            return run
        except BaseException:
            self.stop()
            self._say("ended by an error")
            raise
        finally:
            self._redraw()

    def _watch(self, training: Training, outcome: Outcome, stop: StopRequest) -> None:
        """Be called by `fit`, in its thread, after every update."""
        self._training, self._request = training, stop
        self._new.append(outcome.loss)
        self._may_go_on.wait()
        if self._stopping:
            stop.requested = True

    def _say(self, status: str) -> None:
        """Note what happens now, and let only those buttons be pressed that mean something then."""
        self._status = status
        for name, when in (("Pause", ("training",)), ("Go on", ("paused",)), ("Stop", ("training", "paused"))):
            self._buttons[name].disabled = status not in when

    def _show(self) -> None:
        if get_ipython() is not None:
            buttons = ipywidgets.HBox(list(self._buttons.values()))._repr_mimebundle_()
            buttons["text/plain"] = f"Buttons in JupyterLab, while this cell runs: {', '.join(self._buttons)}."
            display(buttons, raw=True)
            self._last = self.picture
            self._shown = display(self._last, display_id=True)

    def _redraw(self) -> None:
        """Put the present picture in the place of the one before, if there is news."""
        picture = self.picture
        if self._shown is not None and picture.summary != self._last.summary:
            self._shown.update(picture)
        self._last = picture


def live_training(
    model: nn.Module, train_loader, val_loader, config: Config, loss_fn: LossFunction | None = None
) -> LiveTraining:
    """Return a training to be watched and held; `await` begins it and gives the `Run`, as `training.fit` would."""
    return LiveTraining(model, train_loader, val_loader, config, loss_fn)
