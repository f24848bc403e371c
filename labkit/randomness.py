"""Every random choice as a pure function of (seed, purpose, epoch, index).

A generator that is stored somewhere and advanced by each draw makes results depend on *how* they were reached:
on the number of workers, on whether a run was resumed, on what was drawn before. A function of plain numbers
does not. Ask it twice, in any order, in any process, and the answer is the same.
"""

import hashlib
import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy
import torch
from torch import Tensor


def seed_for(seed: int, purpose: str, epoch: int = 0, index: int = 0) -> int:
    """Return a seed of 63 bits for one purpose, the same on every machine.

    Two purposes (say "shuffle" and "augment") never share their random numbers, even with the same `seed`.
    """
    text = f"{seed}/{purpose}/{epoch}/{index}"
    digest = hashlib.blake2b(text.encode("utf-8"), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


def generator(seed: int, purpose: str, epoch: int = 0, index: int = 0) -> torch.Generator:
    """Return a fresh CPU generator that starts at `seed_for(seed, purpose, epoch, index)`."""
    return torch.Generator().manual_seed(seed_for(seed, purpose, epoch, index))


def permutation(count: int, seed: int, epoch: int) -> Tensor:
    """Return the order of `count` samples in one epoch: int64 (count,)."""
    return torch.randperm(count, generator=generator(seed, "shuffle", epoch))


def uniform(seed: int, purpose: str, epoch: int, indices: Tensor, draws: int) -> Tensor:
    """Return `draws` random numbers in [0, 1) for each index: float64 (len(indices), draws).

    They are made on the device of `indices`; Apple GPUs have no float64, so keep the indices on the CPU for them.
    Row i depends on `indices[i]` alone, never on its neighbours, so a sample keeps its draws whatever batch it is in.
    The numbers come from counting, not from a stored state: the counter `index * draws + column` goes through the
    splitmix64 mixing function (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014).
    """
    columns = torch.arange(draws, dtype=torch.int64, device=indices.device)
    counters = indices.to(torch.int64)[:, None] * draws + columns
    bits = _mix(counters * _signed(0x9E3779B97F4A7C15) + seed_for(seed, purpose, epoch))
    return _shift_right(bits, 11).to(torch.float64) * 2.0**-53


def _mix(bits: Tensor) -> Tensor:
    """Scramble int64 values so that neighbouring counters have nothing in common (splitmix64's finaliser)."""
    bits = (bits ^ _shift_right(bits, 30)) * _signed(0xBF58476D1CE4E5B9)
    bits = (bits ^ _shift_right(bits, 27)) * _signed(0x94D049BB133111EB)
    return bits ^ _shift_right(bits, 31)


def _shift_right(bits: Tensor, places: int) -> Tensor:
    """Shift without copying the sign bit: torch has no unsigned 64-bit arithmetic, so mask what came in."""
    return (bits >> places) & ((1 << (64 - places)) - 1)


def _signed(constant: int) -> int:
    """Return the int64 with the same 64 bits as an unsigned constant."""
    return constant - (1 << 64) if constant >= 1 << 63 else constant


def seed_everything(seed: int) -> None:
    """Seed Python's, NumPy's and torch's global generators (torch seeds every device)."""
    random.seed(seed)
    numpy.random.seed(seed % 2**32)
    torch.manual_seed(seed)


def rng_state() -> dict:
    """Return the state of every global generator as plain data: tensors, numbers and strings only.

    That makes it storable in a checkpoint which `torch.load(..., weights_only=True)` accepts.
    """
    version, words, gauss = random.getstate()
    name, keys, position, has_gauss, cached = numpy.random.get_state()
    return {
        "python": {"version": version, "words": torch.tensor(words, dtype=torch.int64), "gauss": gauss},
        "numpy": {
            "name": name,
            "keys": torch.from_numpy(keys.astype("int64")),
            "position": int(position),
            "has_gauss": int(has_gauss),
            "cached": float(cached),
        },
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
        "mps": torch.mps.get_rng_state() if torch.backends.mps.is_available() else None,
    }


def set_rng_state(state: dict) -> None:
    """Put every global generator back to a state made by `rng_state`; generators of absent devices are left out."""
    python, numpy_state = state["python"], state["numpy"]
    random.setstate((python["version"], tuple(python["words"].tolist()), python["gauss"]))
    keys = numpy_state["keys"].numpy().astype("uint32")
    position, has_gauss, cached = numpy_state["position"], numpy_state["has_gauss"], numpy_state["cached"]
    numpy.random.set_state((numpy_state["name"], keys, position, has_gauss, cached))
    torch.set_rng_state(state["torch"])
    if torch.cuda.is_available() and len(state["cuda"]) == torch.cuda.device_count():
        torch.cuda.set_rng_state_all(state["cuda"])
    if torch.backends.mps.is_available() and state["mps"] is not None:
        torch.mps.set_rng_state(state["mps"])


@contextmanager
def frozen_randomness(seed: int | None = None) -> Iterator[None]:
    """Run a block without a trace in the global CPU generators; inside, they start at `seed` if one is given.

    This is cheap enough to be used for every single sample of a data set.
    """
    before = random.getstate(), numpy.random.get_state(), torch.get_rng_state()
    try:
        if seed is not None:
            random.seed(seed)
            numpy.random.seed(seed % 2**32)
            torch.default_generator.manual_seed(seed)
        yield
    finally:
        random.setstate(before[0])
        numpy.random.set_state(before[1])
        torch.set_rng_state(before[2])
