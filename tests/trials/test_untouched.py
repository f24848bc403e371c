"""`untouched` puts everything back, whether it works on copies or on the things themselves."""

import random
import signal
import subprocess
import sys
import warnings

import numpy
import pytest
import torch
import torch.nn as nn
from ten_models import MAKERS, everything, used

from labkit import randomness
from labkit.trials import TrialWarning, untouched


def live(model: nn.Module, optimizer: torch.optim.Optimizer, batches) -> None:
    """Do to a model whatever a program can do: train, replace, freeze, switch, draw, convert."""
    for _, (inputs, targets) in zip(range(3), batches, strict=False):
        model.train()
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), targets).backward()
        optimizer.step()
    optimizer.param_groups[0]["lr"] = 7.0
    optimizer.remark = "new"
    model.eval()
    model.remark = "new"
    model.register_forward_hook(lambda *_: None)
    model.requires_grad_(False)
    model.half()
    random.random(), numpy.random.rand(), torch.rand(1)


@pytest.mark.filterwarnings("ignore::labkit.trials.TrialWarning")
@pytest.mark.parametrize("on_copies", [True, False])
@pytest.mark.parametrize("name", MAKERS)
def test_everything_is_put_back(name: str, on_copies: bool) -> None:
    things = used(name)
    before = everything(*things)
    with untouched(*things, on_copies=on_copies) as inner:
        live(*inner)
    assert everything(*things) == before
    with pytest.raises(ZeroDivisionError), untouched(*things, on_copies=on_copies) as inner:
        live(*inner)
        raise ZeroDivisionError
    assert everything(*things) == before


def test_an_iteration_that_was_begun_goes_on_where_it_was() -> None:
    model, optimizer, batches = used("mlp")
    expected = list(batches.at(5, 0))
    iteration = batches.at(5, 0)
    seen = [next(iteration)]
    with untouched(model, optimizer, batches) as (_, _, twin):
        assert len(list(twin)) == len(batches)
    seen += list(iteration)
    assert all(torch.equal(one[0], other[0]) for one, other in zip(seen, expected, strict=True))


@pytest.mark.parametrize("workers", [0, 1])
def test_a_torch_loader_keeps_its_iteration_and_its_generator(workers: int) -> None:
    generator = torch.Generator().manual_seed(5)
    settings = {"shuffle": True, "generator": generator, "num_workers": workers, "persistent_workers": workers > 0}
    batches = torch.utils.data.DataLoader(torch.arange(20), 4, **settings)
    iteration = iter(batches)
    seen, state = [next(iteration)], generator.get_state()
    with untouched(batches) as (twin,):
        assert sorted(torch.cat(list(twin)).tolist()) == list(range(20))
    assert torch.equal(generator.get_state(), state)
    assert sorted(torch.cat([*seen, *iteration]).tolist()) == list(range(20))


def test_the_copies_belong_together_and_their_random_numbers_start_anew() -> None:
    model, optimizer, _ = used("cnn")
    draws = []
    for _ in range(2):
        with untouched(model, optimizer, len) as (twin, twin_optimizer, passed_on):
            own = {id(one) for one in twin.parameters()}
            assert own.isdisjoint(map(id, model.parameters())) and passed_on is len
            assert {id(one) for group in twin_optimizer.param_groups for one in group["params"]} <= own
            assert set(map(id, twin_optimizer.state)) <= own
            draws.append(float(torch.rand(())))
    assert draws[0] == draws[1]


def test_a_graph_that_was_recorded_before_can_still_be_run_backward() -> None:
    model, optimizer, batches = used("cnn")
    loss = model(next(iter(batches))[0]).sum()
    with untouched(model, optimizer, batches) as inner:
        live(*inner)
    loss.backward()


def test_a_model_that_cannot_be_copied_is_named_with_the_reason() -> None:
    model, optimizer, _ = used("attentive")
    named = pytest.warns(TrialWarning, match=r"^Attentive cannot be copied \(.*\), so the trial uses it and puts")
    with named, untouched(model, optimizer) as (same, _):
        assert same is model
    model.last = None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with untouched(model, optimizer) as (twin, _):
            assert twin is not model


def test_a_forward_that_was_replaced_moves_the_model_that_it_belongs_to() -> None:
    model, _, _ = used("mlp")
    plain = model.forward
    model.forward = lambda inputs: plain(inputs) * 2
    with pytest.warns(TrialWarning, match="a forward was replaced by a function"), untouched(model) as (same,):
        assert same is model


def test_a_trial_computes_gradients_whatever_is_switched_off_outside() -> None:
    model, _, _ = used("mlp")
    for off in (torch.no_grad, torch.inference_mode):
        with off(), untouched(model) as (twin,):
            twin(torch.ones(2, 1, 8, 8)).sum().backward()
            assert next(twin.parameters()).grad is not None
    assert torch.is_grad_enabled()


# Interrupts itself in the middle of a block that works on the model itself, and says what it finds afterwards.
INTERRUPTED = """
import os, signal, torch
from labkit.trials import untouched
signal.signal(signal.SIGINT, signal.default_int_handler)  # what is started in the background ignores it
model = torch.nn.Linear(2, 2)
model.weight.grad = gradient = torch.ones(2, 2)
before = model.weight.detach().clone()
try:
    with untouched(model, on_copies=False):
        model.weight.data.zero_()
        signal.raise_signal(signal.SIGINT)
        print("went on")
except KeyboardInterrupt:
    print(torch.equal(model.weight, before), model.weight.grad is gradient, signal.getsignal(signal.SIGINT).__name__)
"""


def test_ctrl_c_is_obeyed_after_all_is_back() -> None:
    answer = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, check=True)
    assert answer.stdout.split() == ["True", "True", "default_int_handler"]


def test_a_ctrl_c_while_things_are_put_back_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    model, whole = nn.Linear(2, 2), randomness.set_rng_state
    before = model.weight.detach().clone()

    def interrupted(state: dict) -> None:
        signal.raise_signal(signal.SIGINT)
        whole(state)

    state = torch.get_rng_state()
    monkeypatch.setattr(randomness, "set_rng_state", interrupted)
    with pytest.raises(KeyboardInterrupt), untouched(model, on_copies=False):
        model.weight.data.zero_()
    assert torch.equal(model.weight, before) and torch.equal(torch.get_rng_state(), state)
