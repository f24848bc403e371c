"""torch and torchvision, asked in a process of their own: a broken install may end the process that imports it."""

import importlib.metadata
from pathlib import Path

from labkit.environment.child import REPOSITORY, ask
from labkit.environment.packages import INSTALL, allows, installed
from labkit.environment.report import Line


def probe_torch(folder: Path) -> dict:
    """Return what torch says of itself when it is imported in `folder`, or {"error": why it cannot be}."""
    code = f"import sys; sys.path.insert(0, {str(REPOSITORY)!r})\nfrom labkit.environment.facts import collect"
    return ask(f"{code}\nanswer = collect()", folder=folder)


def probe_fit() -> dict:
    """Return the version of torch that the installed torchvision asks for, such as "torch==2.14.1", or None."""
    required = importlib.metadata.requires("torchvision") if installed("torchvision") else None
    wanted = [text for text in required or [] if text.startswith("torch")]
    return {"requires": wanted[0] if wanted else None}


def judge_torch(torch: dict) -> list[Line]:
    """Say whether torch can be imported, and works together with NumPy."""
    error = torch.get("error", "")
    if "No module named 'torch'" in error:
        return [Line("problem", "torch", "not installed in this Python", f"Run {INSTALL}")]
    if "DLL" in error or "WinError" in error:
        action = "Install the Microsoft Visual C++ Redistributable (x64), then start anew."
        return [Line("problem", "torch", f"installed, but Windows cannot load it: {error}", action)]
    if error:
        action = "Mend what a line above says on a file name; else: pip install --force-reinstall -r requirements.txt"
        return [Line("problem", "torch", f"installed, but cannot be imported: {error}", action)]
    if "numpy_error" in torch:
        found = f"{torch['version']} does not work with the NumPy that is installed: {torch['numpy_error']}"
        return [Line("problem", "torch", found, f"Run {INSTALL}")]
    return [Line("ok", "torch", torch["version"])]


def judge_torchvision(torch: dict, fit: dict) -> list[Line]:
    """Say whether torchvision is there and made for this torch."""
    if "error" in torch:
        return []
    if "torchvision_error" in torch:
        error = torch["torchvision_error"]
        if "No module named 'torchvision'" in error:
            return [Line("problem", "torchvision", "not installed in this Python", f"Run {INSTALL}")]
        action = f"The two are made in pairs: pip uninstall torch torchvision, then {INSTALL}"
        return [Line("problem", "torchvision", f"does not work with torch {torch['version']}: {error}", action)]
    wanted = fit.get("requires")
    if wanted and not allows(wanted, torch["version"]):
        found = f"{torch['torchvision']} was made for {wanted}, and torch is {torch['version']}"
        return [Line("problem", "torchvision", found, f"Run {INSTALL}")]
    return [Line("ok", "torchvision", f"{torch['torchvision']}, made for this torch")]


def judge_data(torch: dict) -> list[Line]:
    """Say which data sets are on this disk, and how to get the others."""
    if "data_sets" not in torch:
        reason = "torch cannot be imported" if "error" in torch else torch["data_sets_error"]
        return [Line("note", "data", f"not looked at: {reason}", "Solve the problems above first.")]
    here = [name for name, cached in torch["data_sets"].items() if cached]
    absent = [name for name, cached in torch["data_sets"].items() if not cached]
    found = f"on this disk: {', '.join(here) or 'none'}" + (f"; not yet: {', '.join(absent)}" if absent else "")
    action = f"Only if you want them, with a network: labkit data {absent[0]}" if absent else ""
    return [Line("ok", "data", found, action)]
