"""Makes plain `pytest --nbval` compare notebooks as a learner would: by what they say, not by how the machine is."""

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent
SANITIZER = ROOT / "tests" / "nbval_sanitize.cfg"
OUTPUT_SECONDS = 60  # nbval gives a busy machine 5 seconds to deliver the outputs of a cell that has ended
MOST_WORKERS = 8  # each of them loads torch and may run a kernel: about 1 GB


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Let a run of everything use all cores, unless -n says how many; named files stay in this process."""
    everything = config.args_source is pytest.Config.ArgsSource.TESTPATHS
    begins = config.pluginmanager.hasplugin("xdist") and not hasattr(config, "workerinput")  # and is no worker itself
    if everything and begins and config.option.numprocesses is None:
        config.option.numprocesses = "auto"
        config.option.maxprocesses = config.option.maxprocesses or MOST_WORKERS
        config.option.dist = "loadfile"  # the cells of a notebook share a kernel
        config.option.loadscopereorder = False  # it would take the files with the fewest tests last: the slowest
        # Each worker has one core. Two threads in each would wait for one another: three to four times slower.
        os.environ.setdefault("OMP_NUM_THREADS", "1")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Return how many cores this process may use, which in a container can be fewer than the computer has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def pytest_configure(config: pytest.Config) -> None:
    _let_children_import_labkit()
    os.environ["LABKIT_PROGRESS"] = "off"  # whoever tests the course is not learning it
    if config.option.nbval or config.option.nbval_lax:
        config.option.nbval_sanitize_with = config.option.nbval_sanitize_with or str(SANITIZER)
        _run_kernels_as_the_builder_does()


def pytest_collectstart(collector: pytest.Collector) -> None:
    if type(collector).__name__ == "IPyNbFile":
        # Warnings and logging name files and lines of installed packages. Chapters store nothing there (see rules.py).
        collector.skip_compare += ("stderr",)


def pytest_itemcollected(item: pytest.Item) -> None:
    if type(item).__name__ == "IPyNbCell":
        item.output_timeout = OUTPUT_SECONDS


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Begin with the files that take longest, so that at the end no core waits long for the other."""
    if hasattr(config, "workerinput"):
        slow = {item.path for item in items if item.get_closest_marker("slow")}
        items.sort(key=lambda item: 0 if item.path in slow else 1 if item.path.suffix == ".ipynb" else 2)


@pytest.fixture
def run_like_the_builder(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels that papermill starts in this test get the builder's environment, and do not warn on the terminal."""
    from jupyter_client.manager import KernelManager

    from labkit.course.kernel import NOT_INHERITED, kernel_environment

    for name in NOT_INHERITED:
        monkeypatch.delenv(name, raising=False)
    for name, value in kernel_environment(ROOT).items():
        monkeypatch.setenv(name, value)
    encryption = KernelManager.class_traits().get("transport_encryption")
    if encryption is not None:
        monkeypatch.setattr(encryption, "default_value", "auto")


def _let_children_import_labkit() -> None:
    paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)


def _run_kernels_as_the_builder_does() -> None:
    """Give nbval's kernels the builder's environment, and run cells as the builder and JupyterLab do."""
    from nbval import kernel

    from labkit.course.kernel import kernel_environment

    start_new_kernel = kernel.start_new_kernel

    def start(*arguments: object, **options: object) -> tuple:
        return start_new_kernel(*arguments, **options, env=kernel_environment(ROOT))

    def execute_cell_input(self: kernel.RunningKernel, cell_input: str, allow_stdin: bool | None = None) -> str:
        # Without history IPython shows the value of a line that ends in ";", and a chapter cannot see its parameters.
        return self.kc.execute(cell_input, store_history=True, allow_stdin=allow_stdin, stop_on_error=False)

    kernel.start_new_kernel = start
    kernel.RunningKernel.execute_cell_input = execute_cell_input
