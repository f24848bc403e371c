"""What the probe of the objective measures on small programs: outputs, numbers, sequences, the size of the loss."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from labkit.doctor.probe.objective import ObjectiveEvidence, look
from labkit.doctor.program import Program
from labkit.doctor.recording import record
from labkit.doctor.undisturbed import undisturbed
from tests.doctor.model_programs import With

DRAW = torch.Generator().manual_seed(0)
X = torch.randn(32, 4, generator=DRAW)
CLASSES = torch.arange(32) % 3


def seen(model: nn.Module, loss_fn, targets: Tensor, inputs: Tensor = X, batch: int = 8, **more) -> ObjectiveEvidence:
    loader = DataLoader(TensorDataset(inputs, targets), batch)
    program = Program(model, loss_fn, torch.optim.SGD(model.parameters(), lr=1e-3), loader, **more)
    with undisturbed(program):
        return look(program, record(program.copy(), updates=4))


def ending(outputs: int, *end: nn.Module) -> nn.Sequential:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(4, outputs), *end)


@pytest.mark.parametrize(
    ("end", "low", "high", "one"),
    [(nn.Softmax(1), 0.0, 1.0, 1), (nn.Sigmoid(), 0.0, 1.0, None), (nn.Tanh(), -1.0, 1.0, None)],
)
def test_what_outputs_can_be(end, low, high, one):
    found = seen(ending(3, end), F.cross_entropy, CLASSES).outputs
    assert (found.layer, found.sums_to_one, found.log_sums_to_one, found.same) == ("0", one, False, False)
    assert (found.low, found.high) == (pytest.approx(low, abs=1e-3), pytest.approx(high, abs=1e-3))


def test_outputs_without_an_end_log_shares_and_a_rectifier():
    assert seen(ending(3), F.cross_entropy, CLASSES).outputs.low < -100
    assert seen(ending(3, nn.LogSoftmax(1)), F.nll_loss, CLASSES).outputs.log_sums_to_one
    model = ending(3, nn.ReLU())
    found = seen(model, F.cross_entropy, CLASSES).outputs
    positive = (model[0](X[:8]) > 0).float().mean().item()
    assert (found.low, found.zeros) == (0.0, pytest.approx(max(positive, 1 - positive)))
    assert seen(ending(1, nn.Softmax(1)), F.binary_cross_entropy, CLASSES.float()[:, None].clamp(max=1)).outputs.same


def test_targets_that_are_out_of_reach():
    targets = torch.tensor([-2.0, 0.5, 0.25, 3.0]).repeat(8)[:, None]
    found = seen(ending(1, nn.Sigmoid()), F.mse_loss, targets).outputs
    assert (found.beyond, found.lowest, found.highest) == (0.5, -2.0, 3.0)
    assert seen(ending(1), F.mse_loss, targets).outputs.beyond == 0.0


@pytest.mark.parametrize("squeezed", [False, True])
def test_outputs_that_grow_with_the_batch(squeezed):
    def forward(self, x):
        return self.slope(x)[:, 0] + (self.shift(x)[:, 0] if squeezed else self.shift(x))

    model = With(forward, slope=nn.Linear(4, 1), shift=nn.Linear(4, 1))
    assert seen(model, lambda x, y: (x - y).square().mean(), X[:, 0]).outputs.grows != squeezed


def test_what_backward_begins_from_and_what_the_loader_gives():
    def quarter(model, batch, loss_fn, optimizer):
        optimizer.zero_grad()
        (loss_fn(model(batch[0]), batch[1]) / 4).backward()
        optimizer.step()

    found = seen(ending(3), F.cross_entropy, CLASSES, train_step=quarter)
    assert (found.weight_of_batch, found.batch, found.own_step) == (pytest.approx(0.25), 8, True)
    assert (found.whole_targets, found.as_loaded) == (True, True)

    def in_columns(model, batch, loss_fn, optimizer):
        optimizer.zero_grad()
        loss_fn(model(batch[0]), batch[1][:, None]).backward()
        optimizer.step()

    found = seen(ending(1), F.mse_loss, X[:, 0], train_step=in_columns)
    assert (found.weight_of_batch, found.whole_targets, found.as_loaded) == (pytest.approx(1.0), False, False)


class Reader(nn.Module):
    """Reads letters, from left to right or in both directions; answers (N, letters, T)."""

    def __init__(self, both: bool):
        super().__init__()
        self.letters, self.rnn = nn.Embedding(7, 8), nn.GRU(8, 6, batch_first=True, bidirectional=both)
        self.out = nn.Linear(12 if both else 6, 7)

    def forward(self, text: Tensor) -> Tensor:
        return self.out(self.rnn(self.letters(text))[0]).transpose(1, 2)


@pytest.mark.parametrize(
    ("ahead", "more", "both", "expected"),
    [
        (1, 0, False, (1, 1, 0, False, True)),
        (0, 0, False, (0, 0, 0, True, True)),
        (1, 1, False, (2, 1, 1, False, True)),
        (1, 0, True, (1, 1, 0, True, False)),
    ],
)
def test_how_far_ahead_a_letter_is(ahead, more, both, expected):
    text = torch.randint(0, 7, (32, 12), generator=torch.Generator().manual_seed(2))

    def loss_fn(outputs, targets):
        return F.cross_entropy(outputs[..., : outputs.shape[2] - more], targets[:, more:])

    torch.manual_seed(0)
    found = seen(Reader(both), loss_fn, text[:, ahead : 9 + ahead], text[:, :9]).sequences
    assert (found.lead, found.in_data, found.in_loss, found.sees, found.causal) == expected


def test_a_target_that_stands_in_its_window():
    series = (torch.arange(60) / 4).sin()
    windows = series.unfold(0, 6, 1)[:32]
    found = seen(nn.Sequential(nn.Linear(6, 1), nn.Flatten(0)), F.mse_loss, windows[:, 5].clone(), windows).sequences
    assert (found.column, found.columns, found.alike) == (5, 6, True)
    ahead = series[6:38]
    assert seen(nn.Sequential(nn.Linear(6, 1), nn.Flatten(0)), F.mse_loss, ahead, windows).sequences.column is None


def test_where_a_number_breaks():
    def length(self, x):
        return self.layer(x * (x[:, :1] > 0)).square().sum(1).sqrt()

    model = With(length, layer=nn.Linear(4, 3, bias=False))
    found = seen(model, F.mse_loss, X[:, 0]).numbers
    assert (found.when, found.what) == ("in update 1, with finite inputs and weights", "gradient")
    assert (found.operation, found.parameter) == ("the derivative of sqrt", "layer.weight")
    sound = seen(ending(3), F.cross_entropy, CLASSES).numbers
    assert (sound.what, sound.operation) == ("", "")


def test_a_last_batch_that_raises():
    def loss_fn(outputs, targets):
        return outputs.reshape(6, 3).square().mean()

    found = seen(ending(3), loss_fn, CLASSES, batch=6)  # 32 samples: five batches of 6, and one of 2
    assert found.last_batch == 2
    assert "invalid for input of size 6" in str(found.last_batch_error)
    assert seen(ending(3), F.cross_entropy, CLASSES, batch=6).last_batch_error is None
