"""nn.Module from first principles: thirty lines that know their parameters, buffers and children.

The one trick is `__setattr__`: whatever is assigned to an attribute goes through it, and it looks at the type. A list
is neither a parameter nor a module, so what is inside a list is never seen.
nn.Module has hooks besides, counts a shared parameter once, and refuses a plain tensor in a parameter's place.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter  # a tensor with a mark: "train this"


class Module:
    """What registers parameters, buffers and children, and walks over them."""

    def __init__(self) -> None:
        self.__dict__.update(parts={}, training=True)  # not through __setattr__, which needs `parts`

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, Parameter | Module):
            self.parts[name] = value
        elif name in self.parts and isinstance(value, Tensor):
            self.parts[name] = value  # a buffer gets a new value
        else:
            self.__dict__[name] = value

    def __getattr__(self, name: str) -> Any:  # asked only when the usual way has found nothing
        if name in self.__dict__.get("parts", {}):
            return self.parts[name]
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

    def register_buffer(self, name: str, value: Tensor) -> None:
        """Keep a tensor that is saved and moved, and not trained."""
        self.parts[name] = value

    def named_tensors(self, prefix: str = "") -> Iterator[tuple[str, Tensor]]:
        """Yield parameters and buffers by name, those of children with the child's name before them."""
        for name, part in self.parts.items():
            if isinstance(part, Module):
                yield from part.named_tensors(f"{prefix}{name}.")
            else:
                yield prefix + name, part

    def parameters(self) -> Iterator[Parameter]:
        """Yield what is trained."""
        return (tensor for _, tensor in self.named_tensors() if isinstance(tensor, Parameter))

    def modules(self) -> Iterator["Module"]:
        """Yield this module and all below it."""
        yield self
        for part in self.parts.values():
            if isinstance(part, Module):
                yield from part.modules()

    def state_dict(self) -> dict[str, Tensor]:
        """Return all tensors by name; they share their numbers with the module."""
        return {name: tensor.detach() for name, tensor in self.named_tensors()}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Copy the numbers of a state dict. Raises KeyError for a tensor that is missing there."""
        for name, tensor in self.state_dict().items():
            tensor.copy_(state[name])

    def train(self, mode: bool = True) -> "Module":
        """Put this module and all below it into training mode, or with False into evaluation mode."""
        for module in self.modules():
            module.training = mode
        return self

    def eval(self) -> "Module":
        """Put this module and all below it into evaluation mode."""
        return self.train(False)

    def to(self, target: torch.device | torch.dtype | str) -> "Module":
        """Move all tensors to a device, or turn those with decimals into another dtype."""
        for tensor in dict(self.named_tensors()).values():
            if not isinstance(target, torch.dtype) or tensor.is_floating_point():
                tensor.data = tensor.data.to(target)
        return self

    def __call__(self, *inputs: Any) -> Any:
        """Return what `forward` makes of the inputs."""
        return self.forward(*inputs)
