"""The MLP: sizes, and what it computes."""

import pytest
import torch
import torch.nn as nn

from labkit.models import MLP


@pytest.mark.parametrize("image_shape", [(1, 8, 8), (3, 1, 1), (2, 5, 9)])
@pytest.mark.parametrize("hidden", [(), (7,), (16, 8, 4)])
def test_it_maps_pictures_of_any_shape_to_logits(image_shape: tuple, hidden: tuple, device: torch.device) -> None:
    model = MLP(image_shape, 5, hidden=hidden).to(device)
    sizes = [image_shape[0] * image_shape[1] * image_shape[2], *hidden, 5]
    weights = [tuple(parameter.shape) for name, parameter in model.named_parameters() if name.endswith("weight")]
    assert weights == list(zip(sizes[1:], sizes[:-1], strict=True))
    assert model(torch.randn(4, *image_shape, device=device)).shape == (4, 5)


def test_it_computes_matrix_products_with_relu_between() -> None:
    model = MLP((2, 3, 4), 5, hidden=(6, 7)).double()
    inputs = torch.randn(10, 2, 3, 4, dtype=torch.float64)
    values = inputs.reshape(10, 24)
    layers = [layer for layer in model.modules() if isinstance(layer, nn.Linear)]
    for number, layer in enumerate(layers):
        values = values @ layer.weight.T + layer.bias
        values = values if number == 2 else values.clamp(min=0)
    torch.testing.assert_close(model(inputs), values)
    assert (model(inputs) < 0).any(), "raw scores: nothing is clamped at the end"


def test_dropout_acts_in_training_only() -> None:
    model, inputs = MLP((1, 4, 4), 3, dropout=0.5), torch.randn(8, 1, 4, 4)
    assert not torch.equal(model(inputs), model(inputs))
    model.eval()
    assert torch.equal(model(inputs), model(inputs))
