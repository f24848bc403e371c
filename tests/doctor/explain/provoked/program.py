"""Programs that fail: each one a small function, the kind of its error, and what an explanation must say about it."""

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

# What PyTorch says, for each kind, one fragment a form: a program that fails in another way proves nothing.
SAYS: dict[str, tuple[str, ...]] = {
    "matmul-shapes": (
        "shapes cannot be multiplied",
        "size mismatch, got input",
        "must have same reduction dim",
    ),
    "conv-channels": ("channels, but got",),
    "conv-dimensions": ("Expected 3D (unbatched) or 4D", "Expected 2D (unbatched) or 3D", "non-empty 3D or 4D"),
    "conv-too-small": ("Kernel size can't be greater than actual input size", "Output size is too small"),
    "broadcast-shapes": ("must match the size of tensor b", "must match the existing size", "Attempting to broadcast"),
    "batched-matmul-shapes": (
        "Expected size for first two dimensions of batch2 tensor",
        "must match the size of tensor b",
    ),
    "rnn-shapes": (
        "must be equal to input_size",
        "Expected hidden",
        "Expected input to be 2D or 3D",
        "inconsistent input_size",
        "doesn't match hidden0 batch size",
        "For batched 3-D input, hx",
    ),
    "reshape": ("is invalid for input of size", "view size is not compatible"),
    "cat-shapes": ("Sizes of tensors must match", "same number of dimensions", "expects each tensor to be equal size"),
    "dimension-out-of-range": ("Dimension out of range",),
    "norm-features": ("should contain", "D input (got", "Given normalized_shape"),
    "batchnorm-one-sample": ("Expected more than 1 value per channel when training",),
    "attention-sizes": ("must be divisible by num_heads", "was expecting embedding dimension of"),
    "matmul-dtypes": ("same dtype", "expected scalar type", "share same datatype"),
    "conv-dtypes": ("should be the same", "expected scalar type"),
    "rnn-dtype": ("does not match weight dtype",),
    "index-dtype": (
        "following scalar types: Long, Int",
        "must be long, int, byte or bool",
        "dtype int32/int64 for index",
    ),
    "index-out-of-range": ("index out of range in self", "is out of bounds for dimension"),
    "integer-mean": ("could not infer output dtype", "expected a floating point or complex"),
    "not-one-value": ("cannot be converted to Scalar", "only one element tensors", "only integer tensors of a single"),
    "ambiguous-truth": ("with more than one value is ambiguous",),
    "array-conversion": (
        "can't convert np.ndarray of type",
        "expected sequence of length",
        "At least one stride in the given numpy array is negative",
        "new(): invalid data type",
        "too many dimensions 'str'",
        "must be real number",
    ),
    "target-dtype": ("expected target dtype to be Long or Byte", "Expected floating point type for target"),
    "target-one-hot": ("Expected floating point type for target with class probabilities",),
    "target-dimensions": (
        "multi-target not supported",
        "Expected target size",
        "only batches of spatial targets supported",
    ),
    "target-out-of-range": ("is out of bounds.",),
    "target-shape": ("Expected target size", "only batches of spatial targets", "size mismatch (got input"),
    "batch-size-mismatch": ("to match target batch_size",),
    "bce-target-dtype": ("Found dtype Long but expected Float", "can't be cast to the desired output type"),
    "bce-target-shape": ("must be the same as input size", "that is different to the input size"),
    "bce-range": ("should be between 0 and 1",),
    "no-graph": ("does not require grad and does not have a grad_fn",),
    "backward-twice": ("backward through the graph a second time",),
    "in-place-changed": ("modified by an inplace operation",),
    "in-place-leaf": ("leaf Variable that requires grad",),
    "backward-not-scalar": ("can be implicitly created only for scalar outputs",),
    "numpy-of-grad": ("Can't call numpy() on Tensor that requires grad",),
    "integer-grad": ("nly Tensors of floating point",),
    "nan-in-backward": ("returned nan values",),
    "optimizer-parameters": (
        "empty parameter list",
        "is not iterable",
        "optimizer can only optimize Tensors",
        "can't optimize a non-leaf Tensor",
        "should be an iterable of Tensors",
    ),
    "missing-super-init": ("before Module.__init__() call",),
    "missing-forward": ('missing the required "forward" function',),
    "not-a-tensor": ("must be Tensor, not", "object has no attribute"),
    "state-dict-mismatch": ("Error(s) in loading state_dict",),
    "weights-only": ("Weights only load failed",),
    "collate": ("stack expects each tensor", "should be of equal size", "batch must contain tensors"),
    "worker-error": ("in DataLoader worker process",),
    "worker-pickle": ("pickle",),
    "loader-use": (
        "num_samples should be a positive integer",
        "mutually exclusive",
        "Size mismatch between tensors",
        "not enough values to unpack",
        "object is not subscriptable",
    ),
    "devices": ("not on the expected device", "on the same device", "is on meta", "Cannot copy out of meta tensor"),
    "out-of-memory": ("can't allocate memory", "not enough memory", "out of memory"),
    "device-assert": ("device-side assert triggered",),
    "no-cuda": ("Found no NVIDIA driver", "Torch not compiled with CUDA enabled", "torch.cuda.is_available() is False"),
    "numpy-of-device": ("to numpy. Use Tensor.cpu()",),
    "loss-broadcast": ("that is different to the input size",),
    "scheduler-before-optimizer": ("lr_scheduler.step()` before `optimizer.step()",),
    "softmax-dimension": ("Implicit dimension choice",),
    "rnn-dropout": ("dropout option adds dropout after all but last recurrent layer",),
    "grad-of-non-leaf": (".grad attribute of a Tensor that is not a leaf",),
}

SILENT = ("loss-broadcast", "scheduler-before-optimizer", "softmax-dimension", "rnn-dropout", "grad-of-non-leaf")


@dataclass(frozen=True)
class Program:
    """A function that fails.

    kinds: the kind of its error, more than one where the kinds overlap. names: what the explanation must name, each a
    variable or layer, or a choice "a|b". fix: words of which the advice must contain one. never: words of a wrong
    cause. says: fragments of PyTorch's text, of which the error has one.
    """

    kinds: tuple[str, ...]
    run: Callable[[], object]
    names: tuple[str, ...]
    fix: tuple[str, ...]
    never: tuple[str, ...]
    says: tuple[str, ...]
    slow: bool

    @property
    def is_silent(self) -> bool:
        """Whether PyTorch only warns, and goes on."""
        return self.kinds[0] in SILENT

    @property
    def name(self) -> str:
        """What pytest calls it."""
        return f"{self.kinds[0]}: {self.run.__name__}"


_PROGRAMS: list[Program] = []


def provokes(
    kind: str,
    names: list[str],
    fix: str | tuple[str, ...],
    never: str | tuple[str, ...] = (),
    says: str | tuple[str, ...] = (),
    slow: bool = False,
) -> Callable:
    """Declare that a function fails with an error of a kind. says: see SAYS."""

    def register(function: Callable[[], object]) -> Callable[[], object]:
        words = [(word,) if isinstance(word, str) else word for word in (fix, never, says)]
        kinds = tuple(kind.split("|"))
        _PROGRAMS.append(Program(kinds, function, tuple(names), *words[:2], words[2] or SAYS[kinds[0]], slow))
        return function

    return register


def programs() -> list[Program]:
    """Return all programs of this folder."""
    for module in pkgutil.iter_modules([str(Path(__file__).parent)]):
        importlib.import_module(f"tests.doctor.explain.provoked.{module.name}")
    return _PROGRAMS
