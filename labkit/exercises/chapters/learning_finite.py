"""Chapter 07, eighth part: where does the first NaN come from?"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from labkit.exercises import families
from labkit.exercises.declaration import Misconception
from labkit.exercises.drawing import normal
from labkit.exercises.exercise import Exercise


class _Does(nn.Module):
    """A layer that does one operation."""

    def __init__(self, operation: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.operation = operation

    def forward(self, inputs: Tensor) -> Tensor:
        return self.operation(inputs)


class _Runs(nn.Module):
    """Layers that run in another order than that in which they were made."""

    def __init__(self, layers: dict[str, nn.Module], order: list[str]) -> None:
        super().__init__()
        self.layers, self.order = nn.ModuleDict(layers), order

    def forward(self, inputs: Tensor) -> Tensor:
        for name in self.order:
            inputs = self.layers[name](inputs)
        return inputs


def run_first(answer: Any, model: nn.Module, inputs: Tensor) -> Any:
    """Return the name that the answer gives, and how many hooks it left on the model."""
    families.need_function(answer)
    name = answer(model, inputs)
    left = sum(len(one._forward_hooks) + len(one._forward_pre_hooks) for one in model.modules())
    return ... if name is ... else {"name": name, "hooks left on the model": left}


def _is_bad(tensor: Tensor) -> bool:
    return not tensor.isfinite().all()


def _by_hooks(
    is_bad: Callable[[Tensor, Tensor], bool] = lambda given, output: _is_bad(output),
    place: int = 0,
    removes: bool = True,
) -> Callable:
    """Return an answer with its own idea of what is bad, and of which of those layers to name."""

    def first_non_finite(model: nn.Module, inputs: Tensor) -> str | None:
        found, handles = [], []
        for name, layer in model.named_modules():
            if not list(layer.children()):

                def note(layer: nn.Module, given: tuple, output: Tensor, name: str = name) -> None:
                    if is_bad(given[0], output):
                        found.append(name)

                handles.append(layer.register_forward_hook(note))
        model(inputs)
        for handle in handles if removes else []:
            handle.remove()
        return found[place] if found else None

    return first_non_finite


def _in_order_of_names(model: nn.Module, inputs: Tensor) -> str | None:
    bad = set()
    for name, layer in model.named_modules():
        if not list(layer.children()):
            layer.register_forward_hook(lambda _, given, output, name=name: bad.add(name) if _is_bad(output) else None)
    model(inputs)
    for layer in model.modules():
        layer._forward_hooks.clear()
    return next((name for name, _ in model.named_modules() if name in bad), None)


def _in_the_weights(model: nn.Module, inputs: Tensor) -> str | None:
    bad = [name.rpartition(".")[0] for name, one in model.named_parameters() if _is_bad(one)]
    return bad[0] if bad else None


def _cases(generator: torch.Generator) -> list[tuple]:
    inputs = normal(generator, 4, 3).abs() + 0.1
    log_of_zero = {"minus": _Does(lambda x: x - x), "root": _Does(torch.sqrt), "log": _Does(torch.log)}
    log_of_zero |= {"times": _Does(lambda x: x * 0), "linear": nn.Linear(3, 3)}
    late_first = {"last": nn.Linear(3, 3), "exp": _Does(lambda x: (1000 * x).exp()), "first": _Does(lambda x: x + 1)}
    spoiled = nn.Sequential(nn.Linear(3, 3), nn.Sequential(nn.Linear(3, 3), nn.ReLU()), nn.Linear(3, 3))
    with torch.no_grad():
        spoiled[1][0].weight[0, 0] = float("nan")
    sound = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 2))
    return [
        (_Runs(log_of_zero, ["root", "minus", "log", "times", "linear"]), inputs),
        (_Runs(late_first, ["first", "exp", "last"]), inputs),
        (spoiled, inputs),
        (sound, inputs),
    ]


FIRST_NON_FINITE = Exercise(
    name="first_non_finite",
    prompt="The loss is NaN. Return the name, as in `model.named_modules()`, of the layer in which it begins: of all "
    "modules without children, the first *in the order in which they run* whose output (a tensor) holds NaN or "
    "infinity for these `inputs`. Return None if all are finite. Use forward hooks, and take them off again.",
    stub='''def first_non_finite(model, inputs):
    """Return the name of the first layer whose output is not finite, or None."""
    return ...  # your turn''',
    solved='''def first_non_finite(model, inputs):
    """Return the name of the first layer whose output is not finite, or None."""
    found = []

    def watch(name):
        def note(layer, inputs, output):
            if not output.isfinite().all():
                found.append(name)

        return note

    layers = [(name, layer) for name, layer in model.named_modules() if not list(layer.children())]
    hooks = [layer.register_forward_hook(watch(name)) for name, layer in layers]
    model(inputs)
    for hook in hooks:
        hook.remove()
    return found[0] if found else None''',
    hints=(
        "`handle = layer.register_forward_hook(f)` has `f(layer, inputs, output)` called each time the layer has run; "
        "`handle.remove()` ends that.",
        "Each hook has to know the name of its layer: make it by a function that gets the name.",
        "Let the hooks append names to a list. They are called in the order of running, so the first in the list is "
        "the one. `output.isfinite().all()` sees NaN and infinity.",
    ),
    cases=_cases,
    run=run_first,
    praise="The next question is what went *into* that layer: a 0 under a logarithm, a large number under exp.",
    misconceptions=(
        Misconception(
            "the last one",
            _by_hooks(place=-1),
            "NaN spreads to all that comes behind it, so the last layer is among them. The first is where it begins.",
        ),
        Misconception(
            "only NaN",
            _by_hooks(is_bad=lambda given, output: bool(output.isnan().any())),
            "Infinity comes before NaN: log(0) is -inf, and only the next operation makes NaN of it. `isfinite` sees "
            "both.",
        ),
        Misconception(
            "the order of the names",
            _in_order_of_names,
            "`named_modules()` has the order in which layers were *made*. `forward` may use them in another one. The "
            "order of the calls is that of your hooks.",
        ),
        Misconception(
            "hooks that stay",
            _by_hooks(removes=False),
            "The right name. But the hooks are still on the model, slow each pass down, and keep what they hold alive: "
            "`handle.remove()`.",
        ),
        Misconception(
            "what goes in",
            _by_hooks(is_bad=lambda given, output: _is_bad(given)),
            "You look at the inputs of the layers: that names the layer *behind* the one where it began.",
        ),
        Misconception(
            "weights instead of outputs",
            _in_the_weights,
            "Weights become NaN by an update with a bad gradient. Before that they are fine, and a sound layer may "
            "still make NaN, out of a 0 under a logarithm.",
        ),
    ),
)
