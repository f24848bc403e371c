"""Measurements for the topic "Autograd": cutting the graph, with `detach()` and `item()`, and two networks at odds."""

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional

from labkit.exercises.claims import claim
from labkit.exercises.ledger.measuring import error_of, graph_nodes, shortest_seconds


def adversaries() -> tuple[nn.Linear, nn.Linear, Tensor]:
    """Return a generator, a discriminator, and a batch that the generator made."""
    generator, discriminator = nn.Linear(2, 3), nn.Linear(3, 1)
    return generator, discriminator, generator(torch.randn(4, 2))


def has_gradients(network: nn.Module) -> bool:
    """Tell whether a gradient that is not all zero has arrived at each weight of a network."""
    return all(weight.grad is not None and bool(weight.grad.any()) for weight in network.parameters())


def taken_for_true(logits: Tensor) -> Tensor:
    """Return the loss of a generator whose pictures shall be taken for true; minus the logits: for false."""
    return functional.softplus(-logits).mean()


@claim(
    "C078",
    true="Two passes through one graph, yes. But the GAN below made both its updates from one generated batch without "
    "it: the discriminator was given `made.detach()`, and so left the generator's graph alone.",
    false="It does allow several passes, and they add up. Only the example fails: a GAN gets on without.",
    depends="Right. Before you write it, ask two things: can the losses be added, for one pass? Can something be "
    "detached, as in a GAN? What remains are rare cases.",
)
def a_gan_does_without() -> dict[str, bool]:
    """Walk twice through one graph, and make both updates of a GAN without retaining anything."""
    start = torch.tensor(3.0, requires_grad=True)
    square = start**2
    square.backward(retain_graph=True)
    second = error_of(square.backward)
    generator, discriminator, made = adversaries()
    optimizer = torch.optim.SGD(discriminator.parameters(), lr=0.1)
    taken_for_true(-discriminator(made.detach())).backward()
    optimizer.step()
    failed = error_of(lambda: taken_for_true(discriminator(made)).backward())
    return {
        "it allows several backward passes through one graph": not second and start.grad.item() == 12,
        "the two updates of a GAN on one generated batch need it": failed != "" or not has_gradients(generator),
    }


@claim(
    "C087",
    true="A new tensor and cut off, yes. But new is only the description: the numbers are the same memory, and a write "
    "to the detached one changed the original.",
    false="It is cut off indeed: no `grad_fn`, no `requires_grad`. What it lacks is memory of its own.",
    depends="Right. For reading, `detach()` is free of cost and enough. When you mean to change the numbers, write "
    "`detach().clone()`.",
)
def cut_off_on_the_same_memory() -> dict[str, bool]:
    """Detach a result, look at both, and write to the detached one."""
    result = torch.ones(2, requires_grad=True) * 2
    detached = result.detach()
    cut_off = detached.grad_fn is None and not detached.requires_grad
    detached[0] = 99
    return {
        "it is another tensor": detached is not result,
        "it is cut off from the graph": cut_off and result.grad_fn is not None,
        "its numbers are its own": result[0].item() != 99,
    }


@claim(
    "C088",
    true="You have the right call at the wrong place. The gradient that comes *through* the discriminator is all that "
    "the generator learns from; with its output detached, nothing arrived.",
    false="Right. Detach while the *discriminator* is updated. While the generator is, let the gradient pass through "
    "the discriminator, whose own gradients you then clear or never compute.",
    depends="Detaching does belong into a GAN, but into the other update. In the generator's own it leaves nothing to "
    "learn from.",
)
def a_detached_generator_learns_nothing() -> dict[str, bool]:
    """Compute the generator's loss with its output detached, and with the gradient passing through."""
    generator, discriminator, made = adversaries()
    taken_for_true(discriminator(made.detach())).backward()
    learns = has_gradients(generator)
    taken_for_true(discriminator(made)).backward()
    return {
        "with its output detached, the generator gets a gradient": learns,
        "without detaching, what flows back through the discriminator is nothing to the generator": not has_gradients(
            generator
        ),
    }


@claim(
    "C089",
    true="Yes. The sum of five losses held on to the graphs of all five steps, and so to what these had saved. The "
    "same holds for lists of losses or outputs.",
    false="You may rely on `backward()`, which frees what was saved. That helps after training steps; the nodes stay "
    "all the same, and in an evaluation without `no_grad` nobody calls backward.",
    depends="Under `no_grad` there is no graph to keep, true. For a loss you train on there is one, and each step "
    "added to what the sum held.",
)
def stored_losses_keep_their_graphs() -> dict[str, bool]:
    """Add up the losses of five steps as they are, detached, and as numbers."""
    model, inputs = nn.Linear(3, 1), torch.ones(2, 3)
    losses = [model(inputs).square().mean() for _ in range(5)]
    held = [len(graph_nodes(torch.stack(losses[:count]).sum())) for count in range(1, 6)]
    detached = sum(loss.detach() for loss in losses)
    return {
        "each further loss in a sum adds nodes that are kept": held == sorted(set(held)),
        "a list keeps the graph of each loss": all(len(graph_nodes(loss)) > 1 for loss in losses),
        "a detached value keeps no graph": detached.grad_fn is None,
        "`item()` gives a plain number": isinstance(losses[0].item(), float),
    }


@claim(
    "C090",
    true="Yes. `item()` makes a number of Python, so there must be one. `detach()` gives a tensor again, and does not "
    "ask for its shape. For several numbers there is `tolist()`.",
    false="Perhaps you called `item()` on a tensor of shape (1, 1), which works: it holds one number. Two were "
    "refused.",
    depends="The shape is of no matter to `item()` either, as long as there is one element. That is what *one number* "
    "says.",
)
def one_number_or_any_shape() -> dict[str, bool]:
    """Call both on tensors of several shapes."""
    shapes = [(), (1,), (2,), (2, 3), (0,), (1, 1)]
    works = {shape: not error_of(torch.ones(shape).item) for shape in shapes}
    return {
        "`item()` works for one element and for nothing else": [s for s in shapes if works[s]] == [(), (1,), (1, 1)],
        "`detach()` works for each shape": all(torch.ones(shape).detach().shape == shape for shape in shapes),
    }


@claim(
    "C091",
    true="On the CPU it is: it makes a number where `detach()` makes a tensor. On a GPU the number may not be computed "
    "yet; `item()` has to wait for it, and with it your program.",
    false="On the CPU it took less time than `detach()`. You may think of a GPU, where it waits for all the work that "
    "is queued; then the sentence is wrong indeed.",
    depends="Right. `detach()` never needs the number, as the tensor without numbers shows, and `item()` always does. "
    "On a GPU add up detached losses, and call `item()` once in a while.",
)
def cheap_where_the_number_is_there() -> dict[str, bool]:
    """Time both on the CPU, and call both on a CUDA tensor without numbers, which has nothing to wait for."""
    loss = torch.ones(2, requires_grad=True).sum()
    with FakeTensorMode():
        on_gpu = torch.ones(2, device="cuda").sum()
        errors = error_of(on_gpu.item), error_of(on_gpu.detach)
    item, detach = (
        shortest_seconds(lambda call=call: [call() for _ in range(500)]) for call in (loss.item, loss.detach)
    )
    return {
        "on the CPU it takes less time": item < detach,
        "on a GPU it gets on, like `detach()`, while the number is not there yet": errors == ("", ""),
    }


@claim(
    "C110",
    true="Yes. With two gradients in hand you can see that the tasks pull apart: their cosine was below zero, while a "
    "single gradient of the sum shows nothing of it. And a `detach()` kept one loss out of the other network.",
    false="For most trainings a single `loss.backward()` is all you need, and that may be your experience. These are "
    "the two cases where more control changed what was learned.",
    depends="Whether your tasks conflict does depend on them. That control *helps* in these two cases is what the "
    "sentence says, and both could be measured.",
)
def separate_gradients_show_a_conflict() -> dict[str, bool]:
    """Compare the gradients of two tasks on shared weights, and keep a discriminator's loss from a generator."""
    shared = torch.zeros(2, requires_grad=True)
    tasks = [(shared - torch.tensor(goal)).square().sum() for goal in ([1.0, 1.0], [-1.0, 0.5])]
    first, second = (torch.autograd.grad(task, shared)[0] for task in tasks)
    halfway = shared.detach() - 0.1 * first
    generator, discriminator, made = adversaries()
    taken_for_true(-discriminator(made.detach())).backward()
    return {
        "the cosine of two gradients shows that the tasks conflict": bool(
            functional.cosine_similarity(first, second, dim=0) < 0
        ),
        "a step for the one task does harm to the other": bool(
            (halfway - torch.tensor([-1.0, 0.5])).square().sum() > tasks[1]
        ),
        "`detach()` keeps the discriminator's loss from the generator": not has_gradients(generator)
        and has_gradients(discriminator),
    }
