"""What checks are drawn from depends on the generator alone, and every parameter is drawn."""

import torch
from torch import nn

from labkit.exercises.drawing import BodyAndHead, normal, with_drawn_weights


def drawn(seed):
    generator = torch.Generator().manual_seed(seed)
    network = with_drawn_weights(generator, BodyAndHead(nn.Linear(3, 4), nn.Linear(4, 2)))
    return torch.cat([one.detach().flatten() for one in network.parameters()])


def test_weights_and_numbers_depend_on_the_generator_alone():
    before = torch.get_rng_state()
    numbers = [normal(torch.Generator().manual_seed(seed), 2, 5) for seed in (0, 0, 1)]
    assert torch.equal(numbers[0], numbers[1]) and not torch.equal(numbers[0], numbers[2])
    assert numbers[0].shape == (2, 5) and torch.equal(before, torch.get_rng_state())
    assert torch.equal(drawn(0), drawn(0)) and not (drawn(0) == drawn(1)).any()


def test_the_head_gets_what_the_body_gives():
    network, inputs = BodyAndHead(nn.Linear(3, 4), nn.Linear(4, 2)), torch.ones(5, 3)
    assert torch.equal(network(inputs), network.head(network.body(inputs)))
