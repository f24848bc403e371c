"""One process at a time works on a run: two that resume the same one would write over each other's checkpoints."""

from pathlib import Path

from filelock import FileLock, Timeout

from labkit.errors import CheckpointError

LOCK_FILE = ".in_use"  # stays in the folder, empty; whether it is locked is what counts
PATIENCE = 10.0  # seconds: workers of a run that was killed a moment ago need some to notice it


class Alone:
    """Holds a run's folder until it is released, or until the process ends, however it ends.

    Raises CheckpointError where another process holds it.
    """

    def __init__(self, folder: Path):
        self._lock = FileLock(folder / LOCK_FILE)
        try:
            self._lock.acquire(timeout=PATIENCE)
        except Timeout:
            raise CheckpointError(
                f"Another process is at work on the run in {folder}. Wait until it is done, or stop it."
            ) from None
        except (OSError, NotImplementedError):  # a disk that knows no locks, or nothing can be written: let it be tried
            self._lock = None

    @property
    def is_certain(self) -> bool:
        """Whether the folder is locked; False on a disk that knows no locks, where others cannot be ruled out."""
        return self._lock is not None

    def release(self) -> None:
        """Let others have the folder."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None


def is_held(folder: Path) -> bool:
    """Return whether a process is at work on the run in `folder`. Makes no file, and waits for nothing."""
    lock = FileLock(folder / LOCK_FILE)
    try:
        if not (folder / LOCK_FILE).is_file():
            return False
        lock.acquire(timeout=0)
    except Timeout:
        return True
    except (OSError, NotImplementedError):  # cannot be known: a disk without locks, or not ours to write
        return False
    lock.release()
    return False
