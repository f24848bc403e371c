"""Chapter 05, seventh part: which weights decay, and an average that follows them."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from labkit.exercises import families
from labkit.exercises.declaration import Misconception
from labkit.exercises.exercise import Exercise


def run_groups(answer: Any, model: nn.Module, weight_decay: float) -> Any:
    """Make an AdamW of the groups and say for each parameter which decay it got, or that it was left out."""
    groups = families.call(answer, model, weight_decay)
    if not isinstance(groups, list | tuple):
        return groups
    optimizer = torch.optim.AdamW(groups, lr=0.1)
    decays: dict[int, list[float]] = {}
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            decays.setdefault(id(parameter), []).append(group["weight_decay"])
    names = dict(model.named_parameters())
    return {f"decay of {name}": decays.get(id(parameter), "left out") for name, parameter in names.items()}


class Words(nn.Module):
    """Words in, words out: a table that is tied to the output layer, positions, a normalisation and a single scale."""

    def __init__(self, words: int, width: int):
        super().__init__()
        self.table = nn.Embedding(words, width)
        self.position = nn.Parameter(torch.zeros(4, width))
        self.norm = nn.LayerNorm(width)
        self.scale = nn.Parameter(torch.ones(()))
        self.output = nn.Linear(width, words)
        self.output.weight = self.table.weight


def _pictures(channels: int) -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, channels, 3), nn.BatchNorm2d(channels), nn.Flatten(), nn.Linear(channels, 2))


def _decays(
    is_decayed: Callable[[str, Tensor], bool], others: dict[str, float] | None = None
) -> Callable[[nn.Module, float], list[dict]]:
    """Return an answer with its own rule for which parameters decay, and its own settings of the other group."""

    def decay_groups(model: nn.Module, weight_decay: float) -> list[dict]:
        named = list(model.named_parameters())
        decayed = [parameter for name, parameter in named if is_decayed(name, parameter)]
        rest = [parameter for name, parameter in named if not is_decayed(name, parameter)]
        settings = {"weight_decay": 0.0} if others is None else others
        return [{"params": decayed, "weight_decay": weight_decay}, {"params": rest, **settings}]

    return decay_groups


def _by_layer(model: nn.Module, weight_decay: float) -> list[dict]:
    layers = [one for one in model.modules() if isinstance(one, nn.Linear | nn.Conv2d | nn.Embedding)]
    norms = [one for one in model.modules() if isinstance(one, nn.BatchNorm2d | nn.LayerNorm)]
    biases = [one.bias for one in layers if getattr(one, "bias", None) is not None]
    rest = biases + [parameter for norm in norms for parameter in norm.parameters()]
    weights = list(dict.fromkeys(one.weight for one in layers))
    return [{"params": weights, "weight_decay": weight_decay}, {"params": rest, "weight_decay": 0.0}]


def _twice(model: nn.Module, weight_decay: float) -> list[dict]:
    every = [parameter for module in model.modules() for parameter in module.parameters(recurse=False)]
    decayed = [parameter for parameter in every if parameter.ndim >= 2]
    rest = [parameter for parameter in every if parameter.ndim < 2]
    return [{"params": decayed, "weight_decay": weight_decay}, {"params": rest, "weight_decay": 0.0}]


def _only_decayed(model: nn.Module, weight_decay: float) -> list[dict]:
    return _decays(lambda name, parameter: parameter.ndim >= 2)(model, weight_decay)[:1]


def _group_cases(generator: torch.Generator) -> list[tuple]:
    decays = [round(0.02 + torch.rand((), generator=generator).item(), 3) for _ in range(2)]
    return [(_pictures(3), decays[0]), (Words(5, 4), decays[1])]


DECAY_GROUPS = Exercise(
    name="decay_groups",
    prompt="Weight decay pulls weights towards 0. That is meant for the matrices and kernels, which multiply inputs; a "
    "bias or the scale of a normalisation has no reason to be small. Return two groups for an optimizer: parameters "
    "with at least two dimensions with `weight_decay`, all others without any. Each parameter of the model stands in "
    "one group, once.",
    stub='''def decay_groups(model, weight_decay):
    """Return [{"params": …, "weight_decay": …}, {…}] for torch.optim.AdamW."""
    return ...  # your turn''',
    solved='''def decay_groups(model, weight_decay):
    """Return [{"params": …, "weight_decay": …}, {…}] for torch.optim.AdamW."""
    weights = [parameter for parameter in model.parameters() if parameter.ndim >= 2]
    others = [parameter for parameter in model.parameters() if parameter.ndim < 2]
    return [{"params": weights, "weight_decay": weight_decay}, {"params": others, "weight_decay": 0.0}]''',
    hints=(
        "The name does not tell: the scale of a normalisation is called `weight`, too. What tells is `parameter.ndim`.",
        "`model.parameters()` gives each parameter once, also where two layers share one.",
        "What a group does not say, it takes from the optimizer. What is AdamW's own decay?",
    ),
    cases=_group_cases,
    run=run_groups,
    praise="What multiplies inputs is kept small; what shifts and scales is left free.",
    misconceptions=(
        Misconception(
            "everything decays",
            _decays(lambda name, parameter: True),
            "So it is when the optimizer is given `model.parameters()`. Biases are pulled to 0, and so are the scales "
            "of normalisations, which begin at 1.",
        ),
        Misconception(
            "only the biases are spared",
            _decays(lambda name, parameter: "bias" not in name),
            "The scale of a normalisation is called `weight`, has one dimension, and decays here. Names are a poor "
            "guide; ask for `ndim`.",
        ),
        Misconception(
            "whatever is called weight",
            _decays(lambda name, parameter: "weight" in name),
            "The scale of a normalisation is called `weight` and should not decay; a matrix under another name should. "
            "Ask for `ndim`.",
        ),
        Misconception(
            "more than two dimensions",
            _decays(lambda name, parameter: parameter.ndim > 2),
            "The kernels of convolutions have four dimensions, but the matrix of a linear layer has two, and it is the "
            "one that decay is most often meant for.",
        ),
        Misconception(
            "the two are exchanged",
            _decays(lambda name, parameter: parameter.ndim < 2),
            "Decay for biases and scales, none for the matrices: the wrong way round.",
        ),
        Misconception(
            "the second group does not say 0",
            _decays(lambda name, parameter: parameter.ndim >= 2, others={}),
            "What a group does not say, it takes from the optimizer, and AdamW's own decay is 0.01. Say "
            '`"weight_decay": 0.0`.',
        ),
        Misconception(
            "the others are left out",
            _only_decayed,
            "What stands in no group is not trained at all: biases and scales would keep their first values, without "
            "any error.",
        ),
        Misconception(
            "by the kind of layer",
            _by_layer,
            "A list of layers is never complete. A parameter that stands in the model itself, such as the positions "
            "and the scale here, is in none of them, and so is never trained.",
        ),
        Misconception(
            "a shared parameter twice",
            _twice,
            "Two layers share a matrix here, and going through the layers finds it twice: the optimizer warns, and "
            "would move it twice in each step. `model.parameters()` gives it once.",
        ),
    ),
)
