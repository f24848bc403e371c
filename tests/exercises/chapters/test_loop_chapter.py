"""What the checks of chapter 05 say of answers that are right in part, or of another kind."""

import pytest
import torch.nn.functional as F

from labkit import exercises

LAB = exercises.load("05_training_loop")


@pytest.mark.parametrize("name", ["evaluate_by_sums", "accumulate", "clip_and_report", "warm_up_cosine", "keep_best"])
def test_a_value_where_a_function_is_asked_for_is_named(name):
    result = LAB[name].judge(0.5)
    assert result.outcome == "wrong" and "asks for a function" in result.plain


def test_a_loader_is_described_in_words():
    result = LAB.evaluate_by_sums.judge(lambda model, loader: (0.0, 0.0))
    assert result.outcome == "wrong" and "DataLoader of 11 samples, 4 a batch" in result.plain


def test_a_step_that_was_not_asked_for_is_seen():
    def accumulate_and_step(model, batches):
        LAB.accumulate.reference()(model, batches)
        for parameter in model.parameters():
            parameter.data -= 0.1 * parameter.grad

    result = LAB.accumulate.judge(accumulate_and_step)
    assert result.outcome == "wrong" and "the weights are as they were" in result.plain


def test_a_loss_used_twice_is_shown_with_its_line():
    def twice(loss, model, optimizer, scaler, max_norm):
        loss.backward()
        scaler.scale(loss).backward()

    result = LAB.clip_and_report.judge(twice)
    assert result.outcome == "raised" and "scaler.scale(loss).backward()" in result.plain


def test_a_snapshot_that_another_model_cannot_load_is_told_apart():
    result = LAB.keep_best.judge(lambda best, loss, model: (loss, F.one_hot))
    assert result.outcome == "raised" and "state_dict" in result.plain


def test_one_group_alone_leaves_parameters_out():
    result = LAB.decay_groups.judge(lambda model, weight_decay: [{"params": [model.get_parameter("0.weight")]}])
    assert not result.is_right
