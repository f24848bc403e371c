"""The learner's own Linear."""

import torch
from torch import Tensor, nn

from labkit.exercises.declaration import Misconception
from labkit.exercises.differences import Tolerance
from labkit.exercises.exercise import Exercise
from labkit.exercises.parts.layers import run_layer


class _Linear(nn.Module):
    """A right layer. Each wrong one below differs from it in one place."""

    def __init__(self, inputs: int, outputs: int):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outputs, inputs) / inputs**0.5)
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.weight.T + self.bias


class _TorchsOwn(nn.Module):
    def __init__(self, inputs: int, outputs: int):
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x)


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
        "In `forward` shapes decide: `x` is `(B, inputs)`, the weight `(outputs, inputs)`. Which of them must be "
        "turned for `@` to leave `(B, outputs)`? The bias, `(outputs,)`, is added to each row by itself.",
    ),
    cases=_cases,
    run=run_layer,
    misconceptions=(
        Misconception(
            "you used the library's own layer",
            _TorchsOwn,
            "All numbers are right, for `nn.Linear` computed them. Here you write what stands inside of it: the "
            "parameters (`nn.Parameter`), and the sum in `forward`.",
        ),
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
