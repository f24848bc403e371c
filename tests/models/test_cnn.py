"""The two convolutional networks: sizes for every picture, the layers that they promise, gradients everywhere."""

import pytest
import torch
import torch.nn as nn

from labkit.errors import ConfigError
from labkit.models import CNN, LeNet, shape_trace
from labkit.models.cnn import convolution

SHAPES = [(1, 4, 4), (1, 8, 8), (3, 5, 7), (2, 4, 100), (3, 33, 32)]


def poolings(model: nn.Module, image_shape: tuple[int, int, int]) -> list[str]:
    """Return the shape that comes out of each pooling, as text, without the batch."""
    rows = shape_trace(model, image_shape, batch_size=1).rows
    return [row["out"].removeprefix("1×") for row in rows if row["type"] == "MaxPool2d"]


@pytest.mark.parametrize("network", [LeNet, CNN])
@pytest.mark.parametrize("image_shape", SHAPES)
@pytest.mark.parametrize("class_count", [2, 11])
def test_logits_for_every_shape_and_number_of_classes(
    network: type[nn.Module], image_shape: tuple, class_count: int, device: torch.device
) -> None:
    model = network(image_shape, class_count).to(device)
    inputs = torch.randn(3, *image_shape, device=device)
    assert model(inputs).shape == (3, class_count)
    assert model.eval()(inputs[:1]).shape == (1, class_count)


@pytest.mark.parametrize("network", [LeNet, CNN])
def test_every_parameter_gets_a_gradient(network: type[nn.Module]) -> None:
    model = network((3, 12, 12), 4)
    model(torch.randn(8, 3, 12, 12)).square().sum().backward()
    without = [name for name, parameter in model.named_parameters() if not parameter.grad.any()]
    assert without == []


@pytest.mark.parametrize("network", [LeNet, CNN])
@pytest.mark.parametrize("sides", [(3, 8), (8, 3), (1, 1)])
def test_pictures_that_are_too_small_are_refused(network: type[nn.Module], sides: tuple[int, int]) -> None:
    sentence = rf"Pictures of {sides[0]}×{sides[1]} are too small.*needs 4×4\. Use model='mlp'\."
    with pytest.raises(ConfigError, match=sentence):
        network((3, *sides), 10)


def test_lenet_has_two_convolutions_with_pooling_and_three_linear_layers() -> None:
    model = LeNet((1, 28, 28), 10)
    kinds = [type(layer).__name__ for layer in model.modules() if isinstance(layer, nn.Conv2d | nn.Linear)]
    assert kinds == ["Conv2d", "Conv2d", "Linear", "Linear", "Linear"]
    assert poolings(model, (1, 28, 28)) == ["16×14×14", "32×7×7"]


@pytest.mark.parametrize(
    ("image_shape", "expected"),
    [
        ((3, 32, 32), ["32×16×16", "64×8×8"]),
        ((1, 8, 8), ["32×4×4", "64×2×2"]),
        ((1, 5, 9), ["32×2×4"]),
        ((1, 4, 4), ["32×2×2"]),
    ],
)
def test_each_stage_but_the_last_halves_the_sides_while_they_are_large(image_shape: tuple, expected: list) -> None:
    assert poolings(CNN(image_shape, 10), image_shape) == expected


def test_stages_may_have_equal_widths() -> None:
    assert poolings(CNN((3, 32, 32), 10, widths=(8, 8, 8)), (3, 32, 32)) == ["8×16×16", "8×8×8"]
    assert poolings(CNN((3, 32, 32), 10, widths=(16,)), (3, 32, 32)) == []


def test_the_size_of_the_pictures_does_not_change_the_number_of_parameters() -> None:
    counts = {sum(parameter.numel() for parameter in CNN((3, *sides), 10).parameters()) for sides in [(8, 8), (64, 48)]}
    assert len(counts) == 1


def test_a_convolution_keeps_the_sides_and_normalises_without_a_useless_bias() -> None:
    block = convolution(3, 6)
    layer, normalisation, activation = block
    outputs = normalisation(layer(torch.randn(20, 3, 7, 9)))
    assert outputs.shape == (20, 6, 7, 9) and layer.bias is None and isinstance(activation, nn.ReLU)
    torch.testing.assert_close(outputs.mean(dim=(0, 2, 3)), torch.zeros(6), rtol=0, atol=1e-5)


@pytest.mark.parametrize("network", [LeNet, CNN])
def test_dropout_acts_in_training_only(network: type[nn.Module]) -> None:
    model, inputs = network((1, 8, 8), 3, dropout=0.5), torch.randn(8, 1, 8, 8)
    assert not torch.equal(model(inputs), model(inputs))
    model.eval()
    assert torch.equal(model(inputs), model(inputs))
