"""One process at a time works on a run: two that resume the same one would write over each other's checkpoints."""

import os
import time
from contextlib import suppress
from pathlib import Path

from labkit.errors import CheckpointError

PATIENCE = 10.0  # seconds: workers of a run that was killed a moment ago need some to notice it


class Alone:
    """Holds a run's folder until it is released, or until the process ends, however it ends.

    Raises CheckpointError where another process holds it. Without locks on folders (Windows, some network disks) it
    does nothing.
    """

    def __init__(self, folder: Path):
        self._folder = None
        if os.name != "posix":
            return
        import fcntl

        self._folder = os.open(folder, os.O_RDONLY)
        begun = time.monotonic()
        while True:
            try:
                fcntl.flock(self._folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError as error:
                if time.monotonic() - begun > PATIENCE:
                    os.close(self._folder)
                    raise CheckpointError(
                        f"Another process is at work on the run in {folder}. Wait until it is done, or stop it."
                    ) from error
                time.sleep(0.1)
            except OSError:  # a disk that knows no locks
                return

    def release(self) -> None:
        """Let others have the folder; worker processes, which inherited it, are told as well."""
        if self._folder is not None:
            import fcntl

            with suppress(OSError):
                fcntl.flock(self._folder, fcntl.LOCK_UN)
            os.close(self._folder)
            self._folder = None
