"""Devices: chosen by name, refused with a reason, described for people."""

import pytest
import torch

from labkit import devices
from labkit.errors import DeviceError


def machine(monkeypatch: pytest.MonkeyPatch, cuda: int = 0, mps: bool = False) -> None:
    """Let torch say that this machine has so many NVIDIA GPUs, or an Apple one."""
    kind = "cuda" if cuda else "mps" if mps else None
    found = torch.device(kind) if kind else None
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda check_available=False: found)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: cuda)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)


def test_auto_takes_the_best_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    for parts, kind in (({}, "cpu"), ({"cuda": 2}, "cuda"), ({"mps": True}, "mps")):
        machine(monkeypatch, **parts)
        assert devices.choose("auto") == devices.choose() == torch.device(kind)


def test_auto_leaves_accelerators_alone_that_labkit_does_not_know(monkeypatch: pytest.MonkeyPatch) -> None:
    machine(monkeypatch)
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda check_available=False: torch.device("xpu"))
    assert devices.choose("auto") == torch.device("cpu")


def test_the_chosen_device_computes(device: torch.device) -> None:
    chosen = devices.choose(device.type)
    product = torch.ones(2, 3, device=chosen) @ torch.ones(3, 2, device=devices.choose("auto")).to(chosen)
    devices.synchronize(chosen)
    assert chosen.type == device.type and product.tolist() == [[3, 3], [3, 3]]


def test_a_gpu_by_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    machine(monkeypatch, cuda=2)
    assert devices.choose("cuda:1") == torch.device("cuda", 1)
    with pytest.raises(DeviceError, match=r"'cuda:2' is not there.*cuda:0 to cuda:1"):
        devices.choose("cuda:2")


@pytest.mark.parametrize("name", ["gpu", "", "cuda:one", "cuda:-1", "meta", "xpu", None])
def test_a_name_that_is_not_known_is_answered_with_those_that_are(name: str | None) -> None:
    with pytest.raises(DeviceError, match=f"Device {name!r} is not known.*'auto', 'cpu', 'cuda', 'cuda:1' or 'mps'"):
        devices.choose(name)


def test_an_apple_gpu_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    machine(monkeypatch)
    with pytest.raises(DeviceError, match=r"'mps' is an Apple GPU.*device='auto'"):
        devices.choose("mps")


@pytest.mark.parametrize(
    ("build", "visible", "reason"),
    [
        (None, None, "a build without CUDA"),
        (None, "", "a build without CUDA"),  # showing the GPUs would not help
        ("13.0", "", "CUDA_VISIBLE_DEVICES='' hides every GPU"),
        ("13.0", "-1", "CUDA_VISIBLE_DEVICES='-1' hides every GPU"),
        ("13.0", None, "CUDA 13.0, but no NVIDIA driver"),
        ("13.0", "0", "CUDA 13.0, but no NVIDIA driver"),
    ],
)
def test_why_cuda_cannot_be_used(
    monkeypatch: pytest.MonkeyPatch, build: str | None, visible: str | None, reason: str
) -> None:
    machine(monkeypatch)
    monkeypatch.setattr(torch.version, "cuda", build)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert reason in devices.why_no_cuda()
    with pytest.raises(DeviceError) as refused:
        devices.choose("cuda:0")
    sentence = f"Device 'cuda:0' cannot be used: {devices.why_no_cuda()} Use device='auto' or 'cpu'."
    assert str(refused.value) == sentence


def test_a_description_is_short_and_names_the_kind(device: torch.device) -> None:
    text = devices.describe(device)
    assert "\n" not in text and 5 < len(text) < 60
    beginning = f"CPU {devices.platform.machine()}, {torch.get_num_threads()} thread"
    assert device.type != "cpu" or text.startswith(beginning)


@pytest.mark.parametrize(("precision", "dtype"), [("bf16", torch.bfloat16), ("fp16", torch.float16)])
def test_autocast_really_computes_in_the_dtype(precision: str, dtype: torch.dtype, device: torch.device) -> None:
    with torch.autocast(device.type, dtype=devices.amp_dtype(precision, device)):
        assert (torch.ones(2, 2, device=device) @ torch.ones(2, 2, device=device)).dtype == dtype
    assert devices.amp_dtype("off", device) is None


def test_bfloat16_on_a_gpu_that_lacks_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: False)
    monkeypatch.setattr(devices, "describe", lambda device: "An old GPU")
    with pytest.raises(DeviceError, match=r"An old GPU has no bfloat16\. Use amp='fp16' or amp='off'\."):
        devices.amp_dtype("bf16", torch.device("cuda"))
    assert devices.amp_dtype("fp16", torch.device("cuda")) == torch.float16


def test_one_thread_is_no_threads():
    before = torch.get_num_threads()
    try:
        for threads, ending in ((1, ", 1 thread"), (2, ", 2 threads")):
            torch.set_num_threads(threads)
            assert devices.describe(torch.device("cpu")).endswith(ending)
    finally:
        torch.set_num_threads(before)
