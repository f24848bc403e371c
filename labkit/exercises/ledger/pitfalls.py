"""Measurements for the topic "Pitfalls and error messages": devices, shapes, and what the messages say."""

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from labkit.exercises.claims import claim
from labkit.exercises.ledger.measuring import Observer, error_of

SAME_DEVICE = "Expected all tensors to be on the same device"


def device_error(model: str, inputs: str, targets: str) -> str:
    """Return the error of a loss, without numbers, when model, inputs and targets are on these devices."""
    with FakeTensorMode():
        layer, values = nn.Linear(2, 2, device=model), torch.ones(3, 2, device=inputs)
        return error_of(lambda: functional.mse_loss(layer(values), torch.ones(3, 2, device=targets)))


@claim(
    "C227",
    true="Yes. Each of the three can be the one that was left behind, and the message names both devices. Print "
    "`.device` of each, in this order.",
    false="Whoever has moved the model often stops looking there. The batch and the targets have to move as well; any "
    "one of the three raised it.",
    depends="On a machine without a GPU you will not meet it. With one, each of the three places alone was enough.",
)
def each_of_three_can_be_left_behind() -> dict[str, bool]:
    """Leave one of the three on the CPU, while the others are on CUDA as tensors without numbers."""
    left_behind = {
        "the input": device_error("cuda", "cpu", "cuda"),
        "the parameters": device_error("cpu", "cuda", "cuda"),
        "what goes into the loss": device_error("cuda", "cuda", "cpu"),
    }
    return {
        f"{part} left on the CPU raises it, with both devices named": SAME_DEVICE in error
        and "cuda:0" in error
        and "cpu" in error
        for part, error in left_behind.items()
    } | {"with all three on one device there is no error": device_error("cuda", "cuda", "cuda") == ""}


@claim(
    "C228",
    true="It was the short way for years, one line. Its own documentation now sends you to `DistributedDataParallel`, "
    "one process a GPU, and says so for a single machine too.",
    false="Yes, not any more: the documentation of `DataParallel` itself recommends the other, also where there is "
    "only one machine.",
    depends="It still runs, so for a quick try it may do. As advice it is out of date, whatever the number of "
    "machines.",
)
def its_own_documentation_sends_you_on() -> dict[str, bool]:
    """Read what the installed torch writes about `DataParallel`."""
    text = " ".join(nn.DataParallel.__doc__.split())
    recommends_other = "recommended to use" in text and "DistributedDataParallel" in text
    return {
        "its documentation names nothing better": not recommends_other,
        "it is meant at least for a single machine": "even if there is only a single" not in text,
    }


@claim(
    "C229",
    true="One of the three does it: `.to(device)`. `pin_memory` and `non_blocking` are about the *way* of a copy, "
    "never about the place, and a check in `forward` only hides what the loop forgot.",
    false="`.to(device)` is in the list, and it is the cure. The rest of the list does not move anything.",
    depends="Right: move the batch by `.to(device)` and the error is gone, with or without the other two. They are for "
    "speed.",
)
def one_of_the_three_cures() -> dict[str, bool]:
    """Load a batch with pinned memory asked for, and order copies with and without `non_blocking`."""
    loader = DataLoader(TensorDataset(torch.ones(4, 2)), batch_size=2, pin_memory=True)
    batch = next(iter(loader))[0]
    with Observer() as observer:
        places = [batch.to("meta", non_blocking=flag).device for flag in (True, False)]
    return {
        "`.to(device)` cures it": device_error("cuda", "cpu", "cuda") != "" == device_error("cuda", "cuda", "cuda"),
        "`pin_memory=True` moves a batch off the CPU": batch.device.type != "cpu",
        "`non_blocking=True` brings it somewhere else than without": bool(observer.operations)
        and places[0] != places[1],
    }


@claim(
    "C235",
    true="You know it from older answers on the web. Today the same mistake reads 'mat1 and mat2 shapes cannot be "
    "multiplied (64x100 and 128x10)'; search for that.",
    false="Yes, the wording is another one now. What it means stayed: the flattened size is not the `in_features` of "
    "the layer.",
    depends="The two shapes still stand in it. The words around them changed, so a search for the old sentence leads "
    "to old pages.",
)
def the_words_are_others() -> dict[str, bool]:
    """Give a layer for 128 inputs a batch with 100, and read the error."""
    error = error_of(lambda: nn.Linear(128, 10)(torch.ones(64, 100)))
    return {
        "the error speaks of a size mismatch": "size mismatch" in error,
        "it names the two m1 and m2": "m1:" in error or "m2:" in error,
        "it writes their shapes as [64 x 100] and [128 x 10]": "[64 x 100]" in error
        or "(64x100 and 128x10)" not in error,
    }


class ForgetsTheBatch(nn.Module):
    """A model with a mistake: it flattens the batch together with the picture."""

    def forward(self, pictures: Tensor) -> Tensor:
        """Return one row for all pictures, where there should be one for each."""
        return pictures.reshape(1, -1)


@claim(
    "C236",
    true="The habit is right, and it costs seconds. The shape is that of somebody else's pictures: a sound model for "
    "grey 28×28 failed on it. And a batch of one hides what goes wrong between samples.",
    false="Trying a dummy first is worth keeping: it found a layer that does not fit at once. Take only your own "
    "shape.",
    depends="Right: a dummy, yes, but of your own channels and sizes, and with two samples or more.",
)
def the_shape_must_be_your_own() -> dict[str, bool]:
    """Try two sound models and two mistaken ones on dummies."""
    grey = nn.Sequential(nn.Conv2d(1, 4, 3), nn.Flatten(), nn.Linear(4 * 26 * 26, 10))
    unfit = nn.Sequential(nn.Conv2d(1, 4, 3), nn.Flatten(), nn.Linear(100, 10))
    own = torch.ones(2, 1, 28, 28)
    rows = [len(ForgetsTheBatch()(torch.ones(size, 1, 28, 28))) == size for size in (1, 2)]
    return {
        "a dummy finds a layer that does not fit": error_of(lambda: unfit(own)) != "" == error_of(lambda: grey(own)),
        "one of shape (1, 3, 224, 224) tells sound from unfit also for grey 28×28": error_of(
            lambda: grey(torch.ones(1, 3, 224, 224))
        )
        == "",
        "a batch of one shows that a model mixes its samples up": not rows[0] and not rows[1],
    }


@claim(
    "C240",
    true='The formula is right, and it need not be you who applies it: `padding="same"` kept 32 as 32. And sizes '
    "matter only to a linear layer behind; adaptive pooling takes any.",
    false="The formula is a good one to know: for each kernel below it gave the size that came out. Only *must* is "
    "wrong.",
    depends="Right: compute it where you like, or let the layer do it. With a stride other than 1 the word 'same' is "
    "refused, and the formula comes back.",
)
def same_does_it_for_you() -> dict[str, bool]:
    """Compare the formula with what comes out, and build the same without any computation."""
    pictures = torch.ones(1, 3, 32, 32)

    def size(kernel: int, **options: int | str) -> int:
        return nn.Conv2d(3, 4, kernel, **options)(pictures).shape[-1]

    cases = [(kernel, padding, stride) for kernel in (3, 5) for padding in (0, 1, 2) for stride in (1, 2)]
    holds = all(size(k, padding=p, stride=s) == (32 - k + 2 * p) // s + 1 for k, p, s in cases)
    pooled = nn.Sequential(nn.Conv2d(3, 4, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2))
    return {
        "the formula gives the size that comes out": holds,
        'only padding computed by hand keeps 32 as 32: `padding="same"` does not': size(5, padding="same") != 32,
        "without the right padding the linear layer does not fit, in any network": error_of(lambda: pooled(pictures))
        != "",
    }


@claim(
    "C241",
    true="Yes: whatever came in, 4×4 came out, and the linear layer fitted. The pictures only have to be large enough "
    "for the layers before.",
    false="You may think of the linear layer, which wants a fixed number of inputs. It gets it: the pooling divides "
    "any picture into 4×4 fields.",
    depends="A picture can be too small for the convolutions and poolings *before*. For all that reach this layer, it "
    "fits.",
)
def four_by_four_from_any_size() -> dict[str, bool]:
    """Send pictures of several sizes through, one of them too small, and the same without the layer."""
    before = (nn.Conv2d(3, 8, 3), nn.MaxPool2d(2))
    network = nn.Sequential(*before, nn.AdaptiveAvgPool2d((4, 4)), nn.Flatten(), nn.Linear(8 * 16, 2))
    fixed = nn.Sequential(*before, nn.Flatten(), nn.Linear(8 * 16, 2))

    def errors(model: nn.Module) -> list[str]:
        return [error_of(lambda s=shape: model(torch.ones(2, 3, *s))) for shape in ((10, 10), (32, 32), (45, 61))]

    return {
        "pictures of 10×10, 32×32 and 45×61 are accepted": errors(network) == [""] * 3,
        "without the layer only one of the three sizes is": errors(fixed).count("") == 1,
        "too small for the layers before it: an error": error_of(lambda: network(torch.ones(2, 3, 2, 2))) != "",
    }
