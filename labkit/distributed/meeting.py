"""What processes tell one another besides gradients: sums, wishes, failures; a sentence when one of them is gone."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import torch
import torch.distributed as dist

from labkit.distributed.group import are_several, is_main
from labkit.errors import CheckpointError, ConfigError, LabkitError, ProcessError

Result = TypeVar("Result")
SIGNS_OF_LOSS = ("gloo", "NCCL", "Connection closed by peer", "Connection reset by peer", "Broken pipe")


def total(*numbers: float) -> list[float]:
    """Return the sum of each number over all processes; every process must come here, and gets the same."""
    if not are_several():
        return list(numbers)
    sums = torch.tensor(numbers, dtype=torch.float64)  # on the CPU: nobody waits for a GPU
    dist.all_reduce(sums)
    return sums.tolist()


def any_of(wish: bool) -> bool:
    """Say whether at least one process has the wish; every process must come here, and gets the same answer."""
    return total(wish)[0] > 0


def in_main(action: Callable[[], None]) -> None:
    """Let the main process do something while the others, which must all come here, wait.

    Where it raises a LabkitError, all processes stop: the others raise a CheckpointError with the same words.
    """
    failure = None
    if is_main():
        try:
            action()
        except LabkitError as error:
            failure = error
    if are_several():
        words = [str(failure) if failure else None]
        dist.broadcast_object_list(words, src=0)
        if words[0] and not failure:
            failure = CheckpointError(words[0])
            failure.is_echo = True  # the main process says it
    if failure:
        raise failure


def main_first(action: Callable[[], Result]) -> Result:
    """Do something in the main process first, then in the others: what it downloads is there for them."""
    results: list[Result] = []
    in_main(lambda: results.append(action()))
    return results[0] if results else action()


@contextmanager
def none_lost() -> Iterator[None]:
    """Turn what torch says in a block when processes fail to meet into one sentence."""
    try:
        yield
    except RuntimeError as error:
        if not are_several():
            raise
        text = str(error)
        if "Expected to have finished reduction in the prior iteration" in text:
            raise ConfigError(
                "Some parameters got no gradient in an update, and processes that train together wait for it. Use "
                "every layer in forward, or freeze those that are not used with requires_grad_(False)."
            ) from error
        if isinstance(error, dist.DistError) or any(sign in text for sign in SIGNS_OF_LOSS):
            raise ProcessError(
                "Another process of this run has ended or does not answer, so this one stops, too. The run goes on "
                "from its last checkpoint: `labkit train --resume` with its folder, in as many processes as you like."
            ) from error
        raise
