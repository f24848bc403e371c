"""Measurements for the topic "Environment": what an installation says of itself."""

import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from importlib.machinery import PathFinder
from pathlib import Path
from unittest import mock

import torch
from torch import nn

from labkit import data
from labkit.exercises.claims import claim, judged
from labkit.exercises.ledger.measuring import error_of


def oldest_python() -> tuple[int, int]:
    """Return the oldest Python that the installed torch accepts, such as (3, 10)."""
    major, minor = re.search(r">=\s*(\d+)\.(\d+)", metadata.metadata("torch")["Requires-Python"]).groups()
    return int(major), int(minor)


def supported_pythons() -> list[tuple[int, int]]:
    """Return the versions of Python that the installed torch names as supported, in order."""
    named = re.findall(r"Python :: (3)\.(\d+)$", "\n".join(metadata.metadata("torch").get_all("Classifier")), re.M)
    return sorted((int(major), int(minor)) for major, minor in named)


@claim(
    "C026",
    true="It was sound advice for years, and old instructions still give it. The torch that is installed here names "
    "3.10 as the oldest Python it accepts, and four newer ones or more that it supports.",
    false="Yes, it is out of date. What was the middle has become the lower end, and the newer versions are named as "
    "supported. Take one from the middle of the list that your torch names.",
    depends="Which version is the middle depends on the release of torch, so ask the release: this one names 3.10 as "
    "its lower end, and says that it supports the newer ones.",
)
def python_3_10_is_the_lower_end() -> dict[str, bool]:
    """Ask the installed torch which versions of Python it accepts and supports."""
    newest = supported_pythons()[-1]
    return {
        "3.10 lies above the oldest Python that this torch accepts": oldest_python() < (3, 10),
        "this torch stops supporting Python soon after 3.10": newest <= (3, 11),
    }


def required_by(package: str) -> set[str]:
    """Return the names of the packages that an installed package requires, optional extras left out."""
    requirements = [text for text in metadata.requires(package) or [] if "extra ==" not in text]
    return {re.match(r"[\w.-]+", text).group().lower() for text in requirements}


@claim(
    "C027",
    true="torch lists neither of the two among its requirements. But torchvision lists NumPy, and the way from a "
    "tensor to a picture leads through both, so you will hardly work a day without them.",
    false="They nearly always arrive together, so it looks as if torch brought them. It is torchvision, and courses "
    "like this one, that ask for them; torch itself does not.",
    depends="You may think of functions such as `numpy()` that fail without NumPy. They do, and the rest of torch "
    "runs: it is wanted, and not required, as the sentence says.",
)
def numpy_is_wanted_not_required() -> dict[str, bool]:
    """Read the requirements of the installed packages."""
    return {
        "torch does not require NumPy": "numpy" not in required_by("torch"),
        "torch does not require Matplotlib": "matplotlib" not in required_by("torch"),
        "NumPy is wanted all the same: torchvision requires it": "numpy" in required_by("torchvision"),
    }


judged(
    "C028",
    "What a project publishes is decided on its servers, and a course must run without a network.",
    true="It was the official choice for years, and many pages still say so. The project stopped publishing conda "
    "packages after release 2.5: what conda offers since then is made by its community.",
    false="Yes, not any more. Both still give you a torch that works, but only pip (or uv) gives you the one that the "
    "project makes and tests itself.",
    depends="You may use conda for Python and other libraries, as this course allows, and let pip install torch "
    "inside. For torch itself the two have not been equals since release 2.5.",
)


def without_build(version: str) -> str:
    """Return a version without the build that some installations write behind it: "2.9.1+cpu" becomes "2.9.1"."""
    return version.split("+")[0]


@claim(
    "C029",
    true="The installed build has a version without a trace of a trial release, and it was made for the very Python "
    "that runs here. It is also why a course pins versions: the same command brings another release next month.",
    false="You may have got a build that you did not want, a large one for CUDA on a machine without a GPU. That is "
    "the default on Linux. Stable and fitting your Python it was all the same.",
    depends="Stable and fitting your Python it always is. What depends on the system is whether it comes with CUDA, "
    "and that the sentence does not promise.",
)
def the_installed_build_is_stable_and_fits() -> dict[str, bool]:
    """Read the version, the tag and the requirement of the build that is installed."""
    version = without_build(metadata.version("torch"))
    tags = metadata.distribution("torch").read_text("WHEEL") or ""
    here = sys.version_info[:2]
    return {
        "the build that is installed is a stable release": re.fullmatch(r"\d+(\.\d+)*", version) is not None,
        "it was made for the Python that runs here": f"cp{here[0]}{here[1]}-" in tags,
        "that Python is one it accepts": here >= oldest_python(),
    }


@claim(
    "C030",
    true="The version is the installed one, the report with the `if` runs on every machine, and asking for the name "
    "without it raises just where there is no GPU.",
    false="You may have left the `if` out and seen no error, on a machine with a GPU. Without one, `get_device_name` "
    "raises; and a report is most needed on machines where something is missing.",
    depends="On a machine with a GPU the `if` changes nothing. The check is meant for all machines, and with the `if` "
    "it runs on all of them.",
)
def the_guarded_report_runs_everywhere() -> dict[str, bool]:
    """Run the report with its guard, and the question for the name without it."""

    def report() -> list[str]:
        lines = [torch.__version__, str(torch.cuda.is_available())]
        return lines + ([torch.cuda.get_device_name(0)] if torch.cuda.is_available() else [])

    unguarded = error_of(lambda: torch.cuda.get_device_name(0))
    return {
        "`torch.__version__` is the version that is installed": without_build(torch.__version__)
        == without_build(metadata.version("torch")),
        "the report with the `if` runs on this machine": not error_of(report),
        "without the `if`, the name is an error where there is no GPU, and only there": bool(unguarded)
        != torch.cuda.is_available(),
    }


def is_available_on(cuda_build: bool, visible_gpus: int) -> bool:
    """Return what torch's own `is_available` answers on an imitated machine: its build, and what the driver counts."""
    build = mock.patch.object(torch.cuda, "_is_compiled", lambda: cuda_build)
    driver = mock.patch.object(torch._C, "_cuda_getDeviceCount", lambda: visible_gpus, create=True)
    with build, driver, mock.patch.dict(os.environ, {"PYTORCH_NVML_BASED_CUDA_CHECK": "0"}):
        return torch.cuda.is_available()


@claim(
    "C031",
    true="You would reinstall torch, and nothing would change on a laptop that simply has no GPU, or where "
    "`CUDA_VISIBLE_DEVICES` hides it. Build and driver are two reasons of three.",
    false="The two reasons are real: a build for the CPU always answers False. They are not all, since a sound build "
    "with a sound driver answers False as well when it counts no GPU.",
    depends="`is_available()` is one word for three questions: was it built for CUDA, is there a driver, is a GPU "
    "visible. Each of them alone makes it False, so ask them apart before you reinstall anything.",
)
def unavailable_has_three_reasons() -> dict[str, bool]:
    """Ask torch's own function on three imitated machines."""
    return {
        "a build for the CPU is a reason: it answers False, whatever GPU is there": not is_available_on(False, 1),
        "it is the only reason besides the driver: a CUDA build answers True also when the driver shows no GPU": (
            is_available_on(True, 0)
        ),
    }


@claim(
    "C032",
    true="The driver, yes. The second half sends people to install many gigabytes that torch does not look at: the "
    "parts of CUDA that it needs come with its own package.",
    false="The half about the driver is right: without a GPU that the driver shows, a CUDA build answers False. Only "
    "the installed toolkit is not needed.",
    depends="The driver is needed, the toolkit is not. On an imitated machine whose driver shows a GPU, "
    "`is_available()` was True although nothing on its paths led to an installed CUDA.",
)
def the_driver_is_needed_and_the_toolkit_is_not() -> dict[str, bool]:
    """Ask torch's own function on imitated machines with a CUDA build: without a driver, and without a toolkit."""
    paths = {name: "" for name in ("PATH", "CUDA_HOME", "CUDA_PATH", "LD_LIBRARY_PATH")}
    with mock.patch.dict(os.environ, paths):
        without_toolkit = is_available_on(True, 1)
    return {
        "the driver is needed: where it shows no GPU, the answer is False": not is_available_on(True, 0),
        "an installed CUDA is needed: without any on the paths, the answer is False": not without_toolkit,
    }


@contextmanager
def two_builds() -> Iterator[list[str]]:
    """Make two folders, each with a package called torch that says it is another build; return them as a path."""
    with tempfile.TemporaryDirectory() as folder:
        path = []
        for build in ("cpu", "cu130"):
            place = Path(folder) / build
            information = place / f"torch-2.0.0+{build}.dist-info"
            information.mkdir(parents=True)
            (information / "METADATA").write_text(f"Name: torch\nVersion: 2.0.0+{build}\n", encoding="utf-8")
            (place / "torch").mkdir()
            (place / "torch" / "__init__.py").write_text("", encoding="utf-8")
            path.append(str(place))
        yield path


@claim(
    "C033",
    true="With one installer they never meet: both builds are called torch, so the second takes the place of the "
    "first or is refused as already there. The trouble begins with two installers, or with two folders on the path.",
    false="You have only used one installer, and there you are right. Where two folders on the path each hold a "
    "torch, Python takes the first and says nothing of the second.",
    depends="In one place there is room for one torch only. On a path with two places there can be two, and then the "
    "first hides the other, whichever you meant. Look at `torch.version.cuda` and `torch.__file__`.",
)
def one_place_holds_one_torch() -> dict[str, bool]:
    """Count the builds in the place this torch comes from, and let Python choose between two places with one each."""
    here = str(Path(metadata.distribution("torch").locate_file("")))
    names = [found.metadata["Name"] for found in metadata.distributions(path=[here])]
    with two_builds() as path:
        seen = [Path(PathFinder.find_spec("torch", order).origin).parents[1].name for order in (path, path[::-1])]
    return {
        "two builds stand side by side in the place that this torch comes from": names.count("torch") > 1,
        "where two places on the path hold one each, the first hides the second": seen == ["cpu", "cu130"],
    }


def trained_accuracy(device: str) -> float:
    """Train a linear classifier of handwritten digits and return its accuracy on digits that it has not seen."""
    pictures = data.digits()
    images = (pictures.images.flatten(1).float() / 255).to(device)
    labels = pictures.labels.to(device)
    model = nn.Linear(images.shape[1], len(pictures.classes)).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    for _ in range(50):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(images[:1200]), labels[:1200]).backward()
        optimizer.step()
    return (model(images[1200:]).argmax(1) == labels[1200:]).float().mean().item()


@claim(
    "C034",
    true="Data, model, gradients, training and measurement all ran on the CPU just now, and the result is a "
    "classifier that works. A GPU makes the same code faster, and no other.",
    false="You may think of large networks, where the CPU is too slow to be of use. For the basics small data are "
    "enough: a classifier was trained here in the time you took to read this.",
    depends="Speed and memory of a GPU can only be learned on one. Everything basic, tensors, gradients, modules, the "
    "loop, was just done without.",
)
def a_classifier_is_trained_on_the_cpu() -> dict[str, bool]:
    """Train and measure a small classifier without touching a GPU."""
    return {"a classifier of digits trains on the CPU and reads nine of ten new ones": trained_accuracy("cpu") > 0.9}
