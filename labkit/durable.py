"""Write a file so that neither a kill nor a power cut leaves a half of it."""

import os
from pathlib import Path


def write_durably(path: Path, content: bytes, keep: Path | None = None) -> None:
    """Write a file so that after a crash either the old or the new content is there, whole; optionally keep the old.

    Raises OSError, and then leaves no temporary file behind.
    """
    temporary = path.with_name(path.name + ".tmp")
    try:
        with open(temporary, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())  # a rename may reach the disk before the bytes do
        if keep is not None and path.exists():
            os.replace(path, keep)
        os.replace(temporary, path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    if os.name == "posix":  # Windows cannot open a folder, and does not need to
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
