"""The demonstrations about clearing gradients measure torch as it is, not as it was when they were written."""

import torch

from labkit.exercises import claims


def test_another_default_of_torch_gives_another_verdict(monkeypatch):
    new_default = torch.optim.SGD.zero_grad

    def zeros_as_before_version_two(optimizer, set_to_none=False):
        new_default(optimizer, set_to_none)

    monkeypatch.setattr(torch.optim.SGD, "zero_grad", zeros_as_before_version_two)
    assert claims.find("C081").demonstrate().choice == "true"
