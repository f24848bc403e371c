import copy
import re

import pytest
import torch
import torch.nn as nn

from labkit.doctor import examine
from labkit.doctor.evidence import Evidence
from labkit.doctor.examine import diagnose, gather
from labkit.doctor.probe.data import DataEvidence
from labkit.doctor.probe.data_order import OrderEvidence
from labkit.doctor.probe.rates import RatesEvidence
from labkit.doctor.probe.updates_evidence import UpdatesEvidence
from labkit.doctor.rules import rates
from tests.doctor.small import program


def said(changed) -> dict[str, str]:
    """Return fault -> what was measured, of a program."""
    found = {name: piece for name, piece in vars(changed).items() if name != "context"}
    return {finding.fault: finding.what for finding in examine(**found).findings}


def counted(what: str) -> tuple[int, int]:
    """Return the first two numbers of a sentence: how many updates are watched is no matter of the tests."""
    first, second = re.findall(r"\d+", what)[:2]
    return int(first), int(second)


def stepping(*order: str, every: int = 1):
    """Return a train_step that does things in an order, and clears and steps only in every so many batches."""
    count = 0

    def train_step(model, batch, loss_fn, optimizer):
        nonlocal count
        count += 1
        loss = loss_fn(model(batch[0]), batch[1])
        for act in order:
            if act == "backward":
                (loss / every).backward()
            elif act == "unscaled backward":
                loss.backward()
            elif act == "clip":
                nn.utils.clip_grad_norm_(model.parameters(), 0.01)
            elif count % every == 0:
                {"clear": optimizer.zero_grad, "step": optimizer.step}[act]()
        return loss.item()

    return train_step


def test_the_usual_order_and_accumulation_are_healthy():
    assert said(program(train_step=stepping("clear", "backward", "clip", "step"))) == {}
    assert said(program(train_step=stepping("backward", "step", "clear", every=5))) == {}


def test_gradients_that_are_never_cleared():
    kept, steps = counted(said(program(train_step=stepping("backward", "step")))["zero_grad_misplaced"])
    assert kept == steps - 1 >= 5


def test_gradients_cleared_before_the_step():
    emptied, steps = counted(said(program(train_step=stepping("backward", "clear", "step")))["zero_grad_misplaced"])
    assert emptied == steps >= 6


def test_a_step_that_is_missing():
    assert "0 steps of this optimizer" in said(program(train_step=stepping("clear", "backward")))["step_missing"]


def test_clipping_after_the_step():
    changed, steps = counted(said(program(train_step=stepping("clear", "backward", "step", "clip")))["clip_misplaced"])
    assert changed == steps >= 6


def test_an_optimizer_of_another_network():
    changed = program()
    changed.optimizer = torch.optim.SGD(copy.deepcopy(changed.model).parameters(), lr=0.1)
    assert "4 parameters get a gradient and no optimizer has them" in said(changed)["param_not_optimised"]


def test_a_head_that_was_exchanged():
    changed = program()
    changed.model[2] = nn.Linear(16, 2)
    assert "2.weight, 2.bias. It holds 2 tensors" in said(changed)["param_not_optimised"]


def test_a_window_that_is_not_divided():
    def train_step(model, batch, loss_fn, optimizer):
        nonlocal_count[0] += 1
        loss_fn(model(batch[0]), batch[1]).backward()
        if nonlocal_count[0] % 4 == 0:
            optimizer.step()
            optimizer.zero_grad()

    nonlocal_count = [0]
    assert (
        "4 backward passes make one step, and together they weigh 4 times"
        in said(program(train_step=train_step))["grad_accumulation_scale"]
    )


def test_an_optimizer_made_in_every_step():
    def train_step(model, batch, loss_fn, optimizer):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        loss_fn(model(batch[0]), batch[1]).backward()
        optimizer.step()
        optimizer.zero_grad()

    made, updates = counted(said(program(train_step=train_step))["optimizer_recreated"])
    assert made == updates >= 6


def test_weights_that_are_set_back():
    changed = program()
    first = copy.deepcopy(changed.model.state_dict())

    def train_step(model, batch, loss_fn, optimizer):
        model.load_state_dict(first)
        optimizer.zero_grad()
        loss_fn(model(batch[0]), batch[1]).backward()
        optimizer.step()

    changed.train_step = train_step
    assert "they are again what they were" in said(changed)["weights_reset"]


@pytest.mark.parametrize(("factor", "fault"), [(300.0, "lr_too_high"), (1e-6, "lr_too_low")])
def test_a_learning_rate_that_is_no_good(factor, fault):
    changed = program()
    changed.optimizer.param_groups[0]["lr"] *= factor
    assert "A trial of the fix" in said(changed)[fault]


def test_a_flag_on_a_module_freezes_nothing():
    changed = program()
    changed.model[0].requires_grad = False
    assert "0 has an attribute requires_grad = False" in said(changed)["freeze_ineffective"]


def test_gradients_that_are_not_finite_may_be_thrown_away():
    """A loop that leaves out the step of a broken batch does what a gradient scaler does."""
    calls = []

    def train_step(model, batch, loss_fn, optimizer):
        calls.append(batch)
        inputs, targets = batch
        if len(calls) % 3:
            inputs = inputs * float("inf")
        optimizer.zero_grad()
        loss = loss_fn(model(inputs), targets)
        loss.backward()
        if loss.isfinite():
            optimizer.step()
        return loss.item()

    faults = {finding.fault for finding in examine(**program(train_step=train_step).pieces()).findings}
    assert not faults & {"step_missing", "grad_accumulation_scale", "zero_grad_misplaced"}


def test_only_some_of_the_gradients_are_clipped():
    """A trial decides whether that is a fault: some clip one part on purpose."""

    def clipping(chosen):
        def train_step(model, batch, loss_fn, optimizer):
            optimizer.zero_grad()
            loss = loss_fn(model(batch[0]), batch[1])
            loss.backward()
            nn.utils.clip_grad_norm_(chosen(model), 0.1)
            optimizer.step()
            return loss.item()

        return train_step

    def suspected(chosen):
        findings = diagnose(gather(program(train_step=clipping(chosen))))
        return [(finding.what, finding.confirm) for finding in findings if finding.fault == "clip_misplaced"]

    what = "Only 2 of the 4 gradients that a step uses are clipped (to a norm of 0.1)."
    assert suspected(lambda model: model[2].parameters()) == [(what, True)]
    assert suspected(lambda model: model.parameters()) == []


def test_a_warm_up_by_hand_that_is_longer_than_the_training():
    def warming(updates):
        done = [0]

        def train_step(model, batch, loss_fn, optimizer):
            done[0] += 1
            optimizer.param_groups[0]["lr"] = 0.1 * min(1.0, done[0] / updates)
            optimizer.zero_grad()
            loss = loss_fn(model(batch[0]), batch[1])
            loss.backward()
            optimizer.step()
            return loss.item()

        return train_step

    assert "the learning rate rises from 1e-08 to" in said(program(train_step=warming(10_000_000)))["lr_too_low"]
    assert "lr_too_low" not in said(program(train_step=warming(50)))


@pytest.mark.parametrize(("runs", "said"), [(10, False), (12, False), (150, True)])
def test_a_loss_that_jumps_says_nothing_of_the_rate_where_class_follows_class(runs, said):
    data = DataEvidence(order=OrderEvidence(batches=20, classes=10, runs=runs))
    seen = UpdatesEvidence(rates=RatesEvidence(first=0.1, losses=[2.3, 3.0, 4.0, 5.0, 6.0], ratios=[0.05] * 5))
    assert (rates.too_high(Evidence(data, None, None, seen, None)) is not None) == said


class Weighted(nn.Module):
    """A loss with a parameter of its own, and a network that it only looks through."""

    def __init__(self):
        super().__init__()
        self.log_scale = nn.Parameter(torch.full((), 3.0))
        self.seen_through = nn.Linear(2, 2)

    def forward(self, outputs, targets):
        looked_at = nn.functional.cross_entropy(outputs + 0 * self.seen_through(outputs), targets)
        return looked_at * torch.exp(-self.log_scale) + self.log_scale


def test_parameters_of_the_loss_belong_into_an_optimizer_too():
    model, loss_fn = nn.Linear(6, 2), Weighted()
    alone = program(model=model, loss_fn=loss_fn, optimizer=torch.optim.SGD(model.parameters(), lr=0.1))
    assert gather(alone).updates.missing_in_loss == ["log_scale"]
    both = torch.optim.SGD([*model.parameters(), loss_fn.log_scale], lr=0.1)
    assert gather(program(model=model, loss_fn=loss_fn, optimizer=both)).updates.missing_in_loss == []


def test_an_epoch_without_a_step_is_told_from_a_long_window():
    never = program(train_step=stepping("backward", "step", "clear", every=10**9), train_loader=batches(60))
    assert counted(said(never)["step_missing"]) == (60, 0)
    long = program(train_step=stepping("backward", "step", "clear", every=50), train_loader=batches(60))
    assert gather(long).updates.epoch_without_step == 0 and "step_missing" not in said(long)


def batches(count: int) -> list:
    one = list(program().train_loader)
    return [one[number % len(one)] for number in range(count)]


@pytest.mark.parametrize("attribute", ["require_grad", "requires_gard"])
def test_a_misspelt_attribute_freezes_nothing(attribute):
    ill = program()
    setattr(ill.model[0].weight, attribute, False)
    assert f"0.weight has an attribute {attribute} = False" in said(ill)["freeze_ineffective"]
    mended = examine(**{n: piece for n, piece in vars(ill).items() if n != "context"}).apply().program
    assert not mended.model[0].weight.requires_grad and ill.model[0].weight.requires_grad
    other = program()
    other.model[0].weight.is_pretrained = False  # somebody's own note
    assert "freeze_ineffective" not in said(other)


def summing(accumulate: int):
    """Return pieces of a program whose loss is a sum over the samples, with some backward passes for each step."""
    model = nn.Linear(6, 2)
    return program(
        model=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=1e-3),
        loss_fn=nn.CrossEntropyLoss(reduction="sum"),
        train_step=stepping("unscaled backward", "step", "clear", every=accumulate),
    )


def test_sums_add_up_over_a_window_without_division():
    assert gather(summing(4)).updates.sums_losses and "grad_accumulation_scale" not in said(summing(4))
    means = program(train_step=stepping("unscaled backward", "step", "clear", every=4))
    assert not gather(means).updates.sums_losses and "4 times" in said(means)["grad_accumulation_scale"]


def test_a_norm_that_is_only_measured_clips_nothing():
    def measures(model, batch, loss_fn, optimizer):
        loss = loss_fn(model(batch[0]), batch[1])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        nn.utils.clip_grad_norm_(model.parameters(), float("inf"))
        return loss.item()

    assert "clip_misplaced" not in said(program(train_step=measures))


def test_an_optimizer_over_a_copy_is_not_made_again():
    def looks_ahead(model, batch, loss_fn, optimizer):
        fast = copy.deepcopy(model)
        inner = torch.optim.SGD(fast.parameters(), lr=0.1)
        loss_fn(fast(batch[0]), batch[1]).backward()
        inner.step()
        optimizer.zero_grad()
        loss = loss_fn(model(batch[0]), batch[1])
        loss.backward()
        optimizer.step()
        return loss.item()

    assert gather(program(train_step=looks_ahead)).updates.made == 0


def test_an_error_of_the_loader_is_the_first_finding():
    class Gap(torch.utils.data.Dataset):
        def __len__(self):
            return 40

        def __getitem__(self, index):
            return {n: (torch.zeros(6), n % 2) for n in range(39)}[index]

    report = examine(**vars(program(train_loader=torch.utils.data.DataLoader(Gap(), 4))) | {"context": {}})
    assert report.findings[0].severity == "fail" and "KeyError: 39" in report.findings[0].what
