"""The sums of one epoch. They stay on the device; the methods that read them say so."""

import torch
from torch import Tensor

from labkit import devices
from labkit.measuring.metrics import exact_dtype
from labkit.training.step import Outcome

BLOCK = 64  # updates that are added up at once: with single numbers it is the calls that take time, not the sums
NEVER = 2**62  # stands for the number of an update that was skipped, while none was


class Totals:
    """Adds up what updates did. Skipped updates are counted, but do not enter the sums: one NaN would hide the rest."""

    def __init__(self, device: torch.device):
        # loss, right answers, samples, gradient norms, updates that stepped; of whole blocks of updates
        self.sums = torch.zeros(5, dtype=exact_dtype(device), device=device)
        self.first_skipped = torch.full((), NEVER, dtype=torch.int64, device=device)
        self.updates = 0
        self.rows = self.sums.new_empty(0, 5)  # the same five numbers for the first updates of the next block,
        self.outcomes: list[Outcome] = []  # and what its later updates did

    def add(self, outcome: Outcome) -> None:
        """Add one update, without waiting for the device."""
        self.outcomes.append(outcome)
        self.updates += 1
        if self.updates % BLOCK == 0:
            self.sums, self.first_skipped = self._all()
            self.rows, self.outcomes = self.rows[:0], []

    def means(self) -> dict:
        """Read the device; return the means over samples (loss, accuracy) and over updates (gradient norm)."""
        loss, correct, count, norm, stepped = self._all()[0].tolist()
        return {
            "train_loss": loss / max(count, 1),
            "train_accuracy": correct / max(count, 1),
            "gradient_norm": norm / max(stepped, 1),
            "skipped": self.updates - int(stepped),
        }

    def skipped(self) -> int | None:
        """Read the device; return the number, from 0, of the first update that was skipped, None if none was."""
        first = int(self._all()[1])
        return None if first == NEVER else first

    def state_dict(self) -> dict:
        """Return the sums as plain data."""
        sums = {"sums": self.sums, "first_skipped": self.first_skipped}
        return sums | {"rows": self._block(), "updates": self.updates}

    def load_state_dict(self, state: dict) -> None:
        """Go back to sums that `state_dict` returned."""
        self.sums.copy_(state["sums"])
        self.first_skipped.copy_(state["first_skipped"])
        self.rows, self.outcomes = state["rows"].to(self.sums), []
        self.updates = state["updates"]

    def _all(self) -> tuple[Tensor, Tensor]:
        """Return the sums and the number of the first skipped update, with those of the block in hand."""
        rows = self._block()
        numbers = torch.arange(self.updates - len(rows), self.updates, device=rows.device)
        skipped = torch.where(rows[:, 4] > 0, NEVER, numbers)
        return self.sums + rows.sum(0), torch.cat([self.first_skipped[None], skipped]).min()

    def _block(self) -> Tensor:
        """Return the five numbers of each update of the block in hand: (at most BLOCK, 5)."""
        if not self.outcomes:
            return self.rows
        loss, correct, norm, stepped = (
            torch.stack([getattr(outcome, name) for outcome in self.outcomes])
            for name in ("loss", "correct", "gradient_norm", "stepped")
        )
        count = devices.send(torch.tensor([outcome.count for outcome in self.outcomes]), loss.device)
        columns = [loss.to(self.sums) * count, correct, count, norm, stepped]
        new = torch.stack([column.to(self.sums) for column in columns], dim=1)
        return torch.cat([self.rows, torch.where(stepped[:, None], new, 0)])
