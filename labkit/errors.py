"""The errors that labkit raises on purpose: one or two sentences that say what, where and how to fix it."""

from collections.abc import Callable


class LabkitError(ValueError):
    """Something the user gave cannot be used. Its text is meant to be read; the command line prints only that."""


class ConfigError(LabkitError):
    """A setting has an unknown name, a wrong type or an impossible value."""


class DataError(LabkitError):
    """Pictures, labels or a data set cannot be used as they are."""


class DeviceError(LabkitError):
    """The device that was asked for is not there."""


class CheckpointError(LabkitError):
    """A checkpoint or a run folder cannot be written, read, or used with this model."""


class NonFiniteError(LabkitError):
    """The loss or a gradient became NaN or infinite, and training stopped before any weight was spoilt."""


class ProcessError(LabkitError):
    """Processes that shall train together do not find one another, or one of them was lost."""


def error_of(action: Callable[[], object]) -> str:
    """Run something that should fail and return its error as one line, or "no error".

    That is the first line of its text, with the second where the first ends in a colon.
    """
    try:
        action()
    except Exception as error:
        lines = [line.strip() for line in str(error).strip().splitlines()] or [""]
        text = " ".join(lines[:2]) if lines[0].endswith(":") else lines[0]
        return f"{type(error).__name__}: {text}"
    return "no error"
