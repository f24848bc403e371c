"""Measurements for the topic "Data": pinned memory, copies that are not waited for, and waiting for the disk.

Where there is no GPU, memory cannot be pinned. What is measured here holds with and without one.
"""

import torch
from torch.utils.data import DataLoader, Dataset

from labkit.exercises.claims import claim, judged
from labkit.exercises.ledger.data_processes import Waiting
from labkit.exercises.ledger.measuring import Observer, error_of, seconds_of, warnings_of


class Kept(Dataset):
    """Another data set whose samples are read once and then kept in memory; `reads` counts the readings."""

    def __init__(self, slow: Dataset) -> None:
        self.slow, self.kept, self.reads = slow, {}, 0

    def __len__(self) -> int:
        return len(self.slow)

    def __getitem__(self, index: int) -> int:
        if index not in self.kept:
            self.kept[index], self.reads = self.slow[index], self.reads + 1
        return self.kept[index]


def reads_with(pin_memory: bool) -> int:
    """Return how often a data set is read in one pass of a loader."""
    samples = Kept(Waiting([0.0] * 4))
    list(DataLoader(samples, batch_size=2, pin_memory=pin_memory))
    return samples.reads


@claim(
    "C184",
    true="The diagnosis is right: waiting leaves the CPU idle. But pinned memory lies between main memory and GPU; "
    "with it just as many samples had to be read.",
    false="An idle CPU with a loop that crawls does point to the disk, and what shortens the reading helps: kept in "
    "memory, the samples were there at once. Only `pin_memory` has nothing to do with it.",
    depends="Right. A faster source helps: another disk, packed files, a cache. Pinned memory helps a later part of "
    "the way, from memory to the GPU.",
)
def pinned_memory_reads_no_less() -> dict[str, bool]:
    """Read samples that wait, keep them, read them again; and count the readings with and without pinned memory."""
    samples = Kept(Waiting([0.05] * 4))
    passed, worked = seconds_of(lambda: list(DataLoader(samples)))
    again, _ = seconds_of(lambda: list(DataLoader(samples)))
    return {
        "while samples are waited for, the CPU is idle for most of the time": worked < passed / 2,
        "a faster source, such as memory, makes the wait shorter": again < passed / 2,
        "with `pin_memory=True` less is read": reads_with(pin_memory=True) < reads_with(pin_memory=False),
    }


judged(
    "C185",
    "How a GPU reads memory is a matter of the hardware and its driver: no program sees the way that the bytes took, "
    "and without a GPU nothing can be pinned at all.",
    true="Yes. The operating system may not move or swap out such pages, so their addresses hold for as long as the "
    "copy lasts, and the GPU can fetch them without the CPU's help.",
    false="Perhaps you think that every copy needs the CPU. Ordinary memory does take such a detour, through a pinned "
    "buffer of the driver; pinned memory is there to spare it.",
    depends="Whether it makes *your* program faster does depend. That pinned pages can be read directly is what "
    "pinning is for.",
)


@claim(
    "C187",
    true="Yes. Pinning is about pages of main memory. A tensor that lies elsewhere was refused, and the error gave "
    "exactly this reason.",
    false="A tensor on the GPU lies in the GPU's own memory already; there is no page of main memory to hold fast, and "
    "PyTorch refuses.",
    depends="Sparse tensors are an exception on the other side: they are refused even on the CPU. No tensor elsewhere "
    "can be pinned.",
)
def only_main_memory_can_be_pinned() -> dict[str, bool]:
    """Try to pin a tensor that does not lie on the CPU; the device `meta` is one that every computer has."""
    message = error_of(lambda: torch.empty(2, device="meta").pin_memory())
    return {
        "a tensor on another device is refused": message != "",
        "the reason is that only tensors on the CPU can be pinned": "only dense CPU tensors can be pinned" in message,
    }


@claim(
    "C188",
    true="For batches the loader is the better place, as it pins in a thread of its own. But the method does pin, or "
    "says that it cannot: it never handed back an ordinary tensor.",
    false="Right. It returns a pinned copy, good for a buffer that is used again and again. Only pinning right before "
    "each single copy is rarely worth it, as pinning takes time itself.",
    depends="Whether it *pays* depends. Pointless it is not: the pinned copy can be used by "
    "`.to(device, non_blocking=True)` whoever made it.",
)
def a_tensor_can_be_pinned_without_a_loader() -> dict[str, bool]:
    """Pin a tensor by its method, or hear from it what is missing, and look for other ways than the loader's."""
    pinned = []
    message = error_of(lambda: pinned.append(torch.ones(2).pin_memory()))
    return {
        "without a loader, `pin_memory()` hands back an ordinary tensor": message == "" and not pinned[0].is_pinned(),
        "its documentation speaks of a `DataLoader`": "loader" in torch.Tensor.pin_memory.__doc__.lower(),
        "only a `DataLoader` offers pinned memory": "pin_memory" not in torch.empty.__doc__,
    }


judged(
    "C189",
    "Whether a copy to the GPU runs beside other work can only be seen on a GPU. On the CPU the argument changes "
    "nothing.",
    true="For the overlap of copying and computing, yes: the source must stay where it is. But the documentation of "
    "`.to` says that the call need not wait for ordinary memory either: the driver copies it into a pinned buffer, and "
    "the program goes on without waiting for the rest.",
    false="It does spare a wait without pinning too, so *only* says too much. The overlap of copying and computing, "
    "for which it is mostly used, needs pinned memory.",
    depends="Right: the overlap needs pinned memory, a wait less you get without it. And from the GPU to the CPU the "
    "call may return before the values are there, so synchronize before you read them.",
)


@claim(
    "C191",
    true="Yes. The one pins (or warns that there is nothing to pin for), the other orders a copy that is not waited "
    "for. Where there is no GPU the same lines run and deliver the same batches.",
    false="Without a GPU it brings nothing but a warning; that may be what you saw. Nothing breaks, though, and with a "
    "GPU the two belong together.",
    depends="How much it brings depends on the computer. Write `pin_memory=torch.accelerator.is_available()` and the "
    "same line fits all of them, without the warning.",
)
def the_pair_runs_everywhere() -> dict[str, bool]:
    """Read batches with pinned memory, see where they lie or what is warned of, and observe the order for the copy."""
    batches = []
    told = warnings_of(lambda: batches.extend(DataLoader(range(8), batch_size=4, pin_memory=True)))
    with Observer() as observer:
        batches[0].to("meta", non_blocking=True)
    return {
        "`pin_memory=True` pins the batches, or warns that there is no GPU to pin for": batches[0].is_pinned()
        or any("pin_memory" in text for text in told),
        "`non_blocking=True` orders a copy that is not waited for": observer.operations[0][1].get("non_blocking")
        is True,
        "the batches are the same as without": [batch.tolist() for batch in batches] == [[0, 1, 2, 3], [4, 5, 6, 7]],
    }
