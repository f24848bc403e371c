"""Measurements for the topic "Tensors": what a tensor is, how it is made, and its dtype."""

import sys

import numpy
import torch
from torch import nn

from labkit.exercises.claims import claim
from labkit.exercises.ledger.measuring import error_of


@claim(
    "C038",
    true="Yes: it knows its shape, its device, and whether operations on it are recorded. Autograd gave the result of "
    "a recorded operation a `grad_fn`, and the weights of a layer from `nn` are tensors like any other.",
    false="Perhaps you think of a tensor as plain numbers, as in a list. Numbers alone could not say where they lie, "
    "nor where a result came from; this tensor answered both questions.",
    depends="No kind of tensor lacks these properties. Some are merely at their quiet values, such as `cpu` and "
    "`requires_grad=False`, until you need them.",
)
def a_tensor_is_more_than_its_numbers() -> dict[str, bool]:
    """Ask a tensor of two dimensions, a recorded result and the weight of a layer for what they know."""
    table = torch.ones(2, 3)
    recorded = table.clone().requires_grad_() * 2
    return {
        "a tensor is an array of n dimensions": table.dim() == len(table.shape) == 2,
        "it knows its device": isinstance(table.device, torch.device),
        "it knows whether its operations are recorded": recorded.requires_grad and not table.requires_grad,
        "autograd keeps the way back from a result in `grad_fn`": recorded.grad_fn is not None,
        "what a layer of nn learns is made of tensors": all(
            isinstance(weight, torch.Tensor) for weight in nn.Linear(2, 1).parameters()
        ),
    }


@claim(
    "C039",
    true="Yes, each of them gave what it promises: `randn` numbers with mean 0 and standard deviation 1, `rand` "
    "numbers from 0 up to 1, and `arange(0, 10, 2)` stopped before the 10.",
    false="Usually the doubt is about `rand` and `randn`, which differ by a letter, or about the end of `arange`. "
    "100,000 draws and the list below settle both.",
    depends="The dtype does depend on what you give: whole numbers in a list become int64, numbers with a point "
    "float32. The six functions themselves do as the sentence says.",
)
def six_ways_to_make_a_tensor() -> dict[str, bool]:
    """Make tensors in all six ways; look at values, dtypes, and 100,000 random numbers of each kind."""
    generator = torch.Generator().manual_seed(0)
    normal, uniform = torch.randn(100_000, generator=generator), torch.rand(100_000, generator=generator)
    dtypes = torch.tensor([1, 2]).dtype, torch.tensor([1.0, 2.0]).dtype
    return {
        "torch.tensor takes lists": torch.tensor([[1, 2], [3, 4]]).tolist() == [[1, 2], [3, 4]],
        "a list of whole numbers gives int64, one of floats float32": dtypes == (torch.int64, torch.float32),
        "zeros and ones hold what their names say": not torch.zeros(2, 3).any() and bool(torch.ones(2, 3).all()),
        "randn has mean 0 and standard deviation 1": abs(normal.mean().item()) < 0.02
        and abs(normal.std().item() - 1) < 0.02,
        "rand lies from 0 up to 1 and fills that range": 0 <= uniform.min().item() < 0.001
        and 0.999 < uniform.max().item() < 1,
        "arange(0, 10, 2) is 0, 2, 4, 6, 8": torch.arange(0, 10, 2).tolist() == [0, 2, 4, 6, 8],
    }


@claim(
    "C040",
    true="Yes. Whole numbers can neither pass a linear layer nor carry a gradient, and the choice among the floating "
    "types is one between bytes and digits.",
    false="You may have fed whole numbers to a network before: something converted them on the way. Given as they "
    "are, the layer below refuses them.",
    depends="The exceptions are not features: class labels stay int64 and masks bool. For what a network computes "
    "with, floating point is the rule.",
)
def features_are_floating_point() -> dict[str, bool]:
    """Feed whole numbers to a layer, ask them for gradients, and compare three floating types."""
    whole, layer = torch.ones(1, 2, dtype=torch.int64), nn.Linear(2, 1)
    third = {dtype: torch.tensor(1 / 3, dtype=dtype) for dtype in (torch.float16, torch.float32, torch.float64)}
    errors = [abs(number.double().item() - 1 / 3) for number in third.values()]
    return {
        "a linear layer refuses whole numbers": error_of(lambda: layer(whole)) != "",
        "whole numbers cannot require a gradient": "floating point" in error_of(lambda: whole.requires_grad_()),
        "float16, float32 and float64 take 2, 4 and 8 bytes": [n.element_size() for n in third.values()] == [2, 4, 8],
        "1/3 is more exact in each longer type": errors[0] > errors[1] > errors[2],
    }


@claim(
    "C041",
    true="You may have met such an error, in a matrix product. Look at two things: it came before `backward()` was "
    "called at all, and the sum and the loss below were computed without one.",
    false="You may have seen a float32 tensor and a whole number added without trouble. That is promotion, and it "
    "covers element-wise operations only; the matrix product below refused.",
    depends="Right. Element-wise operations promote in silence, matrix operations refuse, and they refuse in the "
    "forward pass. The silent case is the dangerous one: a float64 target turns the whole loss into float64.",
)
def mixed_dtypes_refuse_or_promote() -> dict[str, bool]:
    """Mix float32 and float64 in a matrix product, in a sum and in a loss, and call backward where that is possible."""
    single = torch.ones(2, 2, requires_grad=True)
    double = torch.ones(2, 2, dtype=torch.float64)
    mixed = {
        "a sum": lambda: single + double,
        "a loss": lambda: nn.functional.mse_loss(single, double),
        "a matrix product": lambda: single @ double,
    }
    errors = {name: error_of(compute) for name, compute in mixed.items()}
    backward = [error_of(lambda name=name: mixed[name]().sum().backward()) for name in errors if not errors[name]]
    return {f"mixing dtypes in {name} is an error": error != "" for name, error in errors.items()} | {
        "what passes forward fails in backward": any(backward)
    }


@claim(
    "C042",
    true="It looks so, since `print` shows nothing but numbers. Yet the array below is larger than its numbers, and "
    "its transpose is the same memory under another description.",
    false="Right: both are a description and a buffer. What a tensor adds is its device, layout, `requires_grad` and "
    "`grad_fn`.",
    depends="There is no bare kind of NumPy array. Without dtype, shape and strides nobody could tell where in the "
    "buffer the second row begins.",
)
def numpy_arrays_carry_a_description_too() -> dict[str, bool]:
    """Weigh an array, ask for its description, and transpose it without touching a number."""
    array = numpy.arange(6.0).reshape(2, 3).copy()
    transposed = array.T
    same_numbers = numpy.shares_memory(array, transposed) and array.strides != transposed.strides
    return {
        "an array is no larger than its numbers": sys.getsizeof(array) == array.nbytes,
        "an array has no dtype, shape and strides": not {"typestr", "shape", "strides"}
        <= set(array.__array_interface__),
        "an array cannot be read in another way without changing its numbers": not same_numbers,
    }


@claim(
    "C043",
    true="GPUs are one reason, and memory is another: the same numbers take twice as much in float64. And nothing is "
    "fixed by the hardware; one call changed the default.",
    false="GPUs do play a part: most compute much faster in float32 than in float64. What fails in the sentence is "
    "that memory is no reason.",
    depends="Right. float32 is the default, and there are three reasons: half the memory and traffic, speed on most "
    "GPUs, and enough digits for training.",
)
def float32_is_a_default_and_saves_memory() -> dict[str, bool]:
    """Ask for the default, weigh the same numbers in both types, and change the default for a moment."""
    default = torch.ones(1000).dtype
    single, double = torch.ones(1000, dtype=torch.float32), torch.ones(1000, dtype=torch.float64)
    torch.set_default_dtype(torch.float64)
    changed = torch.ones(1000).dtype
    torch.set_default_dtype(default)
    return {
        "float32 is the default": default == torch.float32,
        "float32 saves no memory": single.untyped_storage().nbytes() >= double.untyped_storage().nbytes(),
        "nothing but float32 can be the default": changed == torch.float32,
    }
