"""`%load_ext labkit` in a real IPython shell, and once in a real kernel."""

import nbformat
import pytest
from IPython.core.interactiveshell import InteractiveShell
from nbclient import NotebookClient

from labkit.course.kernel import CourseKernel, kernel_environment
from labkit.course.places import find_course
from labkit.exercises import Chapter, Exercise, progress

STUB = "def column_means(x):\n    return ...  # your turn\n"


@pytest.fixture
def lab() -> Chapter:
    fields = {"prompt": "", "solved": "", "hints": ("one", "two"), "cases": lambda generator: []}
    return Chapter("01_tensors", [Exercise(name="column_means", stub=STUB, **fields)])


@pytest.fixture(autouse=True)
def own(tmp_path, monkeypatch):
    monkeypatch.setenv("LABKIT_PROGRESS", str(tmp_path / "progress.json"))
    monkeypatch.delenv("JPY_SESSION_NAME", raising=False)


@pytest.fixture
def shell(monkeypatch):
    """An IPython shell with the lab loaded, which keeps what it was asked to put into the cell."""
    shell = InteractiveShell.instance()
    shell.asked = []
    monkeypatch.setattr(shell, "set_next_input", lambda text, replace=False: shell.asked.append((text, replace)))
    shell.extension_manager.load_extension("labkit")
    yield shell
    shell.extension_manager.unload_extension("labkit")
    InteractiveShell.clear_instance()


@pytest.mark.parametrize("name", ["column_means", "lab.column_means", " column_means "])
def test_an_exercise_is_put_back_into_its_cell(name, shell, lab):
    shell.push({"lab": lab})
    assert shell.run_cell(f"%reset_exercise {name}").success
    assert shell.asked == [(STUB.rstrip(), True)]


@pytest.mark.parametrize(
    ("line", "said"),
    [("colum_means", "Did you mean column_means?"), ("xyz", "Here are column_means."), ("", "%reset_exercise NAME")],
)
def test_a_wrong_name_is_answered_in_a_sentence_and_the_cell_stays(line, said, shell, lab, capsys):
    shell.push({"lab": lab})
    shell.run_cell(f"%reset_exercise {line}")
    heard = "".join(capsys.readouterr())
    assert said in heard and "Traceback" not in heard and shell.asked == []


def test_without_exercises_it_says_which_cell_to_run(shell, capsys):
    shell.run_cell("%reset_exercise column_means")
    assert "No exercises are loaded" in "".join(capsys.readouterr())


def test_the_chapter_is_opened_once_and_errors_are_noted_by_type_alone(shell, lab):
    shell.run_cell("secret = 1 / 0")
    assert progress.read()["chapters"] == {}, "this is no chapter of the course"
    shell.push({"lab": lab})
    for source in ("1 + 1", "secret = 1 / 0", "secret = 1 / 0", "def secret(:", "raise KeyboardInterrupt"):
        shell.run_cell(source)
    errors = {"ZeroDivisionError": 2, "SyntaxError": 1}
    assert progress.read()["chapters"] == {"01_tensors": {"opened": 1, "errors": errors}}
    assert "secret" not in progress.place().read_text(encoding="utf-8")


def test_a_chapter_without_exercises_is_known_by_its_file(shell, tmp_path, monkeypatch):
    monkeypatch.setenv("JPY_SESSION_NAME", str(tmp_path / "05_my_diary.ipynb"))
    shell.run_cell("1 / 0")
    assert progress.read()["chapters"] == {}, "a notebook of the learner's own is not noted"
    monkeypatch.setenv("JPY_SESSION_NAME", str(find_course() / "notebooks" / "05_training_loop.ipynb"))
    shell.run_cell("1 / 0")
    assert progress.read()["chapters"] == {"05_training_loop": {"opened": 1, "errors": {"ZeroDivisionError": 1}}}


def test_unloaded_it_leaves_nothing_behind_and_loads_again(shell, lab):
    shell.push({"lab": lab})
    shell.extension_manager.unload_extension("labkit")
    assert "reset_exercise" not in shell.magics_manager.magics["line"]
    shell.run_cell("1 / 0")
    assert progress.read()["chapters"] == {}
    shell.extension_manager.load_extension("labkit")
    shell.extension_manager.reload_extension("labkit")
    shell.run_cell("1 / 0")
    assert progress.read()["chapters"]["01_tensors"]["errors"] == {"ZeroDivisionError": 1}


def test_in_a_real_kernel_the_cell_gets_its_text_back_and_progress_is_kept(tmp_path):
    sources = [
        "%load_ext labkit\nfrom labkit.exercises import Chapter, Exercise",
        f"task = Exercise('column_means', '', {STUB!r}, '', ('one', 'two'), list)\nlab = Chapter('01_tensors', [task])",
        "%reset_exercise column_means",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])
    payloads = []
    client = NotebookClient(
        notebook,
        kernel_manager_class=CourseKernel,
        on_cell_executed=lambda cell, cell_index, execute_reply: payloads.append(execute_reply["content"]["payload"]),
    )
    environment = kernel_environment(find_course()) | {"LABKIT_PROGRESS": str(tmp_path / "kernel.json")}
    client.execute(env=environment)
    assert payloads[-1] == [{"source": "set_next_input", "text": STUB.rstrip("\n"), "replace": True}]
    assert progress.read(tmp_path / "kernel.json")["chapters"] == {"01_tensors": {"opened": 1}}


PROGRAM = """
import torch, torch.nn as nn
x = torch.randn(60, 4)
net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
criterion, optimizer = nn.CrossEntropyLoss(), torch.optim.SGD(net[0].parameters(), lr=0.1)
train_loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, (x[:, 0] > 0).long()), batch_size=10)
def pieces():
    return net, criterion, optimizer, train_loader
"""


@pytest.mark.parametrize("line", ["report = %doctor", "report = %doctor pieces"])
def test_the_doctor_looks_at_the_program_in_a_notebook(line, shell):
    assert shell.run_cell(PROGRAM).success and shell.run_cell(line).success
    assert shell.user_ns["report"].findings[0].fault == "param_not_optimised"


@pytest.mark.parametrize(
    ("line", "said"), [("%doctor", "This notebook has no variable model"), ("%doctor it", "no variable 'it'")]
)
def test_without_pieces_the_doctor_says_what_it_needs(line, said, shell, capsys):
    shell.user_ns.clear()
    shell.run_cell(line)
    heard = "".join(capsys.readouterr())
    assert said in heard and "Traceback" not in heard
