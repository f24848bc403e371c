"""Chapter 07, third part: what a network learns by heart, without being trained."""

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from labkit.exercises import families
from labkit.exercises.declaration import Misconception
from labkit.exercises.drawing import normal, with_drawn_weights
from labkit.exercises.exercise import Exercise


def run_by_heart(answer: Any, model: nn.Module, loss_fn: Any, inputs: Tensor, targets: Tensor, updates: int) -> Any:
    """Return the loss that the answer gives, and what of the model is as it was."""
    families.need_function(answer)
    before = copy.deepcopy(model.state_dict()), [one.grad.clone() for one in model.parameters()], model.training
    result = answer(model, loss_fn, inputs, targets, updates)
    if result is ...:
        return ...
    state, gradients, mode = before
    pairs = zip(model.parameters(), gradients, strict=True)
    kept = [one.grad is not None and torch.equal(one.grad, was) for one, was in pairs]
    return {
        "loss": float(result),
        "the weights are as they were": all(torch.equal(one, state[name]) for name, one in model.named_parameters()),
        "the statistics are as they were": all(torch.equal(one, state[name]) for name, one in model.named_buffers()),
        "the gradients are as they were": all(kept),
        "the mode is as it was": model.training == mode,
    }


def _by_heart(
    prepared: Callable[[nn.Module], nn.Module] = lambda model: copy.deepcopy(model).train(),
    optimizer: type[torch.optim.Optimizer] = torch.optim.Adam,
    zeroes: bool = True,
    result: Callable[[list[Tensor], Callable, nn.Module], Any] = lambda losses, loss_now, model: loss_now(),
    put_back: Callable[[nn.Module], Callable[[], Any]] = lambda model: lambda: None,
) -> Callable:
    """Return an answer with its own idea of each step."""

    def loss_by_heart(model: nn.Module, loss_fn: Callable, inputs: Tensor, targets: Tensor, updates: int) -> Any:
        back = put_back(model)
        learner = prepared(model)
        rule = optimizer(learner.parameters(), lr=0.01)
        losses = []
        for _ in range(updates):
            loss = loss_fn(learner(inputs), targets)
            if zeroes:
                rule.zero_grad()
            loss.backward()
            rule.step()
            losses.append(loss.detach())
        last = result(losses, lambda: loss_fn(learner(inputs), targets), learner)
        back()
        return last.item()

    return loss_by_heart


def _back_to_a_view(model: nn.Module) -> Callable[[], None]:
    state, mode = model.state_dict(), model.training

    def back() -> None:
        model.load_state_dict(state)
        model.train(mode)

    return back


def _back_to_the_weights(model: nn.Module) -> Callable[[], None]:
    weights = [one.detach().clone() for one in model.parameters()]

    def back() -> None:
        with torch.no_grad():
            for one, was in zip(model.parameters(), weights, strict=True):
                one.copy_(was)

    return back


def _in_evaluation(losses: list[Tensor], loss_now: Callable, model: nn.Module) -> Tensor:
    model.eval()
    return loss_now()


def _case(generator: torch.Generator, updates: int, training: bool) -> tuple:
    layers = (nn.Linear(6, 12), nn.BatchNorm1d(12), nn.ReLU(), nn.Linear(12, 3))
    model = with_drawn_weights(generator, nn.Sequential(*layers)).train(training)
    for one in model.parameters():
        one.grad = normal(generator, *one.shape)
    targets = torch.randint(0, 3, (10,), generator=generator)
    return model, nn.functional.cross_entropy, normal(generator, 10, 6), targets, updates


LOSS_BY_HEART = Exercise(
    name="loss_by_heart",
    prompt="Can `model` learn this one batch by heart? Make `updates` updates on it, in training mode, with "
    "`torch.optim.Adam(…, lr=0.01)` and `loss_fn(outputs, targets)`. Return the loss of the batch *after* the last of "
    "them, in training mode, as a number. It is a question and no training: afterwards `model` itself is as it was, "
    "with its weights, its statistics, its gradients and its mode.",
    stub='''def loss_by_heart(model, loss_fn, inputs, targets, updates):
    """Return the loss after some updates on this batch alone; the model stays as it is."""
    return ...  # your turn''',
    solved='''import copy


def loss_by_heart(model, loss_fn, inputs, targets, updates):
    """Return the loss after some updates on this batch alone; the model stays as it is."""
    learner = copy.deepcopy(model).train()
    optimizer = torch.optim.Adam(learner.parameters(), lr=0.01)
    for _ in range(updates):
        optimizer.zero_grad()
        loss_fn(learner(inputs), targets).backward()
        optimizer.step()
    return loss_fn(learner(inputs), targets).item()''',
    hints=(
        "What happens to a copy does not happen to the model: `copy.deepcopy(model)`.",
        "The optimizer has to be made for the parameters of the copy, and the copy put into training mode.",
        "`zero_grad`, `backward`, `step`, `updates` times. Then compute the loss once more: the one in the loop is "
        "that of *before* the update.",
    ),
    cases=lambda generator: [_case(generator, 5, True), _case(generator, 12, False)],
    run=run_by_heart,
    praise="Call it before each long training. It takes a second.",
    misconceptions=(
        Misconception(
            "it trains the model",
            _by_heart(prepared=lambda model: model.train()),
            "The model has learned the batch by heart, and goes into its real training with that. Work on "
            "`copy.deepcopy(model)`.",
        ),
        Misconception(
            "a state that is a view",
            _by_heart(prepared=lambda model: model.train(), put_back=_back_to_a_view),
            "`state_dict()` shows the living weights (chapter 06): by the time you put it back, it holds what was "
            "learned. Copy the model, or the state, with `copy.deepcopy`.",
        ),
        Misconception(
            "the weights are not all",
            _by_heart(prepared=lambda model: model.train(), put_back=_back_to_the_weights),
            "The weights are back. The statistics of batch normalisation have moved, the gradients are those of the "
            "last update, and the mode may be another. A copy of the whole model has all of that.",
        ),
        Misconception(
            "the loss before the last update",
            _by_heart(result=lambda losses, loss_now, model: losses[-1]),
            "The loss in the loop is computed before the step. After the last step it has to be computed once more.",
        ),
        Misconception(
            "without `zero_grad`",
            _by_heart(zeroes=False),
            "The gradients of all updates add up. A test that breaks the rules of training tests something else.",
        ),
        Misconception(
            "in the mode in which it came",
            _by_heart(prepared=copy.deepcopy),
            "After an evaluation a model stands in evaluation mode. Then batch normalisation uses old statistics, and "
            "other things are learned: `.train()` on the copy.",
        ),
        Misconception(
            "the last loss in evaluation mode",
            _by_heart(result=_in_evaluation),
            "After a few updates the statistics of batch normalisation are far from those of the batch, and the loss "
            "in evaluation mode says little. In training mode was asked for.",
        ),
        Misconception(
            "plain SGD",
            _by_heart(optimizer=torch.optim.SGD),
            "With plain SGD at 0.01 a few updates change little, and the test would fail for sound networks. Adam was "
            "asked for: it moves every weight by about its rate.",
        ),
        Misconception(
            "the mean of all losses",
            _by_heart(result=lambda losses, loss_now, model: torch.stack(losses).mean()),
            "The mean remembers the beginning. Whether it is known by heart is seen at the end.",
        ),
    ),
)
