"""Each part that can be swapped in: right ways are right, wrong ones are named, stubs are not attempted."""

import pytest
import torch
import torch.nn.functional as F
from own_parts import RIGHT
from torch import nn

from labkit.exercises.declaration import defined_by
from labkit.exercises.parts import PARTS

SEVERAL = [pytest.param(name, answer, id=f"{name}-{answer.__name__}") for name in RIGHT for answer in RIGHT[name]]
WRONG = [
    pytest.param(name, one, id=f"{name}-{one.name}") for name, part in PARTS.items() for one in part.misconceptions
]


@pytest.mark.parametrize("name", PARTS)
@pytest.mark.parametrize("attempt", range(2))
def test_the_solution_is_right_and_the_stub_is_not_attempted(name, attempt):
    part = PARTS[name]
    assert part.judge(part.reference(), attempt).is_right
    assert part.judge(defined_by(part.stub, part.name), attempt).outcome == "not attempted"


@pytest.mark.parametrize("attempt", range(2))
@pytest.mark.parametrize(("name", "answer"), SEVERAL)
def test_other_right_ways_are_right(name, answer, attempt):
    result = PARTS[name].judge(answer, attempt)
    assert result.is_right, result.plain


@pytest.mark.parametrize("attempt", range(2))
@pytest.mark.parametrize(("name", "misconception"), WRONG)
def test_each_wrong_idea_is_named(name, misconception, attempt):
    result = PARTS[name].judge(misconception.answer, attempt)
    assert (result.outcome, result.misconception) == ("wrong", misconception.name), result.plain


@pytest.mark.parametrize(
    ("name", "own"),
    [("linear", nn.Linear), ("conv2d", nn.Conv2d), ("batch_norm", nn.BatchNorm2d), ("dropout", nn.Dropout)],
)
def test_torchs_own_layer_is_told_whether_given_inherited_or_deep_inside(name, own):
    class Inside(nn.Module):
        def __init__(self, *sizes, **settings):
            super().__init__()
            self.steps = nn.Sequential(nn.Identity(), own(*sizes, **settings))

        def forward(self, x):
            return self.steps(x)

    for answer in (own, type("Inherited", (own,), {}), Inside):
        assert PARTS[name].judge(answer).misconception == "you used the library's own layer"


def test_helpers_of_torch_and_modules_of_ones_own_are_right():
    class Parameters(nn.Module):
        def __init__(self, *shape):
            super().__init__()
            self.weight = nn.Parameter(torch.randn(*shape) / shape[1] ** 0.5 / shape[-1])
            self.bias = nn.Parameter(torch.zeros(shape[0]))

    class Conv2d(nn.Module):
        def __init__(self, inputs, outputs, kernel_size, padding=0):
            super().__init__()
            self.kept = Parameters(outputs, inputs, kernel_size, kernel_size)
            self.steps = nn.Sequential(nn.ZeroPad2d(padding), nn.Identity())

        def forward(self, x):
            return F.conv2d(self.steps(x), self.kept.weight, self.kept.bias)

    assert PARTS["conv2d"].judge(Conv2d).is_right


def test_every_part_has_several_wrong_ideas():
    assert min(len(part.misconceptions) for part in PARTS.values()) >= 5


@pytest.mark.parametrize("name", PARTS)
def test_something_of_another_kind_is_a_sentence(name):
    assert PARTS[name].judge(3).outcome == "wrong"
    assert "This" in PARTS[name].judge(3).plain


def test_inputs_are_named_as_the_run_names_them():
    def training_step(model, loss_fn, optimizer, inputs, targets):
        return 0.0

    assert "`batches = " in PARTS["training_step"].judge(training_step).plain
    assert "`sizes = (100, 3)`" in PARTS["linear"].judge(PARTS["dropout"].reference()).plain
