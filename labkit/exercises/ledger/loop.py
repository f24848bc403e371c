"""Measurements for the topic "Training loop": the order of its lines, and what gradients and losses hold."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from labkit.exercises.claims import claim
from labkit.exercises.ledger.measuring import error_of

BEAT = ("forward", "zero", "backward", "step")


def trained(order: tuple[str, ...], updates: int = 20) -> tuple[Tensor, float]:
    """Train a layer with the lines of the loop in this order; return its weights and its last loss.

    An order may hold "forward", "zero", "backward" and "step"; weights and data are the same each time.
    """
    torch.manual_seed(4)
    model, inputs = nn.Linear(4, 3), torch.randn(64, 4)
    labels = inputs[:, :3].argmax(dim=1)
    optimizer, losses = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.5), []
    lines = {
        "forward": lambda: losses.append(functional.cross_entropy(model(inputs), labels)),
        "zero": optimizer.zero_grad,
        "backward": lambda: losses[-1].backward(),
        "step": optimizer.step,
    }
    for _ in range(updates):
        for line in order:
            lines[line]()
    return model.weight.detach(), functional.cross_entropy(model(inputs), labels).item()


def is_the_beat(*order: str) -> bool:
    """Tell whether this order of lines gives exactly the weights of the usual one."""
    return torch.equal(trained(order)[0], trained(BEAT)[0])


START_LOSS = 1.0  # more than this is left of the loss where nothing is learned; it begins near ln 3


@claim(
    "C208",
    true="Yes. In this order the loss fell, and without one of the lines it did not settle. Zeroing may come a little "
    "earlier or later, with the same weights to the last bit.",
    false="You may know loops that zero first, or last. These are the same beat, begun at another place: the weights "
    "were identical.",
    depends="Libraries hide the beat behind a call, and some add lines, such as clipping. Inside, each of them keeps "
    "these five.",
)
def five_lines_make_a_step() -> dict[str, bool]:
    """Train in the usual order, with a line left out, and with the zeroing at other places; then switch the mode."""
    model = nn.Dropout(0.5)
    modes = [model.train().training, model.eval().training]
    without_step, without_backward = (
        trained(("forward", "zero", "backward"))[1],
        trained(("forward", "zero", "step"))[1],
    )
    return {
        "in this order the loss falls": trained(BEAT)[1] < 0.5,
        "without `backward` or `step` nothing is learned": min(without_step, without_backward) > START_LOSS,
        "without zeroing the weights are others": not is_the_beat("forward", "backward", "step"),
        "zeroing may as well be the first line or the last": is_the_beat("zero", "forward", "backward", "step")
        and is_the_beat("forward", "backward", "step", "zero"),
        "`train()` and `eval()` change the mode around it": modes == [True, False],
    }


@claim(
    "C211",
    true="One order too many is forbidden. A step before backward does use the gradients of the round before. But "
    "zeroing after the step leaves nothing stale: the weights were the same to the last bit.",
    false="Some orders do work with old gradients: with the step before backward, the weights were others. The "
    "sentence only forbids too much.",
    depends="Right. Keep the stretch from backward to step free of zeroing, and let nothing step before backward. "
    "Outside that stretch, zero where you like.",
)
def zeroing_has_more_places_than_one() -> dict[str, bool]:
    """Train with the step before backward, and with the zeroing in three other places."""
    return {
        "a step before backward works with stale gradients": not is_the_beat("forward", "step", "zero", "backward"),
        "zeroing as the first line works with stale gradients": not is_the_beat("zero", "forward", "backward", "step"),
        "zeroing after the step does": not is_the_beat("forward", "backward", "step", "zero"),
        "zeroing between backward and step steps along some gradient": trained(("forward", "backward", "zero", "step"))[
            1
        ]
        < START_LOSS,
    }


@claim(
    "C212",
    true="Yes. Before it they were None, after it each had the shape of its parameter. And the way led through the "
    "graph of the loss: detached from it, there was nowhere to go.",
    false="You may miss the model in `loss.backward()`; it is not named there. It need not be: the loss remembers by "
    "its graph what it was computed from.",
    depends="Frozen and unused parameters keep None. Of those that took part and ask for a gradient, none was left "
    "out.",
)
def the_loss_knows_the_way() -> dict[str, bool]:
    """Call backward on the loss of a small network, and on the same loss detached; then with a frozen layer."""
    model, inputs = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 1)), torch.randn(8, 4)
    empty_before = all(weight.grad is None for weight in model.parameters())
    cut = error_of(lambda: model(inputs).mean().detach().backward())
    model(inputs).mean().backward()
    filled = all(weight.grad is not None and weight.grad.shape == weight.shape for weight in model.parameters())
    model.zero_grad()
    model[2].requires_grad_(False)
    model(inputs).mean().backward()
    return {
        "`backward()` fills the `.grad` of every parameter": empty_before and filled,
        "the way leads through the graph of the loss: detached from it, it fails": "does not require grad" in cut,
        "a frozen layer keeps None, the others are filled": model[2].weight.grad is None
        and model[0].weight.grad is not None,
    }


@claim(
    "C213",
    true="`item()` gives a plain number, that is right. The loss itself kept its `grad_fn`: backward frees what the "
    "graph had stored, and leaves the graph hanging on the loss.",
    false="The second half holds: `loss.item()` is a Python float, and that is what to add up. Only the first half, "
    "the detaching, is not so.",
    depends="Right. A list of losses keeps a list of graphs, even after backward. Add up `loss.item()`, or "
    "`loss.detach()` where reading would have to wait for a GPU.",
)
def the_loss_keeps_its_graph() -> dict[str, bool]:
    """Call backward, then look at the loss and at what `item()` and `detach()` return."""
    weight = torch.ones(1, requires_grad=True)
    loss = (3 * weight).sum()
    loss.backward()
    total = loss + loss
    return {
        "`loss.item()` is a Python float": isinstance(loss.item(), float),
        "after `backward()` the loss has no `grad_fn`": loss.grad_fn is None,
        "a sum of such losses has none": total.grad_fn is None,
        "`loss.detach()` has none": loss.detach().grad_fn is None,
    }
