"""Measurements for the topic "nn.Module": what belongs in `__init__`, and what in `forward`."""

import torch
from torch import Tensor, nn

from labkit.exercises.claims import claim
from labkit.exercises.ledger.measuring import error_of


class BornLate(nn.Module):
    """A model that makes its layer in `forward`, once it knows how wide the input is."""

    def forward(self, inputs: Tensor) -> Tensor:
        """Map (batch, any width) to (batch, 2)."""
        if not hasattr(self, "layer"):
            self.layer = nn.Linear(inputs.shape[1], 2)
        return self.layer(inputs)


class Centred(nn.Module):
    """A model that subtracts a mean: that of the data it is made with, or of the batch that arrives."""

    def __init__(self, sample: Tensor | None = None) -> None:
        super().__init__()
        self.mean = sample.mean(0) if sample is not None else None

    def forward(self, inputs: Tensor) -> Tensor:
        """Map (batch, width) to (batch, width)."""
        return inputs - (inputs.mean(0) if self.mean is None else self.mean)


def takes_other_widths(model: nn.Module) -> bool:
    """Tell whether a model takes a batch of width 5."""
    return not error_of(lambda: model(torch.ones(4, 5)))


@claim(
    "C121",
    true="For work on data, yes: a mean taken in `__init__` fits one width only. But weights are tensors as well, and "
    "drawing them is computation; it belongs in `__init__` and ties a model to nothing that its sizes do not.",
    false="Half of it holds: what was computed from data in `__init__` tied the model to its width. Only the *nothing* "
    "is too much, as first values of weights are computed there.",
    depends="Right. Make parameters and give them values in `__init__`; leave everything that depends on the data to "
    "`forward`. A lazy layer waits for its first batch to learn the width.",
)
def weights_may_be_computed_at_the_start() -> dict[str, bool]:
    """Compute a mean, and draw weights, in `__init__`, and try another width of input."""
    scaled = nn.AdaptiveAvgPool1d(3)  # whatever arrives, three numbers leave
    drawn = nn.Sequential(scaled, nn.Linear(3, 2))
    with torch.no_grad():
        drawn[1].weight.div_(drawn[1].weight.norm())
    lazy = nn.LazyLinear(2)
    lazy(torch.ones(4, 5))
    return {
        "a mean of data taken in `__init__` ties the model to one width": not takes_other_widths(
            Centred(torch.ones(4, 3))
        ),
        "taken in `forward` it does not": takes_other_widths(Centred()),
        "drawing and scaling weights in `__init__` ties the model to one width": not takes_other_widths(drawn),
        "a layer made in `__init__` must know its width there": lazy.weight.shape != (2, 5),
    }


@claim(
    "C122",
    true="Computation, yes. A layer made in `forward` is too late, though: when the optimizer asked for parameters "
    "there were none yet, and it refused the empty list.",
    false="Reshaping by the batch's own size belongs there and worked for two shapes. Only layers do not, as they must "
    "exist before the first batch.",
    depends="Right: computation with the shape in `forward`, layers in `__init__`. Where a width is unknown, "
    "`nn.LazyLinear` registers its parameters at once and fills them later.",
)
def layers_are_not_made_in_forward() -> dict[str, bool]:
    """Reshape in `forward`, and make a layer there, then ask an optimizer and a saved state."""
    model, trained = BornLate(), BornLate()
    trained(torch.ones(4, 3))
    flatten = nn.Flatten()
    return {
        "reshaping by the shape of the input works there": [
            flatten(torch.ones(2, *size)).shape[1] for size in ((3, 4), (5, 2))
        ]
        == [12, 10],
        "a layer made there gives a result": model(torch.ones(4, 3)).shape == (4, 2),
        "its parameters are there when the optimizer is made before the first batch": not error_of(
            lambda: torch.optim.SGD(BornLate().parameters(), lr=0.1)
        ),
        "a new model takes the state that another has saved": not error_of(
            lambda: BornLate().load_state_dict(trained.state_dict())
        ),
    }


@claim(
    "C127",
    true="Yes: the first dimension stayed, all others became one, for pictures of any size. In channels-last memory "
    "`view` raises an error; `torch.flatten(x, 1)` and `nn.Flatten()` cope with both.",
    false="If it failed for you, the memory order was to blame: after a transpose, or in channels-last order, `view` "
    "raises an error. It never flattens wrongly.",
    depends="On which dimensions are flattened nothing depends. What can happen is an error, when the memory is not in "
    "row order; then `torch.flatten(x, 1)` does the same job.",
)
def view_flattens_all_but_the_batch() -> dict[str, bool]:
    """Flatten batches of several shapes, and compare each sample with its own values in a row."""
    shapes = (4, 3), (4, 1, 28, 28), (1, 3, 5, 7)
    batches = [torch.randn(shape) for shape in shapes]
    flat = [batch.view(batch.size(0), -1) for batch in batches]
    return {
        "the batch dimension stays": [len(one) for one in flat] == [4, 4, 1],
        "all others become one": all(one.ndim == 2 for one in flat),
        "each row holds the values of its own sample, in order": all(
            torch.equal(row, sample.flatten())
            for one, batch in zip(flat, batches, strict=True)
            for row, sample in zip(one, batch, strict=True)
        ),
    }
