import random

import numpy as np
import practice
import pytest
import torch
from torch import nn

from labkit.exercises.checking import judge, observe
from labkit.exercises.declaration import defined_by


@pytest.mark.parametrize("make", practice.ALL, ids=lambda make: make.__name__)
def test_in_every_family_solution_stub_and_wrong_ideas_are_told_apart(make):
    exercise = make()
    assert judge(exercise, exercise.reference()).outcome == "right"
    assert judge(exercise, defined_by(exercise.stub, exercise.name)).outcome == "not attempted"
    assert judge(exercise, ...).outcome == "not attempted"
    for wrong in exercise.misconceptions:
        result = judge(exercise, wrong.answer)
        assert (result.outcome, result.misconception) == ("wrong", wrong.name)
        assert wrong.explanation in result.markdown


class WithSequential(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))

    def forward(self, inputs):
        return self.layers(inputs)


class CreatedBackwards(nn.Module):
    def __init__(self):
        super().__init__()
        self.last = nn.Linear(8, 3)
        self.first = nn.Linear(4, 8)

    def forward(self, inputs):
        return self.last(torch.clamp(self.first(inputs), min=0))


class OwnParameters(nn.Module):
    def __init__(self):
        super().__init__()
        self.weights = nn.ParameterList([torch.zeros(8, 4), torch.zeros(8), torch.zeros(3, 8), torch.zeros(3)])

    def forward(self, inputs):
        hidden = (inputs @ self.weights[0].T + self.weights[1]).relu()
        return hidden @ self.weights[2].T + self.weights[3]


def zeroed_afterwards(model, optimizer, inputs, targets):
    loss = ((model(inputs) - targets) ** 2).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss


def by_hand(model, optimizer, inputs, targets):
    loss = nn.functional.mse_loss(model(inputs), targets)
    gradients = torch.autograd.grad(loss, list(model.parameters()))
    with torch.no_grad():
        for parameter, gradient in zip(model.parameters(), gradients, strict=True):
            parameter -= 0.1 * gradient
    return loss.detach()


def set_to_none(model, optimizer, inputs, targets):
    for parameter in model.parameters():
        parameter.grad = None
    loss = nn.functional.mse_loss(model(inputs), targets)
    loss.backward()
    optimizer.step()
    return loss


OTHER_WAYS = {
    practice.column_means: [
        lambda x: x.sum(dim=0) / len(x),
        lambda x: torch.stack([column.mean() for column in x.unbind(dim=1)]),
        lambda x: torch.einsum("rc->c", x) / x.shape[0],
        lambda x: x.clone().t_().mean(dim=-1),  # in place, but on a copy
    ],
    practice.labels: [
        torch.arange(3).roll(1),
        torch.from_numpy(np.array([2, 0, 1])),
        torch.tensor([2.0, 0.0, 1.0]).long(),
    ],
    practice.clamp_rows: [
        lambda x: x[0].zero_(),
        lambda x: x.narrow(0, 0, 1).mul_(0),
        lambda x: x[:1].fill_(0.0),
    ],
    practice.first_column: [
        lambda x: x.select(1, 0),
        lambda x: x.t()[0],
        lambda x: x.unbind(dim=1)[0],
    ],
    practice.two_layers: [WithSequential, CreatedBackwards, OwnParameters],
    practice.one_step: [zeroed_afterwards, by_hand, set_to_none],
    practice.leaf: [
        lambda x: x.detach().clone().requires_grad_(True),
        lambda x: torch.tensor(x.tolist(), requires_grad=True),
        lambda x: torch.empty_like(x, requires_grad=False).copy_(x.detach()).requires_grad_(),
    ],
}


@pytest.mark.parametrize(
    ("make", "answer"), [(make, answer) for make, answers in OTHER_WAYS.items() for answer in answers]
)
def test_another_way_to_the_same_result_is_right(make, answer):
    result = judge(make(), answer)
    assert result.outcome == "right", result.plain


def test_a_function_that_changes_its_input_is_told_so():
    def sorts_in_place(x):
        result = x.mean(dim=0)
        x.zero_()
        return result

    result = judge(practice.column_means(), sorts_in_place)
    assert result.outcome == "wrong" and "changes its input `x`" in result.plain


def test_an_error_is_reported_with_its_inputs_and_the_learners_line(tmp_path):
    source = tmp_path / "answer.py"
    source.write_text("def column_means(x):\n    y = x.t()\n    return y.view(-1).mean(dim=7)\n", encoding="utf-8")
    namespace = {}
    exec(compile(source.read_text(encoding="utf-8"), str(source), "exec"), namespace)
    result = judge(practice.column_means(), namespace["column_means"])
    assert result.outcome == "raised"
    assert "```text\nRuntimeError: view size is not compatible" in result.plain
    assert "return y.view(-1).mean(dim=7)" in result.plain and "x = float32 tensor of shape (" in result.plain


def deep(x):
    return deep(x)


class OwnError(BaseException):
    """What is no Exception, as asyncio.CancelledError."""

    def __str__(self):
        raise ValueError("not even its text can be had")


def raises_its_own(x):
    raise OwnError


@pytest.mark.parametrize(
    ("answer", "name"),
    [
        (lambda x: exit(), "SystemExit"),
        (deep, "RecursionError"),
        (lambda: 1, "TypeError"),
        (raises_its_own, "OwnError"),
    ],
)
def test_nothing_that_an_answer_does_comes_out_as_an_error(answer, name):
    result = judge(practice.column_means(), answer)
    assert result.outcome == "raised" and name in result.plain


class Stubborn(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        raise RuntimeError("this tensor does nothing")


def within_itself(x):
    result = []
    result.append(result)
    return result


@pytest.mark.parametrize(
    ("answer", "says"),
    [(lambda x: x.mean(dim=0).as_subclass(Stubborn), "this tensor does nothing"), (within_itself, "RecursionError")],
)
def test_a_result_that_cannot_even_be_looked_at_is_wrong(answer, says):
    result = judge(practice.column_means(), answer)
    assert result.outcome == "wrong" and "cannot be compared" in result.plain and says in result.plain


def test_ctrl_c_is_not_swallowed():
    def interrupted(x):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        judge(practice.column_means(), interrupted)


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (lambda x: None, "A function without `return` gives `None`"),
        (lambda x: (yield x), "got `a generator`\n\nA function with `yield` gives a generator"),
        (lambda x: x.mean(dim=0).to_sparse(), "kind: expected `a tensor`, got `a sparse tensor`"),
        (lambda x: x.mean(dim=0).double(), "dtype: expected `float32`, got `float64`"),
        (lambda x: x.mean(dim=0).numpy(), "kind: expected `a tensor`, got `a NumPy array`"),
        (lambda x: x.mean(dim=0).to("meta"), "device: expected `cpu`, got `meta`"),
        (lambda x: x.mean(dim=0)[:, None], "shape: expected `(4,)`, got `(4, 1)`"),
        (lambda x: x.mean(dim=0) + 1, "value: expected `tensor(["),
    ],
)
def test_a_wrong_answer_that_nobody_foresaw_is_shown_against_the_expected_one(answer, says):
    result = judge(practice.column_means(), answer)
    assert (result.outcome, result.misconception) == ("wrong", None)
    assert says in result.markdown


def test_a_difference_without_inputs_is_a_list_below_the_verdict():
    assert judge(practice.labels(), torch.tensor([0, 1, 2])).markdown.startswith("**Not yet.**\n\n- value: expected")


def test_a_forgotten_return_is_told_where_a_view_is_asked_for():
    said = judge(practice.first_column(), lambda x: None).markdown
    assert "expected `a tensor`, got `None`" in said and "without `return`" in said


def test_an_error_and_a_wrong_shape_are_shown_with_the_shapes_of_the_inputs_and_a_value_with_the_numbers():
    exercise = practice.column_means()
    for answer in (lambda x: x @ x, lambda x: x.mean(dim=0)[:, None]):
        assert "With `x = float32 tensor of shape (" in judge(exercise, answer).markdown
    assert "With `x = tensor([[" in judge(exercise, lambda x: x.sum(dim=0)).markdown


def test_a_value_where_a_function_belongs_and_the_other_way_round_are_sentences():
    assert "the function itself" in judge(practice.column_means(), torch.zeros(4)).plain
    assert "the value itself" in judge(practice.labels(), lambda: 1).plain
    assert "the class, without brackets" in judge(practice.two_layers(), WithSequential()).plain


def test_each_attempt_has_inputs_of_its_own_and_each_answer_the_same_ones():
    exercise = practice.column_means()
    first, again, second = (observe(exercise, lambda x: x, attempt)[0].result for attempt in (0, 0, 1))
    assert first.equal(again) and not first.equal(second)


def test_what_an_answer_does_to_the_surroundings_does_not_last():
    def careless(x):
        torch.set_default_dtype(torch.float64)
        torch.manual_seed(5)
        random.seed(5)
        torch.set_grad_enabled(False)
        return x.mean(dim=0)

    before = torch.get_rng_state(), random.getstate()
    assert judge(practice.column_means(), careless).outcome == "right"
    assert torch.get_default_dtype() == torch.float32 and torch.is_grad_enabled()
    assert torch.get_rng_state().equal(before[0]) and random.getstate() == before[1]


def test_an_answer_cannot_reach_the_inputs_of_another_run():
    kept = []

    def keeps(x):
        for old in kept:
            old.zero_()
        kept.append(x)
        return x.mean(dim=0)

    assert judge(practice.column_means(), keeps).outcome in ("right", "wrong")
    assert judge(practice.column_means(), lambda x: x.mean(dim=0)).outcome == "right"


def test_an_answer_that_learned_the_first_case_by_heart_is_wrong():
    exercise = practice.column_means()
    known = observe(exercise, exercise.reference(), 0)[0].result
    assert judge(exercise, lambda x: known if x.shape == (3, 4) else x.mean(dim=0), attempt=0).is_right
    assert not judge(exercise, lambda x: known if x.shape == (3, 4) else x.mean(dim=0), attempt=1).is_right
