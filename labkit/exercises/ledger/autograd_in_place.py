"""Measurements for the topic "Autograd": what a change in place may spoil, and what it may not."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from labkit.exercises.claims import claim
from labkit.exercises.ledger.measuring import error_of

LEAF = "a leaf Variable that requires grad is being used in an in-place operation"
NEEDED = "one of the variables needed for gradient computation has been modified by an inplace operation"


def result_of(before: Callable[[Tensor], Tensor]) -> tuple[Tensor, Tensor]:
    """Return a leaf of shape (1, 2) and what `before` makes of it: a result in between, to be changed in place."""
    start = torch.tensor([[-1.0, 2.0]], requires_grad=True)
    return start, before(start)


def fails(before: Callable[[Tensor], Tensor], change: Callable[[Tensor], object]) -> bool:
    """Tell whether backward fails when a result of `before` is changed in place by `change`."""
    _, result = result_of(before)
    change(result)
    return NEEDED in error_of(result.sum().backward)


def doubled(values: Tensor) -> Tensor:
    """Return twice the values: an operation that needs neither its input nor its output for backward."""
    return values * 2


def add_one(values: Tensor) -> None:
    """Write `x += 1`, as the claims have it."""
    values += 1


@claim(
    "C111",
    true="On a leaf such a change is refused, and after `exp`, which needs its output, backward failed. But for the "
    "doubled values below all went well: nobody needed what was overwritten.",
    false="It can: a leaf refuses it, and after `exp` backward failed. You may have met the many cases where it does "
    "no harm.",
    depends="Right. Never on a leaf that requires gradients. On a result in between, as long as no operation needs "
    "the old value for its backward pass.",
)
def it_spoils_what_somebody_needs() -> dict[str, bool]:
    """Change a leaf, a value that is needed, and values that nobody needs."""
    start, _ = result_of(doubled)
    return {
        "on a leaf that requires gradients, `x += 1` is refused": LEAF in error_of(lambda: add_one(start)),
        "after `exp`, `x += 1` makes backward fail": fails(torch.exp, add_one),
        "after a doubling, `x += 1` makes backward fail": fails(doubled, add_one),
        "after a doubling, `x.squeeze_()` makes backward fail": fails(doubled, lambda values: values.squeeze_()),
    }


def after_a_change(change: Callable[[Tensor], object]) -> tuple[str, list[float]]:
    """Square the double of 2 in such a way that the double is needed, change it, and go back.

    Returns the error, and the gradient, which is 16 when all is well.
    """
    start = torch.tensor([2.0], requires_grad=True)
    double = start * 2
    square = double * double
    change(double)
    error = error_of(square.sum().backward)
    return error, [] if error else start.grad.tolist()


def write_without_recording(values: Tensor) -> None:
    """Set the values to 10 under no_grad."""
    with torch.no_grad():
        values.fill_(10)


@claim(
    "C112",
    true="An error, yes, wherever autograd could see the change, also under `no_grad`. Silent and wrong it was only "
    "through `.data`, and a change that touched nothing needed ended in neither.",
    false="Both endings exist. The error is the usual one; the silent one needs `.data`, as below.",
    depends="Right. Autograd counts the versions of each tensor and compares before it uses a saved value. Only "
    "`.data` escapes the count, so do not write through it: use `no_grad` or `detach()`.",
)
def only_data_escapes_the_count() -> dict[str, bool]:
    """Change a needed value openly, under no_grad and through .data, and a value that nobody needs."""
    openly, _ = after_a_change(lambda values: values.fill_(10))
    unrecorded, gradient_unrecorded = after_a_change(write_without_recording)
    through_data, gradient_through_data = after_a_change(lambda values: values.data.fill_(10))
    return {
        "a needed value, changed openly: an error": NEEDED in openly,
        "a needed value, changed under `no_grad`: a wrong gradient in silence": not unrecorded
        and gradient_unrecorded != [16],
        "a needed value, changed through `.data`: a wrong gradient in silence": not through_data
        and gradient_through_data != [16],
        "a value that nobody needs: one of the two": fails(doubled, add_one),
    }


@claim(
    "C113",
    true="That is the message for leaves. The commoner fault, on a result in between, has another one: *one of the "
    "variables needed for gradient computation has been modified by an inplace operation*.",
    false="It is the right message for a leaf. For results in between there is another.",
    depends="Right, and they come at different times: that of the leaf at once, the other at `backward()`, with the "
    "version that was found and the one that was expected.",
)
def two_messages_for_two_faults() -> dict[str, bool]:
    """Read the messages for a leaf and for a value that is needed."""
    start, _ = result_of(doubled)
    needed, _ = after_a_change(lambda values: values.fill_(10))
    return {
        "for a leaf it is this message": LEAF in error_of(lambda: add_one(start)),
        "for a value that backward needs it is this message": LEAF in needed,
    }


def divide_in_place(values: Tensor) -> Tensor:
    """Write `x /= x.norm()`."""
    values /= values.norm()
    return values


@claim(
    "C114",
    true="Yes. The first form overwrites x, which the division and the norm still need for their backward pass. The "
    "second makes a new tensor and leaves the old one whole.",
    false="The two look like the same calculation, and their results are equal. Their graphs are not: only after the "
    "second could backward run.",
    depends="Without gradients, under `no_grad` or on plain data, the first form is fine. For a result in between that "
    "is to be differentiated it fails.",
)
def dividing_by_the_norm_of_itself() -> dict[str, bool]:
    """Normalise doubled values in three ways, and compare the gradients with the formula."""
    weights = torch.tensor([[1.0, 3.0]])

    def gradient(normalise: Callable[[Tensor], Tensor]) -> Tensor:
        start, result = result_of(doubled)
        (normalise(result) * weights).sum().backward()
        return start.grad

    values = result_of(doubled)[1].detach()
    unit = values / values.norm()
    by_formula = 2 * (weights - unit * (unit * weights).sum()) / values.norm()
    return {
        "`x /= x.norm()` makes backward fail": NEEDED in error_of(lambda: gradient(divide_in_place)),
        "`x = x / x.norm()` gives the right gradient": torch.allclose(gradient(lambda x: x / x.norm()), by_formula),
        "so does `functional.normalize`": torch.allclose(gradient(lambda x: functional.normalize(x)), by_formula),
    }


@claim(
    "C115",
    true="You would suspect many innocent calls, and miss some that do harm: `relu_` was fine after a linear layer, "
    "and `+=`, which has no underscore, was not after `exp`.",
    false="The underscore does say *in place*, and after `exp` or a sigmoid it was the cause. As a first place to look "
    "it is not bad; as a verdict it is.",
    depends="Right. The question is: *was the old value saved for backward?* Sigmoid and `exp` save what they return; "
    "a linear layer and a doubling do not.",
)
def the_underscore_decides_nothing() -> dict[str, bool]:
    """Try in-place calls after operations that need their output, and after others that do not."""
    linear = nn.Linear(2, 2)
    return {
        "`relu_` after a sigmoid makes backward fail": fails(torch.sigmoid, torch.relu_),
        "`add_` after `exp` makes backward fail": fails(torch.exp, lambda values: values.add_(1)),
        "`relu_` after a linear layer makes backward fail": fails(linear, torch.relu_),
        "`mul_` by a number after a doubling makes backward fail": fails(doubled, lambda values: values.mul_(3)),
        "`squeeze_` after a doubling makes backward fail": fails(doubled, lambda values: values.squeeze_()),
        "what has no underscore is above suspicion, such as `+=` after `exp`": not fails(torch.exp, add_one),
    }


def convolutions(in_place: bool) -> nn.Sequential:
    """Return two convolutions with a ReLU between them, always with the same weights."""
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(inplace=in_place), nn.Conv2d(2, 1, 3))
    for weight in model.parameters():
        nn.init.uniform_(weight, -1, 1, generator=torch.Generator().manual_seed(0))
    return model


@claim(
    "C116",
    true="Yes. An optimizer writes into the weights themselves, under `no_grad`. A convolution needs its input for "
    "backward and not its output, so a ReLU may overwrite that and save the memory for it.",
    false="You have learned to distrust changes in place. In both cases nobody needs the old value any more: the "
    "gradients came out equal, and the optimizer kept the weight in its place.",
    depends="Whether it is *allowed* depends on what the operation before has saved. In these two cases it is, and the "
    "library relies on it.",
)
def the_library_works_in_place() -> dict[str, bool]:
    """Compare gradients with and without the in-place ReLU, and look at a weight before and after a step."""
    image, gradients = torch.randn(1, 1, 8, 8), []
    for in_place in (False, True):
        model = convolutions(in_place)
        model(image).square().sum().backward()
        gradients.append([weight.grad for weight in model.parameters()])
    weight = model[0].weight
    place, before = weight.data_ptr(), weight.detach().clone()
    torch.optim.SGD(model.parameters(), lr=0.1).step()
    hidden = model[0](image)
    return {
        "an optimizer's step changes a weight where it lies": weight.data_ptr() == place
        and not torch.equal(weight, before),
        "the ReLU writes into the output of the convolution": model[1](hidden).data_ptr() == hidden.data_ptr(),
        "the gradients are the same as without it": all(
            torch.allclose(plain, other) for plain, other in zip(*gradients, strict=True)
        ),
    }
