"""Choose and describe the device: CPU, an NVIDIA GPU (cuda) or an Apple GPU (mps)."""

import os
import platform

import torch

from labkit.errors import DeviceError


def choose(name: str = "auto") -> torch.device:
    """Return the device called `name`: "auto" (the best there is), "cpu", "cuda", "cuda:1" or "mps".

    Raises DeviceError for an unknown name, or for a device that this machine does not have, with the reason.
    """
    if name == "auto":
        accelerator = torch.accelerator.current_accelerator(check_available=True)
        known = accelerator is not None and accelerator.type in ("cuda", "mps")
        return torch.device(accelerator.type if known else "cpu")
    try:
        device = torch.device(name)
    except (RuntimeError, TypeError) as error:
        raise DeviceError(_unknown(name)) from error
    if device.type == "cpu":
        return device
    if device.type == "cuda":
        return _cuda(device)
    if device.type == "mps":
        if not torch.backends.mps.is_available():
            raise DeviceError("Device 'mps' is an Apple GPU, and there is none here. Use device='auto' or 'cpu'.")
        return device
    raise DeviceError(_unknown(name))


def _unknown(name: str) -> str:
    return f"Device {name!r} is not known. Use 'auto', 'cpu', 'cuda', 'cuda:1' or 'mps'."


def _cuda(device: torch.device) -> torch.device:
    if not torch.cuda.is_available():
        raise DeviceError(f"Device {str(device)!r} cannot be used: {why_no_cuda()} Use device='auto' or 'cpu'.")
    count = torch.cuda.device_count()
    if device.index is not None and device.index >= count:
        raise DeviceError(f"Device {str(device)!r} is not there: the GPUs here are cuda:0 to cuda:{count - 1}.")
    return device


def why_no_cuda() -> str:
    """Return the reason, in one sentence, why `torch.cuda.is_available()` is False. There are three.

    The *build* has no CUDA in it; CUDA is there but all devices are *hidden* by a variable; or the *driver* (which no
    wheel brings along) is missing, too old, or finds no GPU.
    """
    if torch.version.cuda is None:
        return "this PyTorch is a build without CUDA (its version ends in +cpu, or it is the macOS wheel)."
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None and visible.strip() in ("", "-1"):
        return f"the variable CUDA_VISIBLE_DEVICES={visible!r} hides every GPU."
    return f"this PyTorch has CUDA {torch.version.cuda}, but no NVIDIA driver that fits it finds a GPU on this machine."


def describe(device: torch.device) -> str:
    """Return a short human name, such as "NVIDIA H100 (80 GB)" or "CPU x86_64, 2 threads"."""
    if device.type == "cuda":
        properties = torch.cuda.get_device_properties(device)
        return f"{properties.name} ({properties.total_memory / 2**30:.0f} GB)"
    if device.type == "mps":
        return f"Apple GPU ({platform.machine()})"
    threads = torch.get_num_threads()
    return f"CPU {platform.machine()}, {threads} {'thread' if threads == 1 else 'threads'}"


def amp_dtype(precision: str, device: torch.device) -> torch.dtype | None:
    """Return the dtype in which `torch.autocast` shall compute, or None for plain float32.

    `precision` is "off", "bf16" or "fp16". Raises DeviceError where the device cannot do it.
    """
    if precision == "off":
        return None
    if precision == "bf16" and device.type == "cuda" and not torch.cuda.is_bf16_supported():
        raise DeviceError(f"{describe(device)} has no bfloat16. Use amp='fp16' or amp='off'.")
    return {"bf16": torch.bfloat16, "fp16": torch.float16}[precision]


def send(values: torch.Tensor, device: torch.device) -> torch.Tensor:
    """Return a tensor on the device, without waiting for the copy where that is safe.

    On Apple GPUs it is not: a copy under way reads the source even after it is gone (pytorch issue 189690).
    """
    return values.to(device, non_blocking=device.type == "cuda")


def synchronize(device: torch.device) -> None:
    """Wait until the device has finished what it was told; needed before a clock is read. A CPU never lags behind."""
    if device.type != "cpu":
        torch.accelerator.synchronize(device)
