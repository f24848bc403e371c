"""Measurements for the topic "nn.Module": the device and the dtype of what a module is given.

No GPU is needed: inside `FakeTensorMode` a tensor has a device, a dtype and a shape, and no numbers.
"""

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode

from labkit.exercises.claims import claim
from labkit.exercises.ledger.measuring import error_of


def called_on(parameters: str, inputs: str) -> str:
    """Return the error of a linear layer on one device with inputs on another; "" when it ran through."""
    with FakeTensorMode():
        layer, values = nn.Linear(3, 2, device=parameters), torch.ones(4, 3, device=inputs)
        return error_of(lambda: layer(values))


@claim(
    "C137",
    true="Yes, in both directions, and with these words. The sentence names the devices it found, so it tells you "
    "which of the two stayed behind.",
    false="You may expect PyTorch to move the data by itself. It never does: a hidden copy in each step would be slow, "
    "and so it stops with an error. Only a single number on the CPU may be mixed in.",
    depends="It does not depend on the direction, nor on the layer. The one exception is a CPU scalar of zero "
    "dimensions, and a batch of data is none.",
)
def devices_must_agree() -> dict[str, bool]:
    """Call a layer with its input on the same device and on another one."""
    message = "Expected all tensors to be on the same device"
    return {
        "parameters on CUDA, input on the CPU: this error": message in called_on("cuda", "cpu"),
        "parameters on the CPU, input on CUDA: this error": message in called_on("cpu", "cuda"),
        "both on the CPU: it runs": not called_on("cpu", "cpu"),
        "both on CUDA: it runs": not called_on("cuda", "cuda"),
    }


@claim(
    "C138",
    true="NumPy would convert, and so does a plain sum of tensors. A matrix product does not: the layer stopped with "
    "an error that names both dtypes. Call `.float()` where the data are prepared.",
    false="Right: no conversion, and so no silent loss either. `nn.Conv2d` refused as well; the message names the two "
    "dtypes, with Long for int64.",
    depends="Not on the values: small whole numbers, which float32 holds exactly, were refused like large ones. Nor on "
    "the layer, as the last line shows.",
)
def whole_numbers_are_refused() -> dict[str, bool]:
    """Give small and large whole numbers to two kinds of layer."""
    linear, convolution = nn.Linear(3, 2), nn.Conv2d(1, 2, 3)
    small, large = torch.ones(4, 3, dtype=torch.int64), torch.full((4, 3), 2**40)
    picture = torch.ones(1, 1, 5, 5, dtype=torch.int64)
    return {
        "nn.Linear accepts small int64 numbers": not error_of(lambda: linear(small)),
        "nn.Linear accepts large int64 numbers": not error_of(lambda: linear(large)),
        "nn.Conv2d accepts int64 numbers": not error_of(lambda: convolution(picture)),
    }


class Moving(nn.Module):
    """A layer that moves its input to the device and the dtype of its parameters first."""

    def __init__(self, **options: object) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3, **options)
        self.arrived: list[Tensor] = []

    def forward(self, inputs: Tensor) -> Tensor:
        """Map (batch, 3) to (batch, 3), and remember what the layer was given."""
        weight = self.layer.weight
        self.arrived.append(inputs.to(weight.device, weight.dtype))
        return self.layer(self.arrived[-1])


@claim(
    "C139",
    true="It runs, on any device and dtype, and that looks robust. The price is hidden: misplaced data are copied anew "
    "in every step, and under autocast the cast makes float32 out of the bfloat16 of the layer before.",
    false="It does keep its promise: the input below, of another device or another dtype, went through. What speaks "
    "against it is the silence. A mistake that raises no error is never mended.",
    depends="Right. It hides where data lie, and works against autocast. Move each batch once, in the training loop, "
    "and let a mismatch be the error that it is.",
)
def moving_in_forward_hides_mistakes() -> dict[str, bool]:
    """Give such a module misplaced input, twice, and put two of them in a row under autocast."""
    with FakeTensorMode():
        on_cuda, misplaced = Moving(device="cuda"), torch.ones(4, 3)
        fails = error_of(lambda: [on_cuda(misplaced), on_cuda(misplaced)])
        copies = len({id(one) for one in on_cuda.arrived if one is not misplaced})
    other_dtype = error_of(lambda: Moving()(torch.ones(4, 3, dtype=torch.float64)))
    first, second = Moving(), Moving()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        passed = first(torch.ones(4, 3))
        second(passed)
    return {
        "input on another device goes through": not fails,
        "input of another dtype goes through": not other_dtype,
        "data that lie elsewhere are moved once, not in every step": copies < 2,
        "between two such modules, what autocast made bfloat16 stays so": second.arrived[0].dtype == passed.dtype,
    }
