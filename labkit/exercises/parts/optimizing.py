"""The learner's own optimizer: stochastic gradient descent with momentum."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from labkit.exercises.declaration import Misconception
from labkit.exercises.exercise import Exercise
from labkit.exercises.families import WrongKind


def _run(answer: Any, starts: list[Tensor], gradients: list[list[Tensor]], lr: float, momentum: float) -> Any:
    """Make updates with given gradients and return where the parameters are; one parameter never has a gradient."""
    if not callable(answer):
        raise WrongKind("This part must be a class of optimizers. Give the class itself, without brackets behind it.")
    parameters = [nn.Parameter(start.clone()) for start in starts]
    unused = nn.Parameter(torch.ones(2))
    # A model hands over a generator, which can be gone through once.
    optimizer = answer((one for one in [*parameters, unused]), lr=lr, momentum=momentum)
    places, cleared = [], []
    for update in gradients:
        if optimizer.zero_grad() is ...:
            return ...
        cleared.append(all(one.grad is None or not one.grad.any() for one in parameters))
        for parameter, gradient in zip(parameters, update, strict=True):  # added up, as backward does
            parameter.grad = gradient.clone() if parameter.grad is None else parameter.grad + gradient
        if optimizer.step() is ...:
            return ...
        places.append([parameter.detach().clone() for parameter in parameters])
    return {
        "zero_grad clears the gradients": all(cleared),
        **{f"parameters after update {number}": place for number, place in enumerate(places, start=1)},
        "a parameter without gradient": unused.detach().clone(),
        "still leaves that require gradients": all(one.is_leaf and one.requires_grad for one in parameters),
    }


class _SGD:
    """A right optimizer. Each wrong one below differs from it in one place."""

    def __init__(self, parameters: Iterable[Tensor], lr: float, momentum: float = 0.0):
        self.parameters, self.lr, self.momentum = list(parameters), lr, momentum
        self.velocities = [torch.zeros_like(one) for one in self.parameters]

    def zero_grad(self) -> None:
        for parameter in self.parameters:
            parameter.grad = None

    @torch.no_grad()
    def step(self) -> None:
        for parameter, velocity in zip(self.parameters, self.velocities, strict=True):
            if parameter.grad is not None:
                self.move(parameter, velocity)

    def move(self, parameter: Tensor, velocity: Tensor) -> None:
        velocity.mul_(self.momentum).add_(parameter.grad)
        parameter -= self.lr * velocity


class _Uphill(_SGD):
    def move(self, parameter: Tensor, velocity: Tensor) -> None:
        velocity.mul_(self.momentum).add_(parameter.grad)
        parameter += self.lr * velocity


class _WithoutMomentum(_SGD):
    def move(self, parameter: Tensor, velocity: Tensor) -> None:
        parameter -= self.lr * parameter.grad


class _Average(_SGD):
    def move(self, parameter: Tensor, velocity: Tensor) -> None:
        velocity.mul_(self.momentum).add_(parameter.grad * (1 - self.momentum))
        parameter -= self.lr * velocity


class _Nesterov(_SGD):
    def move(self, parameter: Tensor, velocity: Tensor) -> None:
        velocity.mul_(self.momentum).add_(parameter.grad)
        parameter -= self.lr * (parameter.grad + self.momentum * velocity)


class _Rebinds(_SGD):
    def move(self, parameter: Tensor, velocity: Tensor) -> None:
        velocity.mul_(self.momentum).add_(parameter.grad)
        parameter = parameter - self.lr * velocity


class _NeverClears(_SGD):
    def zero_grad(self) -> None:
        pass


class _ClearsInVain(_SGD):
    def zero_grad(self) -> None:
        for parameter in self.parameters:
            parameter.requires_grad_(False)
            parameter.grad = None


class _Recorded(_SGD):
    def step(self) -> None:
        for parameter, velocity in zip(self.parameters, self.velocities, strict=True):
            if parameter.grad is not None:
                self.move(parameter, velocity)


class _EveryGradient(_SGD):
    @torch.no_grad()
    def step(self) -> None:
        for parameter in self.parameters:
            parameter -= self.lr * parameter.grad


class _OneVelocity(_SGD):
    def __init__(self, parameters: Iterable[Tensor], lr: float, momentum: float = 0.0):
        super().__init__(parameters, lr, momentum)
        self.velocity: Any = 0

    def move(self, parameter: Tensor, velocity: Tensor) -> None:
        self.velocity = self.momentum * self.velocity + parameter.grad
        parameter -= self.lr * self.velocity


class _Generator(_SGD):
    def __init__(self, parameters: Iterable[Tensor], lr: float, momentum: float = 0.0):
        super().__init__(parameters, lr, momentum)
        self.parameters = iter(self.parameters)

    def step(self) -> None:
        self.parameters = list(self.parameters)  # what the first walk, zero_grad, has left over
        for parameter in self.parameters:
            self.move(parameter, torch.zeros_like(parameter))


def _cases(generator: torch.Generator) -> list[tuple]:
    def case(shapes: list[tuple[int, ...]], lr: float, momentum: float) -> tuple:
        def draw() -> list[Tensor]:
            return [torch.randn(shape, generator=generator) for shape in shapes]

        return draw(), [draw() for _ in range(3)], lr, momentum

    return [case([(3, 3), (3, 3)], 0.1, 0.9), case([(4, 2), (4, 2)], 0.05, 0.0), case([(5,), (5,)], 0.2, 0.5)]


SGD = Exercise(
    name="SGD",
    prompt=(
        "Write `SGD(parameters, lr, momentum=0.0)` with `zero_grad()` and `step()`. A step multiplies the velocity of "
        "each parameter (0 at first) by `momentum`, adds its gradient, and subtracts `lr` times the velocity from the "
        "parameter. Parameters without a gradient stay as they are."
    ),
    stub='''class SGD:
    """Gradient descent with momentum over an iterable of parameters."""

    def __init__(self, parameters, lr, momentum=0.0):
        """Keep what the other methods need."""
        ...  # your turn

    def zero_grad(self):
        return ...  # your turn

    def step(self):
        return ...  # your turn
''',
    solved='''class SGD:
    """Gradient descent with momentum over an iterable of parameters."""

    def __init__(self, parameters, lr, momentum=0.0):
        self.parameters = list(parameters)
        self.lr, self.momentum = lr, momentum
        self.velocities = [torch.zeros_like(parameter) for parameter in self.parameters]

    def zero_grad(self):
        for parameter in self.parameters:
            parameter.grad = None

    @torch.no_grad()
    def step(self):
        for parameter, velocity in zip(self.parameters, self.velocities):
            if parameter.grad is not None:
                velocity.mul_(self.momentum).add_(parameter.grad)
                parameter -= self.lr * velocity
''',
    hints=(
        "`model.parameters()` is a generator: it can be gone through once. Keep `list(parameters)`.",
        "Change the parameters in place and under `torch.no_grad()`: the model holds the same tensors.",
        "One velocity a parameter: `velocity.mul_(momentum).add_(parameter.grad)`, then `parameter -= lr * velocity`.",
    ),
    cases=_cases,
    run=_run,
    misconceptions=(
        Misconception("uphill", _Uphill, "The gradient points to where the loss grows: subtract it."),
        Misconception(
            "momentum is not used", _WithoutMomentum, "Each step must also go on in the direction of the steps before."
        ),
        Misconception(
            "the velocity is an average",
            _Average,
            "With a factor `1 - momentum` at the gradient the steps are ten times smaller at momentum 0.9. torch adds "
            "the whole gradient (`dampening=0`).",
        ),
        Misconception(
            "a look ahead",
            _Nesterov,
            "That is Nesterov's momentum, `SGD(..., nesterov=True)` in torch. The plain one moves by the velocity.",
        ),
        Misconception(
            "a new tensor under the old name",
            _Rebinds,
            "`parameter = parameter - …` makes another tensor and gives it the name; the model keeps the old one. "
            "`parameter -= …` changes the one that the model holds.",
        ),
        Misconception(
            "zero_grad clears nothing",
            _NeverClears,
            "`backward` adds to `.grad`. Without clearing each update also repeats all gradients before.",
        ),
        Misconception(
            "zero_grad turns the gradients off",
            _ClearsInVain,
            "`requires_grad_(False)` freezes a parameter: no gradient will ever arrive again. Set `.grad` to None.",
        ),
        Misconception(
            "the update is recorded",
            _Recorded,
            "autograd forbids to change in place a leaf that it watches. Do the update under `torch.no_grad()`.",
        ),
        Misconception(
            "every parameter is taken to have a gradient",
            _EveryGradient,
            "`.grad` is None for what is frozen or was not used. Leave such parameters as they are.",
        ),
        Misconception(
            "one velocity for all parameters",
            _OneVelocity,
            "Each parameter needs a velocity of its own, of its own shape; here they are mixed.",
        ),
        Misconception(
            "the generator is kept",
            _Generator,
            "`model.parameters()` is a generator: after the first walk it is empty, and every later step does nothing. "
            "Keep `list(parameters)`.",
        ),
    ),
)
