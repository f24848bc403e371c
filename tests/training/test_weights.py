import copy

import pytest
import torch
import torch.nn as nn

from labkit.training.weights import Average, unwrapped
from tests.training.helpers import small_model

YES, NO = torch.tensor(True), torch.tensor(False)


def moved(model: nn.Module, seed: int) -> None:
    """Change everything in a model, its counters as well."""
    torch.manual_seed(seed)
    with torch.no_grad():
        for value in model.state_dict().values():
            value.add_(torch.randn_like(value) if value.is_floating_point() else 1)


def test_an_average_follows_the_rule_it_states():
    model = small_model()
    average, expected = Average(model, 0.9), copy.deepcopy(model.state_dict())
    for number in range(1, 101):
        moved(model, number)
        average.follow(YES)
        keep = min(0.9, (1 + number) / (10 + number))
        for name, value in model.state_dict().items():
            is_float = value.is_floating_point()
            expected[name] = keep * expected[name] + (1 - keep) * value if is_float else value.clone()
    for name, value in average.state_dict()["values"].items():
        torch.testing.assert_close(value, expected[name], rtol=1e-4, atol=1e-4)
    assert int(average.values["1.num_batches_tracked"]) == 100


def test_a_skipped_update_does_not_enter():
    model = small_model()
    average = Average(model, 0.9)
    moved(model, 1)
    average.follow(YES)
    before = copy.deepcopy(average.state_dict())
    with torch.no_grad():
        model[1].running_mean.fill_(float("nan"))
    average.follow(NO)
    after = average.state_dict()
    assert torch.equal(before["updates"], after["updates"])
    assert all(torch.equal(value, before["values"][name]) for name, value in after["values"].items())


def test_the_model_gets_its_own_numbers_back():
    model = small_model()
    average = Average(model, 0.5)
    moved(model, 1)
    average.follow(YES)
    own = copy.deepcopy(model.state_dict())
    with pytest.raises(KeyboardInterrupt), average.in_model():
        assert torch.equal(model[0].weight, average.values["0.weight"])
        assert not torch.equal(model[0].weight, own["0.weight"])
        raise KeyboardInterrupt
    assert all(torch.equal(value, own[name]) for name, value in model.state_dict().items())


def test_its_state_is_plain_and_brings_it_back():
    model = small_model()
    average = Average(model, 0.5)
    moved(model, 1)
    average.follow(YES)
    other = Average(small_model(3), 0.5)
    other.load_state_dict(copy.deepcopy(average.state_dict()))
    assert torch.equal(other.updates, average.updates)
    assert all(torch.equal(value, average.values[name]) for name, value in other.values.items())


def test_wrappers_are_seen_through():
    model = small_model()
    assert unwrapped(nn.DataParallel(model)) is model
    assert unwrapped(torch.compile(model)) is model
    assert list(unwrapped(torch.compile(nn.DataParallel(model))).state_dict()) == list(model.state_dict())
