"""Tunes and a network that predicts their next note: for faults in sequences."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from tests.faults.tasks_b import melodies


class Tunes(Dataset):
    """Notes as inputs, and as targets the notes that come `ahead` steps later."""

    def __init__(self, tunes: Dataset, ahead: int = 1):
        self.tunes, self.ahead = tunes, ahead

    def __len__(self) -> int:
        return len(self.tunes)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        (tune,) = self.tunes[index]
        return tune[: len(tune) - 1], tune[self.ahead : len(tune) - 1 + self.ahead]


def tune_loaders(ahead: int = 1) -> dict:
    train, validation = melodies()
    return {
        "train_loader": DataLoader(Tunes(train, ahead), batch_size=25, shuffle=True),
        "val_loader": DataLoader(Tunes(validation), batch_size=50),
    }


class Composer(nn.Module):
    """Predicts the next note at every step, (N, T) -> (N, T, 12); the recurrent layer wants time first."""

    def __init__(self, reshape: bool = False):
        super().__init__()
        self.notes = nn.Embedding(12, 16)
        self.rnn = nn.GRU(16, 48)
        self.next = nn.Linear(48, 12)
        self.reshape = reshape

    def forward(self, notes: Tensor) -> Tensor:
        states, _ = self.rnn(self.notes(notes).transpose(0, 1))
        states = states.reshape(*notes.shape, 48) if self.reshape else states.transpose(0, 1)
        return self.next(states)


def loss_of_notes(logits: Tensor, notes: Tensor) -> Tensor:
    return F.cross_entropy(logits.flatten(0, 1), notes.flatten())


def right_notes(model: nn.Module, loader) -> float:
    """Return how often the next note is right."""
    model.eval()
    with torch.no_grad():
        return torch.cat([model(x).argmax(2) == y for x, y in loader]).float().mean().item()
