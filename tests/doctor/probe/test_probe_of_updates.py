"""What the probe of the updates counts and measures, on a network of two layers and ten updates."""

import pytest
import torch
from torch import nn
from torch.optim.lr_scheduler import StepLR

from labkit.doctor.probe.updates import look, looks_as_made
from labkit.doctor.probe.updates_evidence import UpdatesEvidence
from labkit.doctor.program import Program
from labkit.doctor.recording import record, record_evaluation
from labkit.doctor.undisturbed import undisturbed
from tests.doctor.small import program

UPDATES = 10


def seen(one: Program, evaluated: bool = False) -> UpdatesEvidence:
    with undisturbed(one):
        recording = record(one.copy(), updates=UPDATES)
        assert recording.error is None
        if evaluated:
            record_evaluation(recording, recording.program.val_loader)
        return look(one, recording)


def stepping(*order: str, every: int = 1, scale: float = 1.0):
    """Return a train_step that does things in an order; it clears and steps only in every so many batches."""
    count = 0

    def train_step(model, batch, loss_fn, optimizer):
        nonlocal count
        count += 1
        loss = loss_fn(model(batch[0]), batch[1])
        for act in order:
            if act == "backward":
                (scale * loss).backward()
            elif act == "clip":
                nn.utils.clip_grad_norm_(model.parameters(), 0.01)
            elif act == "clip a part":
                nn.utils.clip_grad_norm_(model[2].parameters(), 0.01)
            elif count % every == 0:
                {"clear": optimizer.zero_grad, "step": optimizer.step}[act]()
        return loss.item()

    return train_step


def counts(*order: str, **options) -> UpdatesEvidence:
    return seen(program(train_step=stepping(*order, **options)))


def test_a_healthy_program():
    found = seen(program(), evaluated=True)
    assert (found.watched, found.batches, found.raised, found.optimised, found.shared) == (10, 10, False, 4, True)
    assert (found.steps, found.own_steps, found.backwards, found.windows) == (10, 10, 10, [1] * 10)
    assert found.weights == pytest.approx([1.0] * 10)
    assert (found.thrown_away, found.emptied, found.kept, found.changed_after, found.clips, found.made) == (0,) * 6
    assert (found.missing, found.strangers, found.reset, found.shrunk, found.forgotten) == ([], 0, {}, 0.0, 0)
    assert (found.frozen_moved, found.zeroed_moved, found.thawed, found.left_frozen) == ({}, {}, [], [])
    assert found.stateful and 0 < found.moved < 1
    assert len(set(found.nodes)) == 1 and found.live == [0] * 10


def test_the_order_of_an_update():
    kept = counts("backward", "step")
    assert (kept.kept, kept.kept_names) == (9, ["0.bias", "0.weight", "2.bias", "2.weight"])  # all but the first
    assert counts("backward", "clear", "step").emptied == 10
    assert counts("clear", "backward").steps == 0
    assert counts("clear", "backward").thrown_away == 9
    assert counts("clear", "backward", "step", "clip").changed_after == 10


def test_windows_of_several_batches():
    found = counts("backward", "step", "clear", every=5)
    assert (found.windows, found.weights) == ([5, 5], pytest.approx([5.0, 5.0]))
    assert counts("backward", "step", "clear", every=5, scale=0.2).weights == pytest.approx([1.0, 1.0])


def test_clipping():
    found = counts("clear", "backward", "clip", "step")
    assert (found.clips, found.clips_after_step, found.clips_before_backward, found.clipped_in_part) == (10, 0, 0, [])
    assert counts("clear", "backward", "step", "clip").clips_after_step == 10
    assert counts("clear", "clip", "backward", "step").clips_before_backward == 10
    assert counts("clear", "backward", "clip a part", "step").clipped_in_part == [(2, 4, 0.01)] * 10


def test_who_is_in_the_optimizer():
    one = program()
    one.optimizer = torch.optim.SGD(one.model[0].parameters(), lr=0.1)
    found = seen(one)
    assert (found.optimised, found.missing) == (2, ["2.weight", "2.bias"])
    assert found.missing_as_made == ["2.weight", "2.bias"] or found.missing_as_made == ["2.weight"]
    assert found.ahead_of_optimised == ["2.weight", "2.bias"]
    other = nn.Linear(6, 2)
    one = program(optimizer=torch.optim.SGD(other.parameters(), lr=0.1))
    found = seen(one)
    assert (found.shared, found.strangers, found.optimised) == (False, 2, 2)


@pytest.mark.parametrize(
    ("layer", "name", "bound"),
    [(nn.Linear(16, 4), "weight", 1 / 4), (nn.Conv1d(2, 4, 8), "weight", 1 / 4), (nn.GRU(3, 9), "weight_ih_l0", 1 / 3)],
)
def test_weights_look_as_made_up_to_the_bound_of_their_layer(layer, name, bound):
    weight = getattr(layer, name)
    assert looks_as_made(layer, name, weight)
    with torch.no_grad():
        weight.view(-1)[0] = bound
    assert looks_as_made(layer, name, weight)
    with torch.no_grad():
        weight.view(-1)[0] = 1.01 * bound
    assert not looks_as_made(layer, name, weight)


def test_optimizers_that_are_made_again_or_forget():
    def again(model, batch, loss_fn, optimizer):
        return step(model, batch, loss_fn, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9))

    def forgetting(model, batch, loss_fn, optimizer):
        optimizer.state.clear()
        return step(model, batch, loss_fn, optimizer)

    step = stepping("clear", "backward", "step")
    assert seen(program(train_step=again)).made == 10
    assert seen(program(train_step=forgetting)).forgotten == 9


def test_what_happens_to_weights_between_steps():
    def then(change):
        def train_step(model, batch, loss_fn, optimizer):
            step(model, batch, loss_fn, optimizer)
            with torch.no_grad():
                change(model)

        step = stepping("clear", "backward", "step")
        return seen(program(train_step=train_step))

    shrinking = then(lambda model: [parameter.mul_(0.9) for parameter in model.parameters()])
    assert shrinking.shrunk == pytest.approx(0.1, abs=1e-5)
    drawn = then(lambda model: nn.init.normal_(model[0].weight))
    assert list(drawn.reset) == ["0.weight"] and "nothing in common" in drawn.reset["0.weight"]


def test_frozen_in_name_only():
    one = program()
    one.model[0].requires_grad = False
    assert seen(one).attribute_frozen == ["0"]

    def zeroed(model, batch, loss_fn, optimizer):
        optimizer.zero_grad()
        loss_fn(model(batch[0]), batch[1]).backward()
        model[0].weight.grad.zero_()
        optimizer.step()

    one = program(train_step=zeroed)
    one.optimizer = torch.optim.SGD(one.model.parameters(), lr=0.1, weight_decay=0.5)
    found = seen(one)
    assert found.zeroed_moved == {"0.weight": pytest.approx(0.05, rel=1e-4)}  # rate times decay


@pytest.mark.parametrize(("after", "expected"), [(True, ["0.weight", "0.bias"]), (False, [])])
def test_what_an_evaluation_thaws_and_leaves_frozen(after, expected):
    def evaluate(model, loader):
        model[0].requires_grad_(after)
        model[2].requires_grad_(not after)
        return 1.0

    one = program(evaluate=evaluate)
    one.model[0].requires_grad_(False)
    found = seen(one, evaluated=True)
    assert (found.thawed, found.left_frozen) == (expected, ["2.weight", "2.bias"] if after else [])


def test_graphs_that_are_kept():
    losses = []

    def train_step(model, batch, loss_fn, optimizer):
        optimizer.zero_grad()
        loss = loss_fn(model(batch[0]), batch[1])
        losses.append(loss)
        loss.backward()
        optimizer.step()

    assert seen(program(train_step=train_step)).live == list(range(1, 11))


def test_rates():
    one = program()
    found = seen(one).rates
    assert (found.first, found.decay, found.adaptive, found.in_step, found.trace) == (0.1, 0.0, False, False, [])
    assert (len(found.losses), len(found.ratios), found.by_hand) == (10, 10, [])
    one = program()
    one.optimizer = torch.optim.AdamW(one.model.parameters(), lr=0.01, weight_decay=0.3)
    one.scheduler = StepLR(one.optimizer, 2, 0.5)
    found = seen(one).rates
    assert (found.adaptive, found.decay, found.kind, found.per_epoch, found.meant) == (True, 0.3, "StepLR", 1, 0.01)
    assert found.trace == pytest.approx([0.01, 0.01, 0.005, 0.005, 0.0025])
    one.scheduler = StepLR(torch.optim.SGD(one.model.parameters(), lr=1.0), 1)
    assert seen(one).rates.other_optimizer


def test_a_schedule_in_the_step_and_rates_by_hand():
    one = program()
    schedule = StepLR(one.optimizer, 5, 0.1)
    inner = stepping("clear", "backward", "step")

    def scheduled(model, batch, loss_fn, optimizer):
        schedule.step()
        inner(model, batch, loss_fn, optimizer)

    one.train_step = scheduled
    found = seen(one).rates
    assert (found.in_step, found.before_step, found.per_epoch, len(found.trace)) == (True, True, 10, 50)

    def once_an_epoch(model, batch, loss_fn, optimizer):
        inner(model, batch, loss_fn, optimizer)
        done.append(len(done))
        if len(done) % 10 == 0:
            slow.step()

    done: list[int] = []
    one = program(train_step=once_an_epoch)
    slow = StepLR(one.optimizer, 1, 0.5)
    found = seen(one).rates
    assert (found.in_step, found.before_step, found.per_epoch, len(found.trace)) == (True, False, 1, 5)

    def rising(model, batch, loss_fn, optimizer):
        optimizer.param_groups[0]["lr"] += 0.01
        inner(model, batch, loss_fn, optimizer)

    one = program(train_step=rising)
    found = seen(one).rates
    assert found.by_hand == pytest.approx([0.11 + 0.01 * number for number in range(10)])
