import pytest
import torch
import torch.nn as nn

from labkit.doctor import examine
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


def test_two_faults_are_mended_one_after_the_other():
    sick = program(train_step=without_clearing)
    sick.optimizer = torch.optim.SGD(sick.model[0].parameters(), lr=0.1)
    cure = examine(**sick.pieces()).apply()
    assert {each.fault for each in cure.applied} == {"zero_grad_misplaced", "param_not_optimised"} and cure.proven


def test_what_cannot_be_mended_by_itself_is_a_sentence():
    with pytest.raises(LabkitError, match="nothing to mend: the doctor found no fault"):
        examine(**program().pieces()).apply()
    sick = program(loss_fn=lambda outputs, targets: nn.functional.cross_entropy(outputs, targets + 7))
    with pytest.raises(LabkitError, match=r"can be mended by itself \(\w+\): the code under `fix` is yours"):
        examine(**sick.pieces()).apply()
