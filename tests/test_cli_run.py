"""`labkit run`: chapters through papermill, each kept, none lost, and a page about them."""

import json
import os
import re
import signal
import subprocess
import time

import nbformat
import pytest

from tests.command_line import COMMAND, labkit

PICTURE = """
import matplotlib.pyplot as plt
figure, axes = plt.subplots(figsize=(1, 1))
axes.plot([1, 2])
plt.close(figure)
figure
"""


@pytest.fixture
def course(tmp_path):
    """Make a course of small chapters: name -> sources of its cells after the parameters."""

    def make(**chapters: list[str]):
        (tmp_path / "notebooks" / "source").mkdir(parents=True)
        for name, sources in chapters.items():
            name = name.removeprefix("n")
            (tmp_path / "notebooks" / "source" / f"{name}.py").touch()
            declared = nbformat.v4.new_code_cell("fast: bool = True\ncount: int = 3")
            declared.metadata["tags"] = ["parameters"]
            cells = [declared, *map(nbformat.v4.new_code_cell, sources)]
            kernel = {"name": "python3", "language": "python", "display_name": "Python 3"}
            notebook = nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel})
            nbformat.write(notebook, tmp_path / "notebooks" / f"{name}.ipynb")
        return tmp_path

    return make


def printed(folder, name) -> str:
    cells = nbformat.read(folder / "out" / f"{name}.ipynb", as_version=4).cells
    return "".join(output.get("text", "") for cell in cells for output in cell.get("outputs", []))


@pytest.mark.slow
def test_all_run_with_their_parameters_and_a_failure_stops_no_other(course):
    folder = course(n01_good=["print(fast, count)", PICTURE], n02_bad=["1 / 0"], n03_last=["print('here')"])
    answer = labkit("run", "all", "--out", "out", "--full", "-p", "count", "7", "--jobs", "2", "--json", folder=folder)
    assert answer.returncode == 1 and "1 of 3 chapters failed: 02_bad." in answer.stderr
    assert "ZeroDivisionError: division by zero, in the cell that begins `1 / 0`" in answer.stdout
    assert printed(folder, "01_good") == "False 7\n" and printed(folder, "03_last") == "here\n"
    ended = json.loads(answer.stdout.splitlines()[-1])
    assert {name: each["status"] for name, each in ended.items()} == {
        "01_good": "finished",
        "02_bad": "failed",
        "03_last": "finished",
    }
    page = (folder / "out" / "report.html").read_text(encoding="utf-8")
    assert "2 of 3 chapters ran to their end" in page and "ZeroDivisionError" in page
    assert page.count("data:image/png;base64,") == 1 and not re.search(r"(src|href)=.https?:", page)


@pytest.mark.slow
def test_what_has_finished_is_not_run_again_unless_something_has_changed(course):
    folder = course(n01_good=["import time; print(time.time())"], n02_bad=["1 / 0"])
    assert labkit("run", "all", "--out", "out", folder=folder).returncode == 1
    first = printed(folder, "01_good")
    second = labkit("run", "all", "--out", "out", folder=folder)
    assert "finished earlier, not run again" in second.stdout and "02_bad" in second.stderr
    assert printed(folder, "01_good") == first
    assert labkit("run", "01", "--out", "out", "-p", "count", "4", folder=folder).returncode == 0
    assert printed(folder, "01_good") != first


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="Windows sends Ctrl-C to consoles, not to processes")
def test_ctrl_c_keeps_what_has_finished_and_leaves_nothing_running(course):
    wait = "import os, pathlib, time\npathlib.Path('begun').write_text(str(os.getpid()))\ntime.sleep(100)"
    folder = course(n01_good=["print('done')"], n02_long=[wait])
    process = subprocess.Popen(
        [*COMMAND, "run", "all", "--out", "out"],
        cwd=folder,
        stderr=subprocess.PIPE,
        # Where tests run in the background, a shell may have switched Ctrl-C off; here it is switched on again.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    begun = folder / "notebooks" / "begun"
    while not (begun.is_file() and begun.read_text()):
        assert process.poll() is None
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=60)[1].strip() == b"labkit: stopped by Ctrl-C." and process.returncode == 130
    kept = json.loads((folder / "out" / "chapters.json").read_text())
    assert [each["name"] for each in kept] == ["01_good"]
    with pytest.raises(ProcessLookupError):
        for _ in range(100):
            os.kill(int(begun.read_text()), 0)
            time.sleep(0.1)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["all", "-p", "cuont", "4"], "No chapter that is to run has the parameter cuont."),
        (["all", "-p", "count", "many"], "The parameter 'count' must be a whole number, but it is 'many'."),
        (["09"], "There is no chapter '09'. The chapters are: 01_good."),
    ],
)
def test_what_cannot_run_is_said_before_anything_runs(course, arguments, sentence):
    folder = course(n01_good=["print('done')"])
    answer = labkit("run", *arguments, "--out", "out", folder=folder)
    assert answer.returncode == 1 and sentence in answer.stderr and not (folder / "out").exists()
