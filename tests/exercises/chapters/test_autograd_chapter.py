"""What the checks of chapter 02 say of answers that are right in part, or of another kind."""

from autograd_answers import clears_at_the_end
from torch.nn import functional as F

from labkit import exercises

LAB = exercises.load("02_autograd")


def scales_the_inputs_itself(model, optimizer, inputs, targets):
    loss = clears_at_the_end(model, optimizer, inputs, targets)
    inputs.clamp_(-0.1, 0.1)
    return loss


def test_an_update_that_changes_the_batch_is_wrong():
    assert LAB.one_update.judge(scales_the_inputs_itself).outcome == "wrong"


def test_a_function_where_a_class_is_asked_for_is_named_and_so_is_one_loss_for_two():
    assert "class derived from torch.autograd.Function" in LAB.Swish.judge(F.silu).plain
    one_loss = LAB.critic_losses.judge(lambda generator, critic, real, noise: critic(real).mean())
    assert "Return two losses" in one_loss.plain


def test_an_attempt_at_half_an_exercise_is_no_attempt_yet():
    assert LAB.critic_losses.judge(lambda generator, critic, real, noise: (critic(real).mean(), ...)).outcome == (
        "not attempted"
    )
