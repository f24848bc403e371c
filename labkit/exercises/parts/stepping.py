"""The learner's own training step."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from labkit.exercises.declaration import Misconception
from labkit.exercises.exercise import Exercise
from labkit.exercises.families import need_function


def _run_step(
    answer: Any, build: Callable[[], nn.Sequential], loss_fn: Callable, batches: list[tuple[Tensor, Tensor]]
) -> Any:
    """Make a training step with each batch; return losses, weights, the mode, and when gradients came and were used."""
    need_function(answer)
    model = build().eval()  # as it is after an evaluation
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    losses, weights, events = [], {}, []

    def note_step(*_: Any) -> None:
        events.append("a step with" + ("out" if model[-1].weight.grad is None else "") + " gradients")

    model[-1].weight.register_hook(lambda _: events.append("gradients arrive"))
    optimizer.register_step_pre_hook(note_step)
    for number, batch in enumerate(batches, start=1):
        if (loss := answer(model, loss_fn, optimizer, *batch)) is ...:
            return ...
        losses.append(float(loss) if isinstance(loss, Tensor) and loss.ndim == 0 else loss)
        weights[f"weights after step {number}"] = [one.detach().clone() for one in model.parameters()]
    return {
        "what happened": ", ".join(events),
        "mode of the model": "training" if model.training else "evaluation",
        **weights,
        "losses": losses,
    }


def _step_without(missing: str) -> Callable[..., Tensor]:
    """Return a training step in which one call is missing."""

    def training_step(model: nn.Module, loss_fn: Callable, optimizer: Any, inputs: Tensor, targets: Tensor) -> Tensor:
        if missing != "train":
            model.train()
        if missing != "zero_grad":
            optimizer.zero_grad()
        loss = loss_fn(model(inputs), targets)
        if missing != "backward":
            loss.backward()
        if missing != "step":
            optimizer.step()
        return loss.detach()

    return training_step


def _zero_after_backward(
    model: nn.Module, loss_fn: Callable, optimizer: Any, inputs: Tensor, targets: Tensor
) -> Tensor:
    model.train()
    loss = loss_fn(model(inputs), targets)
    loss.backward()
    optimizer.zero_grad()
    optimizer.step()
    return loss.detach()


def _step_before_backward(
    model: nn.Module, loss_fn: Callable, optimizer: Any, inputs: Tensor, targets: Tensor
) -> Tensor:
    model.train()
    loss = loss_fn(model(inputs), targets)
    optimizer.step()
    optimizer.zero_grad()
    loss.backward()
    return loss.detach()


def _softmax_first(model: nn.Module, loss_fn: Callable, optimizer: Any, inputs: Tensor, targets: Tensor) -> Tensor:
    model.train()
    optimizer.zero_grad()
    loss = loss_fn(model(inputs).softmax(1), targets)
    loss.backward()
    optimizer.step()
    return loss.detach()


def _step_cases(generator: torch.Generator) -> list[tuple]:
    start = torch.randn(3, 4, generator=generator)
    inputs = torch.randn(3, 5, 4, generator=generator) * 2 + 1
    targets = torch.randint(3, (3, 5), generator=generator)

    def build() -> nn.Sequential:
        model = nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 3))
        model[1].weight.data.copy_(start)
        nn.init.zeros_(model[1].bias)
        return model

    return [(build, F.cross_entropy, list(zip(inputs, targets, strict=True)))]


TRAINING_STEP = Exercise(
    name="training_step",
    prompt=(
        "Write `training_step(model, loss_fn, optimizer, inputs, targets)`: put the model into training mode, make one "
        "update from this batch, and return the loss `loss_fn(outputs, targets)` from before the update."
    ),
    stub='''def training_step(model, loss_fn, optimizer, inputs, targets):
    """Make one update; return the loss of the batch."""
    return ...  # your turn
''',
    solved='''def training_step(model, loss_fn, optimizer, inputs, targets):
    """Make one update; return the loss of the batch."""
    model.train()
    optimizer.zero_grad()
    loss = loss_fn(model(inputs), targets)
    loss.backward()
    optimizer.step()
    return loss.detach()
''',
    hints=(
        "Five lines: the mode, clear the gradients, the loss, the gradients, the step.",
        "`optimizer.zero_grad()` before `loss.backward()`, `optimizer.step()` after it.",
    ),
    cases=_step_cases,
    run=_run_step,
    misconceptions=(
        Misconception(
            "gradients are not cleared",
            _step_without("zero_grad"),
            "`backward` adds to `.grad`. Without `zero_grad` each update also repeats all gradients before.",
        ),
        Misconception(
            "gradients are cleared before they are used",
            _zero_after_backward,
            "`zero_grad` between `backward` and `step` throws away what the step needs: nothing is learned.",
        ),
        Misconception(
            "the step comes before the gradients",
            _step_before_backward,
            "`step` uses the gradients that are there: those of nothing, since `backward` has not run yet.",
        ),
        Misconception(
            "no step",
            _step_without("step"),
            "`backward` only computes gradients; `optimizer.step()` moves the weights.",
        ),
        Misconception(
            "no backward",
            _step_without("backward"),
            "Without `loss.backward()` there are no gradients, and the optimizer leaves every weight as it is.",
        ),
        Misconception(
            "the mode is left as it was",
            _step_without("train"),
            "After an evaluation the model is in evaluation mode, and trains with dropout off and old statistics. "
            "`model.train()` belongs to the step.",
        ),
        Misconception(
            "softmax before the loss",
            _softmax_first,
            "The loss takes the softmax itself. Twice makes gradients small and good answers impossible to reward.",
        ),
    ),
)
