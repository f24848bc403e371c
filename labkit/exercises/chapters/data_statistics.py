"""Chapter 03, third part: mean and deviation of the training pictures."""

import torch
from torch import Tensor

from labkit.exercises.declaration import Misconception
from labkit.exercises.differences import Tolerance
from labkit.exercises.exercise import Exercise

OVER = (0, 2, 3)  # all axes but the channels


def _as_float32(mean: Tensor, deviation: Tensor) -> tuple[Tensor, Tensor]:
    return mean.float(), deviation.float()


def _not_divided(pictures: Tensor) -> tuple[Tensor, Tensor]:
    values = pictures.double()
    return _as_float32(values.mean(OVER), values.std(OVER))


def _all_channels_together(pictures: Tensor) -> tuple[Tensor, Tensor]:
    values = pictures.double() / 255
    return _as_float32(values.mean(), values.std())


def _for_each_place(pictures: Tensor) -> tuple[Tensor, Tensor]:
    values = pictures.double() / 255
    return _as_float32(values.mean(0), values.std(0))


def _mean_of_deviations(pictures: Tensor) -> tuple[Tensor, Tensor]:
    values = pictures.double() / 255
    return _as_float32(values.mean(OVER), values.std((2, 3)).mean(0))


def _squares_of_bytes(pictures: Tensor) -> tuple[Tensor, Tensor]:
    mean, of_squares = pictures.double().mean(OVER), (pictures**2).double().mean(OVER)
    return _as_float32(mean / 255, (of_squares - mean**2).sqrt() / 255)


def _difference_of_squares(pictures: Tensor) -> tuple[Tensor, Tensor]:
    values = pictures.float() / 255
    mean = values.mean(OVER)
    return mean, ((values**2).mean(OVER) - mean**2).sqrt()


def _drawn(generator: torch.Generator, *shape: int) -> Tensor:
    """Draw pictures of which each is darker or lighter than the next, and each channel too."""
    lightest = torch.randint(60, 256, (*shape[:2], 1, 1), generator=generator)
    return (torch.rand(shape, generator=generator) * lightest).to(torch.uint8)


def _scans(generator: torch.Generator, *shape: int) -> Tensor:
    """Draw white pages, on which one pixel in a thousand is not quite white."""
    return 255 - (torch.rand(shape, generator=generator) < 0.001).to(torch.uint8)


CHANNEL_STATISTICS = Exercise(
    name="channel_statistics",
    prompt="Return `(mean, deviation)` of each channel over all training pictures, which are uint8 of shape (N, C, H, "
    "W). Both are float32 of shape (C,), in units in which 255 is 1. They are to be right to five digits, also for "
    "pages that are nearly white. (`mean` and `std` of torch take care of that; sums of your own need float64. With so "
    "many pixels it is all the same whether you divide by n or by n - 1.)",
    stub='''def channel_statistics(pictures):
    """uint8 (N, C, H, W) -> (mean, deviation): float32 (C,) each, of values from 0 to 1."""
    return ...  # your turn''',
    solved='''def channel_statistics(pictures):
    """uint8 (N, C, H, W) -> (mean, deviation): float32 (C,) each, of values from 0 to 1."""
    values = pictures.double() / 255
    mean = values.mean(dim=(0, 2, 3))
    deviation = values.std(dim=(0, 2, 3))
    return mean.float(), deviation.float()''',
    hints=(
        "Which axes are to vanish, and which one stays? `dim` takes several axes.",
        "First `pictures.double() / 255`. All axes but the channels: 0, 2 and 3.",
        "`mean` and `std` both take `dim=(0, 2, 3)`; `float()` comes last.",
    ),
    cases=lambda generator: [
        (_drawn(generator, 40, 3, 48, 48),),
        (_drawn(generator, 30, 1, 64, 64),),
        (_scans(generator, 20, 2, 80, 80),),
    ],
    tolerance=Tolerance(relative=1e-5, absolute=1e-9),  # a white page has a deviation of 0.0001
    praise="Six numbers, from the training pictures alone. They are used for validation too.",
    misconceptions=(
        Misconception(
            "in units of 0 to 255",
            _not_divided,
            "The pictures come to be normalised when they are already fractions. With a mean of 120 all of them would "
            "become the same number, nearly -2. Divide by 255.",
        ),
        Misconception(
            "all channels together",
            _all_channels_together,
            "One number for red, green and blue: without `dim` all axes vanish, the channels too.",
        ),
        Misconception(
            "one number for each place",
            _for_each_place,
            "`dim=0` takes the mean over the pictures only, and gives a mean *picture*. It fits no other size and no "
            "crop. Take it over height and width too.",
        ),
        Misconception(
            "the mean of the deviations",
            _mean_of_deviations,
            "Each picture's deviation is measured from its own mean: that some pictures are dark and others light is "
            "lost, and the result too small. This loop is in many a forum. Deviations do not average.",
        ),
        Misconception(
            "squares that do not fit into a byte",
            _squares_of_bytes,
            "`pictures**2` is uint8 again, and 20 squared is 400 - 256 = 144 there, without a word. Convert before you "
            "compute.",
        ),
        Misconception(
            "the difference of two large numbers",
            _difference_of_squares,
            "The mean of the squares less the square of the mean is right on paper. In float32 both have seven digits, "
            "on a white page these agree, and what is left is noise, or the root of a negative number: NaN.",
        ),
    ),
)
