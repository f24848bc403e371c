"""Several processes can train together (torch.distributed). One of them, the main process, writes and speaks."""

from collections.abc import Callable

import torch.distributed as dist

from labkit.errors import CheckpointError, LabkitError


def are_several() -> bool:
    """Say whether this process belongs to a group, as `torch.distributed.init_process_group` makes it."""
    return dist.is_available() and dist.is_initialized()


def is_main() -> bool:
    """Say whether this process is the one that writes and speaks: the only one there is, or that of rank 0."""
    return not are_several() or dist.get_rank() == 0


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
        dist.barrier()
        failure = failure or (CheckpointError(words[0]) if words[0] else None)
    if failure:
        raise failure
