"""The learner's own Linear; and how any layer of the learner's is given weights, run and looked at."""

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from labkit.exercises.declaration import Misconception
from labkit.exercises.differences import Tolerance
from labkit.exercises.exercise import Exercise
from labkit.exercises.families import WrongKind


def need_module(answer: Any) -> None:
    """Raise WrongKind for anything but a class of modules."""
    if not (inspect.isclass(answer) and issubclass(answer, nn.Module)):
        raise WrongKind(
            "This part must be a class derived from nn.Module. Give the class itself, without brackets behind it."
        )


def matched(
    layer: nn.Module, like: dict[str, Tensor], read: Callable[[Tensor], Tensor] = Tensor.detach
) -> dict[str, Tensor] | None:
    """Return the parameters of a layer under torch's names and in torch's shapes, as views that can be written to.

    like: name -> a tensor of the shape that torch gives this parameter. A parameter of the learner's may have another
    name, be stored transposed, or with other dimensions for the same numbers. Names go first, then shapes in order.
    read: what to take of each parameter, such as its gradient. None when the parameters are others.
    """
    own, found = dict(layer.named_parameters()), {}
    if len(own) != len(like):
        return None
    for name, wanted in like.items():
        order = sorted(own, key=lambda candidate: candidate != name)  # sorting is stable: the same name first
        fitting = [candidate for candidate in order if _fits(own[candidate], wanted)]
        if not fitting:
            return None
        values = read(own.pop(fitting[0]))
        is_transposed = values.ndim == 2 and values.shape == wanted.shape[::-1] and values.shape != wanted.shape
        found[name] = values.T if is_transposed else values.view(wanted.shape)
    return found


def _fits(parameter: Tensor, wanted: Tensor) -> bool:
    squeezed = [size for size in parameter.shape if size > 1]
    same = squeezed == [size for size in wanted.shape if size > 1]
    rows_alike = parameter.shape[:1] == wanted.shape[:1] and parameter.numel() == wanted.numel()
    return same or rows_alike or (wanted.ndim == 2 and parameter.shape == wanted.shape[::-1])


def run_layer(
    answer: Any, sizes: tuple[int, ...], settings: dict[str, int], values: dict[str, Tensor], inputs: Tensor
) -> Any:
    """Build a layer, give its parameters these values, and return its output and all gradients.

    The values that it drew itself are judged apart, and only for what would keep a network from learning.
    """
    need_module(answer)
    layer = answer(*sizes, **settings)
    inputs = inputs.clone().requires_grad_()
    if (first := layer(inputs)) is ...:
        return ...
    mine = matched(layer, values)
    observed: dict[str, Any] = {"parameters": parameters_text(layer, values if mine else None)}
    names = ("initial weights", "output", *(f"gradient of {name}" for name in ("the input", *values)))
    if mine is None or not isinstance(first, Tensor):
        return observed | dict.fromkeys(names) | {"output": first if not isinstance(first, Tensor) else None}
    observed["initial weights"] = _initial(mine["weight"])
    for name, value in values.items():
        mine[name].copy_(value)
    output = layer(inputs)
    observed["output"] = output.detach().clone()
    (output * torch.linspace(-1, 1, output.numel()).view(output.shape)).sum().backward()
    observed["gradient of the input"] = inputs.grad
    gradients = matched(layer, values, read=lambda one: torch.zeros_like(one) if one.grad is None else one.grad)
    return observed | {f"gradient of {name}": gradient for name, gradient in gradients.items()}


def parameters_text(layer: nn.Module, like: dict[str, Tensor] | None) -> str:
    """Return the registered parameters as text, under torch's names where they match."""
    own = dict(layer.named_parameters()) if like is None else like
    shapes = (f"{name} {'×'.join(map(str, value.shape)) or 'scalar'}" for name, value in own.items())
    return ", ".join(shapes) or "none registered"


def _initial(weight: Tensor) -> str:
    """Say what the initial weights mean for learning: torch's have a length of about 0.6 an output."""
    if weight.numel() > 1 and weight.std() == 0:
        return "all equal"
    length = weight.flatten(1).norm(dim=1).mean()
    return "so large that the outputs grow from layer to layer" if length > 3 else "of a size that lets it learn"


class _Linear(nn.Module):
    """A right layer. Each wrong one below differs from it in one place."""

    def __init__(self, inputs: int, outputs: int):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outputs, inputs) / inputs**0.5)
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.weight.T + self.bias


class _Unregistered(nn.Module):
    def __init__(self, inputs: int, outputs: int):
        super().__init__()
        self.weight = torch.randn(outputs, inputs, requires_grad=True)
        self.bias = torch.zeros(outputs, requires_grad=True)

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.weight.T + self.bias


class _WithoutSuper(nn.Module):
    def __init__(self, inputs: int, outputs: int):
        self.weight = nn.Parameter(torch.randn(outputs, inputs))


class _WithoutBias(_Linear):
    def __init__(self, inputs: int, outputs: int):
        super().__init__(inputs, outputs)
        del self.bias

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.weight.T


class _ForgottenBias(_Linear):
    def forward(self, x: Tensor) -> Tensor:
        return x @ self.weight.T


class _Zeros(_Linear):
    def __init__(self, inputs: int, outputs: int):
        super().__init__(inputs, outputs)
        nn.init.zeros_(self.weight)


class _Unscaled(_Linear):
    def __init__(self, inputs: int, outputs: int):
        super().__init__(inputs, outputs)
        nn.init.normal_(self.weight)


class _Cut(_Linear):
    def forward(self, x: Tensor) -> Tensor:
        return x @ self.weight.data.T + self.bias


def _cases(generator: torch.Generator) -> list[tuple]:
    def case(batch: int, inputs: int, outputs: int) -> tuple:
        values = {
            "weight": torch.randn(outputs, inputs, generator=generator),
            "bias": torch.randn(outputs, generator=generator),
        }
        return (inputs, outputs), {}, values, torch.randn(batch, inputs, generator=generator)

    return [case(4, 100, 3), case(1, 64, 10), case(7, 32, 33)]


LINEAR = Exercise(
    name="Linear",
    prompt=(
        "Write `Linear(inputs, outputs)`, a module that does what `nn.Linear` does: for `x` of shape `(B, inputs)` it "
        "returns `x @ weight.T + bias` of shape `(B, outputs)`. Both weights are parameters; start the weight small "
        "and random."
    ),
    stub='''class Linear(nn.Module):
    """x (B, inputs) -> (B, outputs), with parameters weight and bias."""

    def __init__(self, inputs, outputs):
        super().__init__()
        ...  # your turn

    def forward(self, x):
        return ...  # your turn
''',
    solved='''class Linear(nn.Module):
    """x (B, inputs) -> (B, outputs), with parameters weight and bias."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outputs, inputs) / inputs**0.5)
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, x):
        return x @ self.weight.T + self.bias
''',
    hints=(
        "A tensor becomes a parameter of the module when it is an `nn.Parameter` and an attribute.",
        "Divide random weights by the square root of `inputs`: then an output is about as large as an input.",
        "`self.weight = nn.Parameter(torch.randn(outputs, inputs) / inputs**0.5)`; `x @ self.weight.T + self.bias`.",
    ),
    cases=_cases,
    run=run_layer,
    misconceptions=(
        Misconception(
            "plain tensors are no parameters",
            _Unregistered,
            "`requires_grad=True` makes autograd fill `.grad`, but the module does not know the tensor: it is missing "
            "from `parameters()`, from `state_dict()` and from `to(device)`. Wrap it in `nn.Parameter`.",
        ),
        Misconception(
            "super().__init__() is left out",
            _WithoutSuper,
            "`nn.Module.__init__` makes the dictionaries in which parameters are registered. Call it first.",
        ),
        Misconception("there is no bias", _WithoutBias, "Without a bias every output is 0 for an input of zeros."),
        Misconception(
            "the bias is not added",
            _ForgottenBias,
            "`bias` is registered, and `forward` never uses it: its gradient stays `None`, it is never trained.",
        ),
        Misconception(
            "the weights start equal",
            _Zeros,
            "Units that start equal get equal gradients and stay equal for ever: the layer is as good as one unit. "
            "Random values break the tie.",
        ),
        Misconception(
            "the weights start too large",
            _Unscaled,
            "A sum of `inputs` numbers of size 1 has the size of the square root of `inputs`; after a few layers "
            "that explodes. Divide the weights by `inputs**0.5`.",
        ),
        Misconception(
            "data cuts the weight out of the graph",
            _Cut,
            "`.data` (and `detach()`) hide the weight from autograd: it gets no gradient and is never trained.",
        ),
    ),
    tolerance=Tolerance(relative=1e-4, absolute=1e-5),
)
