"""The sums of one epoch. They stay on the device; the methods that read them say so."""

import torch

from labkit.training.step import Outcome, exact_dtype


class Totals:
    """Adds up what updates did. Skipped updates are counted, but do not enter the sums: one NaN would hide the rest."""

    def __init__(self, device: torch.device):
        # loss, right answers, samples, gradient norms, updates that stepped
        self.sums = torch.zeros(5, dtype=exact_dtype(device), device=device)
        self.first_skipped = torch.full((), -1, dtype=torch.int64, device=device)
        self.updates = 0

    def add(self, outcome: Outcome) -> None:
        """Add one update, without waiting for the device."""
        one = torch.ones_like(outcome.loss_sum)
        values = [outcome.loss_sum, outcome.correct, one * outcome.count, outcome.gradient_norm, one]
        self.sums += torch.where(outcome.stepped, torch.stack(values), 0)
        first = ~outcome.stepped & (self.first_skipped < 0)
        self.first_skipped = torch.where(first, self.updates, self.first_skipped)
        self.updates += 1

    def means(self) -> dict:
        """Read the device; return the means over samples (loss, accuracy) and over updates (gradient norm)."""
        loss, correct, count, norm, stepped = self.sums.tolist()
        return {
            "train_loss": loss / max(count, 1),
            "train_accuracy": correct / max(count, 1),
            "gradient_norm": norm / max(stepped, 1),
            "skipped": self.updates - int(stepped),
        }

    def state_dict(self) -> dict:
        """Return the sums as plain data."""
        return {"sums": self.sums, "first_skipped": self.first_skipped, "updates": self.updates}

    def load_state_dict(self, state: dict) -> None:
        """Go back to sums that `state_dict` returned."""
        self.sums.copy_(state["sums"])
        self.first_skipped.copy_(state["first_skipped"])
        self.updates = state["updates"]
