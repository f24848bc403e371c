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


def test_the_broadcasting_control_goes_through_all_pairs():
    control = broadcasting_control()
    assert control.picture.summary.startswith("(3, 1) and (4,) give (3, 4)")
    for first in SHAPES:
        for second in SHAPES:
            summary = control.set(first=first, second=second).summary
            assert summary.startswith(f"{first} and {second} ")
    assert "give (8, 8)" in control.set(first="(8, 1)", second="(8,)").summary
