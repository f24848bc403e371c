"""Measurements for the topic "Tensors": memory shared with NumPy."""

import numpy
import torch

from labkit.exercises.claims import claim
from labkit.exercises.ledger.measuring import error_of


@claim(
    "C066",
    true="They share, but there is nothing of *now and then* in it: each dtype and each slice below shared. Reckon "
    "with it every time.",
    false="They do share memory: a number written on one side stood on the other. What is wrong is *now and then*.",
    depends="Right: these two always share on the CPU, `torch.tensor` always copies, and `torch.as_tensor` shares "
    "unless the dtype or the device has to change.",
)
def numpy_and_torch_always_share() -> dict[str, bool]:
    """Write through from_numpy and numpy() in both directions, and look for a dtype or a slice that does not share."""
    array = numpy.zeros(3)
    tensor = torch.from_numpy(array)
    tensor[0] = 100
    array[1] = 200
    whole = numpy.zeros((4, 6))
    arrays = [numpy.zeros(3, dtype=name) for name in ("bool", "uint8", "int64", "float16", "float32", "float64")]
    arrays += [whole.T, whole[1:, ::2]]
    unshared = [
        candidate
        for candidate in arrays
        if not numpy.shares_memory(candidate, torch.from_numpy(candidate))
        or not numpy.shares_memory(candidate, torch.from_numpy(candidate).numpy())
    ]
    return {
        "a change of the tensor shows in the array": array.tolist()[0] == 100,
        "a change of the array shows in the tensor": tensor.tolist()[1] == 200,
        "for some dtypes or slices they do not share": bool(unshared),
    }


@claim(
    "C067",
    true="Yes: after either, a write on one side left the other as it was.",
    false="Perhaps you think of `detach()` or of a slice, which go on sharing. `clone()` and `copy()` take new memory, "
    "as the writes below show.",
    depends="There is no case in which they share. They differ in one thing: a clone stays in the graph, so for a copy "
    "without gradients write `detach().clone()`.",
)
def clone_and_copy_end_the_sharing() -> dict[str, bool]:
    """Copy on both sides, write to the original, and look at the copies."""
    array = numpy.zeros(3)
    tensor = torch.from_numpy(array)
    cloned, copied = tensor.clone(), tensor.numpy().copy()
    array[:] = 1
    return {
        "clone() is untouched by a later write": cloned.tolist() == [0, 0, 0],
        "copy() is untouched by a later write": copied.tolist() == [0, 0, 0],
        "the tensor without a copy did change": tensor.tolist() == [1, 1, 1],
    }


@claim(
    "C068",
    true="For plain data, yes, there and back. A tensor that requires a gradient refused below: a NumPy array could "
    "not keep its place in the graph.",
    false="You may have met the refusal of a tensor that requires a gradient. Without one the way is open in both "
    "directions.",
    depends="Right. The form that works for every tensor is `tensor.detach().cpu().numpy()`.",
)
def the_way_to_numpy_and_back() -> dict[str, bool]:
    """Go to NumPy and back, with a plain tensor and with one that requires a gradient."""
    plain, recorded = torch.arange(3.0), torch.arange(3.0, requires_grad=True)
    return {
        "a plain tensor goes to NumPy": plain.cpu().numpy().tolist() == [0, 1, 2],
        "torch.from_numpy leads back": torch.equal(torch.from_numpy(plain.cpu().numpy()), plain),
        "a tensor that requires a gradient goes as well": error_of(lambda: recorded.cpu().numpy()) == "",
    }
