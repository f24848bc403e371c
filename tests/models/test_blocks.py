"""A residual block adds, and a tied weight is one."""

import pytest
import torch
import torch.nn as nn

from labkit.models import parameter_count, shape_trace
from labkit.models.blocks import ResidualBlock, TiedAutoencoder


@pytest.mark.parametrize(("channels_out", "stride"), [(4, 1), (8, 1), (4, 2), (8, 2), (8, 3)])
@pytest.mark.parametrize("side", [7, 8])
def test_both_sides_of_the_sum_fit(channels_out: int, stride: int, side: int) -> None:
    rows = shape_trace(nn.Sequential(ResidualBlock(4, channels_out, stride), nn.Identity()), (4, side, side)).rows
    smaller = -(-side // stride)
    assert rows[-1]["in"] == f"2×{channels_out}×{smaller}×{smaller}"


def test_a_body_of_zeros_does_nothing() -> None:
    block = ResidualBlock(3, 3).eval()
    nn.init.zeros_(block.body[1].weight)
    inputs = torch.rand(2, 3, 5, 5)
    torch.testing.assert_close(block(inputs), inputs + block.body[2].bias[:, None, None])


def test_fifty_blocks_still_pass_a_gradient_to_the_first() -> None:
    inputs = torch.rand(4, 3, 6, 6, requires_grad=True)
    nn.Sequential(*(ResidualBlock(3, 3) for _ in range(50)))(inputs).mean().backward()
    assert torch.isfinite(inputs.grad).all() and inputs.grad.abs().max() > 0


def test_a_tied_weight_is_one_parameter_with_gradients_from_both_uses() -> None:
    model, inputs = TiedAutoencoder(6, 2), torch.randn(5, 6)
    assert parameter_count(model) == 6 * 2 + 2 + 6 and set(model.state_dict()) == {
        "encoder.weight",
        "encoder.bias",
        "bias",
    }
    model(inputs).square().sum().backward()
    weight, bias, shift = (one.detach().clone() for one in (model.encoder.weight, model.encoder.bias, model.bias))
    two = [weight.clone().requires_grad_(), weight.clone().requires_grad_()]
    ((inputs @ two[0].T + bias).relu() @ two[1] + shift).square().sum().backward()
    torch.testing.assert_close(model.encoder.weight.grad, two[0].grad + two[1].grad)
