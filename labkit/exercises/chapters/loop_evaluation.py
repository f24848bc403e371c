"""Chapter 05, first part: mean loss and accuracy of a data set, whatever its batches."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from labkit.exercises import families
from labkit.exercises.declaration import Misconception
from labkit.exercises.drawing import normal, with_drawn_weights
from labkit.exercises.exercise import Exercise

Means = tuple[float, float]


class _Loader(DataLoader):
    """A loader that says what it gives, for the text of a result."""

    def __repr__(self) -> str:
        return f"DataLoader of {len(self.dataset)} samples, {self.batch_size} a batch, drop_last={self.drop_last}"


def run_evaluation(answer: Any, model: nn.Module, loader: DataLoader) -> Any:
    """Evaluate: both means, whether a forward pass recorded a graph, and what became of the model."""
    recorded: list[bool] = []
    model.register_forward_hook(lambda module, inputs, output: recorded.append(output.requires_grad))
    statistics = model[1].running_mean.clone()
    result = families.call(answer, model, loader)
    if not isinstance(result, tuple | list) or len(result) != 2 or any(one is ... for one in result):
        return result
    loss, accuracy = map(float, result)
    return {
        "mean loss": loss,
        "accuracy": accuracy,
        "a graph was recorded": any(recorded),
        "the running statistics stood still": bool(torch.equal(statistics, model[1].running_mean)),
        "mode of the model afterwards": "training" if model.training else "evaluation",
    }


def _by_sums(model: nn.Module, loader: DataLoader, final: Callable[[Tensor], Tensor] = lambda scores: scores) -> Means:
    """Evaluate in the mode that is on."""
    loss = correct = count = 0
    for inputs, targets in loader:
        scores = final(model(inputs))
        loss += F.cross_entropy(scores, targets, reduction="sum").item()
        correct += (scores.argmax(1) == targets).sum().item()
        count += len(targets)
    return loss / count, correct / count


def _batch_means(model: nn.Module, loader: DataLoader) -> Means:
    losses, accuracies = [], []
    for inputs, targets in loader:
        scores = model(inputs)
        losses.append(F.cross_entropy(scores, targets).item())
        accuracies.append((scores.argmax(1) == targets).float().mean().item())
    return sum(losses) / len(loader), sum(accuracies) / len(loader)


def _over_the_data_set(model: nn.Module, loader: DataLoader) -> Means:
    loss, accuracy = _by_sums(model, loader)
    seen = sum(len(targets) for _, targets in loader) / len(loader.dataset)
    return loss * seen, accuracy * seen


def _evaluated(measure: Callable[[nn.Module, DataLoader], Means]) -> Callable[[nn.Module, DataLoader], Means]:
    """Return an answer that is right in all but what it measures."""

    def evaluate_by_sums(model: nn.Module, loader: DataLoader) -> Means:
        was_training = model.training
        model.eval()
        with torch.no_grad():
            means = measure(model, loader)
        model.train(was_training)
        return means

    return evaluate_by_sums


def _records_graphs(model: nn.Module, loader: DataLoader) -> Means:
    was_training = model.training
    means = _by_sums(model.eval(), loader)
    model.train(was_training)
    return means


def _mode_as_it_was(model: nn.Module, loader: DataLoader) -> Means:
    with torch.no_grad():
        return _by_sums(model, loader)


def _stays_in_evaluation(model: nn.Module, loader: DataLoader) -> Means:
    with torch.no_grad():
        return _by_sums(model.eval(), loader)


def _into_training(model: nn.Module, loader: DataLoader) -> Means:
    means = _stays_in_evaluation(model, loader)
    model.train()
    return means


def _case(generator: torch.Generator, samples: int, batch_size: int, is_training: bool, drop_last: bool) -> tuple:
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 3))
    inputs, targets = normal(generator, samples, 4), torch.randint(3, (samples,), generator=generator)
    with_drawn_weights(generator, model).train(is_training)
    with torch.no_grad():  # one answer in the first batch is wrong for sure: an accuracy of 0 would hide mistakes
        scores = model.eval()(inputs)
    model.train(is_training)
    targets[:-1] = scores[:-1].argmax(1)
    targets[0], targets[-1] = scores[0].argmin(), scores[-1].argmin()
    return model, _Loader(TensorDataset(inputs, targets), batch_size, drop_last=drop_last)


EVALUATE_BY_SUMS = Exercise(
    name="evaluate_by_sums",
    prompt="Return mean loss (cross-entropy) and accuracy of everything that `loader` gives, as two numbers. Batches "
    "may differ in size, and the loader may leave samples out. Layers behave as in an evaluation, no graph is "
    "recorded, and afterwards the model is in the mode in which it was.",
    stub='''def evaluate_by_sums(model, loader):
    """Return (mean loss, accuracy) over all samples that the loader gives."""
    return ...  # your turn''',
    solved='''def evaluate_by_sums(model, loader):
    """Return (mean loss, accuracy) over all samples that the loader gives."""
    was_training = model.training
    model.eval()
    loss_sum = correct = count = 0
    with torch.no_grad():
        for inputs, targets in loader:
            scores = model(inputs)
            loss_sum += F.cross_entropy(scores, targets, reduction="sum").item()
            correct += (scores.argmax(dim=1) == targets).sum().item()
            count += len(targets)
    model.train(was_training)
    return loss_sum / count, correct / count''',
    hints=(
        "Three sums over samples: of the losses, of the right answers, and of the samples themselves.",
        '`F.cross_entropy(scores, targets, reduction="sum")` adds up the losses of a batch instead of averaging them.',
        "Around the loop: remember `model.training`, `model.eval()`, `torch.no_grad()`; at the end "
        "`model.train(mode)` with what you remembered.",
    ),
    cases=lambda generator: [
        _case(generator, samples=11, batch_size=4, is_training=True, drop_last=False),
        _case(generator, samples=11, batch_size=4, is_training=False, drop_last=True),
        _case(generator, samples=5, batch_size=4, is_training=True, drop_last=False),
    ],
    run=run_evaluation,
    praise="It gives the same two numbers for every batch size.",
    misconceptions=(
        Misconception(
            "the mean of the batch means",
            _evaluated(_batch_means),
            "The last batch is smaller, and its samples count as much as those of a whole batch: one hard picture "
            "alone in a batch weighs as much as 64 others. Sum over samples, divide once at the end.",
        ),
        Misconception(
            "divided by the size of the data set",
            _evaluated(_over_the_data_set),
            "`len(loader.dataset)` counts what is stored. With `drop_last=True`, or a sampler, the loader gives fewer, "
            "and the means come out too small. Divide by the samples that you counted.",
        ),
        Misconception(
            "only the accuracy is weighted",
            _evaluated(lambda model, loader: (_batch_means(model, loader)[0], _by_sums(model, loader)[1])),
            "The accuracy is right. The loss is a mean of batch means: `F.cross_entropy` has already divided by the "
            "size of its batch. Multiply by it, or sum from the start.",
        ),
        Misconception(
            "the mode is left as it was",
            _mode_as_it_was,
            "In training mode dropout throws dice, and batch normalisation takes its statistics from the batch, so a "
            "sample's score depends on its neighbours. `no_grad()` tells the layers nothing: call `model.eval()`.",
        ),
        Misconception(
            "graphs are recorded",
            _records_graphs,
            "Numbers and modes are right, and each batch recorded a graph for a backward pass that never comes. "
            "`eval()` is a message to layers; recording is stopped by `torch.no_grad()`.",
        ),
        Misconception(
            "left in evaluation mode",
            _stays_in_evaluation,
            "From now on the training goes on without dropout and with statistics that stand still. No error will say "
            "so. Put back the mode that was there.",
        ),
        Misconception(
            "put into training mode, whatever it was",
            _into_training,
            "`model.train()` at the end is right in the middle of a training. A model that was in use, in evaluation "
            "mode, is not as it was: put back what was there.",
        ),
        Misconception(
            "probabilities into the loss",
            _evaluated(lambda model, loader: _by_sums(model, loader, lambda scores: scores.softmax(1))),
            "`F.cross_entropy` takes the softmax itself. With a second one before it the loss cannot go below a floor, "
            "however good the answers are; the accuracy does not notice.",
        ),
        Misconception(
            "a percentage",
            _evaluated(lambda model, loader: (_by_sums(model, loader)[0], 100 * _by_sums(model, loader)[1])),
            "The accuracy was asked for as a share between 0 and 1; percent is a matter of printing: `f'{share:.1%}'`.",
        ),
    ),
)
