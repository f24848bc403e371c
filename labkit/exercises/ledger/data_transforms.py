"""Measurements for the topic "Data": transforms of pictures, and reading them."""

import io
import time

import numpy
import torch
from PIL import Image, ImageFilter
from torch import Tensor
from torchvision import transforms
from torchvision.transforms import v2

from labkit.exercises.claims import claim
from labkit.exercises.ledger.measuring import error_of, shortest_seconds, warnings_of


def picture(width: int, height: int) -> Image.Image:
    """Return a picture of noise, the same each time."""
    pixels = numpy.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=numpy.uint8)
    return Image.fromarray(pixels)


@claim(
    "C168",
    true="So it was for years, and for a uint8 picture it still does that. Today's version warns that it is going "
    "away, and an array of floats passed through it unscaled.",
    false="Right: not any more. `ToImage()` and `ToDtype(torch.float32, scale=True)` do the same in two steps whose "
    "names say what they do.",
    depends="Fair for uint8 pictures: those it still brings to [0, 1]. As advice it is outdated, as the warning "
    "says in so many words; write the two steps.",
)
def to_tensor_is_on_its_way_out() -> dict[str, bool]:
    """Make the old transform, apply both ways to one picture, and give the old one an array of floats."""
    image = picture(8, 6)
    modern = v2.Compose([v2.ToImage(), v2.ToDtype(torch.float32, scale=True)])
    array = numpy.full((6, 8, 3), 255.0, dtype=numpy.float32)
    warned = warnings_of(v2.ToTensor)
    return {
        "its present version is made without a warning": not any("deprecated" in text for text in warned),
        "it can do what `ToImage` and `ToDtype` cannot": not torch.allclose(
            transforms.ToTensor()(image), modern(image).as_subclass(Tensor)
        ),
        "an array of floats up to 255 comes out in [0, 1] too": transforms.ToTensor()(array).max().item() <= 1,
    }


@claim(
    "C169",
    true="It runs, and for square pictures nothing is wrong. A picture of 60 by 40 became square, however, and what "
    "was round in it is round no more.",
    false="The steps are the usual ones and run as they stand. Only the pair of numbers is a trap: it sets width *and* "
    "height.",
    depends="Right. `Resize(224)` sets the shorter side and keeps the proportions; then `CenterCrop(224)` in "
    "evaluation, `RandomResizedCrop(224)` in training.",
)
def a_pair_of_sizes_distorts() -> dict[str, bool]:
    """Send a picture of 60 by 40 through the pipeline, and resize it with one number for comparison."""
    image = picture(60, 40)
    steps = [transforms.Resize((224, 224)), transforms.ToTensor(), transforms.Normalize([0.5] * 3, [0.25] * 3)]
    with_pair, with_one = (transforms.Resize(size)(image).size for size in ((224, 224), 224))
    return {
        "the pipeline runs and gives (3, 224, 224)": transforms.Compose(steps)(image).shape == (3, 224, 224),
        "the picture keeps its proportions": with_pair[0] * 40 == with_pair[1] * 60,
        "`Resize(224)`, with one number, would distort it as well": with_one[0] * 40 != with_one[1] * 60,
    }


@claim(
    "C172",
    true="Tensors are allowed, not asked for: a tuple and a list were taken, and gave the very same numbers.",
    false="Right. Most programs pass tuples. `Normalize` makes tensors of them itself.",
    depends="Only their number matters, one for each channel. Tuple, list and tensor made no difference at all.",
)
def any_sequence_will_do() -> dict[str, bool]:
    """Normalise one picture with a tensor, a tuple and a list."""
    image, numbers = torch.rand(3, 4, 4), ((0.5, 0.4, 0.3), (0.2, 0.3, 0.4))
    expected = transforms.Normalize(*map(torch.tensor, numbers))(image)

    def refused(kind: type) -> bool:
        return error_of(lambda: transforms.Normalize(*map(kind, numbers))(image)) != ""

    def differs(kind: type) -> bool:
        return not torch.equal(transforms.Normalize(*map(kind, numbers))(image), expected)

    return {
        "a tuple is refused": refused(tuple),
        "a list is refused": refused(list),
        "a tuple or a list gives another result": differs(tuple) or differs(list),
    }


@claim(
    "C173",
    true="Yes, for pictures that PIL has read. The first number went to the first channel, and that was the red one.",
    false="If your pictures come from OpenCV, blue is first, and you would have to turn either the picture or the "
    "numbers round. For pictures of PIL and torchvision the order is red, green, blue.",
    depends="Strictly, the numbers follow the channels of the picture, whatever these are. In torchvision's world "
    "these are red, green, blue, and nothing warns you of another order.",
)
def the_first_number_is_for_red() -> dict[str, bool]:
    """Normalise a picture that is purely red, with the numbers in order and turned round."""
    red = transforms.ToTensor()(Image.new("RGB", (2, 2), (255, 0, 0)))
    mean, deviation = (0.9, 0.5, 0.1), (1.0, 1.0, 1.0)
    in_order = transforms.Normalize(mean, deviation)(red)[:, 0, 0]
    turned = transforms.Normalize(mean[::-1], deviation)(red)[:, 0, 0]
    return {
        "red is the first channel of a picture that PIL has read": red[:, 0, 0].tolist() == [1, 0, 0],
        "the first number belongs to red": torch.allclose(in_order, torch.tensor([0.1, -0.5, -0.1])),
        "in another order the result is another, without any error": not torch.allclose(in_order, turned),
    }


@claim(
    "C182",
    true="The first half holds. But `open` does not read the picture: it looked at the first bytes only. What takes "
    "long comes later, and it is decoding: work for a core, with the file in memory already.",
    false="Heavy augmentation is work for cores, so the number of cores is the right guess. Only the second half "
    "misleads: most of the time for a JPEG goes into decoding, not into the disk.",
    depends="Right. `open` is lazy, `load` decodes, and decoding keeps a core busy. Smaller pictures help more than a "
    "faster disk.",
)
def opening_is_lazy_and_decoding_is_work() -> dict[str, bool]:
    """Augment a picture, then open and decode a JPEG that is in memory, counting bytes and the time of the core."""
    stored = io.BytesIO()
    image = picture(800, 600)
    image.save(stored, "jpeg", quality=90)
    size = stored.tell()

    def opened() -> Image.Image:
        stored.seek(0)
        return Image.open(stored)

    opening = shortest_seconds(opened, time.thread_time)
    opened()
    bytes_read = stored.tell()
    waiting = shortest_seconds(lambda: time.sleep(0.01), time.thread_time)
    decoding = shortest_seconds(lambda: opened().load(), time.thread_time)
    augmenting = shortest_seconds(
        lambda: [image.filter(ImageFilter.GaussianBlur(radius)) for radius in (2, 5, 9)], time.thread_time
    )
    return {
        "heavy augmentation keeps a core busy, which waiting does not": augmenting > 5 * waiting,
        "`Image.open` reads the picture": bytes_read > size / 2,
        "with the file in memory, no work for the CPU is left": decoding < 5 * opening,
    }
