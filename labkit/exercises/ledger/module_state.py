"""Measurements for the topic "nn.Module": what a module holds, and what of it is trained, saved and moved."""

import torch
from torch import Tensor, nn

from labkit.exercises.claims import claim
from labkit.exercises.ledger.measuring import error_of


class ThreeWays(nn.Module):
    """A linear layer made by hand that registers its state in each of the three ways."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4, 3))
        self.register_parameter("bias", nn.Parameter(torch.ones(4)))
        self.register_buffer("offset", torch.zeros(3))

    def forward(self, inputs: Tensor) -> Tensor:
        """Map (batch, 3) to (batch, 4)."""
        return (inputs - self.offset) @ self.weight.T + self.bias


@claim(
    "C123",
    true="Yes. A layer assigned too early fails at once, with a clear message. Plain attributes get through the "
    "constructor, and then a call far from the mistake complains about an attribute you never wrote.",
    false="Python itself allows any order, and so you may expect none here. But `super().__init__()` makes the places "
    "where a module keeps its layers; before it there is nowhere to put one.",
    depends="A number or a string may be assigned before it, that much is right. Each module needs the call all the "
    "same, and as the first line it is never too late.",
)
def without_the_first_line_attributes_are_missing() -> dict[str, bool]:
    """Leave `super().__init__()` out, or call it too late, and collect the errors."""

    class Late(nn.Module):
        def __init__(self) -> None:
            self.layer = nn.Linear(1, 1)
            super().__init__()

    class Never(nn.Module):
        def __init__(self) -> None:
            self.size = 3

    class First(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(1, 1)

    unfinished = Never()
    return {
        "a layer assigned before it is an AttributeError": error_of(Late).startswith("AttributeError"),
        "without it `parameters()` fails later, by an attribute that nobody wrote": "'_parameters'"
        in error_of(lambda: list(unfinished.parameters())),
        "as the first line it lets both go well": not error_of(lambda: list(First().parameters())),
    }


@claim(
    "C132",
    true="Yes: `parameters()` and `buffers()` say where things are, calling the module reuses the computation, and "
    "`state_dict()` with `load_state_dict()` carries the state to another one.",
    false="You may say that a class of your own can do this as well. It can, if you write it; a module brings the "
    "three answers with it, and below each was put to use.",
    depends="All modules give the three answers, from `nn.Linear` to a large model; a layer without parameters gives "
    "an empty list for the first. What differs is only what they hold.",
)
def a_module_answers_three_questions() -> dict[str, bool]:
    """Find the parameters, call the module twice in a larger one, and carry its state to a second module."""
    first, second = ThreeWays(), ThreeWays()
    with torch.no_grad():
        first.weight.mul_(2)
    inputs = torch.ones(5, 3)
    twice = nn.Sequential(nn.Linear(3, 3), first, nn.Linear(4, 3), first)
    second.load_state_dict(first.state_dict())
    return {
        "`parameters()` and `buffers()` find the three tensors": len([*first.parameters(), *first.buffers()]) == 3,
        "the module is called twice, as a part of a larger one": twice(inputs).shape == (5, 4),
        "its parameters are then there once, and not twice": len(list(twice.parameters())) == 6,
        "a second module with its saved state computes the same": torch.equal(first(inputs), second(inputs)),
    }


@claim(
    "C135",
    true="Yes. Each of the three is saved and follows `.to()`. The optimizer gets the first two; a buffer changes only "
    "where your code changes it.",
    false="You may have counted two, since `register_parameter` and an attribute do the same. The function is for "
    "names that your code computes; the buffer is the third way, and all three were saved.",
    depends="They differ in one thing, whether they are learned, and the sentence says so. In being saved and moved "
    "they are alike.",
)
def three_ways_to_register() -> dict[str, bool]:
    """Register state in three ways, and see what is learned, saved and converted."""
    model = ThreeWays()
    learned, saved = list(dict(model.named_parameters())), list(model.state_dict())
    result = model(torch.ones(3, 3))
    model.to(torch.float64)
    return {
        "an attribute that is an nn.Parameter is learned": "weight" in learned,
        "`register_parameter` takes a name as a string and is learned": "bias" in learned,
        "what `register_buffer` keeps is not learned": "offset" not in learned and not model.offset.requires_grad,
        "all three are saved": saved == ["weight", "bias", "offset"],
        "all three follow `.to(torch.float64)`": {one.dtype for one in model.state_dict().values()} == {torch.float64},
        "`forward` computes with them": result.shape == (3, 4),
    }


@claim(
    "C136",
    true="Almost. One kind of state is left out of the last list on purpose: a buffer made with `persistent=False`, "
    "for what can be computed anew, such as a mask.",
    false="Too hard: the first two lists are as said, and for most modules the third is the two together. A single "
    "option, `persistent=False`, makes the exception.",
    depends="Right. A buffer with `persistent=False` moves with the module and is not saved. If a number must survive "
    "in the file, leave that option alone.",
)
def one_kind_of_buffer_is_not_saved() -> dict[str, bool]:
    """Register two buffers, one of them not to be saved, and compare the three lists."""
    model = ThreeWays()
    parameters, buffers, before = _names(model)
    model.register_buffer("mask", torch.ones(3), persistent=False)
    _, with_mask, after = _names(model)
    return {
        "`parameters()` lists the parameters": parameters == {"weight", "bias"},
        "`buffers()` lists the buffers, whatever their kind": (buffers, with_mask) == ({"offset"}, {"offset", "mask"}),
        "with ordinary buffers `state_dict()` is the two together": before == parameters | buffers,
        "with a buffer that is `persistent=False` it is the two together": after == parameters | with_mask,
    }


def _names(model: nn.Module) -> tuple[set[str], set[str], set[str]]:
    """Return the names of the parameters, the buffers and the saved state."""
    return set(dict(model.named_parameters())), set(dict(model.named_buffers())), set(model.state_dict())
