"""Chapter 06, third part: a copy to come back to, in memory."""

import copy
import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from labkit.exercises.declaration import Misconception
from labkit.exercises.exercise import Exercise
from labkit.exercises.families import WrongKind


def run_rewind(answer: Any, seed: int) -> Any:
    """Train, remember, train on and go back, twice: the states after each return, and whether training goes on."""
    if not inspect.isclass(answer):
        raise WrongKind("This exercise asks for a class. Give `check` the class, without brackets behind it.")
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    _train_on(model, optimizer)
    remembered = answer(model, optimizer)
    observed = {}
    for which in ("first", "second"):
        _train_on(model, optimizer)
        if remembered.back() is ...:
            return ...
        observed[f"model after the {which} return"] = {name: one.clone() for name, one in model.state_dict().items()}
        observed[f"optimizer after the {which} return"] = _numbers(optimizer)
    before = model[0].weight.detach().clone()
    _train_on(model, optimizer)
    return observed | {"the optimizer still moves the model": not torch.equal(before, model[0].weight)}


def _train_on(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    for _ in range(2):
        optimizer.zero_grad()
        model(torch.randn(6, 3)).square().sum().backward()
        optimizer.step()


def _numbers(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Return a copy of all that an optimizer remembers, a row an entry."""
    states = optimizer.state_dict()["state"]
    return {
        f"{name} of parameter {place}": torch.as_tensor(value).clone()
        for place, entries in states.items()
        for name, value in entries.items()
    }


def _rewinds(
    remember_model: Callable[[nn.Module], Any] = lambda model: copy.deepcopy(model.state_dict()),
    remember_optimizer: Callable[[Any], Any] = lambda optimizer: copy.deepcopy(optimizer.state_dict()),
    before_loading: Callable[[Any], Any] = copy.deepcopy,
    strict: bool = True,
) -> type:
    """Return an answer with its own ways to remember, and to prepare the optimizer's state for loading."""

    class Rewind:
        def __init__(self, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
            self.model, self.optimizer = model, optimizer
            self.weights, self.memory = remember_model(model), remember_optimizer(optimizer)

        def back(self) -> None:
            self.model.load_state_dict(self.weights, strict=strict)
            if self.memory is not None:
                self.optimizer.load_state_dict(before_loading(self.memory))

    return Rewind


class _OtherModel:
    def __init__(self, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        self.model, self.optimizer = copy.deepcopy(model), copy.deepcopy(optimizer)

    def back(self) -> tuple:
        return self.model, self.optimizer


class _NewMemory:
    def __init__(self, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        self.model, self.optimizer = model, optimizer
        self.weights = copy.deepcopy(model.state_dict())

    def back(self) -> None:
        self.model.load_state_dict(self.weights)
        self.optimizer.state.clear()


def _parameters(model: nn.Module) -> dict[str, Tensor]:
    return {name: parameter.detach().clone() for name, parameter in model.named_parameters()}


REWIND = Exercise(
    name="Rewind",
    prompt="To try something and go back: `point = Rewind(model, optimizer)` remembers both as they are now, and "
    "`point.back()` puts the same two objects into that state again, however the training went on. One point can be "
    "returned to many times.",
    stub='''class Rewind:
    """A point of a training to which one can come back, in memory."""

    def __init__(self, model, optimizer):
        self.model, self.optimizer = model, optimizer
        ...  # your turn: remember both as they are now

    def back(self):
        return ...  # your turn: put both back''',
    solved='''import copy


class Rewind:
    """A point of a training to which one can come back, in memory."""

    def __init__(self, model, optimizer):
        self.model, self.optimizer = model, optimizer
        self.weights = copy.deepcopy(model.state_dict())
        self.memory = copy.deepcopy(optimizer.state_dict())

    def back(self):
        self.model.load_state_dict(self.weights)
        self.optimizer.load_state_dict(copy.deepcopy(self.memory))''',
    hints=(
        "Both `state_dict()` give views. The optimizer's is nested: tensors in dicts in a dict.",
        "`copy.deepcopy` copies all levels.",
        "`model.load_state_dict` copies numbers. `optimizer.load_state_dict` takes your very tensors, and goes on "
        "writing into them: give it a copy.",
    ),
    cases=lambda generator: [(3,), (8,)],
    run=run_rewind,
    praise="You can go back as often as you like.",
    misconceptions=(
        Misconception(
            "nothing was copied",
            _rewinds(lambda model: model.state_dict(), lambda optimizer: optimizer.state_dict()),
            "Both states are views, so what you remember goes on training, and `back` loads what is there already. A "
            "`dict(…)` or `.copy()` copies the outermost dict, and no number.",
        ),
        Misconception(
            "the model is not copied",
            _rewinds(remember_model=lambda model: model.state_dict()),
            "The optimizer is back, and the weights are not: `model.state_dict()` shows the living weights.",
        ),
        Misconception(
            "the optimizer is not copied",
            _rewinds(remember_optimizer=lambda optimizer: optimizer.state_dict()),
            "The weights are back, and the momentum is that of the attempt you wanted to undo: its first step goes "
            "there again. The state of the optimizer is a view, too, and nested: `deepcopy`.",
        ),
        Misconception(
            "it works once",
            _rewinds(before_loading=lambda memory: memory),
            "The first return is right, the second is not. `optimizer.load_state_dict` does not copy: the optimizer "
            "took the tensors that you remembered and writes into them. Give it a copy each time.",
        ),
        Misconception(
            "the optimizer begins anew",
            _NewMemory,
            "Empty is not as it was: at that point the optimizer had its running means. Without them the next step is "
            "another than it was then.",
        ),
        Misconception(
            "only the parameters",
            _rewinds(remember_model=_parameters, strict=False),
            "The running statistics of batch normalisation are buffers, and stay those of the attempt. `strict=False` "
            "kept quiet about it.",
        ),
        Misconception(
            "other objects",
            _OtherModel,
            "You keep a second model and give that back. Whoever holds the first, such as the loop, trains on with it. "
            "Load the numbers into the same objects.",
        ),
    ),
)
