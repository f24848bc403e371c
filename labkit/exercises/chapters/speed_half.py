"""Chapter 08, fifth part: an update in half precision."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from labkit.exercises import families
from labkit.exercises.declaration import Misconception
from labkit.exercises.differences import Tolerance
from labkit.exercises.drawing import normal, with_drawn_weights
from labkit.exercises.exercise import Exercise


class _Watching(torch.autograd.Function):
    """Passes its input on, and notes whether autocast is on when the gradient comes back."""

    @staticmethod
    def forward(context: Any, inputs: Tensor, seen: dict) -> Tensor:
        context.seen = seen
        return inputs.clone()

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor, None]:
        context.seen["backward under autocast"] = torch.is_autocast_enabled("cpu")
        return gradient, None


def run_half(answer: Any, model: nn.Module, optimizer: torch.optim.Optimizer, inputs: Tensor, targets: Tensor) -> Any:
    """Make two updates and note in which dtypes what was computed, and what came of it."""
    families.need_function(answer)
    seen: dict[str, Any] = {}

    def loss_fn(outputs: Tensor, truth: Tensor) -> Tensor:
        seen["outputs of the layers"] = str(outputs.dtype).removeprefix("torch.")
        seen["loss under autocast"] = torch.is_autocast_enabled("cpu")
        return F.cross_entropy(_Watching.apply(outputs, seen), truth)

    for number in (1, 2):
        returned = answer(model, loss_fn, optimizer, inputs, targets)
        if returned is ...:
            return ...
        seen[f"loss {number}"] = float(returned) if isinstance(returned, Tensor) else returned
    seen["dtype of the weights"] = str(next(model.parameters()).dtype).removeprefix("torch.")
    weights = {f"{name} after two updates": one.detach().float() for name, one in model.named_parameters()}
    return seen | weights


class _Step:
    """A right step of four parts; each wrong one has another part."""

    def __call__(self, model: nn.Module, loss_fn: Callable, optimizer: Any, inputs: Tensor, targets: Tensor) -> Tensor:
        self.clear(optimizer)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = loss_fn(model(inputs), targets)
        loss.backward()
        optimizer.step()
        return loss.detach()

    def clear(self, optimizer: Any) -> None:
        optimizer.zero_grad()


class _Everything(_Step):
    def __call__(self, model: nn.Module, loss_fn: Callable, optimizer: Any, inputs: Tensor, targets: Tensor) -> Tensor:
        self.clear(optimizer)
        loss = loss_fn(model.to(torch.bfloat16)(inputs.to(torch.bfloat16)), targets)
        loss.backward()
        optimizer.step()
        return loss.detach()


class _Backward(_Step):
    def __call__(self, model: nn.Module, loss_fn: Callable, optimizer: Any, inputs: Tensor, targets: Tensor) -> Tensor:
        self.clear(optimizer)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = loss_fn(model(inputs), targets)
            loss.backward()
        optimizer.step()
        return loss.detach()


class _LossOutside(_Step):
    def __call__(self, model: nn.Module, loss_fn: Callable, optimizer: Any, inputs: Tensor, targets: Tensor) -> Tensor:
        self.clear(optimizer)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            outputs = model(inputs)
        loss = loss_fn(outputs, targets)
        loss.backward()
        optimizer.step()
        return loss.detach()


class _Full(_Step):
    def __call__(self, model: nn.Module, loss_fn: Callable, optimizer: Any, inputs: Tensor, targets: Tensor) -> Tensor:
        self.clear(optimizer)
        loss = loss_fn(model(inputs), targets)
        loss.backward()
        optimizer.step()
        return loss.detach()


class _NeverCleared(_Step):
    def clear(self, optimizer: Any) -> None:
        pass


def _a_model(generator: torch.Generator) -> tuple:
    model = with_drawn_weights(generator, nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return model, optimizer, normal(generator, 5, 6), torch.randint(0, 3, (5,), generator=generator)


HALF_PRECISION_STEP = Exercise(
    name="half_precision_step",
    prompt="Make one update of `model`, on the CPU, with its layers computed in bfloat16: the forward pass and the "
    "loss under `torch.autocast`, the backward pass outside. The weights stay float32. Return the loss as a tensor "
    "without graph.",
    stub='''def half_precision_step(model, loss_fn, optimizer, inputs, targets):
    """Make one update with layers in bfloat16; return the loss."""
    return ...  # your turn''',
    solved='''def half_precision_step(model, loss_fn, optimizer, inputs, targets):
    """Make one update with layers in bfloat16; return the loss."""
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = loss_fn(model(inputs), targets)
    loss.backward()
    optimizer.step()
    return loss.detach()''',
    hints=(
        "An ordinary update; only the lines that compute the loss stand in a block.",
        'The block is `with torch.autocast("cpu", dtype=torch.bfloat16):`. Nothing is converted by hand.',
        "Two lines belong into the block: the call of the model and the call of the loss.",
    ),
    cases=lambda generator: [_a_model(generator)],
    run=run_half,
    tolerance=Tolerance(relative=1e-4, absolute=1e-5),
    praise="With float16 a scaler comes on top: chapter 05, clipping.",
    misconceptions=(
        Misconception(
            "everything in half precision",
            _Everything(),
            "`model.to(torch.bfloat16)` converts the *weights*. They have eight bits of precision then, and a small "
            "update is rounded away: 1 + 0.001 is 1. Autocast converts copies for the layers and leaves the weights.",
        ),
        Misconception(
            "no half precision at all",
            _Full(),
            "Everything was computed in float32. The block must be around the call of the model; one for another kind "
            'of device (`"cuda"` here) does nothing.',
        ),
        Misconception(
            "backward inside of the block",
            _Backward(),
            "The backward pass uses the dtypes that the forward pass chose, by itself. Inside of the block its own "
            "operations are cast once more, which is not what anybody tested: end the block before `backward()`.",
        ),
        Misconception(
            "the loss outside of the block",
            _LossOutside(),
            "Outside of the block the loss is computed in the dtype of the outputs, bfloat16: two or three digits. "
            "Inside, autocast computes losses in float32.",
        ),
        Misconception(
            "gradients are not cleared",
            _NeverCleared(),
            "`backward()` adds to `.grad`. In the second update the first gradient is still in it.",
        ),
    ),
)
