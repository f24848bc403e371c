"""Chapter 01, third part: broadcasting, by accident and on purpose, and picking by index."""

import torch

from labkit.exercises.declaration import Misconception
from labkit.exercises.differences import Tolerance
from labkit.exercises.drawing import normal
from labkit.exercises.exercise import Exercise

SQUARED_ERROR = Exercise(
    name="squared_error",
    prompt="A network for one number gives predictions of shape (N, 1); the targets have shape (N,). Return the mean "
    "squared error, one number whose `backward()` reaches the predictions. It must work for N = 1 too.",
    stub='''def squared_error(predictions, targets):
    """Return the mean squared error: (N, 1) and (N,) -> ()."""
    return ...  # your turn''',
    solved='''def squared_error(predictions, targets):
    """Return the mean squared error: (N, 1) and (N,) -> ()."""
    return ((predictions.squeeze(1) - targets) ** 2).mean()''',
    hints=(
        "What shape has `predictions - targets`? Draw it: `show.broadcasting((8, 1), (8,))`.",
        "Bring both to the same shape before you subtract. `squeeze` with a dim takes away one axis, and only that.",
    ),
    cases=lambda generator: [
        # clone: what a network gives is recorded and no leaf
        (normal(generator, count, 1).requires_grad_().clone(), normal(generator, count))
        for count in (5, 1, 8)
    ],
    tolerance=Tolerance(graph=True),
    praise="Equal shapes first. A training with the other version runs, and learns to predict the mean.",
    misconceptions=(
        Misconception(
            "every prediction against every target",
            lambda predictions, targets: ((predictions - targets) ** 2).mean(),
            "(N, 1) minus (N,) is (N, N): each prediction was compared with *every* target. Nothing complains, and a "
            "network that minimises this predicts the mean for all. Make the shapes equal first.",
        ),
        Misconception(
            "summed up",
            lambda predictions, targets: ((predictions.squeeze(1) - targets) ** 2).sum(),
            "A sum grows with the batch, so the step would too. The mean does not.",
        ),
        Misconception(
            "not squared",
            lambda predictions, targets: (predictions.squeeze(1) - targets).abs().mean(),
            "That is the mean *absolute* error. The square was asked for.",
        ),
        Misconception(
            "the root of it",
            lambda predictions, targets: ((predictions.squeeze(1) - targets) ** 2).mean().sqrt(),
            "That is the *root* of the mean squared error, in the unit of the targets and good to report. Asked for is "
            "the mean squared error itself.",
        ),
        Misconception(
            "errors that cancel",
            lambda predictions, targets: (predictions.squeeze(1) - targets).mean() ** 2,
            "You took the mean first: errors of both signs cancel. Square first.",
        ),
        Misconception(
            "a number without a graph",
            lambda predictions, targets: ((predictions.squeeze(1) - targets) ** 2).mean().item(),
            "The value is right, and it is a plain number: `item()` leaves the graph behind, and `backward()` needs "
            "it. Take `item()` for printing only.",
        ),
        Misconception(
            "the graph cut",
            lambda predictions, targets: ((predictions.detach().squeeze(1) - targets) ** 2).mean(),
            "The value is right, but no gradient can flow: `detach()`, `.data` or `torch.no_grad()` cut the graph. The "
            "weights would never change.",
        ),
        Misconception(
            "a new tensor with requires_grad",
            lambda predictions, targets: ((predictions.detach().squeeze(1) - targets) ** 2).mean().requires_grad_(),
            "`requires_grad` on a new tensor silences the error of `backward()`, and the gradient ends right there: "
            "this loss is a leaf, with no way back to the predictions.",
        ),
    ),
    note="This exercise is the chapter in one line. Ask the room what the (N, N) version converges to, and why.",
)

SCORE_OF_LABEL = Exercise(
    name="score_of_label",
    prompt="`scores` has a row for each picture and a column for each class. Return, for each picture, the score of "
    "its true class.",
    stub='''def score_of_label(scores, labels):
    """Return the score of the true class: (N, K) float and (N,) int64 -> (N,)."""
    return ...  # your turn''',
    solved='''def score_of_label(scores, labels):
    """Return the score of the true class: (N, K) float and (N,) int64 -> (N,)."""
    return scores.gather(1, labels[:, None])[:, 0]''',
    hints=(
        "In row i, column labels[i]. Two ways: `gather`, or indexing with two tensors.",
        "`gather(1, index)` wants an index with as many axes as `scores`: shape (N, 1).",
        "`labels[:, None]` has shape (N, 1); so has the result, and one axis too many.",
    ),
    cases=lambda generator: [
        (normal(generator, 4, 6), torch.randint(0, 6, (4,), generator=generator)),
        (normal(generator, 3, 3), torch.randint(0, 3, (3,), generator=generator)),
        (normal(generator, 7, 2), torch.randint(0, 2, (7,), generator=generator)),
    ],
    praise="This is what `cross_entropy` does with log-probabilities.",
    misconceptions=(
        Misconception(
            "all columns for all rows",
            lambda scores, labels: scores[:, labels],
            "`scores[:, labels]` takes these columns from *every* row: (N, N). Pair each row with its own label: "
            "`scores[rows, labels]` with `rows = torch.arange(N)`.",
        ),
        Misconception(
            "rows in place of columns",
            lambda scores, labels: scores[labels],
            "`scores[labels]` picks *rows*, that is pictures: row 2 for a label of 2. A label says which *column* to "
            "take in the picture's own row.",
        ),
        Misconception(
            "an index without an axis",
            lambda scores, labels: scores.gather(1, labels),
            "`gather` needs an index with as many axes as `scores`, here (N, 1). The labels have one axis, (N,).",
        ),
        Misconception(
            "the best score",
            lambda scores, labels: scores.max(dim=1).values,
            "That is the highest score of each row. The true class need not have it; that is what a network learns.",
        ),
        Misconception(
            "a column",
            lambda scores, labels: scores.gather(1, labels[:, None]),
            "The numbers are right, the shape is (N, 1). `gather` returns the shape of its index.",
        ),
        Misconception(
            "the diagonal of the wrong axis",
            lambda scores, labels: scores.gather(0, labels[None, :] % len(scores))[0],
            "You gathered along axis 0, which picks *rows*. The classes are along axis 1.",
        ),
    ),
)

DISTANCES = Exercise(
    name="distances",
    prompt="Return the Euclidean distance of each point of `a` to each point of `b`, with broadcasting and without a "
    "loop.",
    stub='''def distances(a, b):
    """Return all distances: (N, D) and (M, D) -> (N, M)."""
    return ...  # your turn''',
    solved='''def distances(a, b):
    """Return all distances: (N, D) and (M, D) -> (N, M)."""
    return (a[:, None] - b).square().sum(dim=2).sqrt()''',
    hints=(
        "You need a tensor of all differences, (N, M, D). Which shapes must `a` and `b` have for that?",
        "(N, 1, D) with (M, D) gives (N, M, D). `a[:, None]` puts an axis in.",
        "Then square, sum over the last axis, take the root.",
    ),
    cases=lambda generator: [
        (normal(generator, 4, 3), normal(generator, 5, 3)),
        (normal(generator, 1, 2), normal(generator, 3, 2)),
        (normal(generator, 3, 3), normal(generator, 3, 3)),
    ],
    praise="Broadcasting on purpose: the same rule that spoilt the loss.",
    misconceptions=(
        Misconception(
            "the other way round",
            lambda a, b: (b[:, None] - a).square().sum(dim=2).sqrt(),
            "You got (M, N): row i belongs to point i of `b`. Rows are asked for the points of `a`.",
        ),
        Misconception(
            "no root",
            lambda a, b: (a[:, None] - b).square().sum(dim=2),
            "These are the *squares* of the distances.",
        ),
        Misconception(
            "distances along the axes",
            lambda a, b: (a[:, None] - b).abs().sum(dim=2),
            "You added the absolute differences, the way along the streets. The straight line is the root of the sum "
            "of squares.",
        ),
        Misconception(
            "one distance for all",
            lambda a, b: (a[:, None] - b).square().sum().sqrt(),
            "Without `dim` everything is summed into one number. Only the coordinates, axis 2, disappear.",
        ),
    ),
)
