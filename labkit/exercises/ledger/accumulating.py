"""Measurements for the topic "Gradient accumulation": when several small batches are one large one."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from labkit.exercises.claims import claim


def accumulated(layer: nn.Module, sizes: tuple[int, ...], divisor: float = 1.0) -> tuple[Tensor, nn.Module]:
    """Add up the gradients of batches of these sizes, the mean loss of each divided, and return gradient and model.

    The same weights and the same 32 samples each time: `layer` stands between two linear layers.
    """
    torch.manual_seed(2)
    model = nn.Sequential(nn.Linear(4, 6), layer, nn.Linear(6, 3))
    inputs, labels = torch.randn(32, 4) * 2 + 1, torch.randint(0, 3, (32,))
    for few_inputs, few_labels in zip(inputs.split(sizes), labels.split(sizes), strict=True):
        (functional.cross_entropy(model(few_inputs), few_labels) / divisor).backward()
    return model[0].weight.grad, model


def is_that_of_32(
    sizes: tuple[int, ...], divisor: float = 1.0, layer: type[nn.Module] = nn.Tanh, *arguments: int
) -> bool:
    """Tell whether small batches added up give the gradient of all 32 samples at once."""
    whole, _ = accumulated(layer(*arguments), (32,))
    summed, _ = accumulated(layer(*arguments), sizes, divisor)
    return torch.allclose(summed, whole, atol=1e-6)


@claim(
    "C249",
    true="Only when each loss is divided by 4. Left as they are, the four means add up to a gradient four times as "
    "large. And four batches of different sizes need their sample counts as weights.",
    false="Too hard: divided by 4, the gradients agreed to the last digits. Only the plain sum is another thing.",
    depends="Right: it depends on the division. One line makes it exact, `loss / 4` for equal batches. A last group "
    "that is not full needs a step of its own, too.",
)
def four_means_are_not_one() -> dict[str, bool]:
    """Compare the gradient of four small batches with that of all samples, divided or not, and with uneven sizes."""
    return {
        "with each loss divided by 4 the gradient is that of 32 samples": is_that_of_32((8, 8, 8, 8), 4),
        "with the losses as they are it is as well": is_that_of_32((8, 8, 8, 8)),
        "with batches of 8, 8, 8, 4 and 4, divided by 5, it is as well": is_that_of_32((8, 8, 8, 4, 4), 5),
    }


def step_of_two_batches(factor: float, uses_scaler_step: bool) -> float:
    """Add up the scaled gradients of two losses, 1 and 2 for the weight, and return how far a step at rate 1 goes."""
    weight = nn.Parameter(torch.zeros(1))
    optimizer, scaler = torch.optim.SGD([weight], lr=1.0), torch.amp.GradScaler("cpu", init_scale=factor)
    for gradient in (1.0, 2.0):
        scaler.scale((gradient * weight).sum()).backward()
    if uses_scaler_step:
        scaler.step(optimizer)
    else:
        optimizer.step()
    return -weight.item()


@claim(
    "C250",
    true="The first half is right, the scaled gradients of the batches add up. But the optimizer does not know of the "
    "factor: the step went 1024 times as far. `scaler.step(optimizer)` takes the factor out.",
    false="One half of it holds: `scaler.scale(loss).backward()` for each batch is how it is done with a scaler. The "
    "other half steps with enlarged gradients.",
    depends="Right. With a scaler it has to be `scaler.step(optimizer)` and `scaler.update()` at the end of each "
    "group; in full precision leave the scaler out altogether.",
)
def the_step_belongs_to_the_scaler() -> dict[str, bool]:
    """Accumulate two losses through a scaler and step in both ways, then without any scaler."""
    weight = nn.Parameter(torch.zeros(1))
    for gradient in (1.0, 2.0):
        (gradient * weight).sum().backward()
    return {
        "scaled losses add up, and `scaler.step` makes the step of both": step_of_two_batches(1024, True) == 3,
        "`optimizer.step()` makes the same step": step_of_two_batches(1024, False) == 3,
        "in full precision the scaler is needed for it": weight.grad.item() != 3,
    }


@claim(
    "C251",
    true="Yes. Its running statistics were updated four times, once a small batch, and the gradient was not that of 32 "
    "samples. LayerNorm, which looks at one sample at a time, made no difference.",
    false="Accumulation adds up *gradients*, after the forward pass is done. In the forward pass the layer has nothing "
    "but the small batch.",
    depends="For LayerNorm and GroupNorm the size of the batch is no matter. The sentence is about BatchNorm, which "
    "normalises by what it sees, and it sees eight samples.",
)
def batchnorm_sees_eight() -> dict[str, bool]:
    """Accumulate with BatchNorm and with LayerNorm, and count the updates of the running statistics."""
    _, model = accumulated(nn.BatchNorm1d(6), (8, 8, 8, 8), 4)
    return {
        "its statistics are updated at each small batch": model[1].num_batches_tracked.item() == 4,
        "with it the gradient is not that of 32 samples": not is_that_of_32((8, 8, 8, 8), 4, nn.BatchNorm1d, 6),
        "with LayerNorm in its place it is": is_that_of_32((8, 8, 8, 8), 4, nn.LayerNorm, 6),
    }


@claim(
    "C252",
    true="With BatchNorm there is a reason for caution: the gradient was another one. Without it nothing was lost but "
    "time, and large models are trained that way as a matter of course.",
    false="Without BatchNorm you are right, it is exact. With BatchNorm the small batches do show, and a larger batch "
    "would be better.",
    depends="Right: ask whether a layer looks across the batch. If none does, use it as you like; it costs time, and "
    "no accuracy.",
)
def harm_comes_with_batchnorm() -> dict[str, bool]:
    """Compare accumulated gradients with those of a large batch, for four kinds of layers in between."""
    kinds = {
        "BatchNorm": (nn.BatchNorm1d, 6),
        "LayerNorm": (nn.LayerNorm, 6),
        "GroupNorm": (nn.GroupNorm, 2, 6),
        "no normalisation": (nn.Tanh,),
    }
    return {
        f"with {name} it changes the gradient": not is_that_of_32((8, 8, 8, 8), 4, *layer)
        for name, layer in kinds.items()
    }
