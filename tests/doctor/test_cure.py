import pytest
import torch
import torch.nn as nn

from labkit.doctor import Report, examine
from labkit.errors import LabkitError
from labkit.keeping import same_bits
from tests.doctor.small import program


def without_clearing(model, batch, loss_fn, optimizer):
    loss = loss_fn(model(batch[0]), batch[1])
    loss.backward()
    optimizer.step()
    return loss.item()


def test_a_fault_is_mended_on_a_copy_and_the_proof_comes_with_it():
    sick = program(train_step=without_clearing)
    before = {name: value.clone() for name, value in sick.model.state_dict().items()}
    report = examine(**sick.pieces())
    assert report.findings[0].fault == "zero_grad_misplaced"
    cure = report.apply()
    assert cure.proven and cure.left.findings == [] and [each.fault for each in cure.applied] == ["zero_grad_misplaced"]
    assert cure.comparison.after and "mended zero_grad_misplaced" in str(cure)
    assert sick.train_step is without_clearing
    assert all(same_bits(value, before[name]) for name, value in sick.model.state_dict().items())
    assert all(same_bits(value, before[name]) for name, value in cure.program.model.state_dict().items())


@pytest.mark.parametrize("kind", ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "NAdam", "Adamax", "RAdam"])
def test_the_mended_program_is_of_one_piece(kind):
    """The optimizer of the cure moves the model of the cure, and no other."""
    sick = program()
    sick.optimizer = getattr(torch.optim, kind)(sick.model[0].parameters(), lr=0.05)
    cure = examine(**sick.pieces()).apply()
    assert cure.proven and cure.applied[0].fault == "param_not_optimised"
    moved = {id(parameter) for group in cure.program.optimizer.param_groups for parameter in group["params"]}
    assert moved == {id(parameter) for parameter in cure.program.model.parameters()}


def counted_double(model, batch, loss_fn, optimizer):
    """Clears nothing, and returns what only this step knows."""
    return 2 * without_clearing(model, batch, loss_fn, optimizer)


def test_the_step_of_the_user_still_runs_when_it_can():
    cure = examine(**program(train_step=counted_double).pieces()).apply()
    mended = cure.program.copy()
    batch = next(iter(mended.train_loader))
    loss = mended.loss_fn(mended.model(batch[0]), batch[1]).item()
    assert cure.proven and mended.step(batch) == pytest.approx(2 * loss)


def test_a_fix_that_cannot_be_applied_gives_way_to_the_next():
    report = examine(**program(train_step=without_clearing).pieces())
    finding = report.findings[0]
    finding.mend, finding.instead = (lambda one: one.no_such_piece), ((finding.mend, "the other"),)
    cure = report.apply()
    assert cure.proven and cure.applied[0].fix == "the other"
    finding.instead = ()
    with pytest.raises(LabkitError, match="No fix of zero_grad_misplaced could be applied here"):
        report.apply()


def test_a_fix_under_which_nothing_is_learned_proves_nothing():
    report = examine(**program(train_step=without_clearing).pieces())
    report.findings[0].mend, report.findings[0].instead = stands_still, ()
    assert not report.apply().proven


def stands_still(one):
    one.train_step = lambda model, batch, loss_fn, optimizer: 0.0


def test_two_faults_are_mended_one_after_the_other():
    sick = program(train_step=without_clearing)
    sick.optimizer = torch.optim.SGD(sick.model[0].parameters(), lr=0.1)
    cure = examine(**sick.pieces()).apply()
    assert {each.fault for each in cure.applied} == {"zero_grad_misplaced", "param_not_optimised"} and cure.proven


def test_a_report_made_by_hand_says_so():
    with pytest.raises(LabkitError, match=r"Only a report that examine\(...\) returned can be applied"):
        Report([], program()).apply()


def test_what_cannot_be_mended_by_itself_is_a_sentence():
    with pytest.raises(LabkitError, match="nothing to mend: the doctor found no fault"):
        examine(**program().pieces()).apply()
    sick = program(loss_fn=lambda outputs, targets: nn.functional.cross_entropy(outputs, targets + 7))
    with pytest.raises(LabkitError, match=r"can be mended by itself \(\w+\): the code under `fix` is yours"):
        examine(**sick.pieces()).apply()
