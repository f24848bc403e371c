import copy
import random
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from learners_models import MODELS
from torch import nn
from torch.utils.checkpoint import checkpoint

from labkit.autograd.steps import steps, watch
from labkit.errors import LabkitError


@pytest.fixture(params=MODELS, ids=str)
def model_and_loss(request):
    torch.manual_seed(3)
    return MODELS[request.param]()


def leaf_gradients(walk):
    return {step.node.leaf: step.accumulated for step in walk if step.accumulated is not None}


def everything(model):
    return {
        "state": copy.deepcopy(model.state_dict()),
        "gradients": {name: None if p.grad is None else p.grad.clone() for name, p in model.named_parameters()},
        "modes": [module.training for module in model.modules()],
        "hooks": [len(module._forward_hooks) + len(module._backward_hooks) for module in model.modules()],
        "random": (torch.get_rng_state(), random.getstate(), np.random.get_state()[1].copy()),
    }


def assert_equal(before, after):
    torch.testing.assert_close(after["state"], before["state"], rtol=0, atol=0)
    for name, gradient in before["gradients"].items():
        now = after["gradients"][name]
        assert (now is None) == (gradient is None) and (gradient is None or now.equal(gradient))
    assert after["modes"] == before["modes"] and after["hooks"] == before["hooks"]
    assert after["random"][0].equal(before["random"][0]) and after["random"][1] == before["random"][1]
    assert (after["random"][2] == before["random"][2]).all()


@pytest.mark.parametrize("with_old_gradients", [False, True])
def test_the_gradients_of_the_walk_equal_those_of_backward_and_nothing_else_changes(model_and_loss, with_old_gradients):
    model, compute = model_and_loss
    if with_old_gradients:
        compute().backward()
    loss = compute()
    before = everything(model)
    walk = steps(loss, model)
    assert_equal(before, everything(model))
    loss.backward()  # the graph is still there
    gradients = leaf_gradients(walk)
    trained = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
    assert set(gradients) == set(trained)
    for name, parameter in trained.items():
        torch.testing.assert_close(gradients[name], parameter.grad)


def test_every_node_is_visited_once_forward_and_once_backward_and_numbers_fit(model_and_loss):
    model, compute = model_and_loss
    walk = steps(compute(), model)
    forward = [step.node.number for step in walk if step.direction == "forward"]
    backward = [step.node.number for step in walk if step.direction == "backward"]
    assert forward == list(range(len(forward)))
    assert sorted(backward) == forward
    place = {number: position for position, number in enumerate(backward)}
    for step in walk:
        for parent in step.node.parents:
            assert parent is None or (parent < step.node.number and place[parent] > place[step.node.number])


def test_what_a_node_hands_on_is_upstream_times_its_slope(model_and_loss):
    _, compute = model_and_loss
    for step in steps(compute()):
        for slope, handed_on in zip(step.local, step.handed_on, strict=False):
            if slope is not None and handed_on is not None:
                torch.testing.assert_close(handed_on, step.upstream[0] * slope)


def test_slopes_are_known_for_element_wise_operations_and_no_others():
    torch.manual_seed(3)
    _, compute = MODELS["residual"]()
    known = {step.node.operation for step in steps(compute()) if any(slope is not None for slope in step.local)}
    assert known == {"Add", "Tanh", "Relu"}


def test_what_arrives_at_a_node_is_the_sum_of_what_was_handed_to_it(model_and_loss):
    _, compute = model_and_loss
    walk = [step for step in steps(compute()) if step.direction == "backward"]
    arriving = {}
    for step in walk:
        if step.node.leaf or len(step.node.results) > 1:
            continue
        if step.node.number in arriving:
            torch.testing.assert_close(step.upstream[0], arriving[step.node.number])
        for parent, gradient in zip(step.node.parents, step.handed_on, strict=True):
            if parent is not None and gradient is not None:
                arriving[parent] = arriving[parent] + gradient if parent in arriving else gradient


def test_the_numbers_of_one_neuron_by_hand():
    weight, bias = torch.tensor(2.0, requires_grad=True), torch.tensor(1.0, requires_grad=True)
    with watch() as watched:
        loss = (weight * 3 + bias - 5) ** 2
    walk = steps(loss, {"weight": weight, "bias": bias}, watched)
    forward = {step.node.leaf or step.node.operation: step.value.item() for step in walk if step.direction == "forward"}
    assert forward == {"weight": 2, "Mul": 6, "bias": 1, "Add": 7, "Sub": 2, "Pow": 4}
    backward = {step.node.operation: step for step in walk if step.direction == "backward" and not step.node.leaf}
    assert backward["Pow"].upstream[0] == 1 and backward["Pow"].local[0] == 4 and backward["Pow"].handed_on[0] == 4
    assert backward["Mul"].upstream[0] == 4 and backward["Mul"].local[0] == 3 and backward["Mul"].handed_on[0] == 12
    assert leaf_gradients(walk) == {"weight": 12, "bias": 4}


def test_without_watching_the_values_that_torch_kept_are_shown_and_no_other():
    weight = torch.tensor(2.0, requires_grad=True)
    loss = ((weight + 1) * 3).exp()
    shown = {step.node.operation: step.value for step in steps(loss) if step.direction == "forward"}
    assert shown["Exp"] is not None and shown["leaf"] is not None
    assert shown["Add"] is None and shown["Mul"] is None  # times a constant: no gradient needs the sum


def test_a_leaf_that_is_used_twice_gets_both_gradients_in_one_step():
    weight = torch.tensor(3.0, requires_grad=True)
    (step,) = [step for step in steps(weight * weight) if step.accumulated is not None]
    assert step.accumulated == 6


def test_the_loss_may_be_a_leaf():
    assert [step.accumulated for step in steps(torch.tensor(2.0, requires_grad=True))][-1] == 1


def test_a_graph_that_is_gone_or_absent_or_too_large_is_a_sentence():
    weight = torch.ones(2, requires_grad=True)
    loss = weight.exp().sum()
    loss.backward()
    with pytest.raises(LabkitError, match="has freed this graph"):
        steps(loss)
    with pytest.raises(LabkitError, match=r"this has shape \(2,\)"):
        steps(weight * 2)
    with pytest.raises(LabkitError, match="There is no graph behind this tensor"):
        steps(loss.detach())
    with pytest.raises(LabkitError, match="this is a float"):
        steps(loss.item())
    long = weight.sum()
    for _ in range(25_000):
        long = long * 1.0001 + 0.1
    begin = time.perf_counter()
    with pytest.raises(
        LabkitError, match="too large to walk through: more than 2,000 nodes; nearest to the loss are 100. (Add|Mul)"
    ):
        steps(long)
    assert time.perf_counter() - begin < 30  # not a measure of speed: it must not hang


def test_hooks_are_gone_after_an_error_too():
    weight = torch.ones(2, requires_grad=True)
    loss = weight.exp().sum()
    loss.backward()
    with pytest.raises(LabkitError):
        steps(loss)
    again = weight.exp().sum()
    assert len(steps(again)) == len(steps(again))


def test_dropout_and_batch_norm_are_walked_as_they_ran():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 1))
    loss = model(torch.randn(6, 4)).sum()
    running = model[1].running_mean.clone()
    walk = steps(loss, model)
    loss.backward()
    torch.testing.assert_close(leaf_gradients(walk)["0.weight"], model[0].weight.grad)
    assert model[1].running_mean.equal(running)


def test_what_torch_cannot_go_back_through_is_a_sentence_with_its_reason():
    weight = torch.ones(3, requires_grad=True)
    changed = weight.exp()
    changed += 1
    with pytest.raises(LabkitError, match=r"^torch cannot go back .* modified by an inplace operation.*0 instead\.$"):
        steps(changed.sum())
    with pytest.raises(LabkitError, match="this one is complex"):
        steps((weight * 1j).sum())
    loss = (weight * 2).sum()
    weight.requires_grad_(False)
    with pytest.raises(LabkitError, match="No leaf behind this loss asks for a gradient"):
        steps(loss)
    with pytest.raises(LabkitError, match="`watched` is what"):
        steps(torch.tensor(1.0, requires_grad=True), None, [])


def test_a_leaf_that_was_frozen_after_the_forward_pass_gets_nothing_as_in_backward():
    frozen, other = (torch.full((2,), value, requires_grad=True) for value in (3.0, 5.0))
    loss = (frozen * other).sum()
    frozen.requires_grad_(False)
    walk = leaf_gradients(steps(loss, {"frozen": frozen, "other": other}))
    loss.backward()
    assert frozen.grad is None and list(walk) == ["other"]
    assert walk["other"].tolist() == other.grad.tolist() == [3.0, 3.0]


@pytest.mark.parametrize("reentrant", [False, True])
def test_a_checkpointed_graph_is_not_computed_anew(reentrant):
    model = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
    inputs = torch.randn(4, 3, requires_grad=True)
    loss = checkpoint(model, inputs, use_reentrant=reentrant).sum()
    assert model[1].num_batches_tracked == 1
    with pytest.raises(LabkitError, match="checkpointed"):
        steps(loss, model)
    assert model[1].num_batches_tracked == 1


def test_of_several_results_the_first_is_shown():
    weight = torch.tensor([2.0, 3.0, 5.0], requires_grad=True)
    with watch() as watched:
        first, second, _ = weight.unbind()
        loss = first * second
    for walk in (steps(loss), steps(loss, None, watched)):
        assert [step.value.item() for step in walk if step.direction == "forward" and not step.node.leaf] == [2, 6]


def test_walks_through_one_graph_at_the_same_time_do_not_mix():
    weight = torch.tensor([2.0, 3.0], requires_grad=True)
    loss = weight.exp().tanh().square().sum()
    expected = len(steps(loss))
    with ThreadPoolExecutor(4) as pool:
        assert [len(walk) for walk in pool.map(lambda _: steps(loss), range(16))] == [expected] * 16


def test_the_numbers_of_a_walk_are_copies_and_show_what_was_before_a_change_in_place():
    weight = torch.tensor([1.0, -2.0], requires_grad=True)
    with watch() as watched:
        result = weight * 2
        result += 1
        loss = result.relu_().sum()
    walk = steps(loss, None, watched)
    with torch.no_grad():
        weight.fill_(100.0)
        loss.fill_(100.0)
    values = {
        step.node.leaf or step.node.operation: step.value.tolist() for step in walk if step.direction == "forward"
    }
    assert values == {"leaf 0": [1, -2], "Mul": [2, -4], "Add": [3, -3], "Relu": [3, 0], "Sum": 3}


@pytest.mark.parametrize("order", ["watched, loss", "loss, watched"])
def test_a_watched_graph_that_is_far_too_large_can_be_freed(order):
    program = f"""
import torch
from labkit.autograd import watch
with watch() as watched:
    loss = torch.ones(2, requires_grad=True)
    for _ in range(60_000):
        loss = loss * 1.0001
assert len(watched.values) == 2_000
del {order}
"""
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0  # torch could overflow the stack
