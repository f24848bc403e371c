"""Which processes train together: torchrun tells each of them by environment variables who it is."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.distributed as dist

from labkit import devices
from labkit.errors import DeviceError, ProcessError

VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
HOW = "Start them with `torchrun --nproc-per-node 2 -m labkit train …`"


def are_several() -> bool:
    """Say whether this process belongs to a group, as `joined` or `torch.distributed.init_process_group` makes it."""
    return dist.is_available() and dist.is_initialized()


def rank() -> int:
    """Return the number of this process in its group, from 0; 0 for a process on its own."""
    return dist.get_rank() if are_several() else 0


def size() -> int:
    """Return how many processes the group has; 1 for a process on its own."""
    return dist.get_world_size() if are_several() else 1


def is_main() -> bool:
    """Say whether this process is the one that writes and speaks: the only one there is, or that of rank 0."""
    return rank() == 0


@contextmanager
def joined(device: str = "auto") -> Iterator[None]:
    """Belong, for the time of a block, to the processes that torchrun has started; without torchrun, do nothing.

    device: as for `labkit.devices.choose`. On NVIDIA GPUs gradients travel through nccl, and each process takes the
    GPU of its own number; on the CPU, and for what the programs say to one another, through gloo. Raises ProcessError
    where torchrun's variables are not all there or the others do not come, DeviceError for too few GPUs.
    """
    if not ({"RANK", "WORLD_SIZE"} & set(os.environ)) or os.environ.get("WORLD_SIZE") == "1":
        yield
        return
    number = {name: os.environ[name] for name in VARIABLES if name in os.environ}
    missing = [name for name in VARIABLES if name not in number]
    if missing:
        raise ProcessError(
            f"The variable {', '.join(number)} says that processes train together, but {', '.join(missing)} "
            f"{'is' if len(missing) == 1 else 'are'} missing. {HOW}, which sets them all."
        )
    kind = _device_type(device, int(number["LOCAL_RANK"]), int(number["LOCAL_WORLD_SIZE"]))
    try:
        dist.init_process_group("cpu:gloo,cuda:nccl" if kind == "cuda" else "gloo")
    except (RuntimeError, ValueError) as error:
        raise ProcessError(f"The {number['WORLD_SIZE']} processes did not find one another: {error}. {HOW}.") from error
    yield
    dist.destroy_process_group()  # not after an error: the process ends, and to wait for lost ones could take forever


def _device_type(device: str, local_rank: int, local_size: int) -> str:
    """Return the kind of device for this process, and choose its GPU. Raises DeviceError for too few."""
    if ":" in device:
        raise DeviceError(f"device={device!r} would put all processes on one device: leave out the number.")
    kind = devices.choose(device).type
    if kind == "mps":
        raise DeviceError("Apple GPUs cannot be shared by processes that train together: use device='cpu'.")
    if kind == "cuda":
        count = torch.cuda.device_count()
        if count < local_size:
            raise DeviceError(
                f"{local_size} processes were started here, and there are only {count} GPUs: start one for each GPU, "
                f"--nproc-per-node {count}, or use device='cpu'."
            )
        torch.cuda.set_device(local_rank)  # from now on "cuda" means this one
    return kind
