"""The values on a line are looked up by the user's names, and nothing of the user's is run for it."""

import ast
import sys
from collections import namedtuple

import numpy
import pytest
import torch
import torch.nn as nn

from labkit.doctor.explain.frames import Place
from labkit.doctor.explain.layers import layer_in_words
from labkit.doctor.explain.operands import NOTHING, lookup, operands_of, value_in_words

Batch = namedtuple("Batch", "inputs targets")


class Spiteful:
    """Counts every piece of its own code that is run."""

    def __init__(self):
        self.__dict__["run"] = 0
        self.__dict__["plain"] = torch.rand(2)

    def __getattr__(self, name):
        self.__dict__["run"] += 1
        raise RuntimeError("looked at")

    def __getitem__(self, index):
        self.__dict__["run"] += 1
        raise RuntimeError("looked into")

    @property
    def costly(self):
        self.__dict__["run"] += 1
        return 1


def here(**variables) -> Place:
    """Return a place with these variables."""
    return Place("cell.py", 1, "run", known=variables)


def names_on(line: str, **variables) -> list[str]:
    return [operand.name for operand in operands_of(here(**variables), (ast.parse(line),))]


def value_of(expression: str, **variables) -> object:
    return lookup(ast.parse(expression, mode="eval").body, here(**variables))


def test_names_attributes_and_constant_subscripts_are_operands():
    model, x = nn.Sequential(nn.Linear(2, 3)), torch.rand(4, 2)
    batch = Batch(x, torch.zeros(4))
    line = "loss = f(model[0](x.float()), batch.targets, rows[-1], 3)"
    assert names_on(line, model=model, x=x, batch=batch, rows=[x]) == ["model[0]", "x", "batch.targets", "rows[-1]"]


def test_modules_functions_and_classes_are_no_operands():
    assert names_on("F.relu(nn.ReLU()(x))", F=nn.functional, nn=nn, x=torch.rand(1)) == ["x"]


def test_layers_parameters_and_buffers_are_found_in_a_module():
    norm = nn.BatchNorm1d(3)
    assert value_of("net.norm.weight", net=nn.ModuleDict({"norm": norm})) is norm.weight
    assert value_of("norm.running_mean", norm=norm) is norm.running_mean
    assert value_of("norm.nothing", norm=norm) is NOTHING


@pytest.mark.parametrize("expression", ["it.costly", "it.unknown", "it[0]", "it.plain.size", "f(it)", "it + 1"])
def test_no_code_is_run(expression):
    it = Spiteful()
    assert value_of(expression, it=it, f=lambda one: one) is NOTHING
    assert it.run == 0
    assert value_of("it.plain", it=it) is it.plain


def test_an_index_that_is_not_there_is_nothing():
    assert value_of("rows[7]", rows=[1]) is NOTHING
    assert value_of('table["b"]', table={"a": 1}) is NOTHING
    assert value_of('table["a"]', table={"a": 1}) == 1


def test_a_frame_gives_locals_before_globals():
    ast_here = "shadow"
    place = Place(__file__, 1, "test", frame=sys._getframe())
    assert lookup(ast.parse("ast_here", mode="eval").body, place) is ast_here
    assert lookup(ast.parse("Batch", mode="eval").body, place) is Batch


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (torch.zeros(2, 3), "float32 (2, 3) on cpu"),
        (torch.zeros(2, dtype=torch.int64), "int64 (2,) on cpu"),
        (torch.zeros(2, requires_grad=True), "float32 (2,) on cpu, requires_grad"),
        (torch.zeros(2, requires_grad=True).relu(), "float32 (2,) on cpu, from ReluBackward0"),
        (torch.zeros((), device="meta"), "float32 () on meta"),
        (numpy.zeros((2, 1)), "NumPy array float64 (2, 1)"),
        (nn.Linear(784, 10), "Linear 784 -> 10"),
        (nn.Conv2d(3, 8, (3, 5)), "Conv2d 3 -> 8, kernel 3×5"),
        (nn.LayerNorm(4), "LayerNorm (4,)"),
        ([1, 2], "list of 2"),
        (None, "None"),
        (0.5, "0.5"),
        ("short", "'short'"),
        ("long" * 20, "str of 80"),
        (object(), "object"),
    ],
)
def test_a_value_is_said_on_one_line(value, words):
    assert value_in_words(value) == words


def test_a_layer_of_ones_own_is_said_by_its_name():
    class Block(nn.Module):
        pass

    assert layer_in_words(Block()) == "Block"
