"""All measurements by name: what they ask, the ways that they compare, and how they are made."""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from labkit import devices, randomness
from labkit.errors import ConfigError
from labkit.speed import ways_around, ways_of_computing
from labkit.speed.bench import Bench
from labkit.speed.clock import Comparison, Ways, compare


@dataclass(frozen=True)
class Measurement:
    """A question about speed. ways: what is compared on a bench; calls: how often a way runs between two looks."""

    name: str
    question: str
    ways: Callable[[Bench], Ways]
    calls: int = 1


MEASUREMENTS = {
    one.name: one
    for one in (
        Measurement("workers", "How many processes should decode pictures?", ways_around.workers),
        Measurement("augmentation", "Pictures one by one, or a whole batch at once?", ways_around.augmentation),
        Measurement("precision", "An update in float32, or partly in half precision?", ways_of_computing.precision),
        Measurement("channels_last", "Channels first or last in memory?", ways_of_computing.channels_last),
        Measurement("compile", "A formula as it is written, or compiled?", ways_of_computing.compiled),
        Measurement("optimizer", "A step for many parameters: one by one, or fused?", ways_of_computing.optimizer, 5),
        Measurement("waiting", "Read the loss in every update, or at the end?", ways_of_computing.waiting),
        Measurement("batch_size", "As many samples, in small batches or large ones?", ways_of_computing.batch_size),
        Measurement("no_gradients", "Forward only: with a graph or without?", ways_around.no_gradients, 20),
        Measurement("checkpointing", "Inner values kept, or computed again?", ways_around.checkpointing),
        Measurement("threads", "A convolution: on one thread, or on more?", ways_of_computing.threads),
        Measurement("threads_tiny", "A tiny layer: on one thread, or on more?", ways_of_computing.threads_tiny),
    )
}


def find(name: str) -> Measurement:
    """Return the measurement of this name. Raises ConfigError for an unknown one, with all of them."""
    if name not in MEASUREMENTS:
        raise ConfigError(f"There is no measurement {name!r}. There are {', '.join(MEASUREMENTS)}.")
    return MEASUREMENTS[name]


def measure(name: str, device: torch.device | str = "cpu", quick: bool = True) -> Comparison | None:
    """Make one measurement on a device; None where the device has nothing to compare, such as threads on a GPU.

    The comparison says in `notes` what could not be measured. Random numbers are left as they were. Raises ConfigError
    for an unknown name, and DeviceError for a device that is not there.
    """
    wanted, bench = find(name), Bench(devices.choose(str(device)), quick)
    with randomness.frozen_randomness():
        ways = wanted.ways(bench)
        if not ways:
            return None
        found = compare(ways, bench.device, bench.rounds, 1, wanted.calls, bench.seconds)
    return found.with_notes(tuple(bench.notes))
