"""Measurements for the topic "Mixed precision": what half precision gives, and what it takes."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from labkit.exercises.claims import claim
from labkit.exercises.ledger.measuring import bytes_kept_for_backward, warnings_of

HALF, BRAIN = torch.float16, torch.bfloat16


def is_deprecated(action: Callable[[], object]) -> bool:
    """Run `action` and tell whether it warned that it is going to vanish."""
    return any(text.startswith("FutureWarning") for text in warnings_of(action))


@claim(
    "C243",
    true="So it stood in every tutorial for years, and it still runs. But both names warn now. Write "
    "`torch.autocast(device_type, dtype=…)` and `torch.amp.GradScaler(device)`, which take any device.",
    false="Yes, not any more. The new names gave no such warning, and they name the device, so that the same code runs "
    "on a CPU as well.",
    depends="It would depend if only one of the two were old. Both warn, whatever the device; what lasted is the "
    "idea, a block for the forward pass and a scaler for the loss.",
)
def the_old_names_warn() -> dict[str, bool]:
    """Use the names with `cuda` in them and the ones without, and listen for warnings."""
    old_block, old_scaler = torch.cuda.amp.autocast, torch.cuda.amp.GradScaler
    new_ones_warn = is_deprecated(lambda: (torch.autocast("cpu", dtype=BRAIN), torch.amp.GradScaler("cpu")))
    return {
        "`torch.cuda.amp.autocast()` is taken without a warning": not is_deprecated(old_block),
        "`torch.cuda.amp.GradScaler()` is taken without a warning": not is_deprecated(old_scaler),
        "the names without `cuda` are no way out, as they warn too": new_ones_warn,
    }


def gradient_of_a_faint_loss(dtype: torch.dtype, scales: bool) -> tuple[float, bool]:
    """Compute a layer in `dtype` and a loss so small that the gradient inside is 1e-8; return gradient and update.

    The gradient is what `.grad` holds when the scaler has taken its factor out again; the second value tells whether
    an optimizer moved the weight.
    """
    weight = nn.Parameter(torch.ones(1, 1))
    optimizer, scaler = torch.optim.SGD([weight], lr=1e6), torch.amp.GradScaler("cpu", enabled=scales)
    with torch.autocast("cpu", dtype=dtype):
        loss = functional.linear(torch.ones(1, 1), weight).float().sum() * 1e-8
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    return weight.grad.item(), weight.item() != 1


@claim(
    "C244",
    true="Yes. The layer computed in float16, the loss in float32. A gradient of 1e-8 is rounded to 0 on the way "
    "through float16; multiplied before and divided after, it arrived.",
    false="You may think that everything is cut to half precision, or that the scaler changes the training. Only part "
    "is computed so, and the factor is taken out again before the step.",
    depends="With bfloat16 the scaler is not needed, as its range is that of float32. The sentence gives the reason "
    "for the scaler, and where that reason holds, in float16, all of it does.",
)
def part_in_half_and_a_scaled_loss() -> dict[str, bool]:
    """Look at the dtypes inside autocast, at a tiny gradient with and without a scaler, and at one that overflows."""
    with torch.autocast("cpu", dtype=HALF):
        result = nn.Linear(4, 3)(torch.ones(2, 4))
        loss = functional.cross_entropy(result, torch.tensor([0, 1]))
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    multiplied = scaler.scale(torch.ones(1)).item() == 1024
    lost, arrived = gradient_of_a_faint_loss(HALF, False)[0], gradient_of_a_faint_loss(HALF, True)[0]
    weight = nn.Parameter(torch.ones(1))
    weight.grad = torch.full((1,), float("inf"))
    scaler.step(torch.optim.SGD([weight], lr=1.0))
    scaler.update()
    return {
        "a part of the forward pass is computed in half precision: the layer is, the loss is not": result.dtype == HALF
        and loss.dtype == torch.float32,
        "the scaler multiplies the loss": multiplied,
        "without it a gradient of 1e-8 vanishes, with it the gradient arrives": lost == 0
        and abs(arrived / 1e-8 - 1) < 0.1,
        "after an overflow it skips the step and lowers its scale": weight.item() == 1 and scaler.get_scale() == 512,
    }


@claim(
    "C245",
    true="With float16, yes. With bfloat16 the same tiny gradient arrived without any scaler, since bfloat16 has the "
    "range of float32. It is the usual choice today, and the plain two lines serve it.",
    false="With float16 they do have to: without the scaler the gradient was rounded to 0 and the weight did not "
    "move. It is bfloat16 that gets along without.",
    depends="Right: float16 has a short range and needs the scaler, bfloat16 does not. With both, `backward()` stands "
    "outside the autocast block.",
)
def the_scaler_belongs_to_float16() -> dict[str, bool]:
    """Train a weight by a tiny gradient in both kinds of half precision, with and without a scaler."""
    moved = {
        (dtype, scales): gradient_of_a_faint_loss(dtype, scales)[1] for dtype in (HALF, BRAIN) for scales in (0, 1)
    }
    return {
        "with float16 the weight moves only with the scaler": not moved[HALF, False] and moved[HALF, True],
        "with bfloat16 the weight moves only with the scaler": not moved[BRAIN, False] and moved[BRAIN, True],
    }


def kept(width: int, batch: int, uses_half: bool) -> int:
    """Return the bytes that the forward pass of four layers keeps for backward, copies of weights included."""
    model = nn.Sequential(*(nn.Sequential(nn.Linear(width, width), nn.ReLU()) for _ in range(4)))
    with torch.autocast("cpu", dtype=BRAIN, enabled=uses_half):
        return bytes_kept_for_backward(model, torch.ones(batch, width))


def bytes_that_stay(uses_half: bool) -> int:
    """Take one step and return the bytes of the weight, its gradient and the optimizer's state."""
    model = nn.Linear(8, 8)
    optimizer = torch.optim.Adam(model.parameters())
    with torch.autocast("cpu", dtype=BRAIN, enabled=uses_half):
        loss = model(torch.ones(2, 8)).sum()
    loss.backward()
    optimizer.step()
    weight = model.weight
    return sum(one.nbytes for one in (weight, weight.grad, optimizer.state[weight]["exp_avg"]))


@claim(
    "C247",
    true="Often, for pictures and large batches: activations dominate there, and they take about half. Weights, "
    "gradients and the optimizer's state stayed as they were, and with a tiny batch the memory even grew.",
    false="Too hard: with a large batch the values kept for backward took about half the bytes. They are only one of "
    "the four things that fill the memory.",
    depends="Right. It halves what grows with the batch, and nothing of what grows with the model. Ask which of the "
    "two fills your memory.",
)
def it_halves_the_activations() -> dict[str, bool]:
    """Count bytes with and without autocast: kept for backward, by batch; and those that stay between the steps."""
    return {
        "with a large batch, backward needs less memory": kept(16, 512, True) < 0.7 * kept(16, 512, False),
        "with a batch of 1 and wide layers, backward needs less memory": kept(64, 1, True) < kept(64, 1, False),
        "weights, gradients and the optimizer's state take less": bytes_that_stay(True) < bytes_that_stay(False),
    }


def accuracy_after_training(inputs: Tensor, labels: Tensor, uses_half: bool) -> float:
    """Train a small network in 60 steps, the first three quarters of the samples to learn; score the others."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 5))
    optimizer, cut = torch.optim.Adam(model.parameters(), lr=0.01), len(inputs) * 3 // 4
    for _ in range(60):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=BRAIN, enabled=uses_half):
            loss = functional.cross_entropy(model(inputs[:cut]), labels[:cut])
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        return (model(inputs[cut:]).argmax(1) == labels[cut:]).double().mean().item()


@claim(
    "C248",
    true="Yes, as a rule, and the run below is one more case of it. One reason: losses "
    "are computed in float32, also from logits in half precision, and the weights stay in float32 too.",
    false="Three digits sound like a loss. But training is full of noise that is far larger than this rounding, and "
    "the loss is computed in float32: the two accuracies came out within two points.",
    depends="There are networks that suffer, so one run in full precision for comparison is well spent. The sentence "
    "says *in practice* and *hardly*, and so it is for ordinary ones.",
)
def rounding_hardly_harms() -> dict[str, bool]:
    """Train the same network with and without bfloat16, and look at the dtypes of the dtype of the loss."""
    labels = torch.randint(0, 5, (800,))
    inputs = torch.randn(5, 20)[labels] + torch.randn(800, 20)
    full, half = (accuracy_after_training(inputs, labels, uses_half) for uses_half in (False, True))
    with torch.autocast("cpu", dtype=HALF):
        loss = functional.cross_entropy(torch.zeros(1, 2, dtype=HALF), torch.tensor([0]))
    return {
        "trained in full precision, the network is good": full > 0.8,
        "trained with bfloat16, it is as good to two points in a hundred": abs(half - full) < 0.02,
        "the loss is computed in float32, also from logits in half precision": loss.dtype == torch.float32,
    }
