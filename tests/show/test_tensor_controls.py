import pytest
import torch

from labkit.show.tensor_controls import OPERATIONS, SHAPES, broadcasting_control, storage_control
from labkit.tensors import shares_storage


def test_the_storage_control_shows_each_operation():
    control = storage_control()
    x = torch.arange(12).view(3, 4)
    for name, operation in OPERATIONS.items():
        picture = control.set(operation=name)
        values = [int(row["value"]) for row in picture.data if row["tensor"] == name]
        assert values[-operation(x).numel() :] == operation(x).flatten().tolist()
        assert ("shares the storage of x" in picture.summary) == shares_storage(operation(x), x)


@pytest.mark.parametrize(
    "count", [pytest.param(1, id="each shape"), pytest.param(len(SHAPES), id="all pairs", marks=pytest.mark.slow)]
)
def test_the_broadcasting_control_goes_through_its_pairs(count):
    control = broadcasting_control()
    assert control.picture.summary.startswith("(3, 1) and (4,) give (3, 4)")
    for place, first in enumerate(SHAPES):
        for step in range(count):
            second = SHAPES[(place + 1 + step) % len(SHAPES)]
            summary = control.set(first=first, second=second).summary
            assert summary.startswith(f"{first} and {second} ")
    assert "give (8, 8)" in control.set(first="(8, 1)", second="(8,)").summary
