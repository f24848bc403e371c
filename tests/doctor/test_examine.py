import random

import numpy
import pytest
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

from labkit.doctor import examine
from labkit.doctor.probe.evaluation_answers import exaggerated
from labkit.doctor.undisturbed import undisturbed
from labkit.errors import LabkitError
from labkit.keeping import same_bits
from tests.doctor.small import program


def pieces(**changes) -> dict:
    found = vars(program(**changes))
    return {name: piece for name, piece in found.items() if name != "context"}


def test_a_healthy_program_has_no_finding():
    report = examine(**pieces())
    assert report.findings == [] and not report.failed


def test_a_compiled_model_is_examined_as_it_was_written():
    """Compiled code runs without the hooks by which the probes look into layers."""
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 2))
    compiled = torch.compile(model, backend="eager")
    compiled(torch.ones(2, 6))
    report = examine(**pieces(model=compiled, optimizer=torch.optim.Adam(model.parameters(), lr=1e-2)))
    assert report.findings == []
    parts = program(model=compiled)
    with undisturbed(parts):
        handle = exaggerated(model[2], 2.0)
        twice = compiled(torch.ones(2, 6))
        handle.remove()
    torch.testing.assert_close(twice, 2 * model(torch.ones(2, 6)))


def test_nothing_of_the_callers_changes():
    """Weights, buffers, optimizer, gradients, modes, random numbers, loaders: bit for bit as before."""
    generator = torch.Generator().manual_seed(3)
    model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Dropout(0.1), nn.Linear(8, 2))
    data = TensorDataset(torch.randn(100, 6), torch.arange(100) % 2)
    loader = DataLoader(data, batch_size=10, shuffle=True, generator=generator)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    nn.functional.cross_entropy(model(data.tensors[0]), data.tensors[1]).backward()
    optimizer.step()
    model[2].eval()
    average, history = nn.Linear(6, 2), []

    def train_step(model, batch, loss_fn, optimizer):
        optimizer.zero_grad()
        loss = loss_fn(model(batch[0]), batch[1])
        loss.backward()
        optimizer.step()
        average.weight.data.mul_(0.5)
        history.append(loss.item())
        return loss.item()

    def state():
        tensors = model.state_dict() | {f"gradient of {name}": p.grad for name, p in model.named_parameters()}
        for number, kept in enumerate(optimizer.state.values()):
            tensors |= {f"state {number} {name}": value for name, value in kept.items()}
        tensors |= {"average": average.weight, "loader": generator.get_state(), "torch": torch.get_rng_state()}
        tensors |= {"inputs": data.tensors[0], "labels": data.tensors[1]}
        modes = [module.training for module in model.modules()]
        plain = (modes, random.getstate(), numpy.random.get_state()[1].tolist(), list(history))
        return {name: tensor.clone() for name, tensor in tensors.items()}, plain

    before, plain = state()
    examine(model, nn.CrossEntropyLoss(), optimizer, loader, loader, train_step=train_step)
    after, plain_after = state()
    assert before.keys() == after.keys()
    assert [name for name in before if not same_bits(before[name], after[name])] == []
    assert plain == plain_after


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"model": print}, "model must be an nn.Module"),
        ({"loss_fn": 3}, "loss_fn must be called"),
        ({"optimizer": None}, "optimizer must be a torch optimizer"),
        ({"train_loader": 3}, "train_loader must give batches"),
        ({"evaluate": 0.5}, "evaluate must be a function"),
    ],
)
def test_what_cannot_be_a_piece_is_a_sentence(changes, said):
    with pytest.raises(LabkitError, match=said):
        examine(**(pieces() | changes))


def test_what_the_step_raises_is_the_first_finding():
    def train_step(model, batch, loss_fn, optimizer):
        loss_fn(model(batch[0]), batch[1] + 5).backward()

    report = examine(**pieces(train_step=train_step))
    assert report.findings[0].severity == "fail" and report.findings[0].fault == "label_encoding"


def test_what_classes_share_is_put_back():
    """A copy has the class of the original: its attributes, its defaults and the globals of its methods are shared."""

    class Counting(nn.Module):
        calls = 0
        seen: list = []  # noqa: RUF012 - the fault of many programs

        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(6, 2)

        def forward(self, inputs, sizes=[]):  # noqa: B006 - the same
            nonlocal updates
            updates += 1
            Counting.calls += 1
            type(self).seen.append(inputs.mean().item())
            sizes.append(len(inputs))
            return self.layer(inputs)

    updates = 0
    model = Counting()
    examine(**pieces(model=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1)))
    assert (Counting.calls, Counting.seen, Counting.forward.__defaults__, updates) == (0, [], ([],), 0)
