"""What the checks of chapter 04 say of answers that are right in part, or of another kind."""

import pytest

from labkit import exercises

LAB = exercises.load("04_models")


@pytest.mark.parametrize("name", ["Stack", "Standardise"])
def test_a_function_where_a_class_is_asked_for_is_named(name):
    result = LAB[name].judge(lambda *inputs: inputs)
    assert result.outcome == "wrong" and "class derived from nn.Module" in result.plain


def test_a_bias_asked_for_where_there_is_none_is_shown_with_its_line():
    def without_asking(layer):
        if hasattr(layer, "weight"):
            layer.bias.data.zero_()

    result = LAB.start_weights.judge(without_asking)
    assert result.outcome == "raised" and "NoneType" in result.plain


def test_a_head_that_is_no_list_is_told_apart():
    result = LAB.new_head.judge(lambda model, classes: None)
    assert result.outcome == "wrong" and "None" in result.plain
