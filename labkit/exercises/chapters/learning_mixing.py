"""Chapter 07, ninth part: does a sample's answer depend on the other samples of its batch?"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from labkit.exercises import families
from labkit.exercises.declaration import Misconception
from labkit.exercises.drawing import normal, with_drawn_weights
from labkit.exercises.exercise import Exercise

Test = Callable[[nn.Module, Tensor], bool]


class _Then(nn.Module):
    """A linear layer, and something done to all of its outputs."""

    def __init__(self, after: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.linear, self.after = nn.Linear(4, 3), after

    def forward(self, inputs: Tensor) -> Tensor:
        return self.after(self.linear(inputs))


def run_mixes(answer: Any, model: nn.Module, inputs: Tensor) -> Any:
    """Return what the answer says, and the mode in which it leaves the model."""
    families.need_function(answer)
    result = answer(model, inputs)
    if isinstance(result, Tensor) and result.numel() == 1:
        result = bool(result)
    return ... if result is ... else {"mixes": result, "training mode": model.training}


def _with_modes(test: Test, evaluates: bool = True, restores: bool = True) -> Test:
    """Return an answer that makes a test in evaluation mode, or not, and puts the mode back, or not."""

    @torch.no_grad()
    def mixes_samples(model: nn.Module, inputs: Tensor) -> bool:
        mode = model.training
        if evaluates:
            model.eval()
        found = test(model, inputs)
        if restores:
            model.train(mode)
        return found

    return mixes_samples


def _same(one: Tensor, other: Tensor) -> bool:
    return torch.allclose(one, other, atol=1e-5)


def _in_parts(model: nn.Module, inputs: Tensor) -> bool:
    parts = torch.cat([model(part) for part in inputs.split(2)])
    return not _same(model(inputs), parts)


def _in_another_order(model: nn.Module, inputs: Tensor) -> bool:
    return not _same(model(inputs.flip(0)), model(inputs).flip(0))


def _only_the_first(model: nn.Module, inputs: Tensor) -> bool:
    return not _same(model(inputs)[:2], model(inputs[:2]))


def _by_the_shape(model: nn.Module, inputs: Tensor) -> bool:
    return len(model(inputs)) != len(inputs)


def _cases(generator: torch.Generator) -> list[tuple]:
    plain = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 3))
    models = [
        plain,
        _Then(lambda x: x.softmax(dim=0)),
        _Then(lambda x: x.reshape(3, -1).t()),
        _Then(lambda x: x.cumsum(dim=0)),
        nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3, track_running_stats=False)),
        _Then(lambda x: x.softmax(dim=1)).eval(),
    ]
    return [(with_drawn_weights(generator, model), normal(generator, 8, 4)) for model in models]


MIXES_SAMPLES = Exercise(
    name="mixes_samples",
    prompt="In *evaluation mode* the answer for a sample must not depend on what else is in its batch. Return True if "
    "it does for this model and these eight `inputs`, else False. Last digits may differ. Give no batch of one, which "
    "some layers refuse. Leave the model in the mode in which it came.",
    stub='''def mixes_samples(model, inputs):
    """Return whether some answer depends on the other samples of the batch, in evaluation mode."""
    return ...  # your turn''',
    solved='''def mixes_samples(model, inputs):
    """Return whether some answer depends on the other samples of the batch, in evaluation mode."""
    mode = model.training
    model.eval()
    with torch.no_grad():
        together = model(inputs)
        in_parts = torch.cat([model(part) for part in inputs.split(2)])
    model.train(mode)
    return not torch.allclose(together, in_parts, atol=1e-5)''',
    hints=(
        "Ask twice, the second time with other company: once all together, once in parts of two.",
        "`inputs.split(2)` gives the parts, `torch.cat` puts their answers together.",
        "Remember `model.training`, then `eval()`, compare with `torch.allclose`, and `model.train(mode)` at the end.",
    ),
    cases=_cases,
    run=run_mixes,
    praise="Four lines, and they find a softmax over the wrong dimension, a `reshape` in the place of a `transpose`, "
    "and a forgotten `batch_first`.",
    misconceptions=(
        Misconception(
            "in the mode in which it came",
            _with_modes(_in_parts, evaluates=False),
            "In training mode batch normalisation mixes all samples, and dropout is random: every model would look "
            "ill. `model.eval()` first.",
        ),
        Misconception(
            "another mode afterwards",
            _with_modes(_in_parts, restores=False),
            "The answers are right. But the model now stays in evaluation mode, and trains on without dropout: put the "
            "mode back.",
        ),
        Misconception(
            "another order",
            _with_modes(_in_another_order),
            "In another order each sample still has the same company, so a softmax over the batch gives the same. Take "
            "another *company*: parts of the batch.",
        ),
        Misconception(
            "only the first samples",
            _with_modes(_only_the_first),
            "The first two may be free of the others while the others are not free of them. Compare all.",
        ),
        Misconception(
            "only the shape",
            _with_modes(_by_the_shape),
            "The shape is right in each of these. What matters is whether the numbers change.",
        ),
        Misconception(
            "the other way round",
            _with_modes(lambda model, inputs: not _in_parts(model, inputs)),
            "True was to mean that samples *are* mixed.",
        ),
    ),
)
