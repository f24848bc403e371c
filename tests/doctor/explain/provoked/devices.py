"""Devices and memory: values in two places, too large ones, and GPUs that are not there.

Where there is a GPU, these programs use it; elsewhere "meta" is the second device that every machine has. What only a
GPU can say is not provoked: `quoting` raises PyTorch's text, as it is in the binaries and in reports, from a file that
passes for a part of PyTorch, so that the user's line stands above it as it would.
"""

import tempfile
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn as nn
import torch.nn.functional as F

from tests.doctor.explain.provoked.program import provokes

ELSEWHERE = "cuda" if torch.cuda.is_available() else "meta"


def quoting(kind: type[Exception], text: str) -> Callable:
    """Return a function that fails as a function of PyTorch would: see above."""
    file = str(Path(torch.__file__).parent / "nn" / "quoted.py")
    names: dict = {"error": kind(text)}
    exec(compile("def operation(*arguments):\n    raise error", file, "exec"), names)
    return names["operation"]


# Two devices


@provokes("devices", names=["batch", "model"], fix=(".to(", "to(device)"))
def a_batch_that_was_not_moved():
    model = nn.Linear(3, 1).to(ELSEWHERE) if ELSEWHERE == "cuda" else nn.Linear(3, 1, device="meta")
    batch = torch.rand(2, 3)
    model(batch)


@provokes("devices", names=["images"], fix=("images.to(", ".to(", "to(device)"))
def a_model_that_was_not_moved():
    net = nn.Sequential(nn.Flatten(), nn.Linear(4, 2))
    images = torch.rand(3, 1, 2, 2).to(ELSEWHERE)
    net(images)


class Offset(nn.Module):
    """Keeps a tensor that `.to(device)` does not know."""

    def __init__(self):
        super().__init__()
        self.offset = torch.ones(3)

    def forward(self, values):
        return values + self.offset


@provokes("devices", names=["self.offset|offset", "values"], fix="register_buffer")
def a_tensor_that_is_no_buffer():
    offset = Offset().to(ELSEWHERE)
    offset(torch.rand(2, 3, device=ELSEWHERE))


@provokes("devices", names=["labels"], fix=("labels.to(", ".to("))
def labels_that_were_left_behind():
    scores, labels = torch.rand(4, 3, device=ELSEWHERE), torch.zeros(4, dtype=torch.long)
    F.cross_entropy(scores, labels)


@provokes("devices", names=["x"], fix=("device=x.device", "to(x.device)", "__init__"), never='x.to("cpu")')
def a_layer_made_in_forward():
    class Late(nn.Module):
        def forward(self, x):
            layer = nn.Linear(3, 3)
            return layer(x)

    Late()(torch.rand(2, 3, device=ELSEWHERE))


@provokes("devices", names=["seen", "new"], fix=(".to(", "device="))
def a_join_of_two_devices():
    seen, new = torch.zeros(2, 2), torch.zeros(1, 2, device=ELSEWHERE)
    (lambda: torch.cat([seen, new]))()


TWO = "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!"
ONE = "Expected all tensors to be on the same device, but got mat1 is on cpu, different from other tensors on cuda:0"


@provokes("devices", names=["pictures"], fix="pictures.to(")
def two_devices_in_the_words_of_a_gpu():
    classify, pictures = quoting(RuntimeError, TWO), torch.rand(2, 3)
    classify(pictures)


@provokes("devices", names=["pictures"], fix="pictures.to(")
def two_devices_in_newer_words():
    classify, pictures = quoting(RuntimeError, ONE), torch.rand(2, 3)
    return [classify(pictures) for _ in range(2)]


# Memory


@provokes("out-of-memory", names=["points"], fix=("points.split", "points", "10000000, 10000000"), never="batch_size")
def all_distances_at_once():
    points = torch.zeros(1, 1).expand(10_000_000, 1)
    return points[:, None] - points[None]


@provokes("out-of-memory", names=["size|torch.zeros"], fix=("smaller", "float16", "batch", "chunk"))
def a_table_of_a_hundred_trillion():
    def table(size):
        return torch.zeros(size, size)

    table(10_000_000)


@provokes("out-of-memory", names=["pixels|nn.Linear"], fix=("smaller", "Conv", "pool", "fewer"))
def a_linear_from_every_pixel_to_every_pixel():
    pixels = 4000 * 3000
    nn.Sequential(nn.Flatten(), nn.Linear(pixels, pixels))


FULL = (
    "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 7.79 GiB of which 1.12 GiB is free. "
    "Including non-PyTorch memory, this process has 6.60 GiB memory in use. Of the allocated memory 6.21 GiB is "
    "allocated by PyTorch, and 198.02 MiB is reserved by PyTorch but unallocated."
)


@provokes("out-of-memory", names=["images"], fix=("batch", "no_grad", "item()"))
def a_full_gpu():
    network, images = quoting(torch.OutOfMemoryError, FULL), torch.rand(64, 3, 8, 8)
    network(images)


@provokes("out-of-memory", names=["volume"], fix=("batch", "no_grad", "item()"))
def a_full_apple_gpu():
    said = "MPS backend out of memory (MPS allocated: 8.50 GB, other allocations: 384.00 KB, max allowed: 9.07 GB)."
    segment, volume = quoting(RuntimeError, f"{said} Tried to allocate 1.10 GB on private pool."), torch.rand(2, 2)
    segment(volume)


# An assertion on the GPU


ASSERT = (
    "CUDA error: device-side assert triggered\nCUDA kernel errors might be asynchronously reported at some other API "
    "call, so the stacktrace below might be incorrect.\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1\n"
    "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.\n"
)


@provokes("device-assert", names=["loss"], fix=("CUDA_LAUNCH_BLOCKING", "cpu"))
def an_assertion_that_shows_up_at_item():
    item, loss = quoting(torch.AcceleratorError, ASSERT), torch.rand(())
    print(item(loss))


@provokes("device-assert", names=["tokens"], fix=("CUDA_LAUNCH_BLOCKING", "cpu"))
def an_assertion_in_a_model():
    class Reader(nn.Module):
        def forward(self, tokens):
            return look_up(tokens)

    look_up = quoting(torch.AcceleratorError, ASSERT)
    Reader()(torch.zeros(2, 3))


@provokes("device-assert", names=["labels"], fix=("CUDA_LAUNCH_BLOCKING", "cpu"))
def an_assertion_as_a_runtime_error():
    move, labels = quoting(RuntimeError, ASSERT), torch.tensor([1, 2, 3])
    batches = [move(labels) for _ in range(2)]
    return batches


# No GPU


@provokes("no-cuda", names=["net"], fix="is_available()")
def a_wheel_without_cuda():
    move, net = quoting(AssertionError, "Torch not compiled with CUDA enabled"), nn.Linear(1, 1)
    move(net)


@provokes("no-cuda", names=["weights"], fix="is_available()")
def a_wheel_without_cuda_in_a_function():
    def to_gpu(weights):
        return quoting(AssertionError, "Torch not compiled with CUDA enabled")(weights)

    to_gpu(torch.rand(2))


@provokes("no-cuda", names=["values"], fix="is_available()")
def a_machine_without_driver_in_a_quote():
    said = "Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU and installed a driver."
    move, values = quoting(RuntimeError, said), torch.rand(2)
    move(values)


if not torch.cuda.is_available():

    @provokes("no-cuda", names=["model"], fix="is_available()")
    def a_model_for_a_gpu_that_is_not_there():
        model = nn.Linear(2, 2)
        model.cuda()

    @provokes("no-cuda", names=["device"], fix="is_available()")
    def a_device_that_is_not_there():
        class Setup:
            def __init__(self, device):
                self.weights = torch.zeros(3, device=device)

        Setup("cuda:0")

    @provokes("no-cuda", names=["path"], fix=('map_location="cpu"', "map_location='cpu'", "map_location"))
    def a_file_for_a_gpu():
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "weights.pt"
            torch.save(nn.Linear(2, 2).state_dict(), path)
            torch.load(path, map_location="cuda")


# NumPy


@provokes("numpy-of-device", names=["scores"], fix=".cpu()")
def scores_for_numpy():
    scores = torch.rand(3, device=ELSEWHERE)
    scores.numpy()


@provokes("numpy-of-device", names=["self.history|history"], fix=".cpu()")
def a_history_for_numpy():
    import numpy as np

    class Log:
        def __init__(self):
            self.history = torch.zeros(4, device=ELSEWHERE)

        def mean(self):
            return np.asarray(self.history)

    Log().mean()


@provokes("numpy-of-device", names=["curve"], fix=".cpu()")
def a_curve_for_a_figure():
    from matplotlib.figure import Figure

    curve = torch.rand(5, device=ELSEWHERE)
    Figure().subplots().plot(curve)


@provokes("numpy-of-device", names=["image"], fix=".cpu()")
def a_picture_in_the_words_of_a_gpu():
    said = "can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first."
    show, image = quoting(TypeError, said), torch.rand(2, 2)
    show(image)
