"""Remember everything that a model or an optimizer holds, down to the bits, and put it back."""

import torch
import torch.nn as nn
from torch import Tensor
from torch.optim import Optimizer
from torch.utils.data import DataLoader

from labkit import randomness


class Kept:
    """What models and optimizers hold at one moment, and where all random numbers stand; `put_back` restores it.

    Everything that is reached through attributes, dicts, lists and tuples is kept, with the objects themselves: after
    `put_back` a buffer is the same tensor as before, with the same bits. Copies of values lie on the CPU. Gradients are
    put aside: between `hold` and `put_back` no parameter has one.
    """

    def __init__(self) -> None:
        self.containers: list[tuple[dict | list | set, dict | list | set]] = []  # each with a copy of what is in it
        self.tensors: list[tuple[Tensor, Tensor, Tensor, bool]] = []  # tensor, its memory, the values, requires_grad
        self.gradients: list[tuple[Tensor, Tensor]] = []
        self.generators: list[tuple[torch.Generator, Tensor]] = []
        self.random_numbers = randomness.rng_state()
        self._seen: set[int] = set()

    def hold(self, thing: object) -> None:
        """Remember a model, an optimizer, the generators of a torch DataLoader; anything else has nothing to keep."""
        if id(thing) in self._seen:
            return
        self._seen.add(id(thing))
        if isinstance(thing, Tensor):
            self._hold_tensor(thing)
        elif isinstance(thing, nn.Module | Optimizer):
            self.hold(vars(thing))
        elif isinstance(thing, dict | list | set):
            plain = next(kind for kind in (dict, list, set) if isinstance(thing, kind))
            self.containers.append((thing, plain(thing)))
            for part in _parts(thing):
                self.hold(part)
        elif isinstance(thing, tuple):
            for part in thing:
                self.hold(part)
        elif isinstance(thing, torch.Generator):
            self.generators.append((thing, thing.get_state()))
        elif isinstance(thing, DataLoader):
            inner = getattr(thing.batch_sampler, "sampler", None)
            for owner in (thing, thing.sampler, thing.batch_sampler, inner):
                self.hold(getattr(owner, "generator", None))

    def _hold_tensor(self, tensor: Tensor) -> None:
        if tensor.is_meta or tensor.layout != torch.strided:
            return  # without values, or with values that no layer changes in place
        memory = tensor.detach()
        self.tensors.append((tensor, memory, memory.to("cpu", copy=True), tensor.requires_grad))
        if tensor.is_leaf and tensor.grad is not None:
            self.gradients.append((tensor, tensor.grad))
            tensor.grad = None

    def put_back(self) -> None:
        """Make everything as it was; what has not changed is not written to."""
        for container, content in self.containers:
            if [*map(id, _parts(container))] != [*map(id, _parts(content))]:
                container.clear()
                container.extend(content) if isinstance(container, list) else container.update(content)
        for tensor, memory, values, requires_grad in self.tensors:
            if not same_bits(memory, values):
                memory.data.copy_(values)
            if tensor.data_ptr() != memory.data_ptr():
                tensor.data = memory.data
            if tensor.requires_grad != requires_grad:
                tensor.requires_grad_(requires_grad)
            if tensor.is_leaf:
                tensor.grad = None
        for tensor, gradient in self.gradients:
            tensor.grad = gradient
        for generator, state in self.generators:
            generator.set_state(state)
        randomness.set_rng_state(self.random_numbers)


def same_bits(first: Tensor, second: Tensor) -> bool:
    """Say whether two tensors of one shape and dtype hold the same bits: NaN equals NaN, and 0.0 is not -0.0."""
    first, second = (tensor.detach().cpu().reshape(-1).view(torch.uint8) for tensor in (first, second))
    return torch.equal(first, second)


def _parts(container: dict | list | set) -> list:
    """Return what is in a container; of a dict the keys as well, since an optimizer keeps its state by parameter."""
    return [*container.keys(), *container.values()] if isinstance(container, dict) else list(container)
