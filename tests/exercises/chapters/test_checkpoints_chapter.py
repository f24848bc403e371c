"""What the checks of chapter 06 say of answers that are right in part, or of another kind."""

import os
import sys

import pytest
import torch

from labkit import exercises

LAB = exercises.load("06_checkpoints")
FUNCTIONS = [exercise.name for exercise in LAB.exercises if exercise.name != "Rewind"]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_value_where_a_function_is_asked_for_is_named(name):
    result = LAB[name].judge(0.5)
    assert result.outcome == "wrong" and "asks for a function" in result.plain


def test_a_function_where_a_class_is_asked_for_is_named():
    result = LAB.Rewind.judge(lambda model, optimizer: None)
    assert result.outcome == "wrong" and "asks for a class" in result.plain


def test_whatever_the_safe_loader_refuses_is_called_not_plain():
    def with_an_object(model, optimizer, schedule, epoch):
        return LAB.full_state.reference()(model, optimizer, schedule, epoch) | {"note": object()}

    result = LAB.full_state.judge(with_an_object)
    assert result.misconception == "not plain data"


def test_what_a_kill_would_leave_is_said_in_words():
    def in_two_pieces(path, content):
        with open(path, "wb", buffering=0) as file:
            file.write(content[:5])
            file.write(content[5:])

    result = LAB.save_atomically.judge(in_two_pieces)
    assert result.outcome == "wrong" and "under the name at some moment" in result.plain


def test_a_file_that_is_left_behind_is_named():
    def leaves_a_copy(path, content):
        LAB.save_atomically.reference()(path, content)
        path.with_name("copy").write_bytes(content)

    result = LAB.save_atomically.judge(leaves_a_copy)
    assert result.outcome == "wrong" and "other files in the end" in result.plain


def test_the_camera_gives_back_the_profiler_that_was_there():
    watched = []

    def watch(frame, event, argument):
        watched.append(event)

    sys.setprofile(watch)
    try:
        LAB.save_atomically.judge(lambda path, content: os.replace(path, path))
        assert sys.getprofile() is watch
    finally:
        sys.setprofile(None)
    assert watched


def test_a_return_that_breaks_the_bond_with_the_optimizer_is_seen():
    class NewParameters(LAB.Rewind.reference()):
        def back(self):
            super().back()
            for name, parameter in list(self.model.named_parameters()):
                module, _, last = name.rpartition(".")
                setattr(self.model.get_submodule(module), last, torch.nn.Parameter(parameter.detach().clone()))

    assert not LAB.Rewind.judge(NewParameters).is_right


@pytest.mark.parametrize(("name", "answer"), [("fingerprint", lambda images, labels: images), ("generator_for", print)])
def test_another_kind_of_result_is_named(name, answer):
    result = LAB[name].judge(answer)
    assert result.outcome == "wrong" and ("is text, bytes or" in result.plain or "torch.Generator" in result.plain)
