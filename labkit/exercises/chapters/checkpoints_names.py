"""Chapter 06, seventh part: names without the wrappers that a model wore when it was saved."""

import re
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from labkit.exercises import families
from labkit.exercises.declaration import Misconception
from labkit.exercises.drawing import normal
from labkit.exercises.exercise import Exercise


def run_strip_prefix(answer: Any, weights: dict[str, Tensor]) -> Any:
    """Return what the answer makes of the weights."""
    families.need_function(answer)
    result = answer(weights)
    return dict(result) if isinstance(result, dict) else result


def _named(rename: Callable[[str], str]) -> Callable[[dict[str, Tensor]], dict[str, Tensor]]:
    """Return an answer with its own rule for a name."""
    return lambda weights: {rename(name): value for name, value in weights.items()}


def _cases(generator: torch.Generator) -> list[tuple]:
    def weights(*names: str) -> tuple:
        return ({name: normal(generator, 2) for name in names},)

    return [
        weights("module.0.weight", "module.0.bias", "module.2.weight"),
        weights("_orig_mod.body.weight", "_orig_mod.submodule.weight", "_orig_mod.body.module.bias"),
        weights("module._orig_mod.linear.weight", "module._orig_mod.modulation.bias"),
        weights("_orig_mod.module.first.weight", "_orig_mod.module.last._orig_mod.bias"),
        weights("0.weight", "module_list.1.weight", "encoder.module.bias"),
    ]


STRIP_PREFIX = Exercise(
    name="strip_prefix",
    prompt="`DataParallel` and `DistributedDataParallel` put `module.` in front of every name, `torch.compile` puts "
    "`_orig_mod.` there. Return the weights under their own names, with neither of the two in front, however often and "
    "in whatever order they stand there. What stands *inside* of a name belongs to the model.",
    stub='''def strip_prefix(weights):
    """Return the same tensors, under names without wrappers in front."""
    return ...  # your turn''',
    solved='''def strip_prefix(weights):
    """Return the same tensors, under names without wrappers in front."""
    found = {}
    for name, value in weights.items():
        while name.startswith(("module.", "_orig_mod.")):
            name = name.partition(".")[2]
        found[name] = value
    return found''',
    hints=(
        "A compiled model inside of a parallel wrapper has two prefixes, the other way round it has them in the other "
        "order: take them off as long as there is one.",
        '`name.startswith(("module.", "_orig_mod."))` asks for both at once.',
        "`name.removeprefix(…)` takes off one that is there and leaves all other names alone. So does what is after "
        'the first dot: `name.partition(".")[2]`.',
    ),
    cases=_cases,
    run=run_strip_prefix,
    praise="Such names fit the bare model, the parallel one (load into `model.module`) and the compiled one.",
    misconceptions=(
        Misconception(
            "also in the middle",
            _named(lambda name: name.replace("module.", "").replace("_orig_mod.", "")),
            "`replace` looks everywhere: `submodule.weight` becomes `subweight`, and a layer that is called `module` "
            "inside of another loses its name. Only what stands in front belongs to the wrapper.",
        ),
        Misconception(
            "letters instead of a prefix",
            _named(lambda name: name.lstrip("module.").lstrip("_orig_mod.")),  # noqa: B005  the mistake itself
            "`lstrip` takes a *set of letters* and eats on: of `linear` in front of which `module.` stood, the `l` is "
            "gone, too. `removeprefix` is what you mean.",
        ),
        Misconception(
            "seven letters of every name",
            _named(lambda name: name[len("module.") :]),
            "`name[7:]` cuts names that have no `module.` in front as well: those of a bare or of a compiled model.",
        ),
        Misconception(
            "only `module.`",
            _named(lambda name: re.sub(r"^(module\.)+", "", name)),
            "That is right for parallel models. A compiled one has `_orig_mod.` in front.",
        ),
        Misconception(
            "only `_orig_mod.`",
            _named(lambda name: re.sub(r"^(_orig_mod\.)+", "", name)),
            "That is right for compiled models. A parallel one has `module.` in front.",
        ),
        Misconception(
            "in one order",
            _named(lambda name: name.removeprefix("module.").removeprefix("_orig_mod.")),
            "A compiled model inside of a parallel one is `module._orig_mod.…`, and you are done with it. A parallel "
            "one that was compiled is the other way round, and keeps its `module.`.",
        ),
        Misconception(
            "in the other order",
            _named(lambda name: name.removeprefix("_orig_mod.").removeprefix("module.")),
            "A parallel model that was compiled is `_orig_mod.module.…`, and you are done with it. A compiled one "
            "inside of a parallel one is the other way round, and keeps its `_orig_mod.`.",
        ),
        Misconception(
            "one of the two",
            _named(lambda name: re.sub(r"^(module|_orig_mod)\.", "", name)),
            "You take off one prefix. A model can wear two: compiled, and parallel.",
        ),
        Misconception(
            "the last part alone",
            _named(lambda name: ".".join(name.split(".")[-2:])),
            "The place inside of the model is a part of the name: two layers with the same last parts become one.",
        ),
    ),
)
