"""Reshapes that mix axes, and those that only cut or join what lies beside each other."""

import pytest
import torch
from torch import nn

from labkit.doctor.evidence import Evidence
from labkit.doctor.examine import gather
from labkit.doctor.probe.model_axes import turn_of
from labkit.doctor.rules.model_layout import mixed_by_reshape, turned_by_the_model
from tests.doctor import small
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


class TimeFirst(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.body, self.head = nn.Embedding(9, 8), nn.GRU(8, 8), nn.Linear(8, 9)

    def forward(self, tokens):
        return self.head(self.body(self.embedding(tokens))[0])


def test_batches_made_by_hand_may_begin_with_time():
    tokens = torch.randint(0, 9, (200, 12), generator=torch.Generator().manual_seed(0))
    batches = [(tokens[i : i + 10], tokens[i + 1 : i + 11]) for i in range(0, 180, 10)]
    model = TimeFirst()
    pieces = {
        "model": model,
        "loss_fn": lambda outputs, targets: nn.functional.cross_entropy(outputs.flatten(0, 1), targets.flatten()),
        "optimizer": torch.optim.Adam(model.parameters(), 1e-2),
        "val_loader": None,
    }
    assert gather(small.program(**pieces, train_loader=batches)).model.answers.by_neighbours is None
    stacked = torch.utils.data.DataLoader([(a.T, b.T) for a, b in batches], batch_size=None)
    assert gather(small.program(**pieces, train_loader=stacked)).model.answers.by_neighbours > 0.01


def test_a_table_of_every_sample_with_every_other_is_no_mixup():
    class Pairs(nn.Linear):
        def forward(self, x):
            z = super().forward(x)
            return z @ z.T

    model = Pairs(6, 4)
    contrastive = small.program(
        model=model,
        loss_fn=lambda outputs, _: nn.functional.cross_entropy(outputs, torch.arange(len(outputs))),
        optimizer=torch.optim.SGD(model.parameters(), lr=0.01),
        val_loader=None,
    )
    assert gather(contrastive).model.answers.by_neighbours is None
