"""The errors that labkit raises on purpose: one or two sentences that say what, where and how to fix it."""


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
