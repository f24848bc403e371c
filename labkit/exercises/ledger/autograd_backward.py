"""Measurements for the topic "Autograd": what backward starts from, whom it reaches, and what it leaves behind."""

import torch
from torch import Tensor

from labkit.exercises.claims import claim
from labkit.exercises.ledger.measuring import error_of

SECOND_TIME = "Trying to backward through the graph a second time"


def squared(number: float = 3.0) -> tuple[Tensor, Tensor]:
    """Return a leaf and its square, which saves the leaf for its backward pass."""
    start = torch.tensor(number, requires_grad=True)
    return start, start**2


@claim(
    "C072",
    true="It starts there, and in most small programs every leaf is a weight that learns. Yet of the three leaves "
    "below two kept None: one was frozen, and one had no part in the loss.",
    false="It does start at the loss and it does reach leaves. Only *every* is too much: a leaf must ask for a "
    "gradient, and the loss must depend on it.",
    depends="Right: every leaf that requires grad *and* is reached. If a weight's `.grad` is None after backward, look "
    "for one of the two reasons.",
)
def some_leaves_keep_none() -> dict[str, bool]:
    """Compute a loss from a learning and a frozen leaf, with a third standing by."""
    learning, idle = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    frozen = torch.ones(2)
    (learning * frozen).sum().backward()
    return {
        "a leaf that requires grad and is used gets a gradient": learning.grad is not None,
        "a leaf that does not require grad gets one": frozen.grad is not None,
        "a leaf that the loss does not depend on gets one": idle.grad is not None,
    }


@claim(
    "C073",
    true="The nodes are still there as long as you hold the loss, so it looks whole. What they need for going back is "
    "gone: the saved value could be read before, and not any more after.",
    false="Right. The saved values are freed, so that memory does not have to wait for the loss to go. The nodes "
    "remain, but they are empty, and a second pass is refused.",
    depends="With `retain_graph=True` it does stay whole, and where nothing had been saved, as in a mere sum, there "
    "is nothing to lose. Neither is the usual backward of the sentence.",
)
def saved_values_are_freed() -> dict[str, bool]:
    """Read what a power has saved before and after backward, and try a second pass."""
    _, loss = squared()
    before = error_of(lambda: loss.grad_fn._saved_self)
    loss.backward()
    return {
        "what a node had saved can still be read": before == "" == error_of(lambda: loss.grad_fn._saved_self),
        "a second backward pass still finds all that it needs": not error_of(loss.backward),
    }


@claim(
    "C074",
    true="Yes. That is why the forward pass stands *inside* the loop. Leave `retain_graph=False`, which is the "
    "default, unless you have a reason.",
    false="You may think of frameworks in which a graph is built once and fed many times. Here the second pass through "
    "the old nodes was refused, and the next forward pass brought nodes of its own.",
    depends="`retain_graph=True` makes an exception on request. By itself it is as stated, once and no more.",
)
def one_walk_and_a_new_graph() -> dict[str, bool]:
    """Walk twice through one graph, then compute forward again and walk through the new one."""
    start, loss = squared()
    loss.backward()
    again = start**2
    return {
        "a second walk through it is refused": error_of(loss.backward) != "",
        "the next forward pass makes new nodes": again.grad_fn is not loss.grad_fn,
        "these can be walked through": not error_of(again.backward),
    }


@claim(
    "C079",
    true="Yes, in these words. Most often it means that something from an earlier iteration is still in the loss: a "
    "hidden state without `detach()`, or a sum of old losses.",
    false="Perhaps your second call went through. Then nothing on the way had been saved, as in a sum; here a power "
    "had saved its input, and the call was refused.",
    depends="There is the exception of a graph in which no node had saved anything, such as a mere sum. A loss of a "
    "real network is never of that kind.",
)
def the_second_backward_says_so() -> dict[str, bool]:
    """Call backward twice, with and without retain_graph."""
    _, loss = squared()
    loss.backward()
    start, kept = squared()
    kept.backward(retain_graph=True)
    return {
        "without `retain_graph=True` the second call raises these words": SECOND_TIME in error_of(loss.backward),
        "with it, the second call runs and adds its gradient": not error_of(kept.backward) and start.grad.item() == 12,
    }


@claim(
    "C094",
    true="Such a loss is the usual case, as `mean()` and all ready-made losses give that shape. It is not the only "
    "one: (1,) and (1, 1) were accepted as well.",
    false="One number is needed indeed, two elements were refused. What goes too far is the shape.",
    depends="Right: one element, of whatever shape. The message for more is *grad can be implicitly created only for "
    "scalar outputs*.",
)
def one_element_of_any_shape() -> dict[str, bool]:
    """Call backward on results of four shapes."""

    def refused(*shape: int) -> bool:
        return error_of((torch.ones(shape, requires_grad=True) * 2).backward) != ""

    return {
        "a loss of shape torch.Size([]) is accepted": not refused(),
        "a result of two elements is refused": refused(2),
        "one element in shape (1,) is refused": refused(1),
        "one element in shape (1, 1) is refused": refused(1, 1),
    }


def two_results(inputs: Tensor) -> Tensor:
    """Return the product of two numbers and the sum of their squares."""
    return torch.stack([inputs.prod(), inputs.square().sum()])


@claim(
    "C095",
    true="Yes. `gradient` holds one weight for each result, and what arrives is this vector times the Jacobian: the "
    "gradient of the weighted sum. A scalar loss has the weight 1 put in for it.",
    false="You may have called `.sum().backward()`, which works without: the sum is a scalar, and amounts to a vector "
    "of ones. The vector itself was refused.",
    depends="A vector of a single element needs none, but that is a scalar in disguise. For two results it was "
    "needed, and its numbers decided what came out.",
)
def a_vector_needs_weights() -> dict[str, bool]:
    """Call backward on two results with and without weights, and compare with the whole Jacobian."""
    start, weights = torch.tensor([2.0, 3.0], requires_grad=True), torch.tensor([1.0, 10.0])
    jacobian = torch.autograd.functional.jacobian(two_results, start.detach())
    unweighted = error_of(two_results(start).backward)
    two_results(start).backward(gradient=weights)
    return {
        "without `gradient` it is refused": "only for scalar outputs" in unweighted,
        "with it, the weights times the Jacobian arrive": torch.allclose(start.grad, weights @ jacobian),
    }
