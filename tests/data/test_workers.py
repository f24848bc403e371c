"""Worker processes: they change no bit however they start, and what they cannot do or meet is told in sentences."""

import multiprocessing
import os
import re
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest
import random_pairs
import torch
from nbclient import NotebookClient
from torch.utils.data import DataLoader, Dataset

from labkit.data import workers
from labkit.data.loading import loader
from labkit.errors import DataError

START_METHODS = [name for name in ("fork", "spawn") if name in multiprocessing.get_all_start_methods()]
KINDS = ("pairs", "pictures", "balanced")

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:This DataLoader will create 4 worker processes"),  # on machines with 2 cores
]


class Listed(Dataset):
    """Gives what a function gives for the index."""

    def __init__(self, sample: Callable, count: int = 6):
        self.sample, self.count = sample, count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> object:
        return self.sample(index)


class Typed(Exception):
    """Cannot be made of one text alone, so that torch cannot make it again."""

    def __init__(self, first: int, second: int):
        super().__init__(first, second)


def assert_equal(found: list, expected: list) -> None:
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert all(torch.equal(*parts) for parts in zip(one, other, strict=True))


def zero_and(index: int) -> tuple[torch.Tensor, int]:
    return torch.zeros(1), index


def failing(index: int) -> tuple[torch.Tensor, int]:
    if index == 3:
        raise LookupError("picture 3 is not there")
    return zero_and(index)


# --- no bit depends on workers ----------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("start_method", START_METHODS)
@pytest.mark.parametrize("num_workers", [0, 1, 2, 4])
def test_no_bit_changes_with_the_workers_nor_after_a_resume_at_any_batch(
    kind: str, start_method: str, num_workers: int
) -> None:
    whole = random_pairs.make(kind, 0)
    epochs = [list(whole) for _ in range(2)]
    batches = random_pairs.make(kind, num_workers, start_method)
    assert_equal(list(batches) + list(batches), epochs[0] + epochs[1])
    for epoch in (1, 0):
        for batch in range(len(whole)):
            assert_equal(list(batches.at(epoch, batch)), epochs[epoch][batch:])


def test_another_number_of_workers_gives_the_same_batches() -> None:
    for kind in KINDS:
        one = random_pairs.make(kind, 1)
        other = one.with_workers(0)
        assert (other.num_workers, other.sampler, other.count) == (0, one.sampler, one.count)
        assert random_pairs.digest(other) == random_pairs.digest(one)


def test_a_start_method_that_is_not_known_is_refused() -> None:
    with pytest.raises(DataError, match="start_method='thread': this system knows .*'spawn'"):
        loader(random_pairs.RandomPairs(), 2, start_method="thread")


# --- what cannot be sent ----------------------------------------------------------------------------------------------


def test_what_cannot_be_pickled_is_refused_before_a_worker_starts() -> None:
    data = Listed(lambda index: zero_and(index))
    with pytest.raises(DataError, match=r"Listed cannot be sent to worker processes.*spawn.*lambda.*num_workers=0"):
        loader(data, 2, num_workers=1, start_method="spawn")
    workers.check_travels(data, "Listed", "fork")
    workers.check_travels(Listed(zero_and), "Listed", "spawn")


def test_a_class_without_a_file_is_refused_with_the_way_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    main = sys.modules["__main__"]
    written = type("Pictures", (Listed,), {"__module__": "__main__"})
    monkeypatch.setattr(main, "Pictures", written, raising=False)
    monkeypatch.setattr(main, "__file__", str(tmp_path / "script.py"), raising=False)  # as of `python script.py`
    workers.check_travels(written(zero_and), "Pictures", "spawn")
    monkeypatch.delattr(main, "__file__")
    for method in ("spawn", "forkserver"):
        with pytest.raises(DataError, match=f"Pictures was written in a notebook cell.*{method}.*%%writefile"):
            workers.check_travels([written(zero_and)], "list", method)


@pytest.mark.parametrize("start_method", ["spawn", "forkserver"])
def test_a_generator_of_torch_in_the_data_set_is_refused_with_the_way_out(start_method: str) -> None:
    data = Listed(zero_and)
    data.draws = torch.Generator()
    with pytest.raises(DataError, match=rf"Listed keeps a torch.Generator.*\({start_method}\).*num_workers=0"):
        workers.check_travels(data, "Listed", start_method)
    workers.check_travels(data, "Listed", "fork")


def test_large_arrays_are_not_copied_to_find_out() -> None:
    """A sparse tensor of 2 TB takes no memory as long as nobody reads it."""
    workers.check_travels(Listed(zero_and, torch.zeros(1).expand(2**39)), "Listed", "spawn")


@pytest.mark.slow
def test_a_class_in_a_notebook_cell_meets_the_sentence_in_a_real_kernel(tmp_path: Path) -> None:
    cell = (
        "import torch\nfrom torch.utils.data import Dataset\nfrom labkit import data\n"
        "class Pictures(Dataset):\n"
        "    def __len__(self):\n        return 4\n"
        "    def __getitem__(self, index):\n        return torch.zeros(1), index\n"
    )
    way_out = "%%writefile my_data.py\n" + cell
    read = "print([t.tolist() for _, t in data.loader(Pictures(), 2, num_workers=1, start_method='spawn')])"
    explain = f"try:\n    {read}\nexcept data.workers.DataError as error:\n    print(error)"
    cells = [cell, explain, way_out, f"from my_data import Pictures\n{read}"]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in cells])
    NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(tmp_path)}}).execute()
    said, _, answered = ("".join(out.get("text", "") for out in cell.outputs) for cell in notebook.cells[1:])
    assert said.startswith("Pictures was written in a notebook cell") and "from my_data import Pictures" in said
    assert answered.strip().endswith("[[0, 1], [2, 3]]")


PROGRAM = """
import torch
from labkit import data

samples = [(torch.zeros({size}), index) for index in range(6)]
{guard}
    for inputs, targets in data.loader(samples, 2, num_workers=1, start_method="spawn"):
        print(targets.tolist())
"""


@pytest.mark.slow
@pytest.mark.parametrize("size", [2, 200_000])
def test_a_program_without_a_guard_is_told_about_it(tmp_path: Path, size: int) -> None:
    answers = []
    for guard in ("if True:", 'if __name__ == "__main__":'):
        (tmp_path / "program.py").write_text(PROGRAM.format(size=size, guard=guard), encoding="utf-8")
        command = [sys.executable, str(tmp_path / "program.py")]
        answers.append(subprocess.run(command, capture_output=True, text=True, timeout=120, check=False))
    assert answers[0].returncode != 0
    assert 'run only once under if __name__ == "__main__":' in answers[0].stderr
    assert "If an error is printed above, that is the reason" in answers[0].stderr
    assert (answers[1].returncode, answers[1].stdout.split("\n")[:3]) == (0, ["[0, 1]", "[2, 3]", "[4, 5]"])


# --- what errors say --------------------------------------------------------------------------------------------------


def error_of(batches: object) -> Exception:
    try:
        list(batches)
    except Exception as error:
        traceback.clear_frames(error.__traceback__)  # let go of the workers now
        return error
    raise AssertionError("no error was raised")


def test_an_error_keeps_its_type_and_says_first_what_and_where() -> None:
    error = error_of(loader(Listed(failing), 2, num_workers=1))
    assert type(error) is LookupError
    first, second, *rest = str(error).splitlines()
    assert first == "picture 3 is not there"
    assert re.fullmatch(r'  test_workers.py, line \d+, in failing: raise LookupError\("picture 3 .*"\)', second)
    assert "Traceback (most recent call last):" in "\n".join(rest)


def test_an_error_in_a_library_is_placed_at_the_line_that_called_it() -> None:
    error = error_of(loader(Listed(lambda index: torch.zeros(2) @ torch.zeros(3)), 2, num_workers=1))
    assert type(error) is RuntimeError and "in <lambda>" in str(error).splitlines()[1]

    def deep(index: int) -> object:
        return torch.utils.data.default_collate([torch.zeros(1), torch.zeros(2)])

    error = error_of(loader(Listed(deep), 2, num_workers=1))
    assert "test_workers.py" in str(error) and "in deep: return torch" in str(error).splitlines()[1]


def test_a_missing_key_is_readable_and_an_odd_error_keeps_its_name() -> None:
    error = error_of(loader(Listed(lambda index: {}["cat"]), 2, num_workers=1))
    assert type(error) is KeyError and str(error).startswith("'cat'\n  test_workers.py")

    def odd(index: int) -> object:
        raise Typed(1, 2)

    error = error_of(loader(Listed(odd), 2, num_workers=1))
    assert type(error) is RuntimeError and str(error).startswith("Typed: (1, 2)\n  test_workers.py")


def test_a_sentence_of_labkit_stays_a_sentence() -> None:
    error = error_of(loader(Listed(lambda index: (torch.zeros(2 + index), index)), 2, num_workers=1))
    assert type(error) is DataError and str(error).startswith("The samples of Listed cannot") and "\n" not in str(error)


@pytest.mark.parametrize("num_workers", [0, 1])
def test_errors_of_torchs_own_loader_can_be_read_too(num_workers: int) -> None:
    said = workers.worker_error(error_of(DataLoader(Listed(failing), 2, num_workers=num_workers)))
    place = r"\n  test_workers.py, line \d+, in failing: raise LookupError.*" if num_workers else ""
    assert re.fullmatch("LookupError: picture 3 is not there" + place, said)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no signals that end a process")
def test_a_worker_that_is_killed_is_explained() -> None:
    error = error_of(loader(Listed(lambda index: os.kill(os.getpid(), 9)), 2, num_workers=1))
    assert type(error) is DataError and "ended from outside, most often for want of memory" in str(error)


@pytest.mark.parametrize(
    "cut", [ConnectionResetError(104, "reset"), BrokenPipeError(), ConnectionRefusedError(), EOFError()]
)
def test_a_connection_that_breaks_off_means_that_a_worker_is_gone(
    cut: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers.time, "sleep", lambda seconds: None)

    def batches():
        yield 1
        raise cut

    with pytest.raises(DataError, match="A process that prepares batches has ended") as raised:
        list(workers.explained(batches()))
    assert raised.value.__cause__ is cut


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="this system has no signals that come after a time")
def test_torchs_late_report_of_a_dead_worker_does_not_interrupt_what_comes_after() -> None:
    def report(*_: object) -> None:
        raise RuntimeError("DataLoader worker (pid 1) exited unexpectedly")

    def batches():
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        raise ConnectionResetError
        yield

    before = signal.signal(signal.SIGALRM, report)
    try:
        with pytest.raises(DataError, match="A process that prepares batches has ended"):
            list(workers.explained(batches()))
        time.sleep(0.4)  # a report that was still to come would come here
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


class Unreachable(Dataset):
    """A data set whose source cannot be reached."""

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        raise ConnectionRefusedError("no server")


@pytest.mark.parametrize("num_workers", [0, 1])
def test_a_connection_error_of_the_data_set_itself_stays_what_it_is(num_workers: int) -> None:
    with pytest.raises(ConnectionRefusedError, match="no server"):
        list(loader(Unreachable(), 2, num_workers=num_workers))
