import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F

from labkit.errors import DataError, NonFiniteError
from labkit.measuring import Predictions, evaluate, evaluation, predict


def uneven_batches():
    source = torch.Generator().manual_seed(0)
    return [
        (torch.randn(size, 5, generator=source), torch.randint(0, 3, (size,), generator=source)) for size in (64, 64, 2)
    ]


def test_metrics_are_sums_over_samples_not_means_of_batch_means():
    net, batches = nn.Linear(5, 3), uneven_batches()
    metrics = evaluate(net, batches)
    inputs, targets = torch.cat([b[0] for b in batches]), torch.cat([b[1] for b in batches])
    with torch.no_grad():
        outputs = net(inputs)
    assert metrics.count == 130
    assert metrics.loss == pytest.approx(float(F.cross_entropy(outputs, targets)), rel=1e-6)
    assert metrics.accuracy == int((outputs.argmax(1) == targets).sum()) / 130
    mean_of_means = sum(float((net(x).argmax(1) == y).float().mean()) for x, y in batches) / 3
    assert metrics.accuracy != pytest.approx(mean_of_means, abs=1e-3), "the batches must be able to tell the two apart"


def test_evaluation_keeps_the_mode_of_every_layer_and_the_statistics():
    net = nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 3))
    net.train()
    net[1].eval()  # a frozen normalisation inside a model in training
    before = {name: value.clone() for name, value in net.state_dict().items()}
    first, second = evaluate(net, uneven_batches()), evaluate(net, uneven_batches())
    assert first == second, "dropout was on"
    assert net.training and net[2].training and not net[1].training
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())


def test_modes_come_back_after_an_error():
    net = nn.Dropout(0.5)
    with pytest.raises(RuntimeError, match="on purpose"), evaluation(net):
        raise RuntimeError("on purpose")
    assert net.training


@pytest.mark.parametrize("measure", [evaluate, predict])
def test_nothing_to_measure_is_said(measure):
    with pytest.raises(DataError, match="gave no batch"):
        measure(nn.Linear(5, 3), [])


def made_predictions() -> Predictions:
    logits = torch.tensor([[4.0, 0, 0], [0, 1.0, 0], [3.0, 0, 0], [2.0, 0, 0], [0, 5.0, 0]])
    return Predictions(logits, torch.tensor([0, 1, 1, 0, 2]), ("cat", "dog", "owl"))


@pytest.mark.parametrize(
    ("logits", "targets", "sentence"),
    [
        (torch.zeros(2, 4), torch.tensor([0, 1]), "there are 3 classes: it must have one output for each"),
        (torch.zeros(2), torch.tensor([0, 1]), "one output for each class"),
        (torch.zeros(2, 3), torch.tensor([0.0, 1.0]), "must be class numbers.*got torch.float32"),
        (torch.zeros(2, 3), torch.tensor([[0], [1]]), r"of shape \(2, 1\)"),
        (torch.zeros(2, 3), torch.tensor([0, 3]), "run from 0 to 3, but the classes are numbered 0 to 2"),
        (torch.zeros(2, 3), torch.tensor([-1, 0]), "run from -1 to 0"),
    ],
)
def test_predictions_that_no_table_could_be_made_of_are_refused(logits, targets, sentence):
    with pytest.raises(DataError, match=sentence):
        Predictions(logits, targets, ("cat", "dog", "owl"))


def test_outputs_that_are_nan_are_never_counted_as_right():
    batches = [(torch.full((4, 5), float("nan")), torch.zeros(4, dtype=torch.int64))]
    metrics = evaluate(nn.Linear(5, 3), batches)
    assert metrics.correct == 0 and metrics.loss != metrics.loss
    with pytest.raises(NonFiniteError, match="outputs for 4 of 4 samples are NaN"):
        predict(nn.Linear(5, 3), batches)


def test_confusion_counts_truth_by_row():
    assert made_predictions().confusion().tolist() == [[2, 0, 0], [1, 1, 0], [0, 1, 0]]


def test_precision_and_recall_of_each_class():
    rows = made_predictions().per_class().rows
    assert [row["recall"] for row in rows] == [1.0, 0.5, 0.0]
    assert [row["precision"] for row in rows[:2]] == [0.6667, 0.5]
    assert rows[2]["precision"] != rows[2]["precision"], "never predicted: no precision"
    assert "Accuracy 60.00% on 5 pictures" in str(made_predictions().per_class())


def test_mistakes_come_surest_first():
    assert made_predictions().mistakes(5).tolist() == [4, 2]
    assert made_predictions().mistakes(1).tolist() == [4]


def test_predictions_follow_the_order_of_the_loader():
    net, batches = nn.Linear(5, 3), uneven_batches()
    predictions = predict(net, batches)
    assert torch.equal(predictions.targets, torch.cat([b[1] for b in batches]))
    torch.testing.assert_close(predictions.logits, torch.cat([net(b[0]) for b in batches]).detach())
    assert predictions.classes == ("0", "1", "2")
    torch.testing.assert_close(predictions.probabilities.sum(1), torch.ones(130))
