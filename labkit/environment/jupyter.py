"""Jupyter: can it show the controls of the course, and does its kernel run this Python and find labkit?"""

import os
import sys
from pathlib import Path

from labkit.environment.child import ask
from labkit.environment.packages import INSTALL, installed
from labkit.environment.report import Line

# The part in Python and the part in the browser speak one protocol: these major versions belong together.
BROWSER_PART = {7: 1, 8: 3}
EXTENSION = Path("@jupyter-widgets") / "jupyterlab-manager" / "package.json"


def probe_widgets() -> dict:
    """Return the versions of ipywidgets and of its part for JupyterLab, and where JupyterLab finds that part."""
    from jupyter_core.paths import jupyter_path  # here, because Jupyter may be what is missing

    places = [Path(folder) / EXTENSION for folder in jupyter_path("labextensions")]
    return {
        "ipywidgets": installed("ipywidgets"),
        "jupyterlab_widgets": installed("jupyterlab_widgets"),
        "jupyterlab": installed("jupyterlab"),
        "extension": next((str(place) for place in places if place.is_file()), None),
    }


def judge_widgets(widgets: dict) -> list[Line]:
    """Say whether the controls of the chapters will appear."""
    missing = [name for name in ("jupyterlab", "ipywidgets") if widgets[name] is None]
    if missing:
        return [Line("problem", "widgets", f"not installed: {', '.join(missing)}", f"Run {INSTALL}")]
    python, browser = widgets["ipywidgets"], widgets["jupyterlab_widgets"]
    repair = "pip install --force-reinstall ipywidgets jupyterlab_widgets, then reload the page of the lab"
    if browser is None or widgets["extension"] is None:
        found = f"ipywidgets {python} is there, its part for JupyterLab is not: controls would be lines of text"
        return [Line("problem", "widgets", found, f"Run {repair}")]
    if BROWSER_PART.get(_major(python), _major(browser)) != _major(browser):
        found = f"ipywidgets {python} and its part for JupyterLab, {browser}, do not belong together"
        return [Line("problem", "widgets", found, f"Run {repair}")]
    return [Line("ok", "widgets", f"ipywidgets {python}, its part for JupyterLab {browser}")]


def _major(version: str) -> int:
    return int(version.split(".")[0])


def probe_kernel(folder: Path) -> dict:
    """Return which Python the kernel `python3` starts, and whether labkit can be imported there, in `folder`."""
    from jupyter_client.kernelspec import KernelSpecManager  # here, because Jupyter may be what is missing

    python = KernelSpecManager().get_kernel_spec("python3").argv[0]
    if not os.path.isabs(python):  # Jupyter starts a bare `python` as the one that it runs in itself
        python = sys.executable
    answer = ask("import labkit\nanswer = {'labkit': labkit.__file__}", python, folder)
    return {"python": python, "here": sys.executable} | answer


def judge_kernel(kernel: dict) -> list[Line]:
    """Say whether notebooks run in this Python, and find labkit."""
    lines = []
    # Not resolved: the Python of each virtual environment is a link to the same file.
    if os.path.dirname(kernel["python"]) != os.path.dirname(kernel["here"]):
        found = f"the kernel python3 starts another Python: {kernel['python']}"
        action = "Run `jupyter kernelspec remove python3`, or start the lab with: python start.py"
        lines.append(Line("problem", "kernel", found, action))
    else:
        lines.append(Line("ok", "kernel", "notebooks run in this Python"))
    if "error" in kernel:
        action = "In the folder of the course, run: pip install -e ."
        lines.append(Line("problem", "labkit", f"notebooks do not find it: {kernel['error']}", action))
    else:
        lines.append(Line("ok", "labkit", f"notebooks import it from {Path(kernel['labkit']).parent}"))
    return lines
