"""The kernel that executes chapters: this very Python, the same number of threads everywhere, no GPU."""

import os
import shutil
from pathlib import Path

from ipykernel.kernelspec import RESOURCES, get_kernel_dict
from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
from jupyter_client.manager import AsyncKernelManager, KernelManager
from traitlets import default

# Sums are split over the threads, so another number of threads gives other last digits in the stored numbers. One is
# what every machine has, and the networks of the course are so small that more threads wait rather than compute.
THREADS = "1"

# What would change outputs: another backend for pictures, other thread counts, and a variable by which ipykernel
# recognises pytest and then no longer captures what child processes print.
NOT_INHERITED = ("MPLBACKEND", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "PYTEST_CURRENT_TEST")


class ThisInterpreter(KernelSpecManager):
    """Knows one kernel: ipykernel in the Python that runs now, whatever `python3` is registered as elsewhere."""

    def get_kernel_spec(self, kernel_name: str) -> KernelSpec:
        """Return the kernel of this Python for every name."""
        return KernelSpec(resource_dir=str(RESOURCES), **get_kernel_dict())


class CourseKernel(AsyncKernelManager):
    """Manages one kernel of this Python."""

    @default("kernel_spec_manager")
    def _this_interpreter(self) -> KernelSpecManager:
        return ThisInterpreter()

    def __init__(self, **options: object) -> None:
        super().__init__(**options)
        encrypt_quietly(self)


def encrypt_quietly(manager: KernelManager) -> None:
    """Let the kernel encrypt its messages where it can; otherwise it warns on the terminal at each start."""
    if manager.has_trait("transport_encryption"):  # older versions neither have it nor warn
        manager.transport_encryption = "auto"


def course_environment(root: Path) -> dict[str, str]:
    """Return the environment variables for a kernel that imports labkit from `root`, on this machine as it is."""
    environment = {name: value for name, value in os.environ.items() if name not in NOT_INHERITED}
    paths = [str(root), environment.get("PYTHONPATH", "")]
    environment["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
    environment["LABKIT_PROGRESS"] = "off"  # running a chapter to its end is not learning
    return environment


def kernel_environment(root: Path) -> dict[str, str]:
    """Return the environment variables for a kernel that computes as all others do: one thread, no GPU."""
    environment = course_environment(root) | {"OMP_NUM_THREADS": THREADS}
    if shutil.which("nvidia-smi"):  # else there is nothing to hide, and chapter 00 would speak of a hidden GPU
        environment["CUDA_VISIBLE_DEVICES"] = ""
    return environment
