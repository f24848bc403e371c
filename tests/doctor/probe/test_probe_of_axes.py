"""Reshapes that mix axes, and those that only cut or join what lies beside each other."""

import pytest
import torch
from torch import nn

from labkit.doctor.evidence import Evidence
from labkit.doctor.probe.model_axes import turn_of
from labkit.doctor.rules.model_layout import mixed_by_reshape, turned_by_the_model
from tests.doctor.model_programs import With, examined, program


@pytest.mark.parametrize(
    ("before", "after", "code"),
    [
        ((5, 12, 10, 3), (5, 3, 12, 10), "x.permute(0, 3, 1, 2)"),
        ((5, 10, 32), (5, 4, 10, 8), "x.reshape(-1, 10, 4, 8).permute(0, 2, 1, 3)"),
        ((5, 4, 10, 8), (5, 10, 32), "x.permute(0, 2, 1, 3).reshape(-1, 10, 32)"),
        ((5, 3, 6, 7), (5, 42, 3), "x.permute(0, 2, 3, 1).reshape(-1, 42, 3)"),
        ((9, 5, 4), (5, 36), "x.permute(1, 0, 2).reshape(5, 36)"),
    ],
)
def test_mixing_reshapes_and_what_they_mean(before, after, code):
    turn = turn_of(before, after)
    assert str(turn) == code
    x = torch.arange(torch.Size(before).numel()).reshape(before)
    assert torch.equal(turn(x), eval(code, {"x": x}))
    assert not torch.equal(turn(x), x.reshape(after))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ((5, 3, 6, 7), (5, 126)),
        ((5, 126), (5, 3, 6, 7)),
        ((5, 12, 6, 7), (5, 3, 4, 6, 7)),
        ((5, 1, 28, 28), (5, 28, 28)),
        ((5, 28, 28), (5, 7, 112)),
        ((5, 1, 12), (5, 12, 1)),
        ((5, 10, 32), (25, 64)),
        ((0, 3), (3, 0)),
    ],
)
def test_reshapes_that_mix_nothing(before, after):
    assert turn_of(before, after) is None


def heads(turned: bool) -> nn.Module:
    def forward(self, x):
        x = self.enter(x)
        x = x.view(-1, 9, 2, 4).transpose(1, 2) if turned else x.view(-1, 2, 9, 4)
        mixed = (x @ x.transpose(2, 3)).softmax(3) @ x
        return self.out(mixed.transpose(1, 2).flatten(2).mean(1))

    return With(forward, enter=nn.Linear(5, 8), out=nn.Linear(8, 2))


def test_heads_that_are_viewed_and_not_turned():
    x = torch.randn(48, 9, 5, generator=torch.Generator().manual_seed(0))
    torch.manual_seed(0)
    ill, sound = program(heads(False), x), program(heads(True), x)
    sound.model.load_state_dict(ill.model.state_dict())
    evidence = examined(ill)
    said = mixed_by_reshape(Evidence(None, evidence.model, None, None, None))
    assert said.fix.startswith("x = x.reshape(-1, 9, 2, 4).permute(0, 2, 1, 3)")
    turned_by_the_model(ill)
    assert torch.equal(ill.model(x), sound.model(x))
    assert examined(sound).model.answers.mixed == []
