import practice
import pytest
import torch
from torch import nn

from labkit.exercises import families


def test_a_module_is_judged_by_its_parameters_and_gradients_not_by_its_start():
    solution = practice.two_layers().reference()
    one, other = (families.module(solution, torch.ones(2, 4)) for _ in range(2))
    assert one["output"].equal(other["output"])
    assert one["number of parameters"] == 4 * 8 + 8 + 8 * 3 + 3 and one["parameters with a gradient"] == 4


def test_a_module_without_parameters_can_be_judged():
    assert families.module(nn.Identity, torch.ones(2))["number of parameters"] == 0


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (0, 2)])
def test_a_module_may_have_parameters_of_any_shape(shape):
    class Odd(nn.Module):
        def __init__(self):
            super().__init__()
            self.odd = nn.Parameter(torch.zeros(shape))

        def forward(self, x):
            return x + self.odd.sum()

    seen = families.module(Odd, torch.ones(2))
    assert seen["shapes of the parameters"] == [shape] and seen["parameters with a gradient"] == 1


def test_a_training_step_is_judged_by_what_moved():
    model = nn.Linear(2, 1)
    before = model.weight.detach().clone()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    seen = families.training_step(practice.one_step().reference(), model, optimizer, torch.ones(3, 2), torch.ones(3, 1))
    assert not seen["weight weight after two steps"].equal(before)
    assert seen["training mode"] is True and len(seen["returned"]) == 2


def test_a_view_is_told_from_a_copy():
    assert families.view_of(lambda x: x.t(), torch.ones(2, 3))["shares memory with the input"] is True
    assert families.view_of(lambda x: x + 0, torch.ones(2, 3))["shares memory with the input"] is False
    assert families.view_of(lambda x: None, torch.ones(2)) == {"result": None, "shares memory with the input": False}


def test_in_place_returns_the_input():
    x = torch.ones(2)
    assert families.in_place(lambda x: x.add_(1), x) is x


def test_the_return_of_the_stub_may_stay_below_lines_that_change_the_input():
    def below(x):
        x.add_(1)
        return ...

    x = torch.ones(2)
    assert families.in_place(below, x) is x
    assert families.in_place(lambda x: ..., x) is ...


def test_a_module_that_forgets_to_return_gives_no_output():
    class Forgets(nn.Linear):
        def __init__(self):
            super().__init__(2, 1)

        def forward(self, x):
            super().forward(x)

    seen = families.module(Forgets, torch.ones(2))
    assert seen["output"] is None and seen["number of parameters"] == 3


@pytest.mark.parametrize("run", [families.call, families.in_place, families.view_of, families.training_step])
def test_what_is_no_function_is_refused(run):
    with pytest.raises(families.WrongKind, match="the function itself"):
        run(3, torch.ones(1), None)
