import pytest
import torch

from labkit.autograd.switches import SWITCHES, UPDATES, by_hand, run
from labkit.errors import ConfigError


def gradients(outcome, name="weight"):
    return [row[f"{name}.grad"] for row in outcome.rows]


def test_unbroken_the_gradients_are_those_of_the_chain_rule_and_the_loss_falls():
    outcome = run()
    assert outcome.error == "" and outcome.changed == () and len(outcome.rows) == UPDATES
    weight, readout = 0.5, -1.0
    for row in outcome.rows:
        assert (row["weight.grad"], row["readout.grad"]) == pytest.approx(by_hand(weight, readout), rel=1e-5)
        weight, readout = row["weight"], row["readout"]
    losses = [row["loss"] for row in outcome.rows]
    assert losses == sorted(losses, reverse=True)


def test_without_zero_grad_the_gradients_add_up():
    plain, piled = run(), run(skip_zero_grad=True)
    assert gradients(piled)[0] == gradients(plain)[0]
    weight, readout, summed = 0.5, -1.0, 0.0
    for row in piled.rows:
        summed += by_hand(weight, readout)[0]
        assert row["weight.grad"] == pytest.approx(summed, rel=1e-5)
        weight, readout = row["weight"], row["readout"]
    assert piled.code[piled.changed[0]].strip() == "# optimizer.zero_grad()"


@pytest.mark.parametrize("switch", ["detach_hidden", "no_grad_hidden"])
def test_where_the_graph_is_cut_the_weight_before_the_cut_gets_no_gradient_and_stays(switch):
    outcome = run(**{switch: True})
    assert outcome.error == "" and gradients(outcome) == [None] * UPDATES
    assert {row["weight"] for row in outcome.rows} == {0.5}
    assert gradients(outcome, "readout")[0] == gradients(run(), "readout")[0]
    assert outcome.rows[-1]["loss"] < outcome.rows[0]["loss"]  # it still learns: with half of its weights


def test_an_edit_of_a_saved_value_is_torchs_own_error_at_backward():
    outcome = run(edit_in_place=True)
    assert outcome.error.startswith(
        "one of the variables needed for gradient computation has been modified by an inplace"
    )
    assert "is at version 1; expected version 0 instead" in outcome.error
    assert outcome.code[outcome.error_line].strip() == "loss.backward()" and outcome.rows == ()


def test_a_second_backward_is_torchs_own_error_and_with_the_graph_kept_it_doubles_the_gradient():
    outcome = run(backward_twice=True)
    assert outcome.error.startswith("Trying to backward through the graph a second time")
    assert outcome.error_line == len(outcome.code) - 2
    kept = run(backward_twice=True, retain_graph=True)
    assert kept.error == ""
    assert gradients(kept)[0] == pytest.approx(2 * gradients(run())[0])


def test_keeping_the_graph_alone_changes_nothing():
    assert run(retain_graph=True).rows == run().rows


@pytest.mark.parametrize("switch", SWITCHES)
def test_the_code_that_is_shown_is_the_code_that_ran(switch):
    outcome = run(**{switch: True})
    plain = run().code
    assert outcome.changed and all(
        outcome.code[number] not in plain for number in outcome.changed if switch != "backward_twice"
    )
    unchanged = [line for number, line in enumerate(outcome.code) if number not in outcome.changed]
    assert set(unchanged) <= set(plain)


def test_an_unknown_switch_a_word_for_one_and_two_cuts_at_once_are_sentences():
    with pytest.raises(ConfigError, match="no switch 'detach'; the switches are skip_zero_grad"):
        run(detach=True)
    with pytest.raises(ConfigError, match="Choose one of"):
        run(detach_hidden=True, no_grad_hidden=True)
    with pytest.raises(ConfigError, match="detach_hidden must be True or False; it is 'no'"):
        run(detach_hidden="no")


@pytest.mark.parametrize("mode", [torch.inference_mode, torch.no_grad, lambda: torch.device("meta")])
def test_the_program_runs_the_same_inside_other_modes(mode):
    expected = run()
    with mode():
        assert run() == expected
