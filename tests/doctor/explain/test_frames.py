"""The line of the user is found: in lambdas, layers, compiled modules, cells, workers, and behind other errors."""

import linecache
import textwrap

import pytest
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

from labkit.doctor.explain import Explanation, explain_exception
from labkit.doctor.explain.frames import chain_of


def explanation_of(action) -> Explanation | None:
    try:
        action()
    except Exception as error:
        return explain_exception(error)
    pytest.fail("nothing was raised")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.ReLU(), nn.Linear(8, 2))

    def forward(self, x):
        hidden = x * 2
        return self.body(hidden)


def test_the_line_is_the_last_of_the_users_and_the_layer_has_its_name_in_the_model():
    net, batch = Net(), torch.rand(3, 5)
    found = explanation_of(lambda: net(batch))
    assert found.where.startswith("test_frames.py, line ") and found.where.endswith("in forward")
    assert found.code == "return self.body(hidden)"
    assert found.layer == "net.body.1 (Linear 8 -> 2)"
    assert found.variable == "hidden"


def test_a_lambda_is_a_line_of_the_users():
    layer = nn.Linear(4, 2)
    call = lambda data: layer(data)  # noqa: E731
    found = explanation_of(lambda: call(torch.rand(3, 5)))
    assert found.code == "call = lambda data: layer(data)  # noqa: E731"
    assert found.variables == ("data", "layer")


def test_only_the_part_of_the_line_that_failed_is_blamed():
    left, right, third = torch.rand(2, 3), torch.rand(2, 4), torch.rand(3, 3)
    found = explanation_of(lambda: (left @ third) + (left @ right))
    assert found.variables[:2] == ("left", "right")


def test_a_compiled_module_is_looked_into():
    net = torch.compile(Net(), backend="eager")
    found = explanation_of(lambda: net(torch.rand(3, 5)))
    assert found.row == "matmul-shapes" and found.where.endswith("in forward, in a compiled module")
    assert found.code == "return self.body(hidden)"
    assert "net.body.1" in found.what


def test_a_cell_of_a_notebook_is_shown_from_its_cache():
    cell, name = "table = torch.rand(2, 3)\ntable.view(5)\n", "/tmp/ipykernel_7/1234.py"
    linecache.cache[name] = (len(cell), None, cell.splitlines(keepends=True), name)
    found = explanation_of(lambda: exec(compile(cell, name, "exec"), {"torch": torch}))
    assert (found.row, found.code, found.variable) == ("reshape", "table.view(5)", "table")
    assert found.where == "1234.py, line 2"


def test_without_source_the_tensors_of_the_function_are_listed():
    code = "def run(first, second):\n    return first + second\n"
    space = {}
    exec(compile(code, "<string>", "exec"), space)
    found = explanation_of(lambda: space["run"](torch.rand(2), torch.rand(3)))
    assert found.code == ""
    assert [name for name, _ in found.operands] == ["first", "second"]


class Cut(Dataset):
    def __init__(self, size):
        self.size = size

    def __len__(self):
        return 4

    def __getitem__(self, number):
        row = torch.rand(4)
        return row.view(self.size)


class Broken(Cut):
    def __getitem__(self, number):
        raise ValueError(f"no file number {number}")


def first_batch(data):
    loader = DataLoader(data, batch_size=2, num_workers=1)
    return next(iter(loader))


def test_the_error_of_a_worker_is_explained_where_it_happened():
    found = explanation_of(lambda: first_batch(Cut(3)))
    assert found.row == "reshape"
    assert found.where.endswith("in __getitem__, in DataLoader worker process 0")
    assert found.code == "return row.view(self.size)"
    assert ("self.size", "3") in found.operands


def test_a_workers_error_of_the_users_own_is_located():
    found = explanation_of(lambda: first_batch(Broken(3)))
    assert found.row == "worker-error" and "no file number 0" in found.what
    assert "loader" in found.variables


def test_the_error_behind_one_that_was_raised_on_purpose_is_explained():
    def train():
        try:
            torch.rand(2, 3) @ torch.rand(2, 3)
        except RuntimeError as error:
            raise ValueError("training failed") from error

    assert explanation_of(train).row == "matmul-shapes"


def test_an_error_that_came_up_while_another_was_handled_is_its_own():
    def look_up():
        try:
            torch.rand(2, 3) @ torch.rand(2, 3)
        except RuntimeError:
            return {}["missing"]

    assert explanation_of(look_up) is None


def test_the_users_own_words_are_never_explained():
    def check():
        raise RuntimeError("mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)")

    assert explanation_of(check) is None


def test_the_error_is_left_as_it_was():
    def fail():
        net = Net()
        return net(torch.rand(3, 5))

    with pytest.raises(RuntimeError) as caught:
        fail()
    error = caught.value
    before = (str(error), error.args, error.__traceback__, error.__cause__, error.__context__, vars(error).copy())
    assert explain_exception(error) is not None
    assert before == (str(error), error.args, error.__traceback__, error.__cause__, error.__context__, vars(error))


def test_a_chain_that_bites_its_tail_ends():
    first, second = ValueError("a"), ValueError("b")
    first.__cause__, second.__cause__ = second, first
    assert [raised.text for raised in chain_of(first)] == ["a", "b"]


def test_a_file_that_changed_since_is_no_reason_to_fail(tmp_path):
    file = tmp_path / "script.py"
    file.write_text(textwrap.dedent("import torch\ndef run(x):\n    return x.view(5)\n"), encoding="utf-8")
    space = {}
    exec(compile(file.read_text(encoding="utf-8"), str(file), "exec"), space)
    file.write_text("(((", encoding="utf-8")
    found = explanation_of(lambda: space["run"](torch.rand(4)))
    assert found is not None and found.row == "reshape"
