"""Measurements for the topic "Framework and dynamic graph": the rest of Python, and how a fault is found."""

import json
import traceback

import numpy
import torch
from matplotlib.figure import Figure
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence

from labkit.exercises.claims import claim, judged
from labkit.exercises.ledger.measuring import error_of

#: The same expressions, written once, for torch and for NumPy: `library` is the one or the other.
WRITTEN_ALIKE = {
    "arithmetic": lambda library, one, other: one * 2 + other / 4 - one**2,
    "slicing": lambda library, one, other: one[1:, ::2],
    "joining": lambda library, one, other: library.concatenate([one, other]),
    "reshaping": lambda library, one, other: one.reshape(2, 6).T,
    "a sum along an axis": lambda library, one, other: one.sum(axis=0),
}


@claim(
    "C007",
    true="Each of these expressions was written once and gave equal numbers in both libraries. The differences make a "
    "short list, and they are what you should learn by heart: float32 by default, no `x[::-1]`, `std` with n - 1.",
    false="You have probably met one of the differences, such as `x[::-1]`, which a tensor refuses. They exist, and "
    "they are few: everything named in the sentence was written alike and came out equal.",
    depends="The exceptions lie beside what the sentence names: default dtype, negative steps, `std`. Arithmetic, "
    "slicing, joining and reshaping were measured one by one, and none of them differed.",
)
def expressions_are_written_as_in_numpy() -> dict[str, bool]:
    """Evaluate the same expressions on arrays and on tensors of the same numbers."""
    one, other = numpy.arange(12.0).reshape(3, 4), numpy.ones((3, 4))
    parts = {}
    for name, expression in WRITTEN_ALIKE.items():
        expected = expression(numpy, one, other)
        got = expression(torch, torch.tensor(one), torch.tensor(other))
        parts[f"{name}: written the same, the same numbers"] = numpy.array_equal(got.numpy(), expected)
    return parts


judged(
    "C009",
    "TensorFlow is no part of this environment, so there is nothing to run; its release notes tell the history.",
    true="That was so in its first generation, and many tutorials of that time are still read. Since TensorFlow 2 "
    "(2019) operations run at once by default, and an ordinary `if` works there too.",
    false="Yes: as a statement about today it is false. It described version 1; since 2019 both libraries run "
    "operations at once, and both can compile on request.",
    depends="It depends on the year only. For anything that you would install now, the sentence does not hold.",
)


@claim(
    "C010",
    true="Yes, and you need not even write the sorting: three sequences of different lengths, in any order, went "
    "through as one batch, and each result was what the sequence gives alone.",
    false="You may remember padding that leaked into the results, or having to sort by hand. A packed batch leaves "
    "the padding out, and the library sorts and puts back: the results equal those of the sequences alone.",
    depends="It needs care in one place: a padded batch that is not packed does count the padding. Packed, the "
    "results were equal, and all of it was ordinary Python.",
)
def sequences_of_different_lengths_in_one_batch() -> dict[str, bool]:
    """Run three sequences through a GRU as one packed batch, and one by one."""
    network = nn.GRU(3, 5, batch_first=True)
    sequences = [torch.randn(length, 3) for length in (2, 4, 3)]
    padded = pad_sequence(sequences, batch_first=True)
    packed = pack_padded_sequence(padded, [2, 4, 3], batch_first=True, enforce_sorted=False)
    outputs, lengths = pad_packed_sequence(network(packed)[0], batch_first=True)
    alone = [network(sequence[None])[0][0] for sequence in sequences]
    return {
        "one batch gives each sequence the result that it gets alone": all(
            torch.allclose(output[: len(single)], single, atol=1e-6)
            for output, single in zip(outputs, alone, strict=True)
        ),
        "it is sorted by length on the way in, without your doing": packed.sorted_indices.tolist() == [1, 2, 0],
        "and comes back in your order": lengths.tolist() == [2, 4, 3],
    }


@claim(
    "C011",
    true="Whatever a training step keeps turned out to be a tensor, and the other libraries took the values as they "
    "were. Copy at the border when both sides go on changing things: from_numpy shares memory.",
    false="You may have met a tensor that NumPy refused: one that requires grad, or one on a GPU. After `detach()` "
    "and `cpu()` the whole of Python reads it.",
    depends="One step is needed for a tensor that requires grad or lies on a GPU: `detach().cpu()`. With it, all that "
    "was tried here worked.",
)
def python_tools_read_tensors() -> dict[str, bool]:
    """Take one training step, look at the type of all that it keeps, and give a tensor to three other tools."""
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    model(torch.randn(8, 3)).square().mean().backward()
    optimizer.step()
    kept = [*model.parameters(), *model.buffers(), *(parameter.grad for parameter in model.parameters())]
    kept += [state["momentum_buffer"] for state in optimizer.state.values()]
    values = torch.tensor([1.0, 2.0, 2.0, 4.0])
    line = Figure().subplots().plot(values)[0]
    return {
        "parameters, buffers, gradients and momentum are all tensors": all(isinstance(item, Tensor) for item in kept),
        "NumPy counts a tensor's values": numpy.histogram(values, bins=[0, 1.5, 3, 5])[0].tolist() == [1, 2, 1],
        "Matplotlib plots a tensor": line.get_ydata().tolist() == values.tolist(),
        "json writes its numbers": json.loads(json.dumps(values.tolist())) == [1, 2, 2, 4],
    }


class Logarithm(nn.Module):
    """Takes logarithms of values that may be negative: a planted fault."""

    def forward(self, inputs: Tensor) -> Tensor:
        """Return log(inputs), which is NaN for each negative value."""
        return inputs.log()


def first_layer_with_nan(model: nn.Sequential, inputs: Tensor) -> str:
    """Return the name of the first layer whose output is not finite, as forward hooks see it; "" if there is none."""
    found: list[str] = []
    hooks = []
    for name, layer in model.named_children():

        def look(layer: nn.Module, inputs: tuple, output: Tensor, name: str = name) -> None:
            if not output.isfinite().all():
                found.append(name)

        hooks.append(layer.register_forward_hook(look))
    model(inputs)
    for hook in hooks:
        hook.remove()
    return found[0] if found else ""


def multiplied(inputs: Tensor, weight: Tensor) -> Tensor:
    """Multiply two matrices whose sizes may not fit."""
    return inputs @ weight


def shapes_at_the_stop(inputs: Tensor, weight: Tensor) -> dict[str, tuple[int, ...]]:
    """Return the shape of every local variable in the frame that failed: what a debugger shows after an error."""
    try:
        multiplied(inputs, weight)
    except RuntimeError as error:
        frame, _ = list(traceback.walk_tb(error.__traceback__))[-1]
        return {name: tuple(value.shape) for name, value in frame.f_locals.items()}
    return {}


@claim(
    "C012",
    true="One look at the ranges, layer by layer, named the layer that made the first NaN; the variables at the stop "
    "showed the two shapes; a hook on a tensor saw the gradient there.",
    false="You may have stared at a loss of NaN without a place to look. The loss tells only that something went "
    "wrong; the ranges inside told where, in one forward pass.",
    depends="You may think of code on a GPU or compiled code, where stopping is harder. Hooks work there as well, and "
    "in the three cases tried here looking inside gave the place at once.",
)
def looking_inside_finds_the_place() -> dict[str, bool]:
    """Plant a NaN, a wrong shape and an infinite gradient, and look with hooks and at the variables of the stop."""
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), Logarithm(), nn.Linear(4, 2))
    seen: list[Tensor] = []
    distance = torch.zeros(3, requires_grad=True)
    squared = distance * distance
    squared.register_hook(seen.append)
    squared.sqrt().sum().backward()
    return {
        "forward hooks name the layer that makes the first NaN": first_layer_with_nan(model, torch.randn(8, 4)) == "2",
        "at the stop, the variables show the two shapes that do not fit": shapes_at_the_stop(
            torch.ones(5, 3), torch.ones(4, 2)
        )
        == {"inputs": (5, 3), "weight": (4, 2)},
        "a hook on a tensor sees the infinite gradient that arrives there": bool(seen[0].isinf().all()),
    }


@claim(
    "C016",
    true="Two of the three you get. The third waits for you: as it comes, the tensor has `requires_grad` False, its "
    "operations leave no graph, and `backward()` has nothing to walk through.",
    false="It can do all three, so the sentence is not wrong about what a tensor is. It is wrong about what is "
    "switched on: nothing is tracked before you ask.",
    depends="Moving works at once, differentiating works once you ask, and tracking is off until then. Parameters of "
    "an `nn.Module` are the exception: they ask by themselves.",
)
def a_fresh_tensor_is_not_tracked() -> dict[str, bool]:
    """Move a fresh tensor, differentiate through it on request, and look whether it was tracked before."""
    fresh, asked = torch.randn(3), torch.randn(3).requires_grad_()
    untracked = (fresh * 2).sum()
    (asked * 2).sum().backward()
    return {
        "it can be moved (here to the device meta)": fresh.to("meta").device.type == "meta",
        "it can be differentiated, once asked to": asked.grad.tolist() == [2, 2, 2],
        "it is tracked as it comes": untracked.grad_fn is not None and not error_of(untracked.backward),
    }
