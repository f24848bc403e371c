"""Checkpoints that survive a kill, a full disk and a flipped bit, and that can never run code.

A file is the bytes of `torch.save`, followed by their SHA-256. It holds plain data only (tensors, numbers, text,
lists, dicts), so `torch.load(path, weights_only=True)` reads it as well.
"""

import hashlib
import io
import warnings
from pathlib import Path

import torch

from labkit import distributed
from labkit.durable import write_durably
from labkit.errors import CheckpointError

SCHEMA = 2
_MARK = b"\nlabkit-sha256:"
_TRAILER = len(_MARK) + 64


def save(path: Path, content: dict) -> None:
    """Write `content` so that at every moment a complete, verified file exists on the disk.

    The new file is written beside the old one and forced to the disk before it takes the old one's name; the old one
    stays as `<name>.previous<suffix>`. Raises CheckpointError when the disk refuses; older files are then untouched.
    """
    buffer = io.BytesIO()
    torch.save(content | {"schema": SCHEMA}, buffer)
    payload = buffer.getvalue()
    try:
        write_durably(path, payload + _MARK + hashlib.sha256(payload).hexdigest().encode("ascii"), keep=previous(path))
    except OSError as error:
        raise CheckpointError(
            f"{path.name} could not be saved in {path.parent}: {error.strerror or error}. Checkpoints saved before are "
            "unharmed. Make room or choose another run_dir, then resume the run."
        ) from error


def load(path: Path) -> dict:
    """Return the content of a checkpoint, or of the previous one where the newest is damaged or gone.

    The tensors are on the CPU. Raises CheckpointError when neither can be used, with the reason for each.
    """
    if not path.exists() and not previous(path).exists():
        raise CheckpointError(f"There is no {path.name} in {path.parent}, so there is nothing to go on from.")
    reasons = []
    for candidate in (path, previous(path)):
        try:
            content = read(candidate)
        except CheckpointError as error:
            reasons.append(str(error))
            continue
        if reasons and distributed.is_main():
            print(f"{reasons[0]} Going on from {candidate.name}.")
        return content
    raise CheckpointError(" ".join(reasons))


def previous(path: Path) -> Path:
    """Return the name under which the checkpoint before the newest is kept."""
    return path.with_name(f"{path.stem}.previous{path.suffix}")


def read(path: Path) -> dict:
    """Return the content of this very file. Raises CheckpointError when it is gone, damaged, or more than data."""
    try:
        content = path.read_bytes()
    except FileNotFoundError as error:
        raise CheckpointError(f"There is no {path.name} in {path.parent}.") from error
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror or error}.") from error
    payload, trailer = content[:-_TRAILER], content[-_TRAILER:]
    if not trailer.startswith(_MARK):
        raise CheckpointError(f"{path.name} in {path.parent} is cut off, or was not written by labkit.")
    if hashlib.sha256(payload).hexdigest().encode("ascii") != trailer[len(_MARK) :]:
        raise CheckpointError(f"{path.name} in {path.parent} is damaged: its checksum does not fit its content.")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch's about a file that is refused all the same
            loaded = torch.load(io.BytesIO(payload), map_location="cpu", weights_only=True)
    except Exception as error:  # unpickling can fail in many ways, and all mean the same here
        raise CheckpointError(
            f"{path.name} in {path.parent} holds more than plain data, so it is not loaded."
        ) from error
    if not isinstance(loaded, dict) or loaded.get("schema") != SCHEMA:
        raise CheckpointError(f"{path.name} in {path.parent} has a layout that this labkit does not know.")
    return loaded
