"""What the probe of the objective finds out about a loss by calling it, in numbers that can be computed by hand."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from labkit.doctor.nested import detached
from labkit.doctor.probe.objective_classes import look_at_classes
from labkit.doctor.probe.objective_loss import LossEvidence, View, floor_of_bounded, look_at_loss
from labkit.doctor.program import Program
from labkit.doctor.records import LossCall, Recording, Update

CLASSES = torch.tensor([0, 1, 2, 0])
LOGITS = torch.tensor([[1.0, 0.0, -1.0], [0.5, 2.0, 0.0], [0.0, 0.0, 0.0], [-1.0, 1.0, 3.0]])
YES = torch.tensor([[0.0], [1.0], [0.0], [0.0], [0.0]])


def seen(loss_fn, outputs, targets: Tensor) -> LossEvidence:
    value = loss_fn(outputs, targets)
    return look_at_loss(View(loss_fn, LossCall(outputs, targets, detached(value), True)))


def test_cross_entropy():
    found = seen(F.cross_entropy, LOGITS, CLASSES)
    assert (found.outputs, found.targets, found.dtype, found.values) == ((4, 3), (4,), "torch.int64", [0, 1, 2])
    assert found.value == pytest.approx(F.cross_entropy(LOGITS, CLASSES).item())
    assert found.shift == 1
    assert found.right == pytest.approx(math.log1p(2 * math.exp(-20)), abs=1e-6)
    assert found.wrong == pytest.approx(20.0, abs=1e-4)
    assert found.doubled == pytest.approx(1.0)
    assert (found.linear, found.logistic, found.regression, found.constant, found.never) == (False,) * 5
    assert (found.falls, found.breaks_at, found.several, found.penalty) == (None,) * 4


def test_a_sum_doubles_with_the_batch_and_a_logarithm_of_a_softmax_breaks():
    assert seen(lambda x, y: F.cross_entropy(x, y, reduction="sum"), LOGITS, CLASSES).doubled == pytest.approx(2.0)
    # at a distance of 2 * 50 between the logits a share is 4e-44, the smallest numbers there are; at 2 * 120 it is 0
    assert seen(lambda x, y: F.nll_loss(x.softmax(1).log(), y), LOGITS, CLASSES).breaks_at == 120.0


def test_binary_cross_entropy_of_logits():
    found = seen(F.binary_cross_entropy_with_logits, torch.linspace(-1, 1, 5)[:, None], YES)
    assert (found.logistic, found.shift, found.regression, found.never) == (True, None, False, False)
    assert found.right == pytest.approx(math.log1p(math.exp(-20)), abs=1e-6)
    assert found.wrong == pytest.approx(20.0, abs=1e-4)


def test_absolute_error_of_a_rare_yes_is_least_for_never():
    found = seen(lambda x, y: F.l1_loss(x.sigmoid(), y), torch.linspace(-1, 1, 5)[:, None], YES)
    assert (found.never, found.logistic) == (True, False)


def test_squared_error():
    found = seen(F.mse_loss, torch.tensor([0.5, 1.0, -2.0, 3.0]), torch.tensor([1.0, 1.0, -1.0, 5.0]))
    assert found.value == pytest.approx((0.25 + 0.0 + 1.0 + 4.0) / 4)
    assert (found.regression, found.logistic, found.unpaired, found.shift) == (True, False, False, None)


def test_likelihood_of_raw_outputs_is_linear_in_them():
    assert seen(F.nll_loss, LOGITS, CLASSES).linear
    assert not seen(F.cross_entropy, LOGITS, CLASSES).linear


def test_targets_of_minus_one_let_the_loss_fall():
    signs = torch.tensor([[-1.0], [1.0]])
    # the slope at 0 is 1.5 for -1 and -0.5 for 1: outputs of -1000 and 333 cost -1000 and nothing
    assert seen(F.binary_cross_entropy_with_logits, torch.zeros(2, 1), signs).falls == pytest.approx(-500.0, rel=1e-3)


def test_a_column_against_a_row_and_a_column_of_weights():
    draw = torch.Generator().manual_seed(0)
    numbers, row = torch.randn(6, 1, generator=draw), torch.randn(6, generator=draw)
    found = seen(lambda x, y: (x - y).square().mean(), numbers, row)
    assert (found.unpaired, found.value) == (True, pytest.approx((numbers - row).square().mean().item()))
    weighted = torch.stack([row, row.exp()], 1)
    losses = lambda x, y: (x - y[:, 0]).square() * y[:, 1:]  # noqa: E731  (6,) and (6, 1)
    assert seen(lambda x, y: losses(x, y).mean(), numbers[:, 0], weighted).unpaired_column == 1
    paired = seen(lambda x, y: losses(x, y).diagonal().mean(), numbers[:, 0], weighted)
    assert (paired.unpaired, paired.unpaired_column) == (False, None)


@pytest.mark.parametrize(("columns", "unpaired"), [(slice(1, 2), 1), (1, None)])
def test_a_column_of_weights_beside_two_classes(columns, unpaired):
    draw = torch.Generator().manual_seed(1)
    rows = torch.stack([torch.arange(12) % 2, torch.rand(12, generator=draw)], 1)

    def weighted(x: Tensor, target: Tensor) -> Tensor:
        return (F.cross_entropy(x, target[:, 0].long(), reduction="none") * target[:, columns]).mean()

    assert seen(weighted, torch.randn(12, 2, generator=draw), rows).unpaired_column == unpaired


def test_several_labels_are_counted():
    marks = torch.tensor([[1.0, 0, 1], [0, 1, 0], [0, 0, 0], [1, 0, 0]])
    assert seen(F.cross_entropy, LOGITS, marks).several == 0.5


def test_a_loss_of_one_column_is_constant():
    assert seen(F.cross_entropy, torch.randn(4, 1), torch.zeros(4, dtype=torch.long)).constant


def test_a_penalty_is_what_the_other_outputs_add():
    outputs = (torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0]))
    loss_fn = lambda x, y: F.mse_loss(x[0], y) + 2 * x[1].sum()  # noqa: E731
    found = seen(loss_fn, outputs, torch.tensor([1.0, 4.0]))
    assert (found.task, found.penalty) == (pytest.approx(2.0), pytest.approx(14.0))


@pytest.mark.parametrize(("classes", "width", "floor"), [(3, 1.0, 0.5514), (10, 1.0, 1.4612), (2, 2.0, 0.1269)])
def test_floor_of_bounded_outputs(classes, width, floor):
    assert floor_of_bounded(classes, width) == pytest.approx(floor, abs=1e-4)


def classes_of(loss_fn, labels: Tensor):
    model = torch.nn.Linear(2, 3)
    program = Program(model, loss_fn, torch.optim.SGD(model.parameters(), lr=0.1), [])
    call = LossCall(LOGITS, labels, loss_fn(LOGITS, labels), True)
    return look_at_classes(program, Recording(program, [Update(0, (LOGITS, labels), losses=[call])]))


def test_which_class_the_loss_asks_for():
    assert classes_of(F.cross_entropy, CLASSES).taught == {0: 0, 1: 1, 2: 2}
    moved = classes_of(lambda x, y: F.cross_entropy(x, (y + 1) % 3), CLASSES)
    assert moved.taught == moved.renamed == {0: 1, 1: 2, 2: 0}
    swapped = classes_of(lambda x, y: F.cross_entropy(x, torch.tensor([0, 2, 1])[y]), CLASSES)
    assert swapped.renamed == {1: 2, 2: 1}
    assert classes_of(lambda x, y: -F.cross_entropy(x, y), CLASSES).taught == {}  # any other class, for each of them


def test_columns_that_mean_nothing():
    assert classes_of(lambda x, y: F.mse_loss(x.mean(1), y.float()), CLASSES).alike
    assert not classes_of(F.cross_entropy, CLASSES).alike
    assert not classes_of(lambda x, y: F.mse_loss(x[:, 0], y.float()), CLASSES).alike
    assert not classes_of(lambda x, y: (0 * x).sum() + 1, CLASSES).alike
