"""Building chapters, on small ones: what is stored, what is refused, and what a check finds."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import nbformat
import papermill
import pytest

from labkit.course import builder, compare, outputs, parameters, places, rules
from labkit.course.chosen import declarations
from labkit.errors import ConfigError, LabkitError

ROOT = Path(__file__).resolve().parents[1]

HEAD = """\
# %% [markdown]
# # A small chapter

# %% tags=["parameters"]
epochs: int = 3  # passes over the data
rate: float = 0.5  # the learning rate
data: str = "digits"  # a name
fast: bool = True  # a short run

# %%
from labkit.course import parameters

chosen = parameters(globals())
print(chosen["epochs"], chosen["rate"])
"""


@pytest.fixture
def course(tmp_path):
    """Return a function that writes a chapter below HEAD and returns it."""
    (tmp_path / "notebooks" / "source").mkdir(parents=True)

    def write(body: str = "", head: str = HEAD) -> places.Chapter:
        (tmp_path / "notebooks" / "source" / "01_small.py").write_text(f"{head}\n{body}", encoding="utf-8")
        return places.chapters(tmp_path)[0]

    return write


def output_of(notebook: nbformat.NotebookNode, cell: int) -> str:
    return "".join(output.get("text", "") for output in notebook.cells[cell].outputs)


# Finding chapters


def test_chapters_are_found_from_below_and_chosen_by_number_name_or_file(course, tmp_path):
    chapter = course()
    chapter.source.with_name("helpers.py").write_text("x = 1\n", encoding="utf-8")  # no number: no chapter
    assert places.chapters(tmp_path) == [chapter]
    assert places.find_course(tmp_path / "notebooks" / "source") == tmp_path
    for name in ("01", "01_small", "notebooks/01_small.ipynb", "01_small.py"):
        assert places.chapters(tmp_path, (name, "01")) == [chapter]
    with pytest.raises(LabkitError, match=r"no chapter '07'.*01_small"):
        places.chapters(tmp_path, ("07",))


# Parameters


def executed(*cells: str) -> dict:
    """Return the namespace of a kernel that has run the cells."""
    namespace: dict = {"In": [""]}
    for cell in cells:
        namespace["In"].append(cell)
        exec(cell, namespace)
    return namespace


DECLARED = "epochs: int = 3  # passes\nrate: float = 0.5\ndata: str = 'digits'\nfast: bool = True"


def test_parameters_are_those_of_the_cell_whatever_else_is_defined():
    namespace = executed("i = 7", DECLARED, "# Parameters\nepochs = 5\nrate = 1\n", "epoch = 4\nloss = 0.1")
    assert parameters(namespace) == {"epochs": 5, "rate": 1, "data": "digits", "fast": True}


def test_the_cell_that_ran_last_counts():
    namespace = executed(DECLARED, "# Parameters\nepoch = 5", "x = 1", DECLARED, "x = 2")
    assert parameters(namespace)["epochs"] == 3


def test_an_unknown_injected_name_is_refused_with_the_nearest():
    with pytest.raises(ConfigError, match=r"no parameter 'epoch'\. Did you mean 'epochs'\?"):
        parameters(executed(DECLARED, "# Parameters\nepoch = 5\n"))
    with pytest.raises(ConfigError, match=r"no parameter 'zzz'\. Its parameters are epochs, rate, data, fast"):
        parameters(executed(DECLARED, "# Parameters\nzzz = float('nan')\n"))


@pytest.mark.parametrize(
    ("injected", "said"),
    [
        ("epochs = 'many'", "'epochs' must be a whole number, but it is 'many'"),
        ("epochs = 2.0", "'epochs' must be a whole number, but it is 2.0"),
        ("epochs = True", "'epochs' must be a whole number, but it is True"),
        ("data = 7", r"'data' must be a text, but it is 7\. With papermill, -r"),
        ("data = ''", "'data' must not be empty"),
        ("data = ' '", "'data' must not be empty"),
        ("fast = 'no'", "'fast' must be True or False"),
        ("rate = None", "'rate' must be a number"),
    ],
)
def test_a_value_of_another_type_is_refused(injected, said):
    with pytest.raises(ConfigError, match=said):
        parameters(executed(DECLARED, f"# Parameters\n{injected}\n"))


def test_parameters_where_the_runner_keeps_no_history():
    namespace = {"In": [""], "fast": True, "rate": 0.5, "__annotations__": {"fast": bool, "rate": float, "path": Path}}
    assert parameters(namespace) == {"fast": True, "rate": 0.5}
    with pytest.raises(ConfigError, match="'fast' must be True or False"):
        parameters({**namespace, "fast": 3})
    with pytest.raises(ConfigError, match="not set yet"):
        parameters({"In": [""]})


def test_parameters_before_their_cell_ran():
    with pytest.raises(ConfigError, match="not set yet"):
        parameters({"In": ["", "x = 3"]})


@pytest.mark.parametrize("line", ["x = 3", "x: int = y", "x: Path = 'a'", "x: int", "import os", "x.y: int = 3"])
def test_only_annotated_plain_values_are_declarations(line):
    with pytest.raises(ConfigError, match="must read `name: type = value`"):
        declarations(line)


# Outputs


def stream(text: str, name: str = "stdout") -> nbformat.NotebookNode:
    return nbformat.v4.new_output("stream", name=name, text=text)


def test_pieces_of_a_stream_become_one():
    pieces = [stream("a"), stream("b"), stream("c", "stderr"), stream("d")]
    assert [piece.text for piece in outputs.clean(pieces, ROOT)] == ["ab", "c", "d"]


@pytest.mark.parametrize(
    ("printed", "shown"),
    [
        ("1 %\r50 %\r100 %\n", "100 %\n"),
        ("long line\rshort\n", "shortline\n"),
        ("loss 0.1234\r           \rdone\nnext\n", "done\nnext\n"),
        ("no return  \n\n", "no return  \n\n"),
    ],
)
def test_lines_that_rewrite_themselves_keep_what_a_terminal_shows(printed, shown):
    assert outputs.as_shown(printed) == shown


def test_addresses_and_paths_of_the_machine_are_not_stored(tmp_path):
    text = f"<f at 0x7f00aa> in {tmp_path}/runs/a, {Path.home()}/b; /tmp/ipykernel_12/34.py:1: hex is 0xff"
    stored = outputs.without_machine(text, tmp_path)
    assert stored == "<f at 0x...> in [course]/runs/a, [home]/b; cell.py:1: hex is 0xff"


def test_a_dead_view_of_a_widget_is_not_stored():
    view = {outputs.WIDGET_VIEW: {"model_id": "1"}}
    alone = nbformat.v4.new_output("display_data", data=dict(view))
    with_text = nbformat.v4.new_output("display_data", data=view | {"text/plain": "IntSlider(value=3)"})
    assert [output.data for output in outputs.clean([alone, with_text], ROOT)] == [{"text/plain": "IntSlider(value=3)"}]


# Building


VARIED = """\
# %% [markdown]
# Text.

# %% claims=["C012"]
import os
import sys

print(object(), os.environ["OMP_NUM_THREADS"])
sys.stdout.flush()  # before the child prints, which reaches the kernel by another way
value = os.system("echo from a child process")
"not shown";

# %%
import matplotlib.pyplot as plt

plt.plot([1, 2]);

# %% tags=["nbval-ignore-output"]
import time

print(f"took {time.time()} s")

# %%
from labkit.table import Table

Table([{"epoch": 1}])  # text and HTML

# %%
import ipywidgets

ipywidgets.IntSlider(value=3)
"""


def test_a_chapter_is_built_stored_and_found_unchanged(course):
    chapter = course(VARIED)
    assert builder.build(chapter).state == "stored"
    before = chapter.notebook.read_bytes()
    notebook = builder.read_stored(chapter)
    assert notebook.metadata.title == "A small chapter" and "version" not in notebook.metadata.language_info
    assert output_of(notebook, 2) == "3 0.5\n"
    assert output_of(notebook, 4) == "<object object at 0x...> 1\nfrom a child process\n"
    assert notebook.cells[4].metadata == {"claims": ["C012"]}
    assert b"\r" not in before and b"model_id" not in before and str(ROOT).encode() not in before
    assert [cell.id for cell in notebook.cells] == [cell.id for cell in builder.read_source(chapter).cells]

    assert builder.build(chapter).state == "unchanged" and chapter.notebook.read_bytes() == before
    assert builder.check(chapter).state == "unchanged" and chapter.notebook.read_bytes() == before
    assert [path.name for path in chapter.notebook.parent.iterdir() if path.is_file()] == ["01_small.ipynb"]


def test_a_disk_that_refuses_is_a_sentence_and_the_old_file_stays(tmp_path, monkeypatch):
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    target = tmp_path / "01_small.ipynb"
    target.write_text("old", encoding="utf-8")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(LabkitError, match=r"01_small\.ipynb cannot be written: No space left"):
        builder.store(nbformat.v4.new_notebook(), target)
    assert [path.name for path in tmp_path.iterdir()] == [target.name] and target.read_text(encoding="utf-8") == "old"


def test_ids_stay_when_another_cell_comes_and_differ_for_equal_cells(course):
    one = builder.read_source(course("# %%\nx = 1\n\n# %%\nx = 1\n")).cells
    two = builder.read_source(course("# %%\ny = 2\n\n# %%\nx = 1\n\n# %%\nx = 1\n")).cells
    assert one[-1].id != one[-2].id and [cell.id for cell in one[-2:]] == [cell.id for cell in two[-2:]]


def test_a_failing_chapter_shows_its_cell_and_error_and_the_old_notebook_stays(course):
    chapter = course("# %%\nprint(1)\n")
    builder.build(chapter)
    before = chapter.notebook.read_bytes()
    course("# %%\ndef divide(a):\n    return a / 0\n\n\ndivide(3)\n")
    with pytest.raises(LabkitError) as caught:
        builder.build(chapter)
    text = str(caught.value)
    assert text.startswith("01_small: cell 4 failed with ZeroDivisionError")
    assert "    divide(3)" in text and "ZeroDivisionError: division by zero" in text and "\x1b" not in text
    assert chapter.notebook.read_bytes() == before


def test_a_kernel_that_dies_is_a_sentence(course):
    with pytest.raises(LabkitError, match="the kernel died"):
        builder.build(course("# %%\nimport os\n\nos._exit(1)\n"))


def test_a_chapter_that_breaks_a_rule_is_not_stored(course):
    chapter = course("# %%\nimport sys\n\nprint('careful', file=sys.stderr)\n")
    with pytest.raises(LabkitError, match="Cell 4 prints to stderr, which is not compared: careful"):
        builder.build(chapter)
    assert not chapter.notebook.exists()


def test_a_check_needs_a_stored_notebook_that_can_be_read(course):
    chapter = course()
    with pytest.raises(LabkitError, match=r"does not exist yet\. Run: labkit build 01_small"):
        builder.check(chapter)
    chapter.notebook.write_text("<<<<<<< merge\n", encoding="utf-8")
    with pytest.raises(LabkitError, match="is damaged"):
        builder.check(chapter)


def test_a_check_names_the_first_cell_whose_stored_output_is_wrong(course):
    chapter = course("# %%\nprint('two')\nprint(2 * 3)\n")
    builder.build(chapter)
    text = chapter.notebook.read_text(encoding="utf-8")
    chapter.notebook.write_text(text.replace("6\\n", "7\\n"), encoding="utf-8")
    outcome = builder.check(chapter)
    assert outcome.state == "differs"
    assert outcome.explanation == "Cell 4 (`print('two')`) gives another output.\n  stored: 7\n  fresh:  6"


def test_a_changed_source_is_named_before_anything_ran(course):
    chapter = course("# %%\nx = 1\n")
    builder.build(chapter)
    stored = builder.read_stored(chapter)
    course("# %%\nx = 2\n")
    said = compare.text_difference(stored, builder.read_source(chapter))
    assert said == "Cell 4 (`x = 1`) has another text.\n  stored: x = 1\n  fresh:  x = 2"
    course('# %% tags=["nbval-ignore-output"]\nx = 1\n')
    assert "metadata" in compare.text_difference(stored, builder.read_source(chapter))
    course("# %%\nx = 1\n\n# %%\nx = 3\n")
    assert "4 cells, a fresh build 5" in compare.text_difference(stored, builder.read_source(chapter))


# Rules


@pytest.fixture(scope="module")
def good() -> nbformat.NotebookNode:
    """An executed notebook that keeps all rules."""
    cell, markdown = nbformat.v4.new_code_cell, nbformat.v4.new_markdown_cell
    tagged = {"tags": ["parameters"]}
    cells = [markdown("# Title"), cell("fast: bool = True  # a short run", metadata=tagged), cell("x = 1"), cell("x")]
    for count, code in enumerate(cells[1:], start=1):
        code.execution_count = count
    cells[3].outputs = [nbformat.v4.new_output("execute_result", data={"text/plain": "1"}, execution_count=3)]
    return nbformat.v4.new_notebook(cells=cells)


def test_a_good_notebook_has_no_problems(good):
    assert rules.problems(good) == []


def spoil_title(notebook):
    notebook.cells[0].source = "Title"


def spoil_tag(notebook):
    notebook.cells[1].metadata = {}


def spoil_literal(notebook):
    notebook.cells[1].source = "fast: bool = not False  # a short run"


def spoil_syntax(notebook):
    notebook.cells[1].source = "fast: bool = "


def spoil_help(notebook):
    notebook.cells[1].source = "fast: bool = True"


def spoil_execution(notebook):
    notebook.cells[2].execution_count = None


def spoil_empty(notebook):
    notebook.cells[2].source = " "


def spoil_error(notebook):
    notebook.cells[3].outputs = [nbformat.v4.new_output("error", ename="ValueError", evalue="", traceback=[])]


def spoil_share(notebook):
    for cell in notebook.cells[2:]:
        cell.metadata = {"tags": ["nbval-ignore-output"]}


def spoil_skip(notebook):
    notebook.cells[2].metadata = {"tags": ["nbval-skip"]}


def spoil_raises(notebook):
    notebook.cells[2].metadata = {"tags": ["raises-exception"]}


def spoil_claim(notebook):
    notebook.cells[2].metadata = {"claims": ["C12"]}


def spoil_claim_type(notebook):
    notebook.cells[2].metadata = {"claims": "C012"}


def spoil_widget_state(notebook):
    notebook.metadata["widgets"] = {}


def spoil_widget_view(notebook):
    notebook.cells[3].outputs[0].data[rules.WIDGET_VIEW] = {"model_id": "1"}


def spoil_path(notebook):
    notebook.cells[3].outputs[0].data["text/plain"] = "saved in [course]/notebooks/runs"


def spoil_stderr(notebook):
    notebook.cells[3].outputs = [stream("UserWarning: careful", "stderr")]


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (spoil_title, "begins with the title"),
        (spoil_tag, "not tagged `parameters`"),
        (spoil_literal, "fast: bool = not False"),
        (spoil_syntax, "invalid syntax"),
        (spoil_help, "'fast' has no comment"),
        (spoil_execution, "Cell 3 is not executed"),
        (spoil_empty, "Cell 3 is empty"),
        (spoil_error, "Cell 4 stores an error, ValueError"),
        (spoil_share, "2 of 3 code cells are not compared"),
        (spoil_skip, "`nbval-skip`"),
        (spoil_raises, "`raises-exception`"),
        (spoil_claim, "ids such as C012"),
        (spoil_claim_type, "ids such as C012"),
        (spoil_widget_state, "state of widgets"),
        (spoil_widget_view, "Cell 4 stores the view of a widget"),
        (spoil_path, "Cell 4 prints a path of this machine"),
        (spoil_stderr, "UserWarning: careful"),
    ],
)
def test_each_broken_rule_is_one_sentence(good, spoil, said):
    notebook = nbformat.reads(nbformat.writes(good), as_version=4)
    spoil(notebook)
    found = rules.problems(notebook)
    assert len(found) == 1 and said in found[0]


# The harness around it: papermill, and pytest with nbval


def test_papermill_injects_and_the_chapter_refuses(course, tmp_path, run_like_the_builder):
    chapter = course()
    builder.build(chapter)
    target = tmp_path / "out.ipynb"
    changed = papermill.execute_notebook(chapter.notebook, target, {"epochs": 9, "rate": 1e-3}, progress_bar=False)
    assert output_of(changed, 3) == "9 0.001\n"
    with pytest.raises(papermill.PapermillExecutionError, match=r"no parameter 'epoch'\. Did you mean 'epochs'\?"):
        papermill.execute_notebook(chapter.notebook, target, {"epoch": 9}, progress_bar=False)


def run_nbval(folder: Path, *options: str) -> subprocess.CompletedProcess:
    """Run the root's conftest over another course, from a folder that is neither."""
    for name in ("conftest.py", "pyproject.toml", "tests/nbval_sanitize.cfg"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text((ROOT / name).read_text(encoding="utf-8"), encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "--nbval", "-p", "no:cacheprovider", str(folder / "notebooks"), *options]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    return subprocess.run(command, cwd=folder.parent, env=environment, capture_output=True, text=True, timeout=300)


def test_nbval_accepts_what_the_builder_stored(course, tmp_path):
    builder.build(course(VARIED))
    finished = run_nbval(tmp_path)
    assert finished.returncode == 0 and "7 passed" in finished.stdout, finished.stdout


def test_nbval_finds_a_wrong_output_and_needs_the_sanitizer_for_addresses(course, tmp_path):
    chapter = course("# %%\nprint(object())\n\n# %%\nprint(2 * 3)\n")
    builder.build(chapter)
    text = chapter.notebook.read_text(encoding="utf-8")
    chapter.notebook.write_text(text.replace("6\\n", "7\\n"), encoding="utf-8")
    assert "1 failed, 3 passed" in run_nbval(tmp_path).stdout
    (tmp_path / "none.cfg").write_text("", encoding="utf-8")
    assert "2 failed, 2 passed" in run_nbval(tmp_path, f"--nbval-sanitize-with={tmp_path / 'none.cfg'}").stdout


@pytest.mark.slow
def test_building_and_comparing_never_touch_the_progress_of_whoever_does_it(course, tmp_path, monkeypatch):
    own = tmp_path / "progress.json"
    monkeypatch.setenv("LABKIT_PROGRESS", str(own))
    source = (
        "# %%\nfrom labkit.exercises import progress\n\nprogress.record_opened('01_tensors')\nprint(progress.place())\n"
    )
    builder.build(course(source))
    assert run_nbval(tmp_path).returncode == 0
    assert not own.exists()
