"""Chapter 02, first part: a new leaf, and one update."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from labkit.exercises import families
from labkit.exercises.declaration import Misconception
from labkit.exercises.differences import Tolerance
from labkit.exercises.drawing import normal, with_drawn_weights
from labkit.exercises.exercise import Exercise

LEAF_COPY = Exercise(
    name="leaf_copy",
    prompt="`x` may be anything: data, a weight, a result in the middle of a graph. Return a new *leaf* with the same "
    "numbers, in memory of its own, which records what is computed from it.",
    stub='''def leaf_copy(x):
    """Return a leaf with the values of x that records, independent of x."""
    return ...  # your turn''',
    solved='''def leaf_copy(x):
    """Return a leaf with the values of x that records, independent of x."""
    return x.detach().clone().requires_grad_()''',
    hints=(
        "Three things are asked: out of the old graph, a memory of its own, and recording. Each is one call.",
        "`detach`, `clone` and `requires_grad_`. Which order gives a leaf?",
    ),
    cases=lambda generator: [
        (normal(generator, 2, 3),),
        (normal(generator, 4).requires_grad_(),),
        (normal(generator, 3).requires_grad_() * 2,),
    ],
    run=families.view_of,
    tolerance=Tolerance(graph=True),
    praise="Out of the graph, copied, recording.",
    misconceptions=(
        Misconception(
            "on the same memory",
            lambda x: x.detach().requires_grad_(),
            "It is a leaf and it records, but `detach` copies nothing: when an optimizer moves your leaf, it moves "
            "`x` too.",
        ),
        Misconception(
            "nothing is recorded",
            lambda x: x.detach().clone(),
            "A copy, and out of the graph. But whatever is computed from it has no graph: it does not require grad.",
        ),
        Misconception(
            "a copy inside the old graph",
            lambda x: x.clone().requires_grad_(),
            "`clone` is an operation, and is recorded. If `x` requires grad, the copy is a *result* with a `grad_fn`, "
            "and its gradient goes on to `x`.",
        ),
        Misconception(
            "only cloned",
            lambda x: x.clone(),
            "For data the copy does not record; for a weight it is a *result*, no leaf. An optimizer refuses both.",
        ),
        Misconception(
            "the same tensor",
            lambda x: x.requires_grad_(),
            "That turns on recording for `x` itself, for everybody who uses it, and makes no new tensor.",
        ),
    ),
)


def _training(generator: torch.Generator, count: int, momentum: float) -> tuple:
    model = with_drawn_weights(generator, nn.Linear(3, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=momentum)
    return model, optimizer, normal(generator, count, 3), normal(generator, count, 1)


def _never_cleared(model: nn.Module, optimizer: torch.optim.Optimizer, inputs: Tensor, targets: Tensor) -> float:
    loss = functional.mse_loss(model(inputs), targets)
    loss.backward()
    optimizer.step()
    return loss.item()


def _cleared_too_late(model: nn.Module, optimizer: torch.optim.Optimizer, inputs: Tensor, targets: Tensor) -> float:
    loss = functional.mse_loss(model(inputs), targets)
    loss.backward()
    optimizer.zero_grad()
    optimizer.step()
    return loss.item()


def _returns_the_graph(model: nn.Module, optimizer: torch.optim.Optimizer, inputs: Tensor, targets: Tensor) -> Tensor:
    loss = functional.mse_loss(model(inputs), targets)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss


def _number_too_early(model: nn.Module, optimizer: torch.optim.Optimizer, inputs: Tensor, targets: Tensor) -> float:
    loss = functional.mse_loss(model(inputs), targets).item()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss


def _cut_off(model: nn.Module, optimizer: torch.optim.Optimizer, inputs: Tensor, targets: Tensor) -> float:
    with torch.no_grad():
        loss = functional.mse_loss(model(inputs), targets)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


ONE_UPDATE = Exercise(
    name="one_update",
    prompt="One update: outputs, `F.mse_loss`, the three calls, and back comes the loss as a number for the log. The "
    "check calls your function twice in a row.",
    stub='''def one_update(model, optimizer, inputs, targets):
    """Update the model once and return the loss as a float."""
    return ...  # your turn''',
    solved='''def one_update(model, optimizer, inputs, targets):
    """Update the model once and return the loss as a float."""
    loss = F.mse_loss(model(inputs), targets)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()''',
    hints=(
        "Which call may stand anywhere except between two certain others?",
        "loss, clear, backward, step. And what turns a tensor of one element into a number?",
    ),
    cases=lambda generator: [_training(generator, 4, 0.0), _training(generator, 1, 0.9), _training(generator, 6, 0.0)],
    run=families.training_step,
    praise="And the number holds on to no graph.",
    misconceptions=(
        Misconception(
            "gradients pile up",
            _never_cleared,
            "The first update is right. In the second, `.grad` still holds the first gradient, and `backward` adds.",
        ),
        Misconception(
            "cleared before the step",
            _cleared_too_late,
            "`zero_grad` between `backward` and `step` throws away what was just computed. The optimizer finds None, "
            "and leaves every weight where it is.",
        ),
        Misconception(
            "the loss with its graph",
            _returns_the_graph,
            "The weights are right. But you return a tensor: a list of such losses keeps the graph of each update in "
            "memory. A number for a log is asked for.",
        ),
        Misconception(
            "a number too early",
            _number_too_early,
            "`item()` gives a number of Python, and numbers have no graph to go back through. First `backward`, then "
            "`item`.",
        ),
        Misconception(
            "nothing was recorded",
            _cut_off,
            "The loss was computed under `no_grad`, so there is no graph. Only *evaluation* wants `no_grad`.",
        ),
    ),
    note="Ask: where else may zero_grad stand? Let them try the end of the function; the check accepts it.",
)
