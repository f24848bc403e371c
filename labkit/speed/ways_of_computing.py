"""Ways to compute the same update: dtypes, layouts, compiled or not, optimizers, batches, threads."""

import time
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from labkit import devices
from labkit.data.profiling import cores
from labkit.errors import DeviceError
from labkit.speed.bench import Bench, many_layers, updates
from labkit.speed.clock import Ways
from labkit.speed.compiling import translated


def precision(bench: Bench) -> Ways:
    """An update of a convolutional network in float32, and under autocast in what the device has besides."""
    batch = bench.batch()
    ways = {"float32": updates(bench.network(), batch)}
    kinds = {"bfloat16": "bf16"} if bench.device.type == "cpu" else {"bfloat16": "bf16", "float16": "fp16"}
    for name, short in kinds.items():
        try:
            ways[name] = updates(bench.network(), batch, devices.amp_dtype(short, bench.device))
        except DeviceError as error:
            bench.notes.append(str(error))
    return ways


def channels_last(bench: Bench) -> Ways:
    """An update of a convolutional network, its pictures stored channel by channel, or pixel by pixel."""
    inputs, targets = bench.batch()
    last = {"memory_format": torch.channels_last}
    return {
        "channels first": updates(bench.network(), (inputs, targets)),
        "channels last": updates(bench.network().to(**last), (inputs.to(**last), targets)),
    }


def chain(x: Tensor) -> Tensor:
    """Return a formula of ten steps: one after the other each reads and writes all of the memory once."""
    y = x * 0.5 + 1
    y = y * y - x
    y = y.sigmoid() * x + y.tanh()
    return (y + 2).relu() * 0.1


def compiled(bench: Bench) -> Ways:
    """A chain of small operations as it is written, and translated into one loop."""
    x = torch.linspace(-3, 3, 2**20 if bench.device.type == "cpu" else 2**26, device=bench.device)
    ways: dict[str, Callable] = {"as written": lambda: chain(x)}
    begin = time.perf_counter()
    fast, problem = translated(chain, x)
    if fast is None:
        bench.notes.append(problem)
    else:
        bench.notes.append(f"compile: the first call took {time.perf_counter() - begin:.1f} s.")
        ways["compiled"] = lambda: fast(x)
    return ways


def optimizer(bench: Bench) -> Ways:
    """A step of AdamW for eighty small parameters: one by one, operation by operation, or in one go."""

    def step_of(**how: bool) -> Callable:
        model = many_layers(bench)
        for parameter in model.parameters():
            parameter.grad = torch.ones_like(parameter)
        return torch.optim.AdamW(model.parameters(), **how).step

    return {"one by one": step_of(foreach=False), "foreach": step_of(foreach=True), "fused": step_of(fused=True)}


def waiting(bench: Bench) -> Ways:
    """Twenty updates of a small network, their losses read each time, or once at the end."""
    inputs = torch.ones(32, 32, device=bench.device)
    update = updates(many_layers(bench)[:8], (inputs, torch.zeros(32, dtype=torch.int64, device=bench.device)))
    return {
        "item() in every update": lambda: sum(update().item() for _ in range(20)),
        "one item() at the end": lambda: sum(update() for _ in range(20)).item(),
    }


def batch_size(bench: Bench) -> Ways:
    """As many samples through a small network, in batches of different sizes."""
    samples = 256 if bench.device.type == "cpu" else 4096
    model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10))
    optimizer = torch.optim.AdamW(model.to(bench.device).parameters(), fused=True)
    inputs = torch.ones(samples, 64, device=bench.device)
    targets = torch.zeros(samples, dtype=torch.int64, device=bench.device)

    def epoch_in(size: int) -> Callable:
        def epoch() -> None:
            for batch in zip(inputs.split(size), targets.split(size), strict=True):
                optimizer.zero_grad()
                F.cross_entropy(model(batch[0]), batch[1]).backward()
                optimizer.step()

        return epoch

    return {f"batches of {size}": epoch_in(size) for size in (4, 16, 64, 256)}


def threads(bench: Bench) -> Ways:
    """A convolution over a batch, on one thread and on as many as there are cores; on a CPU only."""
    return _by_threads(bench, nn.Conv2d(32, 64, 3), torch.ones(16, 32, 32, 32), times=4)


def threads_tiny(bench: Bench) -> Ways:
    """A tiny layer, two hundred times, on one thread and on as many as there are cores; on a CPU only."""
    return _by_threads(bench, nn.Linear(16, 16), torch.ones(8, 16), times=200)


def _by_threads(bench: Bench, layer: nn.Module, inputs: Tensor, times: int) -> Ways:
    if bench.device.type != "cpu":
        return {}

    def on(count: int) -> Callable:
        def run() -> None:
            before = torch.get_num_threads()
            torch.set_num_threads(count)
            with torch.no_grad():
                for _ in range(times):
                    layer(inputs)
            torch.set_num_threads(before)

        return run

    return {"1 thread": on(1)} | {f"{count} threads": on(count) for count in sorted({2, cores()} - {1})}
