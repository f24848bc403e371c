import torch
import torch.nn as nn
from torch.nn.utils import clip_grad_norm_ as cut  # under another name, and yet it is recognised

from labkit.doctor.events import Recorder


def one_update(model, optimizer):
    optimizer.zero_grad()
    model(torch.ones(2, 3)).sum().backward()
    cut(model.parameters(), 1.0)
    optimizer.step()


def test_the_calls_of_an_update_in_their_order():
    model = nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    recorder = Recorder()
    with recorder.listening():
        model.train()
        one_update(model, optimizer)
    kinds = [event.kind for event in recorder.events]
    assert kinds == ["mode", "zero_grad", "backward", "autograd backward", "clip", "step", "stepped"]
    assert [event.order for event in recorder.events] == list(range(7))
    clip = recorder.events[4]
    assert clip.arguments == {"max_norm": 1.0, "with_gradient": 2}


def test_nothing_is_noted_afterwards_and_nothing_is_replaced():
    model = nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    before = torch.Tensor.backward, nn.Module.train, type(optimizer).step
    recorder = Recorder()
    with recorder.listening():
        pass
    one_update(model, optimizer)
    assert recorder.events == [] and before == (torch.Tensor.backward, nn.Module.train, type(optimizer).step)


def test_initialising_and_schedules_are_noted():
    model = nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    recorder = Recorder()
    with recorder.listening():
        nn.init.zeros_(model.weight)
        optimizer.step()
        schedule.step()
    assert [event.kind for event in recorder.events] == ["initialise", "step", "stepped", "schedule"]
