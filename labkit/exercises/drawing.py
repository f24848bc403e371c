"""What the inputs of a check are drawn from: numbers, and networks with drawn weights."""

import torch
from torch import Tensor, nn


def normal(generator: torch.Generator, *shape: int) -> Tensor:
    """Draw float32 numbers around 0 with deviation 1."""
    return torch.randn(shape, generator=generator)


def with_drawn_weights(generator: torch.Generator, network: nn.Module) -> nn.Module:
    """Draw all parameters of a network anew, in place, and return it."""
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.copy_(normal(generator, *parameter.shape))
    return network


class BodyAndHead(nn.Module):
    """A network of two named parts, as one that was trained before and gets a new head."""

    def __init__(self, body: nn.Module, head: nn.Module) -> None:
        super().__init__()
        self.body, self.head = body, head

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the head's outputs for what the body makes of the inputs."""
        return self.head(self.body(inputs))
