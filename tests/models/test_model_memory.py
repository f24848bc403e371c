"""What a model costs: counted by hand, and the model is as before."""

import pytest
import torch
import torch.nn as nn

from labkit.errors import ConfigError
from labkit.models import build, parameter_count
from labkit.models.memory import kept_by_layer, kept_for_backward, memory_table


def test_a_cost_known_from_hand() -> None:
    """A linear layer keeps its input, ReLU its output; 4 bytes a number."""
    model = nn.Sequential(nn.Flatten(), nn.Linear(12, 5), nn.ReLU(), nn.Linear(5, 2))
    rows = {row["layer"]: row for row in memory_table(model, (3, 2, 2), batch_size=7).rows}
    assert rows["1"] == {
        "layer": "1",
        "type": "Linear",
        "parameters": 65,
        "buffers": 0,
        "bytes": 4 * 65,
        "kept for backward": 4 * 7 * 12,
    }
    assert rows["2"]["kept for backward"] == 4 * 7 * 5
    assert rows["3"]["kept for backward"] == 0, "its input is the output of ReLU, which is kept already"


def test_buffers_count_and_dropout_keeps_its_mask() -> None:
    model = nn.Sequential(nn.BatchNorm2d(3), nn.Dropout(0.5))
    rows = memory_table(model, (3, 4, 4), batch_size=2).rows
    assert (rows[0]["parameters"], rows[0]["buffers"], rows[0]["bytes"]) == (6, 7, 4 * 12 + 8)
    assert rows[1]["kept for backward"] >= 2 * 3 * 16


@pytest.mark.parametrize("name", ["mlp", "lenet", "cnn"])
def test_all_parameters_are_there_and_activations_grow_with_the_batch(name: str) -> None:
    model = build(name, (3, 8, 8), 10)
    small, large = (memory_table(model, (3, 8, 8), batch_size) for batch_size in (8, 16))
    assert sum(row["parameters"] for row in small.rows) == parameter_count(model)
    kept = [sum(row["kept for backward"] for row in table.rows) for table in (small, large)]
    assert kept[1] == pytest.approx(2 * kept[0], rel=0.02)
    assert f"{kept[0]:,} bytes kept for backward with a batch of 8" in small.caption


def test_a_tied_weight_counts_once() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    model[1].weight = model[0].weight
    assert sum(row["parameters"] for row in memory_table(model, (4,)).rows) == parameter_count(model) == 24


def test_what_a_forward_of_ones_own_keeps_belongs_to_that_module() -> None:
    class Squares(nn.Module):
        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            return inputs * inputs

    model = nn.Sequential(nn.Linear(3, 3), Squares())
    assert kept_by_layer(model, torch.ones(2, 3)) == {"0": 24, "1": 24}


def test_the_model_is_as_before() -> None:
    model = nn.Sequential(nn.BatchNorm2d(3), nn.Dropout(0.5)).eval()
    state, random = {name: one.clone() for name, one in model.state_dict().items()}, torch.get_rng_state()
    memory_table(model, (3, 4, 4))
    assert all(torch.equal(one, state[name]) for name, one in model.state_dict().items())
    assert torch.equal(random, torch.get_rng_state())
    assert not any(module.training or module._forward_hooks for module in model.modules())


def test_pictures_that_do_not_fit_are_a_sentence() -> None:
    with pytest.raises(ConfigError, match=r"The layer '0' \(Linear\) cannot take"):
        memory_table(nn.Sequential(nn.Linear(3, 4)), (2,))


def test_any_computation_can_be_measured() -> None:
    weight, inputs = torch.ones(5, 3, requires_grad=True), torch.ones(2, 5)
    assert kept_for_backward(lambda: (inputs @ weight).sum(), [weight]) == 40
    assert kept_for_backward(lambda: (inputs @ weight).sum()) == 40, "weight is not needed: no gradient for the inputs"
    assert kept_for_backward(lambda: torch.ones(9) * 2) == 0


def test_a_layer_without_size_is_named() -> None:
    with pytest.raises(ConfigError, match="LazyLinear"):
        memory_table(nn.Sequential(nn.LazyLinear(3)), (4,))
