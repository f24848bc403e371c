"""Each rule on a small program with the fault, and on its twin without it."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from labkit.doctor.examine import diagnose, gather
from labkit.doctor.finding import Finding
from labkit.doctor.program import Program, accuracy
from labkit.doctor.undisturbed import undisturbed


def points(outputs: str, count: int = 96) -> TensorDataset:
    """Return samples (6,) with targets: "classes" 0..2, "yes" (1,) of 0 and 1, "numbers" (), "column" (1,)."""
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(count, 6, generator=draw)
    y = x @ torch.randn(6, 3, generator=draw)
    return TensorDataset(
        x,
        {
            "classes": y.argmax(1),
            "yes": (y[:, :1] > 0).float(),
            "signs": torch.where(y[:, :1] > 0, 1.0, -1.0),
            "numbers": 2 * y[:, 0],
            "column": 2 * y[:, :1],
            "labels": (y > 0).float(),
        }[outputs],
    )


def found(model: nn.Module, loss_fn, targets: str, fault: str, **more) -> list[Finding]:
    """Return the findings of one label before trials, of a program with SGD."""
    torch.manual_seed(0)
    loader = DataLoader(points(targets), 16)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    program = Program(model, loss_fn, optimizer, loader, loader, **more)
    with undisturbed(program):
        findings = diagnose(gather(program))
    return [finding for finding in findings if finding.fault == fault]


def network(outputs: int, *end: nn.Module) -> nn.Sequential:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, outputs), *end)


@pytest.mark.parametrize(
    ("model", "loss_fn", "targets", "words"),
    [
        (network(3, nn.Softmax(1)), nn.CrossEntropyLoss(), "classes", "0.5514"),
        (network(3, nn.Sigmoid()), nn.CrossEntropyLoss(), "classes", "0.551"),
        (network(3, nn.ReLU()), F.cross_entropy, "classes", "exactly 0"),
        (network(1, nn.Sigmoid()), nn.BCEWithLogitsLoss(), "yes", "below 0.5 is impossible"),
        (network(1, nn.Softmax(1)), nn.BCELoss(), "yes", "exactly 1"),
        (network(1, nn.ReLU()), nn.MSELoss(), "column", "lie outside"),
        (network(1, nn.Tanh()), nn.SmoothL1Loss(), "column", "lie outside"),
        (network(3, nn.Softmax(1)), nn.NLLLoss(), "classes", "outputs themselves do"),
    ],
)
def test_activation_that_does_not_fit(model, loss_fn, targets, words):
    (finding,) = found(model, loss_fn, targets, "output_activation_mismatch")[:1]
    assert finding.severity == "fail" and words in finding.what


@pytest.mark.parametrize(
    ("model", "loss_fn", "targets"),
    [
        (network(3), nn.CrossEntropyLoss(label_smoothing=0.1), "classes"),
        (network(3, nn.LogSoftmax(1)), nn.CrossEntropyLoss(), "classes"),
        (network(3, nn.LogSoftmax(1)), nn.NLLLoss(), "classes"),
        (network(3), nn.MultiMarginLoss(), "classes"),
        (network(1), nn.BCEWithLogitsLoss(), "yes"),
        (network(1, nn.Sigmoid()), nn.BCELoss(), "yes"),
        (network(1, nn.Sigmoid()), nn.MSELoss(), "yes"),
        (network(1), nn.MSELoss(), "column"),
        (network(1, nn.Flatten(0)), nn.HuberLoss(), "numbers"),
        (network(3), nn.BCEWithLogitsLoss(), "labels"),
    ],
)
def test_fitting_objectives_are_left_alone(model, loss_fn, targets):
    for fault in (
        "output_activation_mismatch",
        "wrong_loss",
        "shape_broadcast",
        "label_encoding",
        "numeric_instability",
    ):
        assert not found(model, loss_fn, targets, fault), fault


def test_loss_of_raw_outputs_has_no_floor():
    (finding,) = found(network(3), nn.NLLLoss(), "classes", "wrong_loss")
    assert "does not sum to 1" in finding.what


def test_several_labels_and_a_softmax():
    (finding,) = found(network(3), nn.CrossEntropyLoss(), "labels", "wrong_loss")
    assert "softmax over 3 classes" in finding.what


def test_plus_and_minus_one_for_a_binary_loss():
    findings = found(network(1), nn.BCEWithLogitsLoss(), "signs", "label_encoding")
    assert any("The targets are -1, 1" in finding.what for finding in findings)  # a rule of the data says it, too
    assert not found(network(1), nn.SoftMarginLoss(), "signs", "label_encoding")


def test_one_output_of_a_softmax_loss_says_nothing():
    (finding,) = found(
        network(1), lambda outputs, labels: F.cross_entropy(outputs, 0 * labels), "classes", "wrong_loss"
    )
    assert finding.what.startswith("The loss is 0 for whatever outputs")


def test_column_against_row():
    (finding,) = found(network(1), nn.MSELoss(), "numbers", "shape_broadcast")
    assert "(16, 1)" in finding.what and "(16,)" in finding.what


def test_sign():
    def likelihood(outputs, labels):
        return -F.cross_entropy(outputs, labels)

    (finding,) = found(network(3), likelihood, "classes", "loss_scaling")
    assert "20" in finding.what
    assert not found(network(3), nn.CrossEntropyLoss(), "classes", "loss_scaling")


@pytest.mark.parametrize(("reduction", "count"), [("sum", 1), ("mean", 0)])
def test_sum_over_the_batch_waits_for_a_trial(reduction, count):
    findings = found(network(1), nn.MSELoss(reduction=reduction), "column", "loss_scaling")
    assert len(findings) == count
    assert all(finding.confirm and finding.mend is not None for finding in findings)


def test_mean_divided_again_before_backward():
    def train_step(model, batch, loss_fn, optimizer):
        optimizer.zero_grad()
        (loss_fn(model(batch[0]), batch[1]) / len(batch[1])).backward()
        optimizer.step()

    (finding,) = found(network(3), nn.CrossEntropyLoss(), "classes", "loss_scaling", train_step=train_step)
    assert "divided by 16" in finding.what


def test_root_at_zero():
    class Length(nn.Module):
        def __init__(self, inside: float):
            super().__init__()
            self.layer, self.inside = nn.Linear(6, 4, bias=False), inside

        def forward(self, x):
            x = self.layer(x * (x[:, :1] > 0))
            return (x.square().sum(1) + self.inside).sqrt()

    (finding,) = found(Length(0.0), nn.MSELoss(), "numbers", "numeric_instability")
    assert "gradient of layer.weight" in finding.what and "sqrt" in finding.what
    assert not found(Length(1e-6), nn.MSELoss(), "numbers", "numeric_instability")


class Reader(nn.Module):
    """Reads letters from left to right; answers (N, letters, T)."""

    def __init__(self):
        super().__init__()
        self.letters, self.rnn, self.out = nn.Embedding(7, 8), nn.GRU(8, 16, batch_first=True), nn.Linear(16, 7)

    def forward(self, text):
        return self.out(self.rnn(self.letters(text))[0]).transpose(1, 2)


@pytest.mark.parametrize(("ahead", "count"), [(0, 1), (1, 0)])
def test_letters_that_are_their_own_targets(ahead, count):
    text = torch.randint(0, 7, (64, 10), generator=torch.Generator().manual_seed(2))
    loader = DataLoader(TensorDataset(text[:, :-1], text[:, ahead : 9 + ahead]), 16)
    model = Reader()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    program = Program(model, nn.CrossEntropyLoss(), optimizer, loader)
    with undisturbed(program):
        findings = diagnose(gather(program))
    assert sum(finding.fault == "target_shift" for finding in findings) == count


class Limited(nn.Module):
    """Cuts what it gets at limits of the user's own."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.clamp(-0.5, 2.0)


def test_limits_of_ones_own_are_meant():
    assert found(network(1, Limited()), nn.MSELoss(), "column", "output_activation_mismatch") == []


def binary_losses(labels: torch.Tensor, outputs: torch.Tensor) -> torch.Tensor:
    return F.binary_cross_entropy_with_logits(outputs, F.one_hot(labels, 3).float())


@pytest.mark.parametrize(("ahead", "count"), [(1, 1), (2, 1), (0, 0)])
def test_classes_that_the_loss_calls_something_else(ahead, count):
    findings = found(
        network(3), lambda outputs, y: binary_losses((y + ahead) % 3, outputs), "classes", "label_encoding",
        evaluate=accuracy,
    )  # fmt: skip
    assert len(findings) == count
    assert all(f"0 -> {ahead}, 1 -> {(1 + ahead) % 3}" in finding.what for finding in findings)


def test_classes_renamed_in_loss_and_score_alike_are_left_alone():
    def evaluate(model, loader):
        model.eval()
        pairs = [(model(x).argmax(1), (y + 1) % 3) for x, y in loader]
        return torch.cat([(said == meant).float() for said, meant in pairs]).mean().item()

    loss_fn = lambda outputs, y: binary_losses((y + 1) % 3, outputs)  # noqa: E731
    assert found(network(3), loss_fn, "classes", "label_encoding", evaluate=evaluate) == []


@pytest.mark.parametrize(
    ("loss_fn", "count"),
    [
        (lambda outputs, y: F.mse_loss(outputs.mean(1), y.float()), 1),
        (lambda outputs, y: F.mse_loss(outputs.amax(1), y.float()), 1),
        (lambda outputs, y: F.multi_margin_loss(outputs, y), 0),
    ],
)
def test_loss_for_which_all_columns_are_alike(loss_fn, count):
    findings = found(network(3), loss_fn, "classes", "wrong_loss", evaluate=accuracy)
    assert len(findings) == count and all("outputs (16, 3) change places" in finding.what for finding in findings)
