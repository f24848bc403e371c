"""What a model costs: parameters, buffers, and the activations that the backward pass needs."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn as nn
from torch import Tensor

from labkit.models.dry_run import left_as_it_was, zeros_for
from labkit.models.inspect import shape_trace
from labkit.table import Table


def memory_table(model: nn.Module, image_shape: tuple[int, ...], batch_size: int = 32) -> Table:
    """Return one row for each layer: its parameters and buffers, their bytes, and what it keeps for backward.

    What is kept is measured: a batch of zeros goes through the model in training mode while every tensor that autograd
    saves is noted. A tensor that two operations save counts once, where it was saved first; parameters are not counted
    again. The model is left as it was. Raises ConfigError for a lazy layer and for pictures that do not fit.
    """
    shape_trace(model, image_shape)  # says why, if something does not fit
    with left_as_it_was(model):
        kept = kept_by_layer(model.train(), zeros_for(model, image_shape, batch_size))
    seen: set[int] = set()
    rows = []
    for name, module in model.named_modules():
        parameters = _new(module.parameters(recurse=False), seen)
        buffers = _new(module.buffers(recurse=False), seen)
        if parameters or buffers or kept[name]:
            rows.append(
                {
                    "layer": name or type(module).__name__,
                    "type": type(module).__name__,
                    "parameters": sum(one.numel() for one in parameters),
                    "buffers": sum(one.numel() for one in buffers),
                    "bytes": sum(one.nbytes for one in parameters + buffers),
                    "kept for backward": kept[name],
                }
            )
    total, activations = sum(row["bytes"] for row in rows), sum(kept.values())
    caption = f"{type(model).__name__}: {total:,} bytes of parameters and buffers, the same for every batch; "
    return Table(rows, caption + f"{activations:,} bytes kept for backward with a batch of {batch_size}")


def kept_by_layer(model: nn.Module, *inputs: Tensor) -> Counter[str]:
    """Call the model and return how many bytes each layer (by its name; "" is the model itself) keeps for backward."""
    running, kept, handles = [""], Counter(), []
    own = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}

    def count(tensor: Tensor) -> None:
        kept[running[-1]] += tensor.untyped_storage().nbytes()

    def leave(module: nn.Module, inputs: tuple, output: object) -> None:
        running.pop()

    try:
        for name, module in model.named_modules():
            handles.append(module.register_forward_pre_hook(lambda module, inputs, name=name: running.append(name)))
            handles.append(module.register_forward_hook(leave))
        with torch.enable_grad(), _noting(count, own):
            output = model(*inputs)  # the name holds the graph, so that no storage is freed and used a second time
    finally:
        for handle in handles:
            handle.remove()
    del output
    return kept


def kept_for_backward(run: Callable[[], Any], parameters: Iterable[Tensor] = ()) -> int:
    """Return how many bytes autograd keeps for the backward pass of what `run()` computes.

    parameters: tensors that are there anyway, and not counted.
    """
    sizes: list[int] = []
    own = {parameter.untyped_storage().data_ptr() for parameter in parameters}
    with torch.enable_grad(), _noting(lambda tensor: sizes.append(tensor.untyped_storage().nbytes()), own):
        result = run()  # held until all is counted, see above
    del result
    return sum(sizes)


@contextmanager
def _noting(count: Callable[[Tensor], None], seen: set[int]) -> Iterator[None]:
    """Call `count` with each tensor that autograd saves in this block, once for each storage that is not in `seen`."""
    seen = set(seen)

    def pack(tensor: Tensor) -> Tensor:
        place = tensor.untyped_storage().data_ptr()
        if place not in seen:
            seen.add(place)
            count(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        yield


def _new(tensors: Iterable[Tensor], seen: set[int]) -> list[Tensor]:
    """Return those tensors that were not seen before, and remember them: a tied weight is stored once."""
    fresh = [tensor for tensor in tensors if id(tensor) not in seen]
    seen.update(map(id, fresh))
    return fresh
