import pytest
import torch
from learners_models import MODELS, partly_frozen
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from labkit.autograd.trace import trace
from labkit.errors import LabkitError


@pytest.mark.parametrize("name", MODELS, ids=str)
def test_each_parameter_that_learns_is_a_leaf_by_its_name(name):
    torch.manual_seed(0)
    model, compute = MODELS[name]()
    graph = trace(compute(), model)
    assert {node.leaf for node in graph.leaves} == {name for name, p in model.named_parameters() if p.requires_grad}
    assert len(graph.nodes) == sum(graph.operations.values())


def test_nodes_say_what_they_are_made_of_and_what_they_keep():
    weight, inputs = torch.ones(3, requires_grad=True), torch.arange(3.0)
    graph = trace((weight * inputs).exp().sum(), {"weight": weight, "inputs": inputs})
    assert [node.leaf or node.operation for node in graph.nodes] == ["weight", "Mul", "Exp", "Sum"]
    assert [node.parents for node in graph.nodes] == [(), (0, None), (1,), (2,)]
    multiply, exponential = graph.nodes[1:3]
    assert multiply.saved == {"other": "float32 (3,)"} and multiply.stops == ("inputs (needs no gradient)",)
    assert exponential.saved == {"result": "float32 (3,)"} and exponential.results == ("float32 (3,)",)


def test_a_frozen_weight_is_named_where_recording_stops():
    model = partly_frozen()
    model[2].weight.requires_grad_(False)
    model[0].requires_grad_(True)
    graph = trace(F.mse_loss(model(torch.randn(4, 5)), torch.zeros(4, 3)), model)
    assert any("2.weight (needs no gradient)" in node.stops for node in graph.nodes)


def test_a_detached_input_ends_the_graph():
    weight = torch.ones(2, requires_grad=True)
    graph = trace((weight * weight.exp().detach()).sum())
    assert [node.operation for node in graph.nodes] == ["leaf", "Mul", "Sum"]
    assert graph.nodes[1].stops == ("a constant, data, or a tensor that was detached",)


def test_after_backward_the_graph_is_there_and_what_it_had_saved_is_not():
    weight = torch.ones(2, requires_grad=True)
    loss = weight.exp().sum()
    loss.backward()
    assert trace(loss).nodes[1].saved == {"result": "freed by backward"}


def test_a_saved_value_that_was_changed_in_place_is_named():
    weight = torch.ones(2, requires_grad=True)
    middle = weight.exp()
    loss = middle.sum()
    middle.add_(1)
    assert trace(loss).nodes[1].saved == {"result": "changed in place since"}


def test_shared_weights_are_one_leaf():
    layer = nn.Linear(2, 2, bias=False)
    graph = trace(layer(layer(torch.ones(1, 2))).sum(), layer)
    assert [node.leaf for node in graph.leaves] == ["weight"]


def test_the_table_has_a_row_for_each_node_and_the_summary_counts():
    weight = torch.ones(2, requires_grad=True)
    graph = trace((weight * 2).sum(), {"weight": weight})
    table = graph.table()
    assert [row["operation"] for row in table.rows] == ["weight", "Mul", "Sum"]
    assert graph.summary == "3 nodes: 1 leaf, 1 Mul, 1 Sum."


@pytest.mark.parametrize("nothing", [torch.ones(2), torch.ones(2, requires_grad=True).detach(), 3.0])
def test_where_nothing_was_recorded_a_sentence_says_so(nothing):
    with pytest.raises(LabkitError, match="no graph behind this tensor|belongs to a tensor"):
        trace(nothing)


def test_of_a_large_graph_the_operations_nearest_to_the_loss_are_counted_and_freeing_it_does_no_harm():
    result = torch.ones((), requires_grad=True)
    for _ in range(50_000):
        result = result * 1.0001 + 0.1
    graph = trace(result)
    assert graph.nodes == () and set(graph.operations) == {"Add", "Mul"}
    assert graph.summary.startswith("more than 2,000 nodes; nearest to the loss are 1001 Add, 1000 Mul")
    del result
    assert graph.table().caption == graph.summary


@pytest.mark.parametrize(
    "make",
    [lambda: torch.ones(3, device="meta"), lambda: torch.ones(0, 3), lambda: torch.eye(3).to_sparse()],
    ids=["meta", "empty", "sparse"],
)
def test_leaves_without_memory_of_their_own_keep_their_names(make):
    one, other = make().requires_grad_(), make().requires_grad_()
    graph = trace((one + other).sum(), {"one": one, "other": other})
    assert [leaf.leaf for leaf in graph.leaves] == ["one", "other"]


def test_two_leaves_on_the_same_memory_keep_their_names():
    one = torch.ones(2, requires_grad=True)
    other = one.detach().requires_grad_()
    assert [leaf.leaf for leaf in trace((one * other).sum(), {"one": one, "other": other}).leaves] == ["one", "other"]


def test_what_a_hook_packed_away_stays_packed():
    weight, unpacked = torch.ones(2, requires_grad=True), []
    with torch.autograd.graph.saved_tensors_hooks(lambda kept: kept, unpacked.append):
        loss = (weight * weight).sum()
    assert set(trace(loss).nodes[1].saved.values()) == {"packed by a hook"} and not unpacked
    normed = nn.BatchNorm1d(2)
    loss = checkpoint(normed, torch.randn(3, 2), use_reentrant=False).sum()
    kept = {what for node in trace(loss, normed).nodes for what in node.saved.values()}
    assert kept == {"computed anew by a checkpoint"} and normed.num_batches_tracked == 1


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_names_and_tensors_that_cannot_be_used_are_a_sentence():
    weight = torch.ones(2, requires_grad=True)
    for names in (["weight"], weight, {"weight": 3}):
        with pytest.raises(LabkitError, match="Names come from a module, or from tensors by name"):
            trace(weight.sum(), names)
    with pytest.raises(LabkitError, match="names of tensors are texts"):
        trace(weight.sum(), {1: weight})
    assert trace(weight.sum(), nn.LazyLinear(2)).summary == "2 nodes: 1 leaf, 1 Sum."
    nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], requires_grad=True)
    with pytest.raises(LabkitError, match="nested tensors"):
        trace(torch.nested.to_padded_tensor(nested * 2, 0.0).sum())


def test_inside_torch_func_the_graph_is_there_too():
    seen = []

    def cube(values):
        seen.append(trace((values**3).sum()).summary)
        return (values**3).sum()

    torch.func.grad(cube)(torch.ones(3))
    assert seen == ["3 nodes: 1 leaf, 1 Pow, 1 Sum."]
