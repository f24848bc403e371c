"""What the probe of the evaluation measures: modes, scores of models whose answers are known, and what is kept."""

import pytest
import torch
from torch import nn
from torch.optim.lr_scheduler import ReduceLROnPlateau
from torch.utils.data import DataLoader, TensorDataset

from labkit.doctor.probe.evaluation import EvaluationEvidence, look
from labkit.doctor.probe.evaluation_answers import known_answer, nearly_right
from labkit.doctor.probe.evaluation_scores import ScoresEvidence
from labkit.doctor.program import Program, accuracy
from labkit.doctor.recording import record, record_evaluation
from labkit.doctor.undisturbed import undisturbed

DRAW = torch.Generator().manual_seed(0)
X = torch.randn(74, 5, generator=DRAW)
Y = torch.arange(74) % 4


def seen(evaluate=None, validation: int = 30, batch: int = 8, step=None, mode: str = "") -> EvaluationEvidence:
    """Look at a network with dropout and batch norm; validation samples come after 44 training samples."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.Dropout(0.25), nn.Linear(8, 4))
    train = DataLoader(TensorDataset(X[:44], Y[:44]), 11)
    loader = DataLoader(TensorDataset(X[44 : 44 + validation], Y[44 : 44 + validation]), batch)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    schedule = ReduceLROnPlateau(optimizer, mode=mode) if mode else None
    program = Program(model, nn.CrossEntropyLoss(), optimizer, train, loader, schedule, step, evaluate)
    with undisturbed(program):
        recording = record(program.copy(), updates=3)
        record_evaluation(recording, recording.program.val_loader)
        return look(program, recording)


def predictions(model, loader, change=lambda outputs: outputs.argmax(1)):
    model.eval()
    with torch.no_grad():
        return [(change(model(x)), y) for x, y in loader]


def mean_of_batches(model, loader):
    return sum((said == y).float().mean().item() for said, y in predictions(model, loader)) / len(loader)


def of_the_last_batch(model, loader):
    said, y = predictions(model, loader)[-1]
    return (said == y).float().mean().item()


def minus_errors(model, loader):
    return -sum((said != y).sum().item() for said, y in predictions(model, loader))


def best_two(model, loader):
    pairs = predictions(model, loader, lambda outputs: outputs.topk(2, 1).indices)
    return torch.cat([(said == y[:, None]).any(1).float() for said, y in pairs]).mean().item()


class Meter:
    def __init__(self):
        self.right, self.count = 0, 0

    def __call__(self, model, loader):
        for said, y in predictions(model, loader):
            self.right, self.count = self.right + (said == y).sum().item(), self.count + len(y)
        return self.right / self.count


def test_the_accuracy():
    """30 samples in batches of 8: the last has 6 of them, and counts for a fifth."""
    found = seen(lambda model, loader: accuracy(model, loader))
    scores = found.scores
    assert (scores.right, scores.wrong, scores.again, scores.one_batch) == (1.0, 0.0, 0.0, 1.0)
    assert (scores.first, scores.last) == (pytest.approx(1 / 3), pytest.approx(1 / 3))
    assert (scores.narrow, scores.clear, scores.places, scores.reads) == (1.0, 1.0, 1, 3)
    assert (scores.sizes, scores.right_uneven, scores.share_of_last) == ((8, 6, 4), 1.0, pytest.approx(0.2))
    assert scores.as_it_is == pytest.approx(scores.at_once)
    assert (found.error, found.in_training_mode, found.dropped, found.repeated) == (None, [], None, False)
    assert (found.training_in_evaluation, found.watched, found.better_is_higher) == ([], 3, True)
    assert (found.states.living, found.states.changed_weights, found.states.changed_buffers) == (None, [], [])


def test_scores_with_a_fault():
    assert seen(mean_of_batches).scores.share_of_last == pytest.approx(0.25)  # one of four batches
    last = seen(of_the_last_batch).scores
    assert (last.first, last.last) == (0.0, 1.0)
    assert seen(best_two).scores.places == 2
    assert seen(Meter()).scores.again == 0.5  # a right evaluation was counted before the wrong one
    added = seen(lambda model, loader: len(loader) * mean_of_batches(model, loader)).scores
    assert (added.one_batch, added.right) == (1.0, 3.0)
    errors = seen(minus_errors)
    assert (errors.scores.right, errors.scores.wrong, errors.better_is_higher) == (0.0, -24.0, True)
    assert seen(lambda model, loader: -minus_errors(model, loader), mode="min").better_is_higher is False


def test_an_evaluation_that_reads_other_data():
    other = DataLoader(TensorDataset(X[:44], Y[:44]), 11)
    found = seen(lambda model, loader: accuracy(model, other)).scores
    assert (found.reads, found.of_training) == (0, 1.0)


def test_modes_of_an_evaluation():
    def training(model, loader):
        with torch.no_grad():
            return sum((model(x).argmax(1) == y).sum().item() for x, y in loader) / 30

    found = seen(training)
    assert found.in_training_mode == ["1", "2"]
    assert found.dropped == (0.25, 2 * 4)  # two evaluations of four batches

    def many_times(model, loader):
        model.eval()
        model[2].train()
        return sum((sum(model(x) for _ in range(6)).argmax(1) == y).sum().item() for x, y in loader) / 30

    assert seen(many_times).repeated


def test_modes_of_a_step_and_of_a_schedule():
    def step(model, batch, loss_fn, optimizer):
        model.eval()
        optimizer.zero_grad()
        loss_fn(model(batch[0]), batch[1]).backward()
        optimizer.step()

    found = seen(step=step, mode="min")
    assert (found.training_in_evaluation, found.training_updates, found.plateau) == (["1", "2"], 3, "min")


def test_an_evaluation_that_raises():
    assert str(seen(lambda model, loader: 1 / 0).error) == "division by zero"


class Keeping:
    """Keeps the state of the model at its first evaluation: a copy, or the living tensors; may load it later."""

    def __init__(self, change=lambda state: state, load: bool = False):
        self.change, self.load, self.calls = change, load, 0

    def __call__(self, model, loader):
        if self.calls == 0:
            self.state = self.change(model.state_dict())
        elif self.load:
            model.load_state_dict(self.state)
        self.calls += 1
        return float(self.calls)


def cloned(state: dict) -> dict:
    return {name: value.clone() for name, value in state.items()}


def test_what_is_kept_and_changed():
    kind, names = seen(Keeping()).states.living
    assert kind == "state" and {"0.weight", "0.bias", "3.weight"} < set(names)
    assert seen(Keeping(cloned)).states.living is None
    loaded = seen(Keeping(cloned, load=True)).states
    assert {"0.weight", "3.weight", "3.bias"} < set(loaded.changed_weights)
    assert (loaded.restored, loaded.better) == (True, True)

    def training(model, loader):
        return accuracy(model.train(), loader) + sum(model.train()(x).sum().item() for x, _ in loader) * 0

    changed = seen(training).states
    assert (changed.changed_weights, changed.restored) == ([], False)
    assert {"1.running_mean", "1.running_var"} < set(changed.changed_buffers)


def test_a_load_of_which_no_name_fits():
    def evaluate(model, loader):
        model.load_state_dict({f"module.{name}": value for name, value in model.state_dict().items()}, strict=False)
        return 1.0

    states = seen(evaluate).states
    assert states.missing[:2] == ["0.weight", "0.bias"]
    assert states.unexpected[:2] == ["module.0.weight", "module.0.bias"]


def test_known_answers_in_each_form():
    targets = torch.tensor([2, 0])
    logits, shares = torch.randn(2, 3), torch.full((2, 3), 1 / 3)
    assert torch.equal(known_answer(logits, targets, 10.0), torch.tensor([[-5.0, -5, 5], [5, -5, -5]]))
    assert torch.equal(known_answer(logits, targets, -10.0), torch.tensor([[5.0, -5, -5], [-5, 5, -5]]))
    assert torch.allclose(known_answer(shares, targets, 10.0).sum(1), torch.ones(2))
    assert torch.allclose(known_answer(shares.log(), targets, 10.0).exp().sum(1), torch.ones(2))
    assert torch.equal(nearly_right(logits, targets, 1), torch.tensor([[5.0, -5, 0], [0, 5, -5]]))
    with pytest.raises(ValueError, match="not so many classes"):
        nearly_right(logits, targets, 2)
    yes = torch.tensor([[1.0], [0.0]])
    assert torch.equal(known_answer(torch.tensor([[3.0], [-2.0]]), yes, 4.0), torch.tensor([[4.0], [-4.0]]))
    numbers = torch.tensor([1.5, -1.0])
    assert torch.equal(known_answer(torch.randn(2), numbers, 10.0), numbers)
    assert torch.equal(known_answer(torch.randn(2), numbers, 0.2), numbers + 0.2)


def test_without_an_evaluation_of_ones_own_no_score_is_tried():
    assert seen().scores == ScoresEvidence()
