"""The GPU: what this PyTorch was built for, the driver, and whether a GPU is seen, or which reason hides it.

Three things must come together, and each can be missing alone: a *build* of PyTorch with CUDA in it, a *driver* of the
system that is new enough, and a GPU that no *variable* hides. No part of the course needs a GPU.
"""

import ctypes.util
import os
import platform
import shutil
import subprocess
from pathlib import Path

from labkit.environment.report import Line

# The oldest driver that runs programs made for a CUDA version (NVIDIA, "CUDA Compatibility", minor versions).
OLDEST_DRIVER = {11: 450, 12: 525, 13: 580}
NVIDIA, DISPLAY = "0x10de\n", "0x03"  # how the PCI bus names the maker, and the class of its displays and GPUs
WITHOUT = "Nothing: the whole course runs on the CPU."
CUDA_BUILD = "To use it, take the command for your system with CUDA from pytorch.org/get-started/locally"
DRIVER = "install the newest driver from nvidia.com/drivers, and restart the computer."


def probe_driver() -> dict:
    """Return what the NVIDIA driver says: its version, its GPUs, or its message when it does not work.

    "library" tells whether the part of the driver that PyTorch loads is there, for containers without `nvidia-smi`;
    "hardware" whether the computer has an NVIDIA GPU at all, or None where that cannot be told without a driver.
    """
    library = ctypes.util.find_library("nvcuda" if platform.system() == "Windows" else "cuda")
    driver = {"library": library, "hardware": _has_nvidia(), "version": None, "gpus": [], "message": None}
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return driver
    query = [tool, "--query-gpu=driver_version,name", "--format=csv,noheader"]
    finished = subprocess.run(query, capture_output=True, text=True, errors="replace", timeout=30)
    if finished.returncode == 0:
        rows = [line.split(", ", 1) for line in finished.stdout.splitlines() if ", " in line]
        return driver | {"version": rows[0][0] if rows else None, "gpus": [name for _, name in rows]}
    said = (finished.stdout + finished.stderr).strip()
    return driver | {"message": said.splitlines()[0] if said else f"nvidia-smi ends with {finished.returncode}"}


def _has_nvidia(devices: Path = Path("/sys/bus/pci/devices")) -> bool | None:
    if not devices.is_dir() or "microsoft" in platform.release().lower():  # Linux inside Windows does not see the bus
        return None
    kinds = [(device / "vendor", device / "class") for device in devices.iterdir()]
    return any(vendor.read_text() == NVIDIA and kind.read_text().startswith(DISPLAY) for vendor, kind in kinds)


def probe_platform() -> dict:
    """Return the system, the kind of processor, and the variable that chooses among GPUs."""
    return {
        "system": platform.system(),
        "machine": platform.machine(),
        "CUDA_VISIBLE_DEVICES": os.environ.get("CUDA_VISIBLE_DEVICES"),
    }


def judge_build(torch: dict, driver: dict) -> list[Line]:
    """Say what this PyTorch was built for: first of the three reasons why a GPU is not used."""
    if "error" in torch:
        return []
    if torch["cuda"]:
        return [Line("ok", "build", f"for NVIDIA GPUs, with CUDA {torch['cuda']}; it computes on a CPU as well")]
    if torch["hip"]:
        return [Line("ok", "build", f"for AMD GPUs, with ROCm {torch['hip']}; it computes on a CPU as well")]
    if torch["mps_built"]:
        return [Line("ok", "build", "for Apple computers; it computes on a CPU as well")]
    if driver["gpus"]:
        found = f"for CPUs only, and this computer has a GPU: {driver['gpus'][0]}"
        return [Line("note", "build", found, CUDA_BUILD)]
    return [Line("ok", "build", "for CPUs only, which is all the course needs")]


def judge_driver(torch: dict, driver: dict) -> list[Line]:
    """Say whether the NVIDIA driver is there, works, and is new enough: the second reason."""
    built = torch.get("cuda")
    if driver["message"]:
        action = "Restart the computer: after an update the old driver may still be loaded. Else " + DRIVER
        return [Line("note", "driver", f"NVIDIA's driver does not work: {driver['message']}", action)]
    if driver["version"] is None:
        return _without_version(driver) if built else []
    oldest = OLDEST_DRIVER.get(int(built.split(".")[0])) if built else None
    if oldest and int(driver["version"].split(".")[0]) < oldest:
        found = f"NVIDIA {driver['version']} is too old for CUDA {built}, which needs {oldest} or newer"
        return [Line("note", "driver", found, f"To use the GPU, {DRIVER}")]
    return [Line("ok", "driver", f"NVIDIA {driver['version']}")]


def _without_version(driver: dict) -> list[Line]:
    if driver["library"]:
        return [Line("ok", "driver", "NVIDIA, of a version that cannot be told: nvidia-smi is not here")]
    if driver["hardware"]:
        return [Line("note", "driver", "none, and this computer has an NVIDIA GPU", f"To use it, {DRIVER}")]
    if driver["hardware"] is None:
        return [Line("note", "driver", "none", f"Only if this computer has an NVIDIA GPU: {DRIVER}")]
    return [Line("ok", "driver", "none, and this computer has no NVIDIA GPU")]


def judge_gpu(torch: dict, driver: dict, platform: dict) -> list[Line]:
    """Say which GPU PyTorch sees, or for which reason it sees none."""
    if "error" in torch:
        return [Line("note", "GPU", "not looked at: torch cannot be imported", "Solve the problems above first.")]
    if torch["cuda_available"] or torch["mps_available"]:
        names = (
            ", ".join(f"{gpu['name']} ({gpu['memory'] / 10**9:.0f} GB)" for gpu in torch.get("gpus", [])) or "Apple GPU"
        )
        if "compute_error" in torch:
            action = (
                "Use device='cpu' (in a terminal: --device cpu), or install a build of PyTorch that knows this GPU."
            )
            return [Line("problem", "GPU", f"{names} is seen, but does not compute: {torch['compute_error']}", action)]
        return [Line("ok", "GPU", names)]
    return [_unseen(torch, driver, platform)]


def _unseen(torch: dict, driver: dict, platform: dict) -> Line:
    """Return the line for a PyTorch that sees no GPU, with the first reason that applies."""
    if platform["system"] == "Darwin":
        return _unseen_by_apple(torch, platform)
    if not torch["cuda"] and not torch["hip"]:
        reason = "not used: this PyTorch is built for CPUs only"
        return Line("note", "GPU", reason, CUDA_BUILD) if driver["gpus"] else Line("ok", "GPU", reason, WITHOUT)
    hidden = platform["CUDA_VISIBLE_DEVICES"]
    if hidden is not None and (driver["gpus"] or hidden.strip() in ("", "-1")):
        found = f"hidden: the variable CUDA_VISIBLE_DEVICES={hidden!r} shows none of the GPUs to PyTorch"
        return Line("note", "GPU", found, "To use a GPU, remove the variable, or set it to 0 for the first one.")
    if torch["warnings"]:
        return Line("note", "GPU", f"not usable: {torch['warnings'][0]}", f"To use it, {DRIVER}")
    if driver["version"] is None and not driver["library"]:
        return Line("ok", "GPU", "none: there is no driver for one", WITHOUT)
    if not driver["gpus"]:
        return Line("ok", "GPU", "none: the driver finds no device", WITHOUT)
    return Line("note", "GPU", f"{driver['gpus'][0]} is there, but PyTorch does not see it", f"To use it, {DRIVER}")


def _unseen_by_apple(torch: dict, platform: dict) -> Line:
    if platform["machine"] != "arm64":
        found = "none for PyTorch: it uses the GPUs of Apple's own processors (M1 and later) only"
        action = f"{WITHOUT} If yours is one, Python is translated from Intel's: install the arm64 one from python.org."
        return Line("note", "GPU", found, action)
    if not torch["mps_built"]:
        return Line("note", "GPU", "not used: this PyTorch is built without MPS", "Run python start.py")
    return Line("note", "GPU", "not usable: MPS needs a newer macOS", f"{WITHOUT} To use the GPU, update macOS.")
