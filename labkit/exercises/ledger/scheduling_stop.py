"""A measurement for the topic "Schedulers and early stopping": the model at the stop is not the best one."""

import copy

import torch
from torch import nn
from torch.nn import functional

from labkit.exercises.claims import claim


@claim(
    "C260",
    true="Stopping is right. But when patience runs out, the last epochs were all worse than the best one, by the very "
    "rule that stopped you. Keep a copy at each improvement, and restore it at the end.",
    false="The stop itself is sound, and it came long before the end. What is wrong is to save what you have by then.",
    depends="Right: stop so, but save at each improvement. The copy gave the best loss again; the model at the stop "
    "did not have it any more.",
)
def the_best_was_earlier() -> dict[str, bool]:
    """Train on a few samples with wrong labels among them until the validation loss has not improved for a while."""
    inputs = torch.randn(200, 10)
    labels = (inputs[:, 0] + torch.randn(200) > 0).long()
    model = nn.Sequential(nn.Linear(10, 64), nn.ReLU(), nn.Linear(64, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

    def validation_loss() -> float:
        with torch.no_grad():
            return functional.cross_entropy(model(inputs[40:]), labels[40:]).item()

    best, best_state, waited, epochs, patience = float("inf"), {}, 0, 0, 5
    while epochs < 100 and waited < patience:
        optimizer.zero_grad()
        functional.cross_entropy(model(inputs[:40]), labels[:40]).backward()
        optimizer.step()
        epochs, loss = epochs + 1, validation_loss()
        waited = 0 if loss < best else waited + 1
        if waited == 0:
            best, best_state = loss, copy.deepcopy(model.state_dict())
    at_the_stop = validation_loss()
    model.load_state_dict(best_state)
    return {
        "patience ends the training before its time": epochs < 100,
        "the model as it is then is the best one": at_the_stop <= best,
        "the best one could not be brought back": validation_loss() != best,
    }
