"""What the checks of chapter 08 say of answers that are right in part, or of another kind."""

import pytest
import torch

from labkit import exercises

LAB = exercises.load("08_speed")


@pytest.mark.parametrize("name", [exercise.name for exercise in LAB.exercises])
def test_a_value_where_a_function_is_asked_for_is_named(name):
    result = LAB[name].judge(0.5)
    assert result.outcome == "wrong" and "asks for a function" in result.plain


def test_windows_that_are_right_and_come_from_a_loop_are_told_so():
    def by_cat(images, top, left, size):
        places = enumerate(zip(top, left, strict=True))
        return torch.cat([images[i : i + 1, :, r : r + size, c : c + size] for i, (r, c) in places])

    assert LAB.windows.judge(by_cat).misconception == "a loop over pictures"


@pytest.mark.parametrize(
    "shorten",
    [
        lambda gradient, limit: gradient * min(1.0, limit / max(1e-9, gradient.norm().item())),
        lambda gradient, limit: gradient * (limit / max(gradient.norm(), torch.tensor(limit))),
    ],
)
def test_branches_in_disguise_are_branches(shorten):
    result = LAB.shortened.judge(shorten)
    assert result.outcome == "wrong" and (result.misconception == "an if on a value" or "looks at" in result.plain)


def test_reading_by_float_is_reading():
    def reads(update, batches):
        return sum(float(update(batch)) for batch in batches) / len(batches)

    assert LAB.mean_loss.judge(reads).misconception == "read in every update"


def test_a_loss_that_is_right_and_late_by_one_wait_is_wrong():
    def looks_twice(update, batches):
        losses = torch.stack([update(batch) for batch in batches])
        return losses.mean().item() if losses.isfinite().all() else 0.0

    result = LAB.mean_loss.judge(looks_twice)
    assert result.outcome == "wrong" and "times waited" in result.plain


def test_who_warms_up_longer_is_right_too():
    def warms_up_longer(action, clock, synchronize, repeats):
        action()
        return LAB.median_seconds.reference()(action, clock, synchronize, repeats)

    def patient(action, clock, synchronize, repeats):
        synchronize()
        return LAB.median_seconds.reference()(action, clock, synchronize, repeats)

    assert LAB.median_seconds.judge(patient).is_right and LAB.median_seconds.judge(warms_up_longer).is_right
