"""Chapter 05, third part: a gradient of bounded length, in an update with a scaler."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from labkit.exercises import families
from labkit.exercises.declaration import Misconception
from labkit.exercises.drawing import normal, with_drawn_weights
from labkit.exercises.exercise import Exercise

_SCALE = 1024.0


def run_clipping(answer: Any, model: nn.Module, max_norm: float, batches: list[tuple[Tensor, Tensor]]) -> Any:
    """Make an update from the loss of each batch: the reported norms, and weights and scale after each."""
    families.need_function(answer)
    optimizer = torch.optim.SGD((one for one in model.parameters() if one.requires_grad), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=_SCALE)
    observed: dict[str, Any] = {}
    for number, (inputs, targets) in enumerate(batches, start=1):
        norm = answer(F.mse_loss(model(inputs), targets), model, optimizer, scaler, max_norm)
        if norm is ...:
            return ...
        if isinstance(norm, Tensor | int | float):
            norm = float(norm) if abs(float(norm)) < float("inf") else "not finite"
        observed[f"norm {number}"] = norm
        for name, parameter in model.named_parameters():
            observed[f"{name} after update {number}"] = parameter.detach().clone()
        observed[f"scale after update {number}"] = scaler.get_scale()
    return observed


class _Update:
    """A right update, of five parts. Each wrong one below has another part."""

    def __call__(self, loss: Tensor, model: nn.Module, optimizer: Any, scaler: Any, max_norm: float) -> Any:
        self.clear(optimizer)
        self.backward(scaler, loss)
        norm = self.clip(model, optimizer, scaler, max_norm)
        self.step(optimizer, scaler)
        self.adapt(scaler)
        return norm

    def clear(self, optimizer: Any) -> None:
        optimizer.zero_grad()

    def backward(self, scaler: Any, loss: Tensor) -> None:
        scaler.scale(loss).backward()

    def clip(self, model: nn.Module, optimizer: Any, scaler: Any, max_norm: float) -> Any:
        scaler.unscale_(optimizer)
        return self.shorten([one for one in model.parameters() if one.grad is not None], max_norm)

    def shorten(self, parameters: list[nn.Parameter], max_norm: float) -> Any:
        return nn.utils.clip_grad_norm_(parameters, max_norm)

    def step(self, optimizer: Any, scaler: Any) -> None:
        scaler.step(optimizer)

    def adapt(self, scaler: Any) -> None:
        scaler.update()


class _BeforeUnscaling(_Update):
    def clip(self, model: nn.Module, optimizer: Any, scaler: Any, max_norm: float) -> Any:
        return nn.utils.clip_grad_norm_(model.parameters(), max_norm)


class _AfterTheStep(_Update):
    def __call__(self, loss: Tensor, model: nn.Module, optimizer: Any, scaler: Any, max_norm: float) -> Any:
        self.clear(optimizer)
        self.backward(scaler, loss)
        scaler.unscale_(optimizer)
        self.step(optimizer, scaler)
        self.adapt(scaler)
        return nn.utils.clip_grad_norm_(model.parameters(), max_norm)


class _EachByItself(_Update):
    def shorten(self, parameters: list[nn.Parameter], max_norm: float) -> Any:
        norm = nn.utils.get_total_norm([one.grad for one in parameters])
        for parameter in parameters:
            nn.utils.clip_grad_norm_([parameter], max_norm)
        return norm


class _EachNumber(_Update):
    def shorten(self, parameters: list[nn.Parameter], max_norm: float) -> Any:
        norm = nn.utils.get_total_norm([one.grad for one in parameters])
        nn.utils.clip_grad_value_(parameters, max_norm)
        return norm


class _AlwaysThatLong(_Update):
    def shorten(self, parameters: list[nn.Parameter], max_norm: float) -> Any:
        norm = nn.utils.get_total_norm([one.grad for one in parameters])
        for parameter in parameters:
            parameter.grad *= max_norm / norm
        return norm


class _NormAfterwards(_Update):
    def shorten(self, parameters: list[nn.Parameter], max_norm: float) -> Any:
        nn.utils.clip_grad_norm_(parameters, max_norm)
        return nn.utils.get_total_norm([one.grad for one in parameters])


class _SumOfNorms(_Update):
    def shorten(self, parameters: list[nn.Parameter], max_norm: float) -> Any:
        norm = sum(one.grad.norm() for one in parameters)
        for parameter in parameters:
            parameter.grad *= (max_norm / norm).clamp(max=1)
        return norm


class _NotScaled(_Update):
    def backward(self, scaler: Any, loss: Tensor) -> None:
        loss.backward()


class _PastTheScaler(_Update):
    def step(self, optimizer: Any, scaler: Any) -> None:
        optimizer.step()


class _WithoutUpdate(_Update):
    def adapt(self, scaler: Any) -> None:
        pass


class _NeverCleared(_Update):
    def clear(self, optimizer: Any) -> None:
        pass


def _case(generator: torch.Generator, max_norm: float, *sizes: float) -> tuple:
    """Return a network with a frozen first layer, and a batch with inputs of each size."""
    model = with_drawn_weights(generator, nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 4), nn.Linear(4, 2)))
    model[0].requires_grad_(False)
    batches = [(normal(generator, 5, 3) * size, normal(generator, 5, 2)) for size in sizes]
    return model, max_norm, batches


CLIP_AND_REPORT = Exercise(
    name="clip_and_report",
    prompt="Make one update from `loss`. `scaler` is a `GradScaler`, as float16 needs it: it multiplies the loss, so "
    "the gradients too. All gradients together, as one long vector, must not be longer than `max_norm` when the step "
    "is made; a shorter vector stays as it is. Return the true length from *before* the clipping: you will want to "
    "see it in a log. An update with a gradient that is not finite has to be skipped; the scaler sees to that.",
    stub='''def clip_and_report(loss, model, optimizer, scaler, max_norm):
    """Make one update with clipped gradients; return their norm before clipping."""
    return ...  # your turn''',
    solved='''def clip_and_report(loss, model, optimizer, scaler, max_norm):
    """Make one update with clipped gradients; return their norm before clipping."""
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    norm = nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    scaler.step(optimizer)
    scaler.update()
    return norm.item()''',
    hints=(
        "Six calls: clear, backward, unscale, clip, step, adapt the scale. Which of them belong to the scaler?",
        "`nn.utils.clip_grad_norm_` looks at all parameters at once and returns the length from before.",
        "`scaler.scale(loss).backward()`, then `scaler.unscale_(optimizer)`, and only now clip. At the end "
        "`scaler.step(optimizer)` and `scaler.update()`.",
    ),
    cases=lambda generator: [
        _case(generator, 1.0, 1, 1),
        _case(generator, 10_000.0, 0.1, 0.1),
        _case(generator, 1.0, 1e30, 1),
    ],
    run=run_clipping,
    praise="The order that every mixed-precision loop has.",
    misconceptions=(
        Misconception(
            "clipped before unscaling",
            _BeforeUnscaling(),
            "The gradients are still multiplied by the scale, 1024 here. So the limit is 1024 times too strict: after "
            "the division by the scale hardly anything is left, the network learns at a crawl, and the log shows norms "
            "that nobody has. `scaler.unscale_(optimizer)` comes first.",
        ),
        Misconception(
            "clipped after the step",
            _AfterTheStep(),
            "The step has been made with the long gradient. What you shorten afterwards is thrown away by the next "
            "`zero_grad`.",
        ),
        Misconception(
            "each parameter by itself",
            _EachByItself(),
            "Each parameter is cut to `max_norm` by itself. Then the vector of all of them is still longer than that, "
            "and points elsewhere: the longest gradients lose most. One norm over all, one factor for all.",
        ),
        Misconception(
            "each number by itself",
            _EachNumber(),
            "`clip_grad_value_` cuts single numbers at ±`max_norm`. That bends the direction and does not bound the "
            "length. `clip_grad_norm_` multiplies all of them by one factor.",
        ),
        Misconception(
            "short gradients are stretched",
            _AlwaysThatLong(),
            "`grad * max_norm / norm` makes *every* gradient that long. Near the minimum gradients are short, and that "
            "is how a training comes to rest. Never multiply by more than 1.",
        ),
        Misconception(
            "the norm after clipping",
            _NormAfterwards(),
            "The update is right. But after clipping the norm is `max_norm` or less, whatever happened: a log of it "
            "shows nothing. What `clip_grad_norm_` returns is the length from before.",
        ),
        Misconception(
            "the sum of the norms",
            _SumOfNorms(),
            "The length of a vector made of parts is the root of the sum of their *squared* lengths. The plain sum is "
            "larger, and clips too much.",
        ),
        Misconception(
            "the loss is not scaled",
            _NotScaled(),
            "`unscale_` divides by a scale that nothing was multiplied with, and the scaler notices. It is "
            "`scaler.scale(loss).backward()`.",
        ),
        Misconception(
            "the step goes past the scaler",
            _PastTheScaler(),
            "`optimizer.step()` steps whatever the gradients are. One of the updates overflowed, and now all weights "
            "are NaN. `scaler.step(optimizer)` steps only if they are finite.",
        ),
        Misconception(
            "the scale is never updated",
            _WithoutUpdate(),
            "`scaler.update()` ends an update: it halves the scale after an overflow, and lets the next `unscale_` "
            "happen. Without it the second update raises an error.",
        ),
        Misconception(
            "gradients are not cleared",
            _NeverCleared(),
            "`backward` adds to `.grad`. In the second update the gradient of the first is still there, clipped as it "
            "was.",
        ),
    ),
)
