"""Looking into a model: what is counted, what flows, and that looking changes nothing."""

import copy

import pytest
import torch
import torch.nn as nn
from torch import Tensor

from labkit.errors import ConfigError
from labkit.models import build, parameter_count, parameter_table, shape_trace


class Tied(nn.Module):
    """Two layers that share one weight, a scalar, and a layer that is never trained."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.second = nn.Linear(4, 4)
        self.second.weight = self.first.weight
        self.scale = nn.Parameter(torch.tensor(1.0))
        self.frozen = nn.Linear(4, 3).requires_grad_(False)


class Pair(nn.Module):
    """Returns a tensor and a list; its layer is used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, inputs: Tensor) -> tuple[Tensor, list[Tensor]]:
        once = self.layer(inputs.flatten(1))
        return self.layer(once), [once, once.sum()]


class Noise(nn.Module):
    """Adds random numbers in evaluation mode too."""

    def forward(self, inputs: Tensor) -> Tensor:
        return inputs + torch.rand_like(inputs)


def restless() -> nn.Sequential:
    """Make a model full of things that a dry run could change: batch statistics, randomness, mixed modes, hooks."""
    model = nn.Sequential(
        nn.Conv2d(2, 4, 3, padding=1),
        nn.BatchNorm2d(4),
        Noise(),
        nn.Flatten(),
        nn.Linear(4 * 6 * 5, 3),
        nn.Dropout(0.5),
    )
    model.train()
    model[5].eval()  # as people do who fine-tune
    model[4].register_forward_hook(lambda module, inputs, output: output * 1)
    return model


def everything(model: nn.Module) -> tuple:
    """Return all that must stay as it was."""
    state = {name: value.clone() for name, value in model.state_dict().items()}
    modes = {name: module.training for name, module in model.named_modules()}
    hooks = {name: (*module._forward_hooks, *module._forward_pre_hooks) for name, module in model.named_modules()}
    gradients = {name: value.grad for name, value in model.named_parameters()}
    return modes, hooks, gradients, torch.is_grad_enabled(), state, torch.get_rng_state()


def assert_unchanged(before: tuple, after: tuple) -> None:
    assert before[:4] == after[:4]
    assert all(torch.equal(before[4][name], after[4][name]) for name in before[4])
    assert torch.equal(before[5], after[5])


# --- parameters -------------------------------------------------------------------------------------------------------


def test_parameters_are_counted_once_and_named_first() -> None:
    table = parameter_table(Tied())
    assert table.rows == [
        {"parameter": "scale", "shape": "scalar", "values": 1, "trained": "yes"},
        {"parameter": "first.weight", "shape": "4×4", "values": 16, "trained": "yes"},
        {"parameter": "first.bias", "shape": "4", "values": 4, "trained": "yes"},
        {"parameter": "second.bias", "shape": "4", "values": 4, "trained": "yes"},
        {"parameter": "frozen.weight", "shape": "3×4", "values": 12, "trained": "frozen"},
        {"parameter": "frozen.bias", "shape": "3", "values": 3, "trained": "frozen"},
    ]
    assert parameter_count(Tied()) == 40 and table.caption == "Tied: 40 parameters"


def test_a_count_known_from_hand() -> None:
    """LeNet for 28 × 28: 16·25+16, 32·16·25+32, 120·32·49+120, 84·120+84, 10·84+10."""
    model = build("lenet", (1, 28, 28), 10)
    assert parameter_count(model) == 416 + 12_832 + 188_280 + 10_164 + 850
    assert sum(row["values"] for row in parameter_table(model).rows) == parameter_count(model)


def test_a_model_without_parameters() -> None:
    assert parameter_count(nn.Flatten()) == 0 and str(parameter_table(nn.Flatten())) == "Flatten: 0 parameters"


# --- shapes -----------------------------------------------------------------------------------------------------------


def test_every_layer_is_listed_in_the_order_it_runs(device: torch.device) -> None:
    table = shape_trace(restless().to(device), (2, 6, 5))
    assert table.caption == "Sequential with a batch of 2"
    assert [tuple(row.values()) for row in table.rows] == [
        ("0", "Conv2d", "2×2×6×5", "2×4×6×5", 76),
        ("1", "BatchNorm2d", "2×4×6×5", "2×4×6×5", 8),
        ("2", "Noise", "2×4×6×5", "2×4×6×5", 0),
        ("3", "Flatten", "2×4×6×5", "2×120", 0),
        ("4", "Linear", "2×120", "2×3", 363),
        ("5", "Dropout", "2×3", "2×3", 0),
    ]


@pytest.mark.parametrize("name", ["mlp", "lenet", "cnn"])
def test_the_last_row_is_what_the_network_gives_and_all_parameters_are_there(name: str) -> None:
    model = build(name, (3, 9, 7), 6)
    rows = shape_trace(model, (3, 9, 7), batch_size=5).rows
    assert rows[-1]["out"] == "5×6"
    assert sum(row["parameters"] for row in rows) == parameter_count(model)


def test_layers_used_twice_and_outputs_that_are_no_tensor() -> None:
    rows = shape_trace(nn.Sequential(Pair(), nn.Identity()), (1, 2, 4), batch_size=3).rows
    assert [(row["layer"], row["in"], row["out"]) for row in rows] == [
        ("0.layer", "3×8", "3×8"),
        ("0.layer", "3×8", "3×8"),
        ("1", "3×8, 3×8, scalar", "3×8, 3×8, scalar"),
    ]


def test_a_model_of_one_layer_and_one_in_half_precision() -> None:
    assert [row["layer"] for row in shape_trace(nn.Flatten(), (1, 2, 3)).rows] == ["Flatten"]
    assert shape_trace(nn.Conv2d(1, 2, 2).bfloat16(), (1, 4, 4)).rows[0]["out"] == "2×2×3×3"


def test_tracing_changes_nothing() -> None:
    model = restless()
    before = everything(model)
    shape_trace(model, (2, 6, 5))
    assert_unchanged(before, everything(model))
    assert model[1].num_batches_tracked == 0


def test_tracing_changes_nothing_when_it_fails() -> None:
    model = restless()
    before = everything(model)
    with pytest.raises(ConfigError):
        shape_trace(model, (2, 6, 6))
    assert_unchanged(before, everything(model))


def test_the_failing_layer_and_what_came_in_are_named() -> None:
    model = nn.Sequential()
    model.features, model.head = restless()[:4], nn.Sequential(nn.Linear(120, 8), nn.Linear(9, 3))
    with pytest.raises(ConfigError, match=r"layer 'features\.0' \(Conv2d\) cannot take its input of shape 2×1×6×5: "):
        shape_trace(model, (1, 6, 5))
    with pytest.raises(ConfigError, match=r"layer 'head\.0' \(Linear\) cannot take its input of shape 2×144: "):
        shape_trace(model, (2, 6, 6))
    with pytest.raises(ConfigError, match=r"layer 'head\.1' \(Linear\) cannot take its input of shape 2×8: "):
        shape_trace(model, (2, 6, 5))


def test_an_error_in_a_models_own_forward_names_the_model() -> None:
    class Broken(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Identity()

        def forward(self, inputs: Tensor) -> Tensor:
            return self.layer(inputs).view(7, 7)

    with pytest.raises(ConfigError, match=r"The layer 'Broken' \(Broken\) cannot take its input of shape 2×1×2×2"):
        shape_trace(Broken(), (1, 2, 2))


def test_a_model_on_a_device_is_traced_there(device: torch.device) -> None:
    model = copy.deepcopy(restless()).to(device)
    assert shape_trace(model, (2, 6, 5)).rows[-1]["out"] == "2×3"
    assert {parameter.device.type for parameter in model.parameters()} == {device.type}


@pytest.mark.parametrize("look", [parameter_table, lambda model: shape_trace(model, (1, 2, 2))])
def test_layers_that_do_not_know_their_size_yet_are_named(look) -> None:
    """Their size comes with the first batch, and a dry run must not be that batch."""
    model = nn.Sequential(nn.Flatten(), nn.LazyLinear(3))
    with pytest.raises(ConfigError, match=r"'1' \(LazyLinear\).*send one batch through the model first"):
        look(model)
    assert isinstance(model[1], nn.LazyLinear), "it still has no size"
