"""Chapter 06, first part: everything that a training needs in order to go on as if it had never been cut."""

import io
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import lr_scheduler

from labkit.exercises import families
from labkit.exercises.declaration import Misconception
from labkit.exercises.differences import Tolerance
from labkit.exercises.exercise import Exercise

UPDATES = 4  # in an epoch


class _Training:
    """A small training with dropout, a batch normalisation, a momentum and a schedule; its batches are drawn."""

    def __init__(self, seed: int) -> None:
        torch.manual_seed(seed)
        self.inputs, self.targets = torch.randn(40, 5), torch.randint(0, 3, (40,))
        self.model = nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 3))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.05)
        self.schedule = lr_scheduler.CosineAnnealingLR(self.optimizer, T_max=20)

    def train(self, epochs: int) -> Tensor:
        """Train for some epochs and return all weights in one row."""
        for _ in range(epochs * UPDATES):
            drawn = torch.randint(0, 40, (8,))
            loss = F.cross_entropy(self.model(self.inputs[drawn]), self.targets[drawn])
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            self.schedule.step()
        return nn.utils.parameters_to_vector(self.model.parameters()).detach().clone()

    def take(self, state: dict) -> None:
        """Put back every part that the state has."""
        for part in ("model", "optimizer", "schedule"):
            if part in state:
                getattr(self, part).load_state_dict(state[part])
        if "random" in state:
            torch.set_rng_state(state["random"])


def run_full_state(answer: Any, seed: int, epochs: int) -> Any:
    """Train, ask for the state, send it through a file, go on in a new training, and compare with one that was not cut.

    The file is read with `weights_only=True`; the new training has the same data and starts from its own weights.
    """
    families.need_function(answer)
    training = _Training(seed)
    training.train(epochs)
    state = families.call(answer, training.model, training.optimizer, training.schedule, epochs)
    if state is ... or not isinstance(state, dict):
        return state
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    uncut = training.train(2)
    resumed = _Training(seed)
    resumed.take(torch.load(file, weights_only=True))
    return {
        "epoch": state.get("epoch"),
        "two epochs later, the weights are those of the uncut training": torch.equal(resumed.train(2), uncut),
        "its rate": resumed.schedule.get_last_lr()[0],
        "sum of its weights": resumed.train(0).sum(),
    }


def _state(model: nn.Module, optimizer: Any, schedule: Any, epoch: int) -> dict:
    return {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "schedule": schedule.state_dict(),
        "random": torch.get_rng_state(),
        "epoch": epoch,
    }


def _without(part: str) -> Any:
    """Return an answer that leaves a part out."""

    def full_state(model: nn.Module, optimizer: Any, schedule: Any, epoch: int) -> dict:
        return {name: value for name, value in _state(model, optimizer, schedule, epoch).items() if name != part}

    return full_state


def _parameters_alone(model: nn.Module, optimizer: Any, schedule: Any, epoch: int) -> dict:
    return _state(model, optimizer, schedule, epoch) | {"model": dict(model.named_parameters())}


def _seed_for_random(model: nn.Module, optimizer: Any, schedule: Any, epoch: int) -> dict:
    return _state(model, optimizer, schedule, epoch) | {"random": torch.initial_seed()}


def _next_epoch(model: nn.Module, optimizer: Any, schedule: Any, epoch: int) -> dict:
    return _state(model, optimizer, schedule, epoch + 1)


def _objects(model: nn.Module, optimizer: Any, schedule: Any, epoch: int) -> dict:
    return _state(model, optimizer, schedule, epoch) | {"model": model, "optimizer": optimizer, "schedule": schedule}


def _draws_first(model: nn.Module, optimizer: Any, schedule: Any, epoch: int) -> dict:
    state = _state(model, optimizer, schedule, epoch)
    torch.rand(1)
    return state


FULL_STATE = Exercise(
    name="full_state",
    prompt="Return all that a training needs in order to go on after a cut: a dict with `model`, `optimizer` and "
    "`schedule` (what `load_state_dict` of each takes), `random` (what `torch.set_rng_state` takes) and `epoch`, the "
    "number of epochs that are finished. It goes through a file that is read with `weights_only=True`. Dropout and the "
    "batches are drawn from torch's global numbers, and the rate changes with every update.",
    stub='''def full_state(model, optimizer, schedule, epoch):
    """Return the state of a training after `epoch` epochs: a dict of plain data."""
    return ...  # your turn''',
    solved='''def full_state(model, optimizer, schedule, epoch):
    """Return the state of a training after `epoch` epochs: a dict of plain data."""
    return {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "schedule": schedule.state_dict(),
        "random": torch.get_rng_state(),
        "epoch": epoch,
    }''',
    hints=(
        "Model, optimizer and schedule each have a method that gives their state as plain data.",
        "torch can tell where its random numbers are: a tensor of bytes, not the seed from which they began.",
        "`torch.get_rng_state()` is the counterpart of `torch.set_rng_state`.",
    ),
    cases=lambda generator: [(3, 2), (11, 1)],
    run=run_full_state,
    tolerance=Tolerance(relative=0, absolute=0),
    praise="The resumed training is the uncut one, to the last bit.",
    misconceptions=(
        Misconception(
            "the optimizer begins anew",
            _without("optimizer"),
            "Without its state the optimizer has forgotten both running means of every weight. Its first steps are as "
            "large as at the very beginning, and the loss jumps.",
        ),
        Misconception(
            "the schedule begins anew",
            _without("schedule"),
            "The state of the optimizer holds the rate of this moment, and not how many steps the schedule has made. "
            "It starts its course again from the first.",
        ),
        Misconception(
            "other random numbers",
            _without("random"),
            "Weights, momentum and rate are back. But other batches are drawn and other units dropped than in the "
            "training that was not cut: another training, as good and not the same.",
        ),
        Misconception(
            "the seed instead of the state",
            _seed_for_random,
            "The seed says where the random numbers *began*. Since then thousands were drawn. `torch.get_rng_state()` "
            "says where they are now.",
        ),
        Misconception(
            "not plain data",
            _objects,
            "Something in your dict is more than tensors, numbers and text, and `weights_only=True` refuses the whole "
            "file, with good reason (part 5). A model or an optimizer itself is code; its `state_dict()` is data.",
        ),
        Misconception(
            "only the parameters",
            _parameters_alone,
            "`named_parameters()` has no buffers: the running statistics of batch normalisation are missing, and "
            "`load_state_dict` says so.",
        ),
        Misconception(
            "the number of the next epoch",
            _next_epoch,
            "`epoch` was asked for as the number of finished ones. With one more, a resume leaves an epoch out.",
        ),
        Misconception(
            "a random number is drawn on the way",
            _draws_first,
            "What you kept is right, and keeping it drew a random number: so the training that goes on here is not the "
            "one in the file any more. Saving must not change what is saved.",
        ),
    ),
)
