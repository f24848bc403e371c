"""Several processes train one model: `torchrun --nproc-per-node 2 -m labkit train …` starts them (chapter 10).

`group`: who belongs together. `meeting`: what they tell one another. `gradients`: one update that all of them make.
A process on its own takes the same way: then each function here returns at once, and changes nothing.
"""

from labkit.distributed.gradients import Crew, same_buffers, spread
from labkit.distributed.group import are_several, is_main, joined, rank, size
from labkit.distributed.meeting import any_of, in_main, main_first, none_lost, total

__all__ = [
    "Crew",
    "any_of",
    "are_several",
    "in_main",
    "is_main",
    "joined",
    "main_first",
    "none_lost",
    "rank",
    "same_buffers",
    "size",
    "spread",
    "total",
]
