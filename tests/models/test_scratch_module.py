"""The module from first principles does what nn.Module does, for everything that it has."""

from pathlib import Path

import pytest
import torch
import torch.nn as nn
from torch import Tensor

from labkit.models import scratch


def network(library) -> type:
    """Write one network for both: only the names of the base class and of the parameter come from `library`."""

    class Linear(library.Module):
        def __init__(self, inputs: int, outputs: int):
            super().__init__()
            noise = torch.Generator().manual_seed(outputs)
            self.weight = library.Parameter(torch.randn(outputs, inputs, generator=noise))
            self.bias = library.Parameter(torch.zeros(outputs))

        def forward(self, x: Tensor) -> Tensor:
            return x @ self.weight.T + self.bias

    class Network(library.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("mean", torch.zeros(3))
            self.register_buffer("count", torch.tensor(0))
            self.hidden = Linear(3, 5)
            self.size = 7
            self.forgotten = [Linear(5, 5)]
            self.output = Linear(5, 2)

        def forward(self, x: Tensor) -> Tensor:
            if self.training:
                self.mean = 0.9 * self.mean + 0.1 * x.mean(0)
            return self.output(torch.relu(self.hidden(x - self.mean)))

    return Network


@pytest.fixture
def both() -> tuple:
    return network(scratch)(), network(nn)()


def assert_same_state(own, library) -> None:
    assert set(own.state_dict()) == set(library.state_dict())
    for name, value in library.state_dict().items():
        torch.testing.assert_close(own.state_dict()[name], value)


def test_what_is_registered_is_the_same(both: tuple) -> None:
    own, library = both
    assert_same_state(own, library)
    assert [tuple(one.shape) for one in own.parameters()] == [tuple(one.shape) for one in library.parameters()]
    assert [type(one).__name__ for one in own.modules()] == [type(one).__name__ for one in library.modules()]
    assert own.size == 7 and len(own.forgotten) == 1, "plain attributes stay plain"


def test_both_train_alike(both: tuple) -> None:
    inputs = torch.randn(8, 3, generator=torch.Generator().manual_seed(0))
    for model in both:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        for _ in range(5):
            optimizer.zero_grad()
            model(inputs).square().mean().backward()
            optimizer.step()
    assert_same_state(*both)
    assert both[0].mean.any(), "the buffer has followed"
    torch.testing.assert_close(both[0].eval()(inputs), both[1].eval()(inputs))


def test_modes_reach_every_child(both: tuple) -> None:
    for model in both:
        assert all(one.training for one in model.modules())
        assert model.eval() is model and not any(one.training for one in model.modules())
        assert all(one.training for one in model.train().modules())


def test_dtype_changes_numbers_with_decimals_only_and_keeps_the_parameters(both: tuple) -> None:
    for model in both:
        before = list(model.parameters())
        model.to(torch.float64)
        assert all(one is two for one, two in zip(before, model.parameters(), strict=True))
        assert {one.dtype for one in model.parameters()} == {torch.float64}
        assert model.mean.dtype == torch.float64 and model.count.dtype == torch.int64
        assert model.forgotten[0].weight.dtype == torch.float32, "nobody knows of it"


def test_moves_to_a_device(both: tuple, device: torch.device) -> None:
    for model in both:
        model.to(device)
        assert {one.device.type for one in model.state_dict().values()} == {device.type}


def test_states_can_be_exchanged(both: tuple) -> None:
    own, library = both
    with torch.no_grad():
        for parameter in library.parameters():
            parameter += 1
    own.load_state_dict(library.state_dict())
    assert_same_state(own, library)
    with pytest.raises(KeyError):
        own.load_state_dict({})


def test_an_exchanged_child_is_registered_and_an_unknown_name_is_an_error(both: tuple) -> None:
    for model in both:
        model.output = model.hidden
        assert len({id(one) for one in model.parameters()}) == 2
        with pytest.raises(AttributeError, match="no attribute 'nothing'"):
            _ = model.nothing


def test_it_is_short() -> None:
    """Thirty lines do the work, apart from signatures, docstrings and comments."""
    source = Path(scratch.__file__).read_text(encoding="utf-8")
    body = source[source.index("class Module:") :]
    lines = [line.strip() for line in body.splitlines()]
    working = [line for line in lines if line and not line.startswith(("#", '"""', "def ", "class "))]
    assert len(working) <= 33
