"""Mechanical fixes of the data: each changes a Program in place; inputs are changed on their way out of a loader."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

from labkit.doctor.probe.data_balance import cells_of
from labkit.doctor.probe.data_reading import draw, stacked
from labkit.doctor.program import Program
from labkit.doctor.trial import validation_score


class Changed:
    """A loader whose inputs (place 0) or targets (place 1) are changed before anybody sees them."""

    def __init__(self, loader: Any, change: Callable[[Tensor], Tensor], place: int = 0):
        self.loader, self.change, self.place = loader, change, place

    def __len__(self) -> int:
        return len(self.loader)

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        for batch in self.loader:
            changed = list(batch)
            changed[self.place] = self.change(changed[self.place])
            yield tuple(changed)


def _moments(loader: Any) -> tuple[Tensor, Tensor] | None:
    inputs = stacked(draw(loader)).inputs
    if inputs is None or not inputs.is_floating_point():
        return None
    axes = (0,) if inputs.dim() <= 2 else (0, *range(2, inputs.dim())) if inputs.dim() > 3 else (0, 1)
    spread = inputs.std(axes, keepdim=True)
    return inputs.mean(axes, keepdim=True), torch.where(spread > 0, spread, torch.ones_like(spread))


def standardised(program: Program) -> None:
    """Give every feature (or channel) mean 0 and deviation 1, by what training data have."""
    mean, spread = _moments(program.train_loader)
    for name in ("train_loader", "val_loader"):
        loader = getattr(program, name)
        if loader is not None:
            setattr(program, name, Changed(loader, lambda inputs: (inputs - mean) / spread))


def to_one(program: Program) -> None:
    """Divide all inputs by the largest of the training data: bytes come to lie between 0 and 1."""
    largest = stacked(draw(program.train_loader)).inputs.abs().max()
    for name in ("train_loader", "val_loader"):
        loader = getattr(program, name)
        if loader is not None:
            setattr(program, name, Changed(loader, lambda inputs: inputs / largest))


def validation_like_training(sign: float) -> Callable[[Program], None]:
    """Return a fix that gives validation inputs the mean and deviation of training; sign -1 turns them over."""

    def mend(program: Program) -> None:
        mean, spread = _moments(program.train_loader)
        other, wide = _moments(program.val_loader)
        program.val_loader = Changed(program.val_loader, lambda x: sign * (x - other) / wide * spread + mean)

    return mend


def halves(loader: Any, batch_size: int = 32) -> tuple[DataLoader, DataLoader]:
    """Return loaders of two halves of what a loader gives, drawn by chance and always the same."""
    samples = stacked(draw(loader, most=4000, seconds=0.5))
    order = torch.randperm(len(samples), generator=torch.Generator().manual_seed(0))
    parts = [TensorDataset(samples.inputs[rows], samples.targets[rows]) for rows in order.chunk(2)]
    return DataLoader(parts[0], batch_size, shuffle=True), DataLoader(parts[1], 200)


def learn_from_validation(program: Program) -> None:
    """Train on one half of the validation data, to be judged by `other_half`: they go together with themselves."""
    program.train_loader = halves(program.val_loader)[0]


def other_half(program: Program) -> float:
    """The score on half of the validation data: the half that `learn_from_validation` leaves out."""
    return float(program.score(halves(program.val_loader)[1]))


def validation_renamed(names: tuple[int, ...]) -> Callable[[Program], None]:
    """Return a fix that gives validation the class numbers of training: names[c] is what class c is called there."""
    numbers = torch.tensor(names).argsort()

    def mend(program: Program) -> None:
        program.val_loader = Changed(program.val_loader, lambda targets: numbers[targets], place=1)

    return mend


class BalancedLoss:
    """A loss in which all classes count alike: each class's targets go in together, and their mean gets a weight."""

    def __init__(self, loss_fn: Callable, weights: dict[int, float]):
        self.loss_fn, self.weights = loss_fn, weights

    def __call__(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the weighted mean of what loss_fn says of each class."""
        _, classes = cells_of(outputs, targets)
        if classes is None:
            return self.loss_fn(outputs, targets)
        total, weights = 0.0, 0.0
        rows = outputs.movedim(1, -1) if outputs.dim() == targets.dim() + 1 else outputs
        for number in classes[classes >= 0].unique().tolist():
            mine = classes == number
            weight = self.weights.get(number, 1.0) * int(mine.sum())
            total, weights = total + weight * self.loss_fn(rows[mine], targets[mine]), weights + weight
        return total / weights


def classes_weigh_alike(pull: dict[int, float]) -> Callable[[Program], None]:
    """Return a fix that weighs each class by one over its share of the gradient."""

    def mend(program: Program) -> None:
        program.loss_fn = BalancedLoss(program.loss_fn, {number: 1 / share for number, share in pull.items() if share})

    return mend


def no_class_ignored(program: Program) -> float:
    """The recall of the class that is found least often: 1 from a fifth on, since then no class is ignored."""
    if program.evaluate is not None:
        return validation_score(program)
    program.model.eval()
    with torch.no_grad():
        pairs = [(program.model(inputs).argmax(1), targets) for inputs, targets in program.val_loader]
    found, truth = (torch.cat(part) for part in zip(*pairs, strict=True))
    least = min(float((found[truth == number] == number).float().mean()) for number in truth.unique())
    return 1.0 if least >= 0.2 else least
