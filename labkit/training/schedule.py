"""Learning-rate schedules as pure functions of the update counter, written out as a table before training starts.

The table and the counter stay on the device. So a step that was skipped there (a gradient that overflowed) does not
advance the schedule, and the host never has to wait to learn whether it was skipped.
"""

import math

import torch
from torch import Tensor

from labkit.errors import ConfigError
from labkit.training.config import Config

WARM_UP_SHARE = 0.3  # of all updates in "one_cycle"
START_DIVISOR, END_DIVISOR = 25.0, 1e4  # "one_cycle" starts at rate / 25 and ends at that / 10,000
MILESTONES = (0.5, 0.75)  # "step" divides the rate by 10 at these shares of the training (He et al., 2016)
MOST_UPDATES = 10_000_000  # a table of more would take minutes to write and gigabytes to hold
PLATEAU_PATIENCE, PLATEAU_FACTOR = 3, 0.5  # "plateau" halves the rate after 3 epochs without a better loss


def rate_at(kind: str, update: int, total: int, peak: float, warm_up: float = 0.0) -> float:
    """Return the learning rate of one update (counted from 0) out of `total`; "plateau" is constant in itself.

    warm_up: the share of all updates in which the rate rises evenly to the peak; the schedule has what is left.
    "one_cycle" is the schedule of `torch.optim.lr_scheduler.OneCycleLR` with its defaults (Smith and Topin, 2017).
    """
    rising = round(warm_up * total)
    if update < rising:
        return peak * (update + 1) / rising
    update, total = update - rising, total - rising
    if kind in ("constant", "plateau"):
        return peak
    if kind == "step":
        return peak * 0.1 ** sum(update >= share * total for share in MILESTONES)
    if kind == "cosine":
        return _cosine(peak, 0.0, update / total)
    if kind == "one_cycle":
        top, last = WARM_UP_SHARE * total - 1, total - 1
        start = peak / START_DIVISOR
        if update <= top:
            return _cosine(start, peak, update / top if top > 0 else 1.0)
        return _cosine(peak, start / END_DIVISOR, (update - top) / (last - top) if last > top else 1.0)
    raise ValueError(kind)


def _cosine(start: float, end: float, share: float) -> float:
    """Go from start to end along half a wave of the cosine; share runs from 0 to 1."""
    return end + (start - end) * (1 + math.cos(math.pi * share)) / 2


class Schedule:
    """Sets the rate of an optimizer before each update, and counts only the updates that happened."""

    def __init__(self, config: Config, total_updates: int, device: torch.device):
        if total_updates > MOST_UPDATES:
            raise ConfigError(
                f"epochs={config.epochs} are {total_updates:,} updates; at most {MOST_UPDATES:,} can be planned. "
                "Use fewer epochs or larger batches."
            )
        settings = total_updates, config.learning_rate, config.warm_up
        table = [rate_at(config.schedule, update, *settings) for update in range(total_updates)]
        # One entry more, for who asks after the last update.
        self.table = torch.tensor([*table, table[-1]], dtype=torch.float32, device=device)
        self.counter = torch.zeros((), dtype=torch.int64, device=device)
        self.watches_loss = config.schedule == "plateau"
        self.factor, self.best_loss, self.bad_epochs = 1.0, math.inf, 0

    def rate(self) -> Tensor:
        """Return the rate of the next update as a scalar on the device, without a wait for it.

        `take` looks the entry up on the device; `table[counter]` would first fetch the counter to the host.
        """
        return self.table.take(self.counter)

    def set_rate(self, optimizer: torch.optim.Optimizer) -> None:
        """Write the rate of the next update into the optimizer."""
        rate = self.rate()
        for group in optimizer.param_groups:
            group["lr"] = rate

    def advance(self, stepped: Tensor) -> None:
        """Count one update if the optimizer stepped: bool scalar on the device."""
        self.counter += stepped

    def end_epoch(self, val_loss: float) -> None:
        """Let "plateau" see a fresh validation loss."""
        if not self.watches_loss:
            return
        if val_loss < self.best_loss:
            self.best_loss, self.bad_epochs = val_loss, 0
        else:
            self.bad_epochs += 1
        if self.bad_epochs >= PLATEAU_PATIENCE:
            self.factor, self.bad_epochs = self.factor * PLATEAU_FACTOR, 0
            self.table *= PLATEAU_FACTOR

    def state_dict(self) -> dict:
        """Return the position as plain data."""
        return {
            "counter": int(self.counter),
            "factor": self.factor,
            "best_loss": self.best_loss,
            "bad_epochs": self.bad_epochs,
        }

    def load_state_dict(self, state: dict) -> None:
        """Go to a position that `state_dict` returned."""
        self.counter.fill_(state["counter"])
        self.table *= state["factor"] / self.factor
        self.factor, self.best_loss, self.bad_epochs = state["factor"], state["best_loss"], state["bad_epochs"]
