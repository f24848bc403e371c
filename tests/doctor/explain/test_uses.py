"""The explainer in use: in a notebook, around a block, for a script; the traceback and the ending stay as they were."""

import subprocess
import sys
import warnings
from pathlib import Path

import nbformat
import pytest
import torch
import torch.nn as nn
from IPython.core.interactiveshell import InteractiveShell
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

from labkit.course.kernel import CourseKernel, kernel_environment
from labkit.course.places import find_course
from labkit.doctor.explain import explain

ROOT = Path(__file__).resolve().parents[3]


# Around a block


def test_a_block_says_what_its_error_means_and_lets_the_same_error_go_on(capsys):
    table = torch.rand(2, 3)
    with pytest.raises(RuntimeError) as caught, explain() as said:
        try:
            table.view(5)
        except RuntimeError as error:
            original = error
            raise
    assert caught.value is original
    assert [one.row for one in said.explanations] == ["reshape"]
    heard = capsys.readouterr()
    assert heard.out == "" and "`table` has 6 elements" in heard.err


def test_a_block_that_ends_well_or_fails_in_another_way_says_nothing(capsys):
    with explain():
        torch.rand(2, 3).view(6)
    with pytest.raises(KeyError), explain():
        _ = {}["missing"]
    with pytest.raises(KeyboardInterrupt), explain():
        raise KeyboardInterrupt
    assert capsys.readouterr() == ("", "")


def test_of_two_blocks_around_one_error_the_outer_one_speaks():
    heard = []
    with pytest.raises(RuntimeError), explain(heard.append), explain(heard.append):
        torch.rand(2, 3).view(5)
    assert len(heard) == 1


def compare(outputs, targets):
    return nn.functional.mse_loss(outputs, targets)


def test_a_silent_trap_is_explained_once_a_line_and_its_warning_is_shown_as_before():
    heard = []
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        with explain(heard.append):
            for _ in range(3):
                compare(torch.rand(4, 1), torch.rand(4))
            warnings.warn("something else", stacklevel=1)
    assert len(seen) == 4
    assert [(one.row, one.variables) for one in heard] == [("loss-broadcast", ("outputs", "targets"))]


def test_after_the_block_warnings_are_shown_as_before_it():
    before = warnings.showwarning
    with explain():
        assert warnings.showwarning != before
    assert warnings.showwarning == before


# For a script

SCRIPT = """
import sys
import torch

def cut(table):
    return table.view(5)

print(sys.argv[1:], __name__)
if sys.argv[1] == "exit":
    sys.exit(3)
cut(torch.rand(int(sys.argv[1]), 2))
"""


def run(*command: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, *command], cwd=ROOT, capture_output=True, text=True, encoding="utf-8", timeout=300
    )


@pytest.fixture
def script(tmp_path) -> str:
    file = tmp_path / "train.py"
    file.write_text(SCRIPT, encoding="utf-8")
    return str(file)


def test_a_script_ends_as_before_and_its_error_is_explained_under_the_traceback(script):
    plain, explained = run(script, "3"), run("-m", "labkit", "explain", script, "3")
    assert explained.returncode == plain.returncode == 1
    assert explained.stdout == plain.stdout
    assert explained.stderr.startswith(plain.stderr)
    added = explained.stderr.removeprefix(plain.stderr)
    assert "train.py, line 6, in cut" in added and "`table` has 6 elements" in added


def test_a_script_has_its_own_arguments_and_its_own_status(script):
    ended = run("-m", "labkit", "explain", script, "exit", "--json")
    assert (ended.returncode, ended.stdout, ended.stderr) == (3, "['exit', '--json'] __main__\n", "")


def test_a_script_that_is_not_there_is_a_sentence():
    ended = run("-m", "labkit", "explain", "nowhere.py")
    assert ended.returncode == 1 and ended.stderr.startswith("labkit: There is no script nowhere.py.")


# In a notebook


@pytest.fixture
def shell():
    shell = InteractiveShell.instance()
    shell.extension_manager.load_extension("labkit")
    yield shell
    shell.extension_manager.unload_extension("labkit")
    InteractiveShell.clear_instance()


def test_under_a_traceback_stands_what_it_means(shell, capsys):
    shell.run_cell("import torch\ntable = torch.rand(2, 3)")
    result = shell.run_cell("table.view(5)")
    heard = capsys.readouterr().out
    assert isinstance(result.error_in_exec, RuntimeError)
    assert heard.index("is invalid for input of size 6") < heard.index("`table` has 6 elements")


def test_under_other_errors_nothing_is_added(shell, capsys):
    before = warnings.showwarning
    shell.run_cell("raise ValueError('mine')")
    shell.run_cell("1 +")
    shell.run_cell("raise KeyboardInterrupt")
    assert "cause" not in capsys.readouterr().out
    shell.extension_manager.unload_extension("labkit")
    assert warnings.showwarning != before
    shell.extension_manager.load_extension("labkit")


def test_what_a_block_in_the_cell_has_said_is_not_said_again(shell, capsys):
    shell.run_cell("import torch\nfrom labkit.doctor.explain import explain")
    shell.run_cell("with explain():\n    torch.rand(2, 3).view(5)")
    heard = capsys.readouterr()
    assert (heard.out + heard.err).count("is about this.") == 1


def test_a_notebook_that_fails_still_fails_and_keeps_error_and_explanation():
    sources = ["%load_ext labkit\nimport torch\ntable = torch.rand(2, 3)", "table.view(5)"]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])
    client = NotebookClient(notebook, kernel_manager_class=CourseKernel)
    with pytest.raises(CellExecutionError):
        client.execute(env=kernel_environment(find_course()))
    error, said = notebook.cells[1].outputs
    assert (error.output_type, error.ename) == ("error", "RuntimeError")
    assert "`table` has 6 elements" in said.data["text/plain"] and "<pre>" in said.data["text/html"]
