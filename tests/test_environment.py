"""The environment doctor: every reason from evidence alone, and real runs where torch is missing, broken or hidden."""

import json
import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from labkit import environment
from labkit.environment import Line, Report, child, gpu, jupyter, machine, packages, pytorch

ROOT = Path(__file__).resolve().parents[1]

CPU_TORCH = {
    "version": "2.14.1+cpu",
    "cuda": None,
    "hip": None,
    "mps_built": False,
    "mps_available": False,
    "cuda_available": False,
    "threads": 2,
    "numpy": [0.0],
    "gpus": [],
    "compute": 4.0,
    "torchvision": "0.29.1+cpu",
    "data_sets": {"digits": True, "cifar10": False},
    "warnings": [],
}
CUDA_TORCH = CPU_TORCH | {"version": "2.14.1+cu130", "cuda": "13.0"}
NO_DRIVER = {"library": None, "hardware": False, "version": None, "gpus": [], "message": None}
DRIVER = NO_DRIVER | {"library": "libcuda.so.1", "hardware": True, "version": "580.95.05", "gpus": ["NVIDIA H200"]}
LINUX = {"system": "Linux", "machine": "x86_64", "CUDA_VISIBLE_DEVICES": None}


def only(lines: list[Line]) -> Line:
    assert len(lines) == 1
    return lines[0]


# The GPU: three things that can be missing, each alone


def test_a_cpu_build_on_a_computer_without_gpu_is_fine():
    assert only(gpu.judge_build(CPU_TORCH, NO_DRIVER)).mark == "ok"
    assert gpu.judge_driver(CPU_TORCH, NO_DRIVER) == []
    assert only(gpu.judge_gpu(CPU_TORCH, NO_DRIVER, LINUX)).mark == "ok"


def test_first_reason_a_cpu_build_beside_a_gpu_names_the_gpu_and_the_way_out():
    line = only(gpu.judge_build(CPU_TORCH, DRIVER))
    assert line.mark == "note" and "NVIDIA H200" in line.found and "pytorch.org" in line.action
    assert "built for CPUs only" in only(gpu.judge_gpu(CPU_TORCH, DRIVER, LINUX)).found


@pytest.mark.parametrize(("hardware", "mark"), [(False, "ok"), (True, "note"), (None, "note")])
def test_second_reason_no_driver(hardware, mark):
    line = only(gpu.judge_driver(CUDA_TORCH, NO_DRIVER | {"hardware": hardware}))
    assert line.mark == mark and line.found.startswith("none")
    assert ("nvidia.com/drivers" in line.action) == (mark == "note")


@pytest.mark.parametrize(
    ("cuda", "version", "mark"),
    [("13.0", "580.65.06", "ok"), ("13.0", "570.1", "note"), ("12.8", "525.60", "ok"), ("11.8", "418.2", "note")],
)
def test_second_reason_a_driver_that_is_too_old(cuda, version, mark):
    line = only(gpu.judge_driver(CUDA_TORCH | {"cuda": cuda}, DRIVER | {"version": version}))
    assert line.mark == mark and version in line.found


def test_second_reason_in_the_words_of_torch():
    told = "CUDA initialization: The NVIDIA driver on your system is too old (found version 11040)."
    line = only(gpu.judge_gpu(CUDA_TORCH | {"warnings": [told]}, DRIVER | {"version": None, "gpus": []}, LINUX))
    assert line.mark == "note" and told in line.found and "driver" in line.action


def test_second_reason_a_driver_that_does_not_answer():
    driver = DRIVER | {"version": None, "gpus": [], "message": "Failed to initialize NVML: Driver/library mismatch"}
    line = only(gpu.judge_driver(CUDA_TORCH, driver))
    assert line.mark == "note" and "mismatch" in line.found and line.action.startswith("Restart")


@pytest.mark.parametrize("value", ["", "-1", "7"])
def test_third_reason_a_variable_hides_the_gpu(value):
    line = only(gpu.judge_gpu(CUDA_TORCH, DRIVER, LINUX | {"CUDA_VISIBLE_DEVICES": value}))
    assert line.mark == "note" and f"CUDA_VISIBLE_DEVICES={value!r}" in line.found


def test_the_third_reason_is_not_given_for_a_computer_without_a_driver():
    line = only(gpu.judge_gpu(CUDA_TORCH, NO_DRIVER, LINUX | {"CUDA_VISIBLE_DEVICES": "0"}))
    assert "no driver" in line.found


def test_a_driver_without_a_device():
    line = only(gpu.judge_gpu(CUDA_TORCH, DRIVER | {"gpus": [], "version": None}, LINUX))
    assert line.mark == "ok" and "no device" in line.found


def test_a_gpu_that_is_seen_and_computes():
    torch = CUDA_TORCH | {"cuda_available": True, "gpus": [{"name": "NVIDIA H200", "memory": 150_000_000_000}]}
    assert only(gpu.judge_gpu(torch, DRIVER, LINUX)) == Line("ok", "GPU", "NVIDIA H200 (150 GB)")


def test_a_gpu_that_is_seen_but_does_not_compute_is_a_problem():
    torch = CUDA_TORCH | {"cuda_available": True, "gpus": [{"name": "Tesla K80", "memory": 12_000_000_000}]}
    torch["compute_error"] = "AcceleratorError: CUDA error: no kernel image is available for execution on the device"
    line = only(gpu.judge_gpu(torch, DRIVER, LINUX))
    assert line.mark == "problem" and "Tesla K80" in line.found and "--device cpu" in line.action


@pytest.mark.parametrize(
    ("machine_kind", "built", "said"),
    [("x86_64", False, "Apple's own processors"), ("arm64", False, "without MPS"), ("arm64", True, "newer macOS")],
)
def test_apple_gpus_have_reasons_of_their_own(machine_kind, built, said):
    apple = {"system": "Darwin", "machine": machine_kind, "CUDA_VISIBLE_DEVICES": None}
    assert said in only(gpu.judge_gpu(CPU_TORCH | {"mps_built": built}, NO_DRIVER, apple)).found


def test_an_apple_gpu_that_is_seen():
    torch = CPU_TORCH | {"mps_built": True, "mps_available": True}
    assert only(gpu.judge_gpu(torch, NO_DRIVER, LINUX | {"system": "Darwin"})) == Line("ok", "GPU", "Apple GPU")
    assert "Apple" in only(gpu.judge_build(torch, NO_DRIVER)).found


def test_an_amd_build_is_named():
    assert "ROCm 6.4" in only(gpu.judge_build(CPU_TORCH | {"hip": "6.4"}, NO_DRIVER)).found


def test_the_driver_is_asked_through_nvidia_smi(tmp_path, monkeypatch):
    if os.name == "nt":
        pytest.skip("the stand-in for nvidia-smi is a shell script")
    tool = tmp_path / "nvidia-smi"
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    tool.write_text("#!/bin/sh\necho '580.95.05, NVIDIA H200'\necho '580.95.05, NVIDIA H200'\n", encoding="utf-8")
    tool.chmod(0o755)
    assert gpu.probe_driver()["version"] == "580.95.05" and gpu.probe_driver()["gpus"] == ["NVIDIA H200"] * 2
    tool.write_text("#!/bin/sh\necho 'NVIDIA-SMI has failed'\nexit 9\n", encoding="utf-8")
    assert gpu.probe_driver()["message"] == "NVIDIA-SMI has failed"


def test_nvidia_hardware_is_found_on_the_bus(tmp_path):
    device = tmp_path / "0000:01:00.0"
    device.mkdir()
    (device / "vendor").write_text("0x10de\n", encoding="ascii")
    (device / "class").write_text("0x030200\n", encoding="ascii")
    assert gpu._has_nvidia(tmp_path) is True
    (device / "class").write_text("0x040300\n", encoding="ascii")  # its sound device alone is no GPU
    assert gpu._has_nvidia(tmp_path) is False
    assert gpu._has_nvidia(tmp_path / "absent") is None


# torch and torchvision


@pytest.mark.parametrize(
    ("error", "said"),
    [
        ("ModuleNotFoundError: No module named 'torch'", "not installed"),
        ("OSError: [WinError 126] The specified module could not be found. Error loading c10.dll", "Windows"),
        ("the process was ended by SIGILL", "SIGILL"),
    ],
)
def test_a_torch_that_cannot_be_imported_is_a_problem_and_asks_nothing_else_of_it(error, said):
    torch = {"error": error}
    line = only(pytorch.judge_torch(torch))
    assert line.mark == "problem" and said in line.found and line.action
    assert pytorch.judge_torchvision(torch, {}) == [] and gpu.judge_build(torch, NO_DRIVER) == []
    assert only(gpu.judge_gpu(torch, NO_DRIVER, LINUX)).mark == "note"
    assert only(pytorch.judge_data(torch)).mark == "note"


def test_torch_and_numpy_that_do_not_fit():
    torch = CPU_TORCH | {"numpy_error": "RuntimeError: Numpy is not available"}
    assert only(pytorch.judge_torch(torch)).mark == "problem"


@pytest.mark.parametrize(
    ("torch", "fit", "mark"),
    [
        (CPU_TORCH, {"requires": "torch==2.14.1"}, "ok"),
        (CPU_TORCH, {"requires": "torch (>=2.14.0)"}, "ok"),
        (CPU_TORCH, {"requires": "torch==2.13.0"}, "problem"),
        (CPU_TORCH | {"torchvision_error": "ModuleNotFoundError: No module named 'torchvision'"}, {}, "problem"),
        (CPU_TORCH | {"torchvision_error": "RuntimeError: operator torchvision::nms does not exist"}, {}, "problem"),
    ],
)
def test_torchvision_must_fit_torch(torch, fit, mark):
    assert only(pytorch.judge_torchvision(torch, fit)).mark == mark


def test_data_sets_on_disk_and_not():
    line = only(pytorch.judge_data(CPU_TORCH))
    assert "on this disk: digits" in line.found and "not yet: cifar10" in line.found
    assert line.action.endswith("labkit data cifar10")


# Packages, copies, shadows


def test_missing_packages_are_a_problem_and_other_versions_a_note():
    wanted = {"numpy": {"required": "numpy>=2", "installed": "2.4.6"}}
    assert only(packages.judge_packages(wanted)).mark == "ok"
    old = wanted | {"click": {"required": "click>=8.1", "installed": "7.0"}}
    assert only(packages.judge_packages(old)) == Line(
        "note", "packages", "click is 7.0, wanted >=8.1", f"If something fails, run {packages.INSTALL}"
    )
    line = only(packages.judge_packages(old | {"jupytext": {"required": "jupytext", "installed": None}}))
    assert line.mark == "problem" and "jupytext" in line.found


def test_conditions_of_requirements_are_read(tmp_path, monkeypatch):
    def not_installed(name):
        raise packages.importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(packages.importlib.metadata, "requires", not_installed)
    text = '# comment\nnumpy==1; python_version < "3"\nnumpy==2; python_version >= "3"\nabsent-thing>=1  # why\n-e .\n'
    (tmp_path / "requirements.txt").write_text(text, encoding="utf-8")
    found = packages.probe_packages(tmp_path)
    assert found["numpy"]["required"] == "numpy==2"
    assert found["absent-thing"] == {"required": "absent-thing>=1", "installed": None}
    assert packages.judge_packages(packages.probe_packages(None))[0].mark == "note"


def test_two_installs_are_found_in_the_folders_that_python_searches(tmp_path, monkeypatch):
    for version, folder in (("2.14.1", "first"), ("2.1.0", "second")):
        place = tmp_path / folder / f"torch-{version}.dist-info"
        place.mkdir(parents=True)
        (place / "METADATA").write_text(f"Metadata-Version: 2.1\nName: torch\nVersion: {version}\n", encoding="utf-8")
    monkeypatch.setattr(sys, "path", [str(tmp_path / "first"), str(tmp_path / "first"), str(tmp_path / "second")])
    copies = packages.probe_copies()
    assert [version for version, _ in copies["torch"]] == ["2.14.1", "2.1.0"]
    assert only(packages.judge_copies(copies, CPU_TORCH)).mark == "note"
    line = only(packages.judge_copies(copies, {"error": "ImportError: undefined symbol"}))
    assert line.mark == "problem" and "pip uninstall torch" in line.action and "second" in line.found


def test_files_that_hide_packages(tmp_path):
    for name in ("torch.py", "random.py", "my_model.py"):
        (tmp_path / name).write_text("", encoding="utf-8")
    (tmp_path / "numpy").mkdir()
    (tmp_path / "numpy" / "__init__.py").write_text("", encoding="utf-8")
    shadows = packages.probe_shadows([tmp_path, ROOT])
    assert set(shadows) == {"torch", "random", "numpy"}
    marks = {line.found.split()[-1]: line.mark for line in packages.judge_shadows(shadows)}
    assert marks == {"torch": "problem", "numpy": "problem", "random": "note"}


# Jupyter, machine


WIDGETS = {"ipywidgets": "8.1.9", "jupyterlab_widgets": "3.0.17", "jupyterlab": "4.6.6", "extension": "package.json"}


@pytest.mark.parametrize(
    ("change", "mark"),
    [
        ({}, "ok"),
        ({"ipywidgets": None}, "problem"),
        ({"jupyterlab": None}, "problem"),
        ({"jupyterlab_widgets": None, "extension": None}, "problem"),
        ({"extension": None}, "problem"),
        ({"jupyterlab_widgets": "1.1.11"}, "problem"),
        ({"ipywidgets": "7.8.5", "jupyterlab_widgets": "1.1.11"}, "ok"),
        ({"ipywidgets": "9.0", "jupyterlab_widgets": "4.0"}, "ok"),
    ],
)
def test_widgets_need_both_of_their_parts(change, mark):
    assert only(jupyter.judge_widgets(WIDGETS | change)).mark == mark


def test_a_kernel_of_another_python_is_a_problem():
    here = {"python": "/lab/bin/python", "here": "/lab/bin/python3", "labkit": "/course/labkit/__init__.py"}
    assert [line.mark for line in jupyter.judge_kernel(here)] == ["ok", "ok"]
    lines = jupyter.judge_kernel(here | {"python": "/usr/bin/python3"})
    assert lines[0].mark == "problem" and "/usr/bin/python3" in lines[0].found


def test_a_kernel_that_somebody_registered_before_is_noticed(tmp_path, monkeypatch, bare_python):
    registered = tmp_path / "kernels" / "python3" / "kernel.json"
    registered.parent.mkdir(parents=True)
    argv = [str(bare_python), "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    registered.write_text(json.dumps({"argv": argv, "display_name": "old", "language": "python"}), encoding="utf-8")
    assert jupyter.judge_kernel(jupyter.probe_kernel(tmp_path))[0].mark == "ok"
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))
    line = jupyter.judge_kernel(jupyter.probe_kernel(tmp_path))[0]
    assert line.mark == "problem" and str(bare_python) in line.found


def test_a_kernel_that_does_not_find_labkit_is_a_problem():
    kernel = {"python": sys.executable, "here": sys.executable, "error": "No module named 'labkit'"}
    assert jupyter.judge_kernel(kernel)[1].mark == "problem"


@pytest.mark.parametrize(
    ("change", "mark"),
    [({}, "ok"), ({"version": "3.9.18"}, "problem"), ({"bits": 32}, "problem"), ({"virtual": False}, "note")],
)
def test_python(change, mark):
    python = {"version": "3.11.7", "bits": 64, "executable": "/lab/bin/python", "virtual": True}
    assert only(machine.judge_python(python | change)).mark == mark


@pytest.mark.parametrize(("free", "writable", "mark"), [(9e9, True, "ok"), (1e9, True, "note"), (1e8, True, "problem")])
def test_disk(free, writable, mark):
    assert only(machine.judge_disk({"folder": "/course", "free": free, "writable": writable})).mark == mark


def test_a_folder_that_cannot_be_written_is_a_problem():
    assert only(machine.judge_disk({"folder": "/course", "free": 9e9, "writable": False})).mark == "problem"


def test_little_memory_is_a_note():
    assert only(machine.judge_memory({"total": 8e9, "available": 1e9})).mark == "note"
    assert only(machine.judge_memory({"total": 8e9, "available": 4e9})).mark == "ok"


@pytest.mark.parametrize(
    ("allowed", "threads", "variable", "mark"),
    [(2, 2, None, "ok"), (8, 1, "1", "note"), (2, 16, None, "note"), (2, None, None, "ok")],
)
def test_cores_and_threads(allowed, threads, variable, mark):
    cores = {"cores": 16, "allowed": allowed, "OMP_NUM_THREADS": variable}
    assert only(machine.judge_cores(cores, {"threads": threads})).mark == mark


# The report


def test_a_report_reads_without_colour_and_says_what_to_do():
    report = Report([Line("ok", "Python", "3.11"), Line("problem", "torch", "not <installed>", "Run it")], {"a": {}})
    text = str(report)
    assert text.splitlines()[0] == "ok       Python  3.11"
    assert "to do: Run it" in text and text.isascii() and not report.is_ready
    assert "1 problem to solve" in text
    assert "not &lt;installed&gt;" in report._repr_html_() and "<b>problem</b>" in report._repr_html_()
    assert json.loads(report.as_json())["lines"][1]["action"] == "Run it"


def test_long_paths_are_not_broken():
    path = "/a/very-long/" + "folder-name/" * 12
    assert path in str(Report([Line("ok", "labkit", f"notebooks import it from {path}")]))


def test_a_probe_that_fails_costs_one_note(monkeypatch):
    def broken():
        raise PermissionError("no entry")

    monkeypatch.setattr(machine, "probe_memory", broken)
    monkeypatch.setattr(pytorch, "probe_torch", lambda folder: CPU_TORCH)
    report = environment.check()
    assert any(line.topic == "memory" and "PermissionError: no entry" in line.found for line in report.lines)
    assert {"Python", "torch", "GPU", "widgets", "disk"} <= {line.topic for line in report.lines}


# Real runs


def run(python: str | Path, *paths: Path, folder: Path, **variables: str) -> subprocess.CompletedProcess:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, [*paths, ROOT]))} | variables
    command = [str(python), "-m", "labkit.environment"]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120)


@pytest.fixture(scope="module")
def bare_python(tmp_path_factory) -> Path:
    """A Python with nothing installed."""
    folder = tmp_path_factory.mktemp("bare")
    venv.create(folder, with_pip=False, symlinks=os.name != "nt")
    return folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def test_with_nothing_installed_the_doctor_still_speaks(bare_python, tmp_path):
    finished = run(bare_python, folder=tmp_path)
    assert finished.returncode == 1 and finished.stderr == ""
    assert "torch" in finished.stdout and "not installed in this Python" in finished.stdout
    assert "python start.py" in finished.stdout


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("raise ImportError('libcudart.so.13: cannot open shared object file')", "libcudart.so.13"),
        ("import os\nos._exit(3)", "status 3"),
        ("import os\nos.abort()", "SIGABRT" if os.name != "nt" else "status"),
    ],
)
def test_a_broken_torch_is_a_line_and_no_traceback(bare_python, tmp_path, content, said):
    (tmp_path / "broken" / "torch").mkdir(parents=True)
    (tmp_path / "broken" / "torch" / "__init__.py").write_text(content, encoding="utf-8")
    finished = run(bare_python, tmp_path / "broken", folder=tmp_path)
    assert finished.returncode == 1 and "Traceback" not in finished.stdout + finished.stderr
    text = " ".join(finished.stdout.split())
    assert "installed, but cannot be imported:" in text and said in text


def test_a_stray_torch_file_beside_the_notebooks_is_named(bare_python, tmp_path):
    (tmp_path / "notebooks" / "source").mkdir(parents=True)
    (tmp_path / "notebooks" / "torch.py").write_text("print('my experiments')", encoding="utf-8")
    finished = run(bare_python, folder=tmp_path)
    assert finished.returncode == 1
    assert "torch.py is imported instead of the real torch" in " ".join(finished.stdout.split())


def test_a_child_that_hangs_is_an_answer():
    assert child.ask("import time\ntime.sleep(60)", seconds=0.5) == {"error": "no answer within 0 seconds"}
    assert "cannot be started" in child.ask("", python="/no/such/python")["error"]


def test_this_environment_is_ready_for_the_course():
    report = environment.check()
    assert report.is_ready, str(report)
    assert report.evidence["torch"]["version"] and report.evidence["kernel"]["labkit"]
    json.loads(report.as_json())
