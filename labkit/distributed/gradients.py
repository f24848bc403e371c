"""One update made by several processes: each takes a part of every batch, and their gradients are added up."""

from contextlib import AbstractContextManager, nullcontext

import torch
import torch.distributed as dist
import torch.nn as nn
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from labkit.distributed.group import are_several, size
from labkit.distributed.meeting import total


def spread(model: nn.Module, device: torch.device) -> nn.Module:
    """Return the model as the processes of a group train it together; as it is where there is one process only.

    All begin with the weights of the main process. In `backward` the mean of all gradients is made while the earlier
    layers still compute theirs. Batch normalisation uses the statistics of each process's own part of a batch; its
    running statistics are those of the main process.
    """
    if not are_several():
        return model
    return DistributedDataParallel(model, device_ids=[torch.cuda.current_device()] if device.type == "cuda" else None)


class Crew:
    """Those who make an update together: all processes, where the model was `spread`, else this one alone."""

    def __init__(self, model: nn.Module):
        self.model = model if isinstance(model, DistributedDataParallel) else None
        self.size = size() if self.model else 1

    def total(self, count: int) -> int:
        """Return the sum of a count over all processes."""
        return int(total(count)[0]) if self.model else count

    def exchange(self, wanted: bool) -> AbstractContextManager:
        """Run a forward pass whose `backward` exchanges gradients, or only adds them to those that are there."""
        return nullcontext() if wanted or not self.model else self.model.no_sync()

    def sums(self, loss: Tensor, correct: Tensor) -> tuple[Tensor, Tensor]:
        """Return the mean of the losses of all processes and the sum of their right answers, without a wait."""
        if not self.model:
            return loss, correct
        both = torch.stack([loss.double(), correct.double()])
        dist.all_reduce(both)
        return (both[0] / self.size).to(loss.dtype), both[1].to(correct.dtype)


def same_buffers(model: nn.Module) -> None:
    """Give every process what the main process holds besides weights, such as the statistics of a normalisation."""
    if are_several():
        for buffer in model.buffers():
            dist.broadcast(buffer, src=0)
