"""Small exercises of each family, for the tests of the engine."""

import torch
from torch import nn

from labkit.exercises import Exercise, Misconception, Tolerance, families


def normal(generator, *shape):
    return torch.randn(shape, generator=generator)


def column_means(**changes) -> Exercise:
    """A function of one matrix."""
    fields = {
        "name": "column_means",
        "prompt": "Return the mean of each column of `x`.",
        "stub": "def column_means(x):\n    return ...  # your turn\n",
        "solved": "def column_means(x):\n    return x.mean(dim=0)\n",
        "hints": ("Which dimension disappears?", "Look at `mean` and its `dim`."),
        "cases": lambda generator: [(normal(generator, 3, 4),), (normal(generator, 1, 2),), (normal(generator, 5, 1),)],
        "misconceptions": (
            Misconception("rows for columns", lambda x: x.mean(dim=1), "`dim=1` goes along a row."),
            Misconception("one mean of all", lambda x: x.mean(), "Without `dim` all numbers are averaged."),
            Misconception("a matrix is kept", lambda x: x.mean(dim=0, keepdim=True), "`keepdim` keeps the axis."),
        ),
    }
    return Exercise(**{**fields, **changes})


def labels() -> Exercise:
    """A value."""
    return Exercise(
        name="labels",
        prompt="A tensor of the classes 2, 0, 1.",
        stub="labels = ...  # your turn\n",
        solved="labels = torch.tensor([2, 0, 1])\n",
        hints=("one", "two"),
        cases=lambda generator: [()],
        run=families.value,
        misconceptions=(Misconception("floats", torch.tensor([2.0, 0, 1]), "Class numbers are int64."),),
    )


def clamp_rows() -> Exercise:
    """A function that changes its input."""
    return Exercise(
        name="clear_first_row",
        prompt="Set the first row of `x` to 0, in place.",
        stub="def clear_first_row(x):\n    return ...  # your turn\n",
        solved="def clear_first_row(x):\n    x[0] = 0\n",
        hints=("one", "two"),
        cases=lambda generator: [(normal(generator, 3, 2),), (normal(generator, 1, 4),)],
        run=families.in_place,
        misconceptions=(Misconception("on a copy", lambda x: x.clone()[0].zero_(), "The copy changed."),),
    )


def first_column() -> Exercise:
    """A function whose result must share memory."""
    return Exercise(
        name="first_column",
        prompt="A view of the first column.",
        stub="def first_column(x):\n    return ...  # your turn\n",
        solved="def first_column(x):\n    return x[:, 0]\n",
        hints=("one", "two"),
        cases=lambda generator: [(normal(generator, 3, 2),), (normal(generator, 4, 4).t(),)],
        run=families.view_of,
        misconceptions=(Misconception("a copy", lambda x: x[:, 0].clone(), "`clone` copies."),),
    )


def two_layers() -> Exercise:
    """A module class."""
    solved = """class TwoLayers(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(4, 8)
        self.output = nn.Linear(8, 3)

    def forward(self, inputs):
        return self.output(F.relu(self.hidden(inputs)))
"""
    return Exercise(
        name="TwoLayers",
        prompt="A network of two layers.",
        stub="class TwoLayers(nn.Module):\n    def forward(self, inputs):\n        return ...  # your turn\n",
        solved=solved,
        hints=("one", "two"),
        cases=lambda generator: [(normal(generator, 5, 4),), (normal(generator, 1, 4),)],
        run=families.module,
        misconceptions=(
            Misconception("layers in a list", ListOfLayers, "A list does not register its layers."),
            Misconception("no activation", NoActivation, "Two linear layers are one."),
        ),
    )


class ListOfLayers(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = [nn.Linear(4, 8), nn.Linear(8, 3)]

    def forward(self, inputs):
        return self.layers[1](self.layers[0](inputs).relu())


class NoActivation(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(4, 8)
        self.output = nn.Linear(8, 3)

    def forward(self, inputs):
        return self.output(self.hidden(inputs))


def one_step() -> Exercise:
    """A training step."""
    solved = """def one_step(model, optimizer, inputs, targets):
    loss = F.mse_loss(model(inputs), targets)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss
"""
    return Exercise(
        name="one_step",
        prompt="One update.",
        stub="def one_step(model, optimizer, inputs, targets):\n    return ...  # your turn\n",
        solved=solved,
        hints=("one", "two"),
        cases=lambda generator: [_training(generator, 3), _training(generator, 1)],
        run=families.training_step,
        misconceptions=(
            Misconception("no zero_grad", _step_without_zero, "Gradients pile up."),
            Misconception("no step", _step_without_step, "Nothing moves."),
        ),
    )


def _training(generator, count):
    model = nn.Linear(2, 1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(normal(generator, *parameter.shape))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return model, optimizer, normal(generator, count, 2), normal(generator, count, 1)


def _step_without_zero(model, optimizer, inputs, targets):
    loss = nn.functional.mse_loss(model(inputs), targets)
    loss.backward()
    optimizer.step()
    return loss


def _step_without_step(model, optimizer, inputs, targets):
    loss = nn.functional.mse_loss(model(inputs), targets)
    optimizer.zero_grad()
    loss.backward()
    return loss


def leaf() -> Exercise:
    """A function for which the graph counts."""
    return Exercise(
        name="leaf",
        prompt="A new leaf with the values of `x` that records.",
        stub="def leaf(x):\n    return ...  # your turn\n",
        solved="def leaf(x):\n    return x.detach().clone().requires_grad_()\n",
        hints=("one", "two"),
        cases=lambda generator: [(normal(generator, 3),), (normal(generator, 2).requires_grad_() * 2,)],
        tolerance=Tolerance(graph=True),
        misconceptions=(Misconception("not recorded", lambda x: x.detach().clone(), "Nothing is recorded."),),
    )


ALL = (column_means, labels, clamp_rows, first_column, two_layers, one_step, leaf)
