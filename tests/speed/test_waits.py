"""The lines at which a GPU would be waited for are found, each with its call, and no others."""

import pytest
import torch
from torch import nn

from labkit.speed import Waits

VALUES = torch.arange(4.0)
MASK = VALUES > 1


@pytest.mark.parametrize(
    ("call", "action"),
    [
        ("item", lambda: VALUES.sum().item()),
        ("float", lambda: float(VALUES.sum())),
        ("int", lambda: int(VALUES.sum())),
        ("bool", lambda: "positive" if VALUES.sum() > 0 else "not"),
        ("index", lambda: list("abcdefg")[VALUES.sum().int()]),
        ("format", lambda: f"{VALUES.sum():.2f}"),
        ("repr", lambda: str(VALUES)),
        ("tolist", lambda: VALUES.tolist()),
        ("numpy", lambda: VALUES.numpy()),
        ("cpu", lambda: VALUES.cpu()),
        ("nonzero", lambda: VALUES.nonzero()),
        ("masked_select", lambda: VALUES.masked_select(MASK)),
        ("getitem", lambda: VALUES[MASK]),
        ("where", lambda: torch.where(MASK)),
        ("tensor", lambda: torch.tensor([1.0, VALUES[0]])),
        ("unique", lambda: VALUES.unique()),
        ("equal", lambda: torch.equal(VALUES, VALUES)),
        ("repeat_interleave", lambda: VALUES.repeat_interleave(torch.tensor([1, 2, 3, 4]))),
    ],
)
def test_a_call_that_needs_numbers_is_found(call, action):
    with Waits() as found:
        action()
    [row] = found.table().rows
    assert (row["call"], row["times"], row["file"]) == (call, 1, "test_waits.py") and found.total == 1


def test_a_tensor_made_of_tensors_reads_each_of_them():
    with Waits() as found:
        torch.tensor([VALUES[0], [1.0, VALUES[1]], VALUES[2]][::2]), torch.tensor([[VALUES[0], VALUES[1]], [1.0, 2.0]])
        torch.tensor([1.0, 2.0])
    assert found.total == 4


def test_an_ordinary_update_does_not_wait():
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.BatchNorm1d(8), nn.Linear(8, 2))
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    with Waits() as found:
        for _ in range(2):
            loss = model(torch.ones(3, 4)).square().mean()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            torch.where(loss > 0, loss, 0 * loss)
            VALUES[2], VALUES[1:], VALUES[torch.tensor([0, 1])], VALUES.to("cpu")
            VALUES.repeat_interleave(torch.tensor([1, 2, 3, 4]), output_size=10)
    assert found.total == 0 and "0 calls" in str(found.table())


def test_a_wait_inside_of_torch_belongs_to_the_line_that_called_it():
    weight = nn.Parameter(VALUES.clone())
    weight.grad = VALUES.clone()
    with Waits() as found:
        nn.utils.clip_grad_norm_([weight], 1.0, error_if_nonfinite=True)
    assert {row["file"] for row in found.table().rows} == {"test_waits.py"} and found.total == 1


def test_calls_are_counted_by_line_and_after_the_block_nothing_is_noted():
    with Waits() as found:
        for _ in range(5):
            VALUES.sum().item()
    VALUES.sum().item()
    assert [row["times"] for row in found.table().rows] == [5]
