"""Chapter 04, first part: numbers that belong to a module and are not learned."""

from typing import Any

import torch
from torch import Tensor, nn

from labkit.exercises.declaration import Misconception
from labkit.exercises.exercise import Exercise
from labkit.exercises.families import need_module


def run_standardise(answer: Any, mean: Tensor, deviation: Tensor, pictures: Tensor) -> Any:
    """Build the module: its output, how many numbers it trains, moves and saves, and the output with others loaded."""
    need_module(answer)
    built = answer(mean, deviation)
    if (output := built(pictures)) is ...:
        return ...
    state = built.state_dict()
    observed = {
        "numbers that are trained": sum(one.numel() for one in built.parameters() if one.requires_grad),
        "numbers that are moved": sum(one.numel() for one in (*built.parameters(), *built.buffers())),
        "numbers that are saved": sum(one.numel() for one in state.values()),
        "output": output.detach(),
    }
    if state:
        other = answer(torch.zeros_like(mean), torch.ones_like(deviation))
        other.load_state_dict(state)
        observed["output of another, with this state loaded"] = other(pictures).detach()
    return observed


class _Standardise(nn.Module):
    """A right module. Each wrong one below differs from it in one place."""

    def __init__(self, mean: Tensor, deviation: Tensor):
        super().__init__()
        self.keep("mean", mean)
        self.keep("deviation", deviation)

    def keep(self, name: str, value: Tensor) -> None:
        self.register_buffer(name, value)

    def forward(self, x: Tensor) -> Tensor:
        return (x - self.mean[:, None, None]) / self.deviation[:, None, None]


class _Plain(_Standardise):
    def keep(self, name: str, value: Tensor) -> None:
        setattr(self, name, value)


class _Trained(_Standardise):
    def keep(self, name: str, value: Tensor) -> None:
        setattr(self, name, nn.Parameter(value))


class _NotSaved(_Standardise):
    def keep(self, name: str, value: Tensor) -> None:
        self.register_buffer(name, value, persistent=False)


class _LastAxis(_Standardise):
    def forward(self, x: Tensor) -> Tensor:
        return (x - self.mean) / self.deviation


class _OfTheBatch(_Standardise):
    def forward(self, x: Tensor) -> Tensor:
        return (x - x.mean((0, 2, 3), keepdim=True)) / x.std((0, 2, 3), keepdim=True)


class _Multiplied(_Standardise):
    def forward(self, x: Tensor) -> Tensor:
        return (x - self.mean[:, None, None]) * self.deviation[:, None, None]


def _pictures(generator: torch.Generator, *shape: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return mean and deviation of each channel, and pictures of this shape."""
    mean, deviation = (torch.rand(shape[1], generator=generator) + 0.2 for _ in range(2))
    return mean, deviation, torch.rand(shape, generator=generator)


STANDARDISE = Exercise(
    name="Standardise",
    prompt="Put the normalisation into the model, so that it can never be forgotten: `Standardise(mean, deviation)` "
    "gets one number a channel, and returns `(x - mean) / deviation` for `x` of shape (B, channels, H, W). The two "
    "tensors are moved and saved with the model, and not trained.",
    stub='''class Standardise(nn.Module):
    """x (B, channels, H, W) -> the same shape; mean and deviation (channels,) belong to the module."""

    def __init__(self, mean, deviation):
        super().__init__()
        ...  # your turn

    def forward(self, x):
        return ...  # your turn''',
    solved='''class Standardise(nn.Module):
    """x (B, channels, H, W) -> the same shape; mean and deviation (channels,) belong to the module."""

    def __init__(self, mean, deviation):
        super().__init__()
        self.register_buffer("mean", mean)
        self.register_buffer("deviation", deviation)

    def forward(self, x):
        return (x - self.mean[:, None, None]) / self.deviation[:, None, None]''',
    hints=(
        "Parameter, buffer or plain tensor: which one is saved and moved, and not given to the optimizer?",
        "`self.register_buffer(name, tensor)`. Then `self.name` is there as usual.",
        "The channels are the second axis of four: `mean[:, None, None]` puts two axes behind them.",
    ),
    cases=lambda generator: [
        _pictures(generator, 2, 3, 4, 3),
        _pictures(generator, 5, 1, 3, 3),
        _pictures(generator, 3, 2, 4, 2),
    ],
    run=run_standardise,
    praise="Whoever loads this model has the right numbers, without knowing the training data.",
    misconceptions=(
        Misconception(
            "plain tensors",
            _Plain,
            "An attribute that is a plain tensor stays behind: it is not in `state_dict()`, and `to(device)` leaves it "
            "where it is. The first batch on a GPU then fails.",
        ),
        Misconception(
            "parameters",
            _Trained,
            "`nn.Parameter` says *train this*. The optimizer would move the mean with every step, away from that of "
            "the data.",
        ),
        Misconception(
            "buffers that are not saved",
            _NotSaved,
            "`persistent=False` is for what can be computed again, such as a mask. These numbers cannot: whoever loads "
            "the model would have others, and no error.",
        ),
        Misconception(
            "the last axis instead of the channels",
            _LastAxis,
            "Broadcasting lines up from the right, so `x - self.mean` takes a number for each *column*. "
            "`self.mean[:, None, None]` has the channels in their place.",
        ),
        Misconception(
            "the numbers of the batch",
            _OfTheBatch,
            "You computed mean and deviation anew, from whoever is in the batch. They are given: those of the training "
            "data, the same for every picture.",
        ),
        Misconception(
            "multiplied instead of divided",
            _Multiplied,
            "To bring the deviation to 1 one *divides* by it.",
        ),
    ),
)
