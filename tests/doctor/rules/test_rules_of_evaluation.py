"""Evaluations with a fault, and their twins without it."""

import copy

import pytest
import torch
from torch import nn
from torch.optim.lr_scheduler import ReduceLROnPlateau
from torch.utils.data import DataLoader, TensorDataset

from labkit.doctor.examine import diagnose, gather
from labkit.doctor.finding import Finding
from labkit.doctor.program import Program, accuracy
from labkit.doctor.undisturbed import undisturbed

DRAW = torch.Generator().manual_seed(0)
X = torch.randn(96, 6, generator=DRAW)
Y = (X @ torch.randn(6, 3, generator=DRAW)).argmax(1)


def found(fault: str, evaluate=None, model: nn.Module | None = None, batch: int = 16, **more) -> list[Finding]:
    torch.manual_seed(0)
    model = model or nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Dropout(0.5), nn.Linear(16, 3))
    train = DataLoader(TensorDataset(X[:64], Y[:64]), 16)
    validation = DataLoader(TensorDataset(X[64:], Y[64:]), batch)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    if "mode" in more:
        more = {"scheduler": ReduceLROnPlateau(optimizer, mode=more["mode"])}
    loss_fn = nn.CrossEntropyLoss()
    program = Program(model, loss_fn, optimizer, train, validation, evaluate=evaluate, **more)
    with undisturbed(program):
        findings = diagnose(gather(program))
    return [finding for finding in findings if finding.fault == fault]


@torch.no_grad()
def in_training_mode(model, loader):
    return torch.cat([(model(x).argmax(1) == y).float() for x, y in loader]).mean().item()


@torch.no_grad()
def mean_of_many_passes(model, loader):
    model.eval()
    model[2].train()
    chances = [(sum(model(x).softmax(1) for _ in range(5)), y) for x, y in loader]
    return torch.cat([(chance.argmax(1) == y).float() for chance, y in chances]).mean().item()


@pytest.mark.parametrize(("evaluate", "count"), [(in_training_mode, 1), (accuracy, 0), (mean_of_many_passes, 0)])
def test_dropout_in_the_evaluation(evaluate, count):
    findings = found("train_eval_mode", evaluate)
    assert len(findings) == count and all("1 layers" in finding.what for finding in findings)


@pytest.mark.parametrize(("back", "count"), [(False, 1), (True, 0)])
def test_step_that_stays_in_evaluation_mode(back, count):
    def train_step(model, batch, loss_fn, optimizer):
        model.eval()
        with torch.no_grad():
            model(batch[0])
        if back:
            model.train()
        optimizer.zero_grad()
        loss_fn(model(batch[0]), batch[1]).backward()
        optimizer.step()

    assert len(found("train_eval_mode", train_step=train_step)) == count


@torch.no_grad()
def last_batch_only(model, loader):
    model.eval()
    for x, y in loader:
        score = (model(x).argmax(1) == y).float().mean()
    return score.item()


@torch.no_grad()
def over_the_batch(model, loader):
    model.eval()
    return torch.cat([model(x).argmax(0) == y[:3] for x, y in loader]).float().mean().item()


@torch.no_grad()
def of_full_batches(model, loader):
    model.eval()
    right = sum((model(x).argmax(1) == y).sum().item() for x, y in loader)
    return right / (len(loader) * loader.batch_size)


@torch.no_grad()
def of_training_data(model, loader):
    model.eval()
    return (model(X[:64]).argmax(1) == Y[:64]).float().mean().item()


@pytest.mark.parametrize(
    ("evaluate", "words"),
    [
        (last_batch_only, "only the last one counts"),
        (of_full_batches, "0.8, not 1"),
        (of_training_data, "100 % of the samples"),
    ],
)
def test_scores_that_are_wrong(evaluate, words):
    (finding,) = found("metric_wrong", evaluate, batch=20)[:1]
    assert words in finding.what


def test_score_over_the_wrong_dimension():
    assert found("metric_wrong", over_the_batch)


def test_meter_that_remembers():
    counts = {"right": 0, "all": 0}

    @torch.no_grad()
    def evaluate(model, loader):
        model.eval()
        for x, y in loader:
            counts["right"] += (model(x).argmax(1) == y).sum().item()
            counts["all"] += len(y)
        return counts["right"] / counts["all"]

    (finding,) = found("metric_wrong", evaluate)
    assert "gets 0, and 0.5" in finding.what


@pytest.mark.parametrize("batch", [16, 20])
def test_accuracy_written_by_hand_is_left_alone(batch):
    @torch.no_grad()
    def evaluate(model, loader):
        model.eval()
        pairs = [(model(x), y) for x, y in list(loader)]
        return sum((out.argmax(1) == y).sum().item() for out, y in pairs) / len(loader.dataset)

    for fault in ("metric_wrong", "train_eval_mode", "checkpoint_state", "weights_reset", "bn_statistics"):
        assert not found(fault, evaluate, batch=batch), fault


@pytest.mark.parametrize(("keep", "count"), [(dict, 1), (copy.deepcopy, 0)])
def test_best_state_that_lives_on(keep, count):
    best = {"score": -1.0, "state": None}

    def evaluate(model, loader):
        score = accuracy(model, loader)
        if score > best["score"]:
            best.update(score=score, state=keep(model.state_dict()))
        return score

    assert len(found("checkpoint_state", evaluate)) == count


@pytest.mark.parametrize(("mode", "count"), [("min", 1), ("max", 0)])
def test_plateau_of_an_accuracy(mode, count):
    assert len(found("scheduler_misuse", mode=mode)) == count


@torch.no_grad()
def over_the_last_batch(model, loader):
    model.eval()
    right = count = 0
    for x, y in loader:
        right += (model(x).argmax(1) == y).sum().item()
        count = len(y)
    return right / count


@torch.no_grad()
def among_the_best_two(model, loader):
    model.eval()
    pairs = [(model(x).topk(2, dim=1).indices, y) for x, y in loader]
    return torch.cat([(best == y[:, None]).any(1).float() for best, y in pairs]).mean().item()


def test_right_answers_of_all_batches_over_the_samples_of_the_last():
    (finding,) = found("metric_wrong", over_the_last_batch)
    assert finding.severity == "fail" and "gets 1 on one batch and 3 on three" in finding.what


def test_the_best_two_of_three_are_a_note():
    (finding,) = found("metric_wrong", among_the_best_two)
    assert finding.severity == "note" and "among the best 2 of 3" in finding.what


@pytest.mark.parametrize("evaluate", [accuracy, lambda model, loader: accuracy(model, loader) * len(loader.dataset)])
def test_shares_and_counts_are_left_alone(evaluate):
    assert found("metric_wrong", evaluate) == []


@torch.no_grad()
def decibels(model, loader):
    model.eval()
    errors = torch.cat([(model(x) - y) ** 2 for x, y in loader])
    return -10 * torch.log10(errors.mean()).item()


def test_a_score_that_is_infinite_without_any_error():
    torch.manual_seed(0)
    model = nn.Linear(6, 6)
    train, validation = (DataLoader(TensorDataset(x, x.sin()), 16) for x in (X[:64], X[64:]))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    program = Program(model, nn.MSELoss(), optimizer, train, validation, evaluate=decibels)
    assert gather(program).evaluation.scores.right == float("inf")
    assert "metric_wrong" not in {finding.fault for finding in diagnose(gather(program))}


def weighed_labels(out, target):
    losses = torch.nn.functional.cross_entropy(out, target[:, 0].long(), reduction="none")
    return (losses * target[:, 1]).mean()


@torch.no_grad()
def labels_only(model, loader):
    model.eval()
    return torch.cat([(model(x).argmax(1) == target[:, 0]).float() for x, target in loader]).mean().item()


def test_targets_with_a_column_of_weights_are_no_answers():
    torch.manual_seed(0)
    data = TensorDataset(X, torch.stack([(Y > 0).float(), torch.ones(len(Y))], 1))
    model = nn.Linear(6, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loaders = DataLoader(data, 16), DataLoader(data, 48)
    program = Program(model, weighed_labels, optimizer, *loaders, evaluate=labels_only)
    evidence = gather(program)
    assert evidence.evaluation.scores.right < evidence.evaluation.scores.wrong
    assert "metric_wrong" not in {finding.fault for finding in diagnose(evidence)}


@pytest.mark.parametrize(("flat", "count"), [(False, 1), (True, 0)])
def test_right_answers_that_may_stand_anywhere(flat, count):
    @torch.no_grad()
    def evaluate(model, loader):
        model.eval()
        pairs = [(model(x) > 0, target > 0.5) for x, target in loader]
        return sum(((p.flatten() if flat else p) == t).float().mean().item() for p, t in pairs) / len(pairs)

    torch.manual_seed(0)
    loader = DataLoader(TensorDataset(X, (Y > 0).float()), 16, shuffle=True)
    model = nn.Linear(6, 1)
    loss_fn = lambda out, y: nn.functional.binary_cross_entropy_with_logits(out, y[:, None])  # noqa: E731
    program = Program(model, loss_fn, torch.optim.SGD(model.parameters(), 0.1), loader, loader, evaluate=evaluate)
    findings = [finding for finding in diagnose(gather(program)) if finding.fault == "metric_wrong"]
    assert len(findings) == count and all("answer of another one" in finding.what for finding in findings)
