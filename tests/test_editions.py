"""Exercises in a chapter: what learners get, what teachers get, and what is refused. On a small chapter."""

import importlib.util
import re
import sys

import nbformat
import pytest

from labkit import exercises
from labkit.course import builder, editions, expansion, places, rules
from labkit.errors import LabkitError
from labkit.exercises.declaration import defined_by

DECLARATIONS = '''\
"""The exercises of a small chapter."""

import torch

from labkit.exercises import Chapter, Exercise, Misconception, Prediction

CHAPTER = Chapter(
    "01_small",
    [
        Exercise(
            name="column_means",
            prompt="### Exercise: means\\n\\nReturn the mean of each column.",
            stub="def column_means(x):\\n    return ...  # your turn\\n",
            solved="def column_means(x):\\n    return x.mean(dim=0)\\n",
            hints=("Which dimension disappears?", "Look at `mean` and its `dim`."),
            cases=lambda generator: [(torch.randn(3, 4, generator=generator),)],
            misconceptions=(Misconception("rows for columns", lambda x: x.mean(dim=1), "That goes along a row."),),
            note="Draw the matrix.",
            points=3,
        )
    ],
    [Prediction("promotion", "Which dtype?", "float32", {"int64": "No.", "float32": "A scalar does not widen."})],
)
'''
TEXT = """\
# %% [markdown]
# # A small chapter

# %% tags=["parameters"]
fast: bool = True  # a short run

# %%
import torch

from small_lab import CHAPTER as lab

# %% [markdown] tags=["teaching-note"]
# Let them guess aloud.

# %% [markdown]
# Read [the code](../labkit/means.py#top), look: ![](images/a.png), then [go on](02_next.ipynb) or [out](https://a.org).
#
# ## Means

# %% exercise="column_means" claims=["C041"]

# %% [markdown]
# ## Types

# %% predict="promotion"

# %%
lab.promotion.reveal(guess, (torch.tensor([1]) + 0.5).dtype)
"""
SOLUTION = "return x.mean(dim=0)"


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    """Return a function that writes a small chapter, whose exercises are declared, and returns it."""
    root = tmp_path_factory.mktemp("course")
    for name, text in {
        "notebooks/small_lab.py": DECLARATIONS,
        "notebooks/images/a.png": "",
        "labkit/means.py": "",
        "notebooks/source/01_small.py": TEXT,
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location("small_lab", root / "notebooks" / "small_lab.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exercises, "names", lambda: ["01_small"])
        patch.setattr(exercises, "load", lambda name: module.CHAPTER)

        def write(text: str = TEXT) -> places.Chapter:
            (root / "notebooks" / "source" / "01_small.py").write_text(text, encoding="utf-8")
            return places.chapters(root)[0]

        yield write


@pytest.fixture(scope="module")
def learners(course) -> nbformat.NotebookNode:
    """The learner's notebook, executed."""
    chapter = course()
    builder.build(chapter)
    return builder.read_stored(chapter)


@pytest.fixture(scope="module")
def solved(course, tmp_path_factory) -> nbformat.NotebookNode:
    """The instructor edition, read back from where it was stored."""
    chapter, folder = course(), tmp_path_factory.mktemp("solved")
    editions.prepare(folder, [chapter])
    editions.solve(chapter, folder)
    return nbformat.read(folder / "01_small.ipynb", as_version=4)


def marked(notebook: nbformat.NotebookNode, key: str) -> nbformat.NotebookNode:
    (cell,) = [cell for cell in notebook.cells if key in cell.metadata]
    return cell


def said(cell: nbformat.NotebookNode) -> str:
    (output,) = cell.outputs
    return output.data["text/plain"]


# What learners get


def test_an_exercise_becomes_its_task_its_stub_and_its_check(learners):
    stub, check = marked(learners, "exercise"), marked(learners, "check")
    at = learners.cells.index(stub)
    assert learners.cells[at - 1].source == "### Exercise: means\n\nReturn the mean of each column."
    assert stub.source == "def column_means(x):\n    return ...  # your turn"
    assert learners.cells[at + 1] is check
    assert check.source == "lab.column_means.check(column_means)\n# stuck? lab.column_means.hint()"
    assert check.metadata == {"check": "column_means", "claims": ["C041"]}
    assert "not attempted" in said(check)


def test_a_prediction_becomes_its_question_and_a_guess_among_its_choices(learners):
    guess = marked(learners, "predict")
    assert guess.source == 'guess = ...  # your turn: "int64" or "float32"'
    assert learners.cells[learners.cells.index(guess) - 1].source == "Which dtype?"
    assert said(learners.cells[-1]).startswith("Measured: float32.")


@pytest.mark.parametrize(
    ("marker", "key"), [('exercise="column_means" claims=["C041"]', "exercise"), ('predict="promotion"', "predict")]
)
def test_prose_stands_above_the_task_or_the_question_in_one_cell(course, learners, marker, key):
    text = TEXT.replace(f"# %% {marker}\n", f"# %% [markdown] {marker}\n# Some prose.\n")
    cells, expected = builder.read_source(course(text)).cells, learners.cells
    at = expected.index(marked(learners, key))
    assert cells[at - 1].source == f"Some prose.\n\n---\n\n{expected[at - 1].source}"
    assert [cell.metadata for cell in cells] == [cell.metadata for cell in expected]


def test_learners_get_no_solution_no_notes_and_nothing_for_nbgrader(learners):
    text = nbformat.writes(learners)
    assert SOLUTION not in text and "guess aloud" not in text and "Draw the matrix" not in text
    assert "nbgrader" not in text and "HIDDEN" not in text


# What is refused


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        (
            'exercise="column_means"',
            'exercise="column_mean"',
            "no exercise 'column_mean'. Did you mean 'column_means'?",
        ),
        ('exercise="column_means"', 'predict="column_means"', "names 'column_means', which is declared as Exercise"),
        ('exercise="column_means" claims=["C041"]', 'exercise="column_means"\nx = 1', "has text of its own"),
    ],
)
def test_a_cell_that_names_what_is_not_there_is_a_sentence(course, old, new, complaint):
    chapter = course(TEXT.replace(old, new))
    with pytest.raises(LabkitError, match=re.escape(complaint)):
        builder.read_source(chapter)


def test_a_chapter_without_declarations_can_show_no_exercise(course, monkeypatch):
    monkeypatch.setattr(exercises, "names", list)
    with pytest.raises(LabkitError, match="no module in labkit/exercises/chapters is for this chapter"):
        builder.read_source(course())


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ('# %% exercise="column_means" claims=["C041"]\n', "", "'column_means' is declared but not shown"),
        ('# %% predict="promotion"\n', "", "'promotion' is declared but not shown. Its place is a cell `# %% predict="),
        ('# %% predict="promotion"\n', '# %% predict="promotion"\n\n' * 2, "'promotion' is shown 2 times"),
        ("lab.promotion.reveal(", "print(", "'promotion' is never settled: no cell calls lab.promotion.reveal"),
        ("# ## Types", "# ## Types\n#\n# As in `return x.mean(dim=0)`.", "gives away the solution of 'column_means'"),
        ("# ## Types", "# ## Types\n#\n# As in `x.mean(dim=0)`.", "gives away the solution of 'column_means'"),
        ("lab.promotion.reveal(", f"print('{SOLUTION}')\nlab.promotion.reveal(", "gives away the solution"),
    ],
)
def test_each_broken_rule_about_exercises_is_one_sentence(course, learners, old, new, complaint):
    chapter = course(TEXT.replace(old, new))
    notebook = builder.read_source(chapter)
    for count, cell in enumerate((cell for cell in notebook.cells if cell.cell_type == "code"), start=1):
        cell.execution_count = count
    (found,) = rules.problems(notebook, expansion.declared(chapter))
    assert complaint in found


def test_a_solution_that_a_cell_prints_is_given_away(course, learners):
    lab = expansion.declared(course())
    notebook = nbformat.reads(nbformat.writes(learners), as_version=4)
    assert rules.problems(notebook, lab) == []
    printed = nbformat.v4.new_output("stream", text="def f(x):\n    return   x.mean(dim=0)\n")
    notebook.cells[-1].outputs.append(printed)
    assert rules.problems(notebook, lab) == [f"Cell {len(notebook.cells)} gives away the solution of 'column_means'."]


# What teachers get


def test_answers_and_predictions_are_filled_in_and_right(solved):
    assert SOLUTION in marked(solved, "exercise").source
    assert marked(solved, "predict").source == 'guess = "float32"'
    lab = exercises.load("01_small")
    right = lab.column_means.judge(defined_by(lab.column_means.solved, "column_means"))
    assert right.is_right and said(marked(solved, "check")) == right.plain
    assert said(solved.cells[-1]).startswith("As you predicted: float32.")


def test_notes_are_shown_and_marked(solved):
    notes = [cell.source for cell in solved.cells if expansion.is_teaching_note(cell)]
    assert all(note.startswith("> **For teachers**") for note in notes)
    _, aloud, exercise = notes
    assert "> Let them guess aloud." in aloud
    assert "> Draw the matrix." in exercise and "rows for columns" in exercise and "Points: 3." in exercise


def test_the_table_has_the_seconds_of_each_section(solved):
    rows = dict(re.findall(r"(?m)^> \| (.+?) \| ([\d.]+) \|$", solved.cells[1].source))
    assert list(rows) == ["(before the first section)", "Means", "Types", "**all cells**"]
    assert float(rows["(before the first section)"]) > 0.1  # it imports torch


def test_seconds_are_added_by_section():
    cell, text = nbformat.v4.new_code_cell, nbformat.v4.new_markdown_cell
    cells = [text("# T"), cell("a"), text("words\n\n## One\n\nwords\n\n## Two"), cell("b"), text("### no"), cell("c")]
    table = editions.timings(cells, [0.0, 1.25, 0.0, 2.0, 0.0, 3.5])
    assert "| (before the first section) | 1.2 |\n| Two | 5.5 |\n| **all cells** | 6.8 |" in table


def test_links_lead_to_the_same_files_and_links_to_chapters_and_the_web_stay(solved, course, tmp_path):
    (cell,) = [cell for cell in solved.cells if "![]" in cell.source]
    assert "[go on](02_next.ipynb) or [out](https://a.org)" in cell.source
    targets = re.findall(r"\]\(([^)#]+)(?:#top)?\)", cell.source)
    folder = tmp_path.parent / "solved0"  # any folder beside the one of the edition
    assert [(folder / target).resolve().name for target in targets[:2]] == ["means.py", "a.png"]
    assert targets[0] != "../labkit/means.py" and "#top)" in cell.source


def test_nbgrader_is_told_what_is_answered_and_what_is_graded(solved):
    answer, check = marked(solved, "exercise"), marked(solved, "check")
    common = {"schema_version": 3, "task": False}
    assert answer.metadata.nbgrader == common | {
        "grade_id": "column_means",
        "solution": True,
        "grade": False,
        "locked": False,
    }
    assert check.metadata.nbgrader == common | {
        "grade_id": "column_means-check",
        "solution": False,
        "grade": True,
        "locked": True,
        "points": 3,
    }
    assert "### BEGIN HIDDEN TESTS\nassert lab.column_means.judge(column_means).is_right" in check.source


def test_what_learners_have_is_kept_in_the_cells_of_the_edition(course, solved, learners):
    kept = [cell for cell in solved.cells if not expansion.is_teaching_note(cell)]
    texts = [cell.metadata.get("learner", cell.source).split("\n### BEGIN", 1)[0] for cell in kept]
    assert texts == [cell.source for cell in learners.cells]


def test_a_solution_that_its_check_does_not_call_right_is_not_stored(course, tmp_path, monkeypatch):
    chapter = course()
    exercise = expansion.declared(chapter).column_means
    monkeypatch.setattr(exercise, "solved", exercise.solved.replace("dim=0", "dim=1"))
    with pytest.raises(LabkitError, match=r"failed with AssertionError"):
        editions.solve(chapter, tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", ["", "{}", "a diary", "learner"])
def test_a_file_of_other_people_is_never_overwritten(course, learners, tmp_path, content):
    content = nbformat.writes(learners) if content == "learner" else content
    (tmp_path / "01_small.ipynb").write_text(content, encoding="utf-8")
    with pytest.raises(LabkitError, match=r"01_small\.ipynb is no instructor edition that labkit wrote"):
        editions.prepare(tmp_path, [course()])
    assert [path.name for path in tmp_path.iterdir()] == ["01_small.ipynb"]
    assert (tmp_path / "01_small.ipynb").read_text(encoding="utf-8") == content


def test_the_folders_of_the_course_are_refused(course):
    chapter = course()
    before = sorted(chapter.source.parents[1].rglob("*"))
    for folder in (chapter.source.parent, chapter.notebook.parent, chapter.source.parent / ".."):
        with pytest.raises(LabkitError, match="where the course keeps its own notebooks"):
            editions.prepare(folder, [chapter])
    assert sorted(chapter.source.parents[1].rglob("*")) == before


def test_an_edition_may_be_made_anew_unless_it_was_changed(course, solved, tmp_path):
    chapter, target = course(), tmp_path / "01_small.ipynb"
    builder.store(solved, target)
    editions.prepare(tmp_path, [chapter])
    notebook = nbformat.read(target, as_version=4)
    notebook.cells[2].source += "\n# my own line"
    builder.store(notebook, target)
    with pytest.raises(LabkitError, match="was changed since labkit wrote it"):
        editions.prepare(tmp_path, [chapter])


def test_a_folder_that_cannot_be_made_is_a_sentence(course, tmp_path):
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(LabkitError, match="cannot be written: "):
        editions.prepare(tmp_path / "file" / "folder", [course()])


def test_changed_settings_for_nbgrader_are_kept(course, tmp_path):
    editions.prepare(tmp_path / "new" / "folder", [course()])
    settings = tmp_path / "new" / "folder" / "nbgrader_config.py"
    compile(settings.read_text(encoding="utf-8"), settings, "exec")
    settings.write_text("c = None\n", encoding="utf-8")
    with pytest.raises(LabkitError, match=r"nbgrader_config\.py is not what labkit writes"):
        editions.prepare(settings.parent, [course()])


def test_making_editions_needs_no_nbgrader(solved):
    assert not any(name.split(".")[0] == "nbgrader" for name in sys.modules)
