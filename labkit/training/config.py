"""Config: every setting of a training run, as plain values. They are the parameters of papermill, and the record."""

import difflib
import math
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from numbers import Integral, Real

from labkit.errors import ConfigError


def setting(default, text: str, choices: tuple = (), least: float | None = None, most: float | None = None):
    """Declare one field: its default, its help in a few words, and the values that make sense."""
    return field(default=default, metadata={"help": text, "choices": choices, "least": least, "most": most})


@dataclass(frozen=True)
class Config:
    """The settings of one run. Checked when it is made: a wrong value raises ConfigError before anything runs."""

    data: str = setting("digits", "a data set by name, or the path of a folder or .tar of pictures")
    model: str = setting("cnn", "the network", choices=("mlp", "lenet", "cnn"))
    epochs: int = setting(12, "how often every training picture is seen", least=1)
    batch_size: int = setting(32, "pictures in one batch", least=1)
    accumulate: int = setting(1, "batches in one update of the weights", least=1)
    optimizer: str = setting("adamw", "the rule of the update", choices=("sgd", "adam", "adamw"))
    learning_rate: float = setting(4e-3, "the (highest) learning rate", least=0.0)
    momentum: float = setting(0.9, "momentum of sgd; the others have their own", least=0.0, most=1.0)
    weight_decay: float = setting(0.01, "pull of the weights towards zero", least=0.0)
    schedule: str = setting(
        "one_cycle", "how the rate changes", choices=("constant", "step", "cosine", "one_cycle", "plateau")
    )
    warm_up: float = setting(0.0, "share of all updates in which the rate rises to its height", least=0.0, most=1.0)
    clip_norm: float = setting(0.0, "longest gradient allowed; 0 = no clipping", least=0.0)
    average: float = setting(
        0.0, "what stays of a running average of the weights in an update, such as 0.999; 0 = none", least=0.0, most=1.0
    )
    class_weights: str = setting(
        "off", "balanced: each class counts as much as every other in the loss", choices=("off", "balanced")
    )
    label_smoothing: float = setting(0.0, "share of the target spread over all classes", least=0.0, most=1.0)
    dropout: float = setting(0.0, "share of the activations dropped in the model", least=0.0, most=1.0)
    flip: bool = setting(False, "mirror half of the training pictures")
    shift: int = setting(1, "move training pictures by up to so many pixels", least=0)
    cutout: int = setting(0, "side in pixels of a square cut out of training pictures", least=0)
    patience: int = setting(0, "stop after so many epochs without a better validation loss; 0 = never", least=0)
    min_delta: float = setting(0.0, "how much lower a validation loss must be to count as better", least=0.0)
    keep_best: int = setting(1, "how many of the best epochs keep a checkpoint", least=1)
    amp: str = setting("off", "mixed precision", choices=("off", "bf16", "fp16"))
    channels_last: bool = setting(False, "keep the channels of a pixel side by side in memory; faster on some devices")
    compile: bool = setting(False, "let torch.compile translate the network; slow at first, then faster")
    device: str = setting("auto", "auto, cpu, cuda, cuda:1 or mps")
    seed: int = setting(0, "decides every random choice", least=0)
    num_workers: int = setting(0, "processes that prepare batches", least=0, most=256)
    log_every: int = setting(20, "updates between two looks at the numbers", least=1)
    save_every: int = setting(0, "updates between two checkpoints; 0 = at the end of an epoch", least=0)
    run_dir: str = setting("runs", "folder for the records of runs; empty = write nothing")
    name: str = setting("", "name of this run's folder; empty = made from data, model, seed and time")

    def __post_init__(self) -> None:
        for declared in fields(self):
            value = _checked(declared.name, getattr(self, declared.name), declared.type, declared.metadata)
            object.__setattr__(self, declared.name, value)
        if self.learning_rate == 0:
            raise ConfigError("learning_rate=0.0: nothing would be learned. A usual first try is 0.001.")
        if self.dropout == 1 or self.label_smoothing == 1:
            raise ConfigError("dropout and label_smoothing must be below 1: at 1 nothing of the signal is left.")
        if self.momentum == 1:
            raise ConfigError("momentum must be below 1: at 1 no gradient is ever forgotten.")
        if self.average == 1:
            raise ConfigError("average must be below 1: at 1 the average never moves. A usual value is 0.999.")
        if self.warm_up and self.schedule == "one_cycle":
            raise ConfigError("one_cycle has a warm-up of its own: leave warm_up at 0, or choose another schedule.")
        if set(self.name) & set('/\\:*?"<>|') or self.name != self.name.strip(" .") or not self.name.isprintable():
            raise ConfigError(
                f'name={self.name!r} becomes the name of a folder; leave out / \\ : * ? " < > |, what cannot '
                "be printed, and dots and spaces at the ends."
            )
        if len(os.fsencode(self.name)) > 200:
            raise ConfigError(f"name={self.name[:20]!r}… is too long for a folder: use at most 200 letters.")

    @classmethod
    def from_parameters(cls, parameters: dict) -> "Config":
        """Return a Config from plain values. Raises ConfigError for an unknown name, with the nearest known one."""
        if not isinstance(parameters, Mapping):
            raise ConfigError(f"Settings are a dict of names and values, got {parameters!r}.")
        known = {declared.name for declared in fields(cls)}
        for name in parameters:
            if name not in known:
                near = difflib.get_close_matches(str(name), known, n=1)
                hint = f"Did you mean {near[0]!r}?" if near else f"The settings are: {', '.join(sorted(known))}."
                raise ConfigError(f"There is no setting named {name!r}. {hint}")
        return cls(**parameters)

    def replace(self, **changes) -> "Config":
        """Return a copy with some settings changed, checked again."""
        return self.from_parameters(asdict(self) | changes)

    def to_dict(self) -> dict:
        """Return the settings as a plain dict, ready for JSON."""
        return asdict(self)


def _checked(name: str, value, wanted: type, limits: dict):
    """Return the value as plain Python (NumPy's numbers cannot be stored safely), or raise ConfigError."""
    if not isinstance(value, _TAKEN[wanted]) or (isinstance(value, bool) and wanted is not bool):
        hint = f" With papermill, `-r {name} …` passes text." if wanted is str else ""
        kind = _KINDS.get(type(value), type(value).__name__)
        raise ConfigError(f"{name}={value!r} must be {_KINDS[wanted]}, got {kind}.{hint}")
    if wanted in (int, float) and isinstance(value, Integral) and not -(2**63) <= value < 2**63:
        raise ConfigError(f"{name} is beyond what a computer counts with. Use a number of at most 18 digits.")
    value = wanted(value)
    if wanted is float and not math.isfinite(value):
        raise ConfigError(f"{name}={value} is no usable number. Give a finite one.")
    if limits["choices"] and value not in limits["choices"]:
        raise ConfigError(f"{name}={value!r} is not known. Choose one of {', '.join(map(repr, limits['choices']))}.")
    if limits["least"] is not None and value < limits["least"]:
        raise ConfigError(f"{name}={value!r} is too small: it must be at least {limits['least']}.")
    if limits["most"] is not None and value > limits["most"]:
        raise ConfigError(f"{name}={value!r} is too large: it must be at most {limits['most']}.")
    if wanted is float and value and not SMALLEST < abs(value) < LARGEST:
        raise ConfigError(f"{name}={value!r} cannot be computed with: in float32 it becomes 0 or infinite.")
    return value


SMALLEST, LARGEST = 1e-37, 1e38  # within what float32, in which weights are kept, can tell from 0 and from infinity
_TAKEN = {int: Integral, float: Real, str: str, bool: bool}
_KINDS = {int: "a whole number", float: "a number", str: "text", bool: "True or False", type(None): "nothing (None)"}
