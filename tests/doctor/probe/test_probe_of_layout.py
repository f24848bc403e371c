"""The order of the inputs' numbers: renamed axes are found, and the fix gives back the very numbers."""

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset, random_split

from labkit.doctor.evidence import Evidence
from labkit.doctor.probe.model import ModelEvidence
from labkit.doctor.probe.model_layout import LayoutEvidence, look_at_layout
from labkit.doctor.program import Program
from labkit.doctor.recording import record
from labkit.doctor.rules.model_layout import axes_renamed, in_order
from tests.doctor.model_programs import With


def pictures(count: int = 60) -> Tensor:
    """Waves in three colours: (count, 8, 10, 3), as image libraries give them."""
    draw = torch.Generator().manual_seed(0)
    ticks = torch.linspace(0, 3, 8)[:, None] + torch.linspace(0, 2, 10)
    phase = 6 * torch.rand(count, 1, 1, 1, generator=draw)
    return (ticks[None, :, :, None] + phase).sin() + torch.randn(count, 1, 1, 3, generator=draw)


def recordings(count: int = 60) -> Tensor:
    """Two sensors over 12 moments: (count, 12, 2)."""
    draw = torch.Generator().manual_seed(1)
    return (torch.linspace(0, 9, 12)[:, None] + 6 * torch.rand(count, 1, 2, generator=draw)).sin()


def program(x: Tensor, split: bool = False) -> Program:
    if x.dim() == 4:
        model = With(
            lambda self, x: self.out(self.first(x).mean((2, 3))), first=nn.Conv2d(x.shape[1], 4, 3), out=nn.Linear(4, 2)
        )
    else:
        model = With(
            lambda self, x: self.out(self.first(x)[0][:, -1]), first=nn.GRU(2, 4, batch_first=True), out=nn.Linear(4, 2)
        )
    data = TensorDataset(x, torch.arange(len(x)) % 2)
    if split:
        train, val = random_split(data, [40, 20], torch.Generator().manual_seed(0))
    else:
        train, val = TensorDataset(*data[:40]), TensorDataset(*data[40:])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return Program(model, nn.CrossEntropyLoss(), optimizer, DataLoader(train, 20), DataLoader(val, 20))


def seen(one: Program) -> LayoutEvidence:
    return look_at_layout(one, record(one.copy(), updates=4))


@pytest.mark.parametrize(
    ("true", "renamed", "order", "of_all"),
    [
        (pictures().permute(0, 3, 1, 2), lambda x: x.permute(0, 2, 3, 1).reshape(x.shape), (0, 2, 3, 1), False),
        (recordings(), lambda x: x.transpose(1, 2).reshape(x.shape), (0, 2, 1), False),
        (recordings(), lambda x: x.transpose(0, 1).reshape(x.shape), (1, 0, 2), True),
        (pictures().permute(0, 3, 1, 2), lambda x: x.permute(2, 3, 1, 0).reshape(x.shape), (2, 3, 1, 0), True),
    ],
)
@pytest.mark.parametrize("split", [False, True])
def test_renamed_axes_are_found_and_turned_back_and_true_ones_are_left_alone(true, renamed, order, of_all, split):
    assert seen(program(true, split)).orders == []
    ill = program(renamed(true), split)
    found = seen(ill)
    assert order in found.orders
    assert found.of_all == of_all
    assert found.after > found.before + 0.3
    mended = ill.copy()
    in_order(order, len(true) if of_all else None)(mended)
    given = []
    mended.model.first.register_forward_pre_hook(lambda _, inputs: given.append(inputs[0]))
    for loader in (mended.val_loader, DataLoader(mended.train_loader.dataset, 20)):
        for x, _ in loader:
            mended.model(x)
    sound = program(true, split)
    wanted = [x for loader in (sound.val_loader, sound.train_loader) for x, _ in loader]
    assert torch.equal(torch.cat(given), torch.cat(wanted))


def test_noise_has_no_order_and_tables_have_no_neighbours():
    noise = torch.randn(60, 12, 2, generator=torch.Generator().manual_seed(2))
    assert seen(program(noise)).orders == []
    table = program(recordings())
    table.model = nn.Sequential(nn.Flatten(), nn.Linear(24, 2))
    table.optimizer = torch.optim.SGD(table.model.parameters(), lr=0.1)
    assert seen(table) == LayoutEvidence()


def test_the_rule_names_shapes_and_correlations_and_gives_the_code():
    found = LayoutEvidence((320, 3, 12, 14), [(0, 2, 3, 1), (0, 3, 2, 1)], before=0.021, after=0.64)
    said = axes_renamed(Evidence(None, ModelEvidence(layout=found), None, None, None))
    assert (said.fault, said.severity, said.confirm, len(said.instead)) == ("axis_mixup", "warn", True, 1)
    assert "(N, 3, 12, 14) are hardly alike (correlation 0.021)" in said.what
    assert said.fix == "x = x.permute(0, 3, 1, 2)  # from (N, 12, 14, 3), in place of view or reshape"
    assert axes_renamed(Evidence(None, ModelEvidence(), None, None, None)) is None
