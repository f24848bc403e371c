"""What an update needs in memory: weights, gradients, the optimizer's state, and what the backward pass needs."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import torch
import torch.nn as nn
from torch import Tensor
from torch.optim import Optimizer

from labkit.errors import ConfigError
from labkit.measuring import Batch, LossFunction, cross_entropy
from labkit.measuring.metrics import device_of
from labkit.models.dry_run import zeros_for
from labkit.models.memory import kept_for_backward
from labkit.table import Table
from labkit.trials.steps import OptimizerMaker, check, is_batch, loss_of, optimizer_for, whole_number
from labkit.trials.untouched import untouched

Example = tuple[int, ...] | Tensor | Batch  # the shape of one sample, some samples, or a batch with its targets
FEW = (2, 4)  # samples to measure with; one alone is refused by a batch normalisation


@dataclass(frozen=True, repr=False)
class MemoryEstimate(Table):
    """A row for each kind of memory, with its bytes and its share; fixed + per_sample · batch_size = total."""

    batch_size: int = 0
    fixed: int = 0  # bytes, whatever the batch
    per_sample: float = 0.0  # bytes for each sample of a batch

    @property
    def total(self) -> int:
        """The bytes for a batch of `batch_size`."""
        return sum(row["bytes"] for row in self.rows)


def estimate_memory(
    model: nn.Module,
    example: Example,
    batch_size: int = 32,
    optimizer: Optimizer | OptimizerMaker = torch.optim.AdamW,
    loss_fn: LossFunction = cross_entropy,
) -> MemoryEstimate:
    """Return the bytes that an update needs at least, measured on a copy of the model.

    example: the shape of one sample, for a batch of zeros; or a tensor of samples, of which the first is repeated, as
    a model of words needs it; or a batch (inputs, targets), which also goes through loss_fn. Kept for backward is every
    tensor that autograd saves, each storage once, without weights and buffers; it is measured with few samples and
    grows evenly with them. What is made and soon thrown away comes on top, on the way back about the largest layer
    once more. For mixed precision, call this inside torch.autocast. Model, optimizer and random numbers are left as
    they were. Raises ConfigError or DataError for what does not fit together.
    """
    check_example(model, example)
    whole_number("batch_size", batch_size)
    optimizer = optimizer_for(model, optimizer)
    with untouched(model, optimizer, loss_fn) as (model, optimizer, loss_fn):
        model.train()
        few, more = (_kept(model, batch_of(model, example, size), loss_fn) for size in FEW)
        update_with(model, batch_of(model, example, FEW[0]), loss_fn, optimizer)
        per_sample = (more - few) / (FEW[1] - FEW[0])
        kinds = {
            "weights": _bytes(model.parameters()),
            "buffers": _bytes(model.buffers()),
            "gradients": _bytes(one.grad for one in model.parameters() if one.grad is not None),
            "optimizer state": _bytes(value for state in optimizer.state.values() for value in _tensors(state)),
            "kept for backward": round(few + per_sample * (batch_size - FEW[0])),
        }
    total = sum(kinds.values())
    rows = [{"kind": kind, "bytes": size, "share": size / total} for kind, size in kinds.items()]
    caption = f"{type(model).__name__} with {type(optimizer).__name__}, a batch of {batch_size}: {total:,} bytes"
    return MemoryEstimate(rows, caption, batch_size, round(total - per_sample * batch_size), per_sample)


def check_example(model: nn.Module, example: object) -> None:
    """Raise ConfigError or DataError for what no batch can be made of, and for a model that cannot be trained."""
    is_shape = isinstance(example, tuple | list) and all(type(one) is int and one > 0 for one in example)
    is_tensor = isinstance(example, Tensor) and example.ndim > 0 and len(example) > 0
    if not is_shape and not is_tensor and not is_batch(example):
        raise ConfigError(
            "Give the shape of one sample, such as (3, 32, 32), a tensor of samples, or a batch (inputs, targets); got "
            f"{type(example).__name__}."
        )
    check(model, example if is_batch(example) else (torch.zeros(1), torch.zeros(1)))


def batch_of(model: nn.Module, example: Example, size: int) -> tuple[Tensor, Tensor | None]:
    """Return a batch of `size` on the model's device: zeros, or the first sample of the example again and again."""
    if not is_batch(example) and not isinstance(example, Tensor):
        return zeros_for(model, tuple(example), size), None
    device = device_of(model)
    inputs, targets = example if is_batch(example) else (example, None)
    return _repeated(inputs, size, device), None if targets is None else _repeated(targets, size, device)


def _repeated(samples: Tensor, size: int, device: torch.device) -> Tensor:
    return samples[:1].to(device).expand(size, *samples.shape[1:]).clone(memory_format=torch.contiguous_format)


def loss_with(model: nn.Module, batch: tuple[Tensor, Tensor | None], loss_fn: LossFunction) -> Tensor:
    """Return the loss of a batch; without targets the sum of the outputs, which keeps nothing for itself."""
    inputs, targets = batch
    if targets is not None:
        return loss_of(model, (inputs, targets), loss_fn)[1]
    return loss_of(model, (inputs, inputs), lambda outputs, _: outputs.sum())[1]


def update_with(
    model: nn.Module, batch: tuple[Tensor, Tensor | None], loss_fn: LossFunction, optimizer: Optimizer
) -> None:
    """Make one update, for what it needs and not for what it learns."""
    optimizer.zero_grad()
    loss_with(model, batch, loss_fn).backward()
    optimizer.step()


def _kept(model: nn.Module, batch: tuple[Tensor, Tensor | None], loss_fn: LossFunction) -> int:
    return kept_for_backward(lambda: loss_with(model, batch, loss_fn), [*model.parameters(), *model.buffers()])


def _bytes(tensors: Iterable[Tensor]) -> int:
    """Return the bytes of tensors, those of a memory that several share once."""
    return sum({one.untyped_storage().data_ptr(): one.untyped_storage().nbytes() for one in tensors}.values())


def _tensors(value: object) -> Iterator[Tensor]:
    """Give every tensor in the state of an optimizer, however deep."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, dict | list | tuple):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _tensors(part)
