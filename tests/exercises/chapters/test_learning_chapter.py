"""What the checks of chapter 07 say of answers that are right in part, or of another kind."""

import pytest
import torch

from labkit import exercises

LAB = exercises.load("07_when_it_does_not_learn")


@pytest.mark.parametrize("name", [exercise.name for exercise in LAB.exercises])
def test_a_value_where_a_function_is_asked_for_is_named(name):
    result = LAB[name].judge(0.5)
    assert result.outcome == "wrong" and "asks for a function" in result.plain


def test_an_update_that_is_made_twice_is_seen():
    def twice(model, update):
        update()
        return LAB.update_sizes.reference()(model, update)

    result = LAB.update_sizes.judge(twice)
    assert result.outcome == "wrong" and "sizes" in result.plain


def test_a_batch_of_one_is_not_needed_and_wrong_where_a_layer_refuses_it():
    def one_by_one(model, inputs):
        with torch.no_grad():
            return not torch.allclose(model(inputs), torch.cat([model(one[None]) for one in inputs]), atol=1e-5)

    assert LAB.mixes_samples.judge(one_by_one).outcome == "raised"


def test_a_hook_that_is_left_behind_is_named():
    def leaves_one(model, inputs):
        model.register_forward_hook(lambda *_: None)
        return LAB.first_non_finite.reference()(model, inputs)

    result = LAB.first_non_finite.judge(leaves_one)
    assert result.outcome == "wrong" and "hooks left on the model" in result.plain


def test_one_who_loads_all_batches_first_has_waited_as_long():
    def all_first(loader, step, clock):
        begun = clock()
        batches = list(loader)
        loaded = clock()
        for batch in batches:
            step(batch)
        return loaded - begun, clock() - loaded

    assert LAB.waiting_and_computing.judge(all_first).is_right  # the times are right; memory is another question
