import copy

import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from labkit.measuring.losses import cross_entropy
from labkit.measuring.metrics import count_correct
from labkit.training import Config, Schedule, make_optimizer, update, windows
from labkit.training.totals import Totals
from labkit.training.weights import Average

OFF = torch.amp.GradScaler("cpu", enabled=False)


def make_net(dtype=torch.float32) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 4)).to(dtype)


def make_batches(sizes, dtype=torch.float32):
    source = torch.Generator().manual_seed(1)
    return [
        (torch.randn(size, 6, generator=source, dtype=dtype), torch.randint(0, 4, (size,), generator=source))
        for size in sizes
    ]


def optimizer_of(net, **settings):
    return make_optimizer(net, Config(**settings), torch.device("cpu"))


def test_windows_keep_every_batch_and_shorten_the_last():
    assert list(windows(range(7), 3)) == [[0, 1, 2], [3, 4, 5], [6]]
    assert list(windows([], 3)) == []
    assert list(windows(range(4), 1)) == [[0], [1], [2], [3]]


@pytest.mark.parametrize("sizes", [[8, 8, 8], [8, 8, 3], [1, 5, 2, 9], [7]])
def test_a_window_of_uneven_batches_has_the_gradient_of_the_big_batch(sizes):
    net, batches = make_net(torch.float64), make_batches(sizes, torch.float64)
    outcome = update(net, batches, F.cross_entropy, optimizer_of(net), OFF)
    ours = [parameter.grad.clone() for parameter in net.parameters()]

    big = make_net(torch.float64)
    inputs, targets = torch.cat([batch[0] for batch in batches]), torch.cat([batch[1] for batch in batches])
    loss = F.cross_entropy(big(inputs), targets)
    loss.backward()
    theirs = [parameter.grad for parameter in big.parameters()]

    for ours_one, theirs_one in zip(ours, theirs, strict=True):
        torch.testing.assert_close(ours_one, theirs_one, rtol=1e-14, atol=1e-15)
    norm = torch.cat([gradient.flatten() for gradient in theirs]).norm()
    torch.testing.assert_close(outcome.gradient_norm, norm)
    torch.testing.assert_close(outcome.loss, loss.detach())
    assert outcome.count == sum(sizes) and bool(outcome.stepped)
    assert int(outcome.correct) == int((make_net(torch.float64)(inputs).argmax(1) == targets).sum())


@pytest.mark.parametrize("name", ["sgd", "adam", "adamw"])
def test_updates_are_those_of_the_eight_bare_lines(name):
    """Bit for bit: the same net, batches and optimizer, trained by hand."""
    net, batches = make_net(), make_batches([8] * 5)
    settings = {"optimizer": name, "learning_rate": 0.1}
    optimizer = optimizer_of(net, **settings)
    for batch in batches:
        update(net, [batch], F.cross_entropy, optimizer, OFF)

    by_hand = make_net()
    optimizer = optimizer_of(by_hand, **settings)
    for inputs, targets in batches:
        optimizer.zero_grad()
        loss = F.cross_entropy(by_hand(inputs), targets)
        loss.backward()
        optimizer.step()
    for ours, theirs in zip(net.parameters(), by_hand.parameters(), strict=True):
        assert torch.equal(ours, theirs)


def test_clipping_shortens_the_gradient_and_reports_its_length_before():
    net, batches = make_net(), make_batches([8])
    twin = copy.deepcopy(net)
    free = update(twin, batches, F.cross_entropy, optimizer_of(twin), OFF).gradient_norm
    outcome = update(net, batches, F.cross_entropy, optimizer_of(net), OFF, clip_norm=0.01)
    assert torch.equal(outcome.gradient_norm, free) and free > 0.01
    clipped = torch.cat([parameter.grad.flatten() for parameter in net.parameters()]).norm()
    assert float(clipped) == pytest.approx(0.01, rel=1e-4)


@pytest.mark.parametrize("name", ["sgd", "adam", "adamw"])
@pytest.mark.parametrize("poison", [float("nan"), float("inf")])
@pytest.mark.parametrize("warm", [False, True])
def test_a_gradient_that_is_not_finite_changes_nothing(name, poison, warm):
    net, batches = make_net(), make_batches([8, 8, 8])
    optimizer = optimizer_of(net, optimizer=name)
    if warm:
        update(net, batches[:1], F.cross_entropy, optimizer, OFF)
    weights, state = copy.deepcopy(net.state_dict()), copy.deepcopy(optimizer.state_dict()["state"])

    poisoned = (batches[1][0].clone(), batches[1][1])
    poisoned[0][2, 3] = poison
    outcome = update(net, [poisoned], F.cross_entropy, optimizer, OFF)

    assert not bool(outcome.stepped)
    for name_, value in net.state_dict().items():
        assert torch.equal(value, weights[name_])
    if warm:
        for key, entries in optimizer.state_dict()["state"].items():
            for entry, value in entries.items():
                assert torch.equal(torch.as_tensor(value), torch.as_tensor(state[key][entry])), entry

    update(net, batches[2:], F.cross_entropy, optimizer, OFF)
    clean = make_net()
    clean_optimizer = optimizer_of(clean, optimizer=name)
    for batch in ([batches[0]] if warm else []) + [batches[2]]:
        update(clean, [batch], F.cross_entropy, clean_optimizer, OFF)
    for ours, theirs in zip(net.parameters(), clean.parameters(), strict=True):
        assert torch.equal(ours, theirs), "the update after the skipped one is not that of a clean run"


@pytest.mark.parametrize("precision", [torch.bfloat16, torch.float16])
def test_mixed_precision_follows_float32_on_the_cpu(precision):
    batches = make_batches([32] * 30)
    losses = {}
    for kind in (None, precision):
        net = make_net()
        scaler = torch.amp.GradScaler("cpu", enabled=kind is torch.float16)
        optimizer = optimizer_of(net, learning_rate=0.01)
        outcomes = [update(net, [batch], F.cross_entropy, optimizer, scaler, kind, clip_norm=1.0) for batch in batches]
        losses[kind] = torch.stack([outcome.loss for outcome in outcomes if outcome.stepped])
        assert all(parameter.dtype == torch.float32 for parameter in net.parameters())
        assert float(outcomes[-1].gradient_norm) < 2, "the norm is that of the unscaled gradient"
    count = min(map(len, losses.values()))
    assert count >= 25
    torch.testing.assert_close(losses[None][:count].mean(), losses[precision][:count].mean(), rtol=0.05, atol=0.02)


def test_an_overflow_in_float16_is_skipped_and_the_scale_is_halved():
    net, batches = make_net(), make_batches([8])
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**40)
    optimizer, before = optimizer_of(net), copy.deepcopy(net.state_dict())
    outcome = update(net, batches, F.cross_entropy, optimizer, scaler, torch.float16)
    assert not bool(outcome.stepped) and scaler.get_scale() == 2.0**39
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())


def test_frozen_parameters_stay_and_unused_ones_do_not_matter():
    net = make_net()
    net[0].requires_grad_(False)
    unused = nn.ModuleDict({"net": net, "unused": nn.Linear(2, 2)})
    before = copy.deepcopy(unused.state_dict())
    update(net, make_batches([8]), F.cross_entropy, optimizer_of(unused), OFF)
    after = unused.state_dict()
    changed = {name for name in after if not torch.equal(after[name], before[name])}
    assert changed == {"net.2.weight", "net.2.bias"}


def test_correct_answers_are_counted_only_for_class_numbers():
    assert int(count_correct(torch.eye(3), torch.tensor([0, 1, 1]))) == 2
    assert int(count_correct(torch.ones(3, 1), torch.ones(3, 1))) == 0


class Reads(TorchDispatchMode):
    """Counts how often a number is fetched from a tensor: on a GPU each would make the program wait."""

    count = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.count += function in (torch.ops.aten._local_scalar_dense.default, torch.ops.aten.nonzero.default)
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("name", ["sgd", "adam", "adamw"])
def test_an_update_reads_one_number_and_only_where_it_is_at_hand(name):
    """All that one update does, as `fit` does it, with everything on. The one number is the `if` for the CPU."""
    net, config, device = make_net(), Config(optimizer=name, schedule="cosine"), torch.device("cpu")
    optimizer, totals = optimizer_of(net, optimizer=name), Totals(device)
    schedule, average = Schedule(config, 200, device), Average(net, 0.9)
    window = make_batches([8, 8, 3])
    for number in range(130):  # the totals add up a block of updates now and then
        with Reads() as reads:
            schedule.set_rate(optimizer)
            outcome = update(net, window, cross_entropy, optimizer, OFF, clip_norm=1.0)
            schedule.advance(outcome.stepped)
            average.follow(outcome.stepped)
            totals.add(outcome)
        assert reads.count == 1, number


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no NVIDIA GPU")
@pytest.mark.parametrize("name", ["sgd", "adam", "adamw"])
@pytest.mark.parametrize("precision", [None, torch.float16])
def test_an_update_on_a_gpu_never_waits(name, precision):
    device = torch.device("cuda")
    net, config = make_net().to(device), Config(optimizer=name, schedule="cosine")
    optimizer, totals = make_optimizer(net, config, device), Totals(device)
    schedule, average = Schedule(config, 200, device), Average(net, 0.9)
    scaler = torch.amp.GradScaler("cuda", enabled=precision is torch.float16)
    window = [(inputs.to(device), targets.to(device)) for inputs, targets in make_batches([8, 8, 3])]
    update(net, window, cross_entropy, optimizer, scaler, precision)  # the first one may prepare things
    torch.cuda.set_sync_debug_mode("error")
    try:
        for _ in range(130):
            schedule.set_rate(optimizer)
            outcome = update(net, window, cross_entropy, optimizer, scaler, precision, clip_norm=1.0)
            schedule.advance(outcome.stepped)
            average.follow(outcome.stepped)
            totals.add(outcome)
    finally:
        torch.cuda.set_sync_debug_mode("default")
