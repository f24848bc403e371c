"""Claims about training: a torch that behaved otherwise would yield another verdict."""

import pytest
import torch

from labkit.exercises import claims


def load_all(file, **options):
    return LOAD(file, **{"weights_only": False, **options})


def clip_each(parameters, max_norm, **options):
    before = CLIP(parameters, float("inf"))
    torch.nn.utils.clip_grad_value_(parameters, max_norm)
    return before


def backward_and_detach(loss, *arguments, **options):
    BACKWARD(loss, *arguments, **options)
    loss.detach_()


LOAD, CLIP, BACKWARD = torch.load, torch.nn.utils.clip_grad_norm_, torch.Tensor.backward
CHANGES = [
    ("C213", torch.Tensor, "backward", backward_and_detach),
    ("C244", torch.amp.GradScaler, "update", lambda scaler: None),
    ("C253", torch.nn.utils, "clip_grad_norm_", clip_each),
    ("C261", torch, "load", load_all),
    ("C270", torch.optim.lr_scheduler.LRScheduler, "load_state_dict", lambda schedule, state: None),
    ("C281", torch, "manual_seed", torch.default_generator.manual_seed),
]


@pytest.mark.parametrize(("claim_id", "owner", "name", "changed"), CHANGES, ids=[change[0] for change in CHANGES])
def test_a_changed_fact_turns_the_verdict(monkeypatch, claim_id, owner, name, changed):
    known = claims.find(claim_id)
    assert known.demonstrate().choice == known.choice
    monkeypatch.setattr(owner, name, changed)
    assert known.demonstrate().choice != known.choice
