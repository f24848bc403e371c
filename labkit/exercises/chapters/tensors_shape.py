"""Chapter 01, second part: shapes, views and changing in place."""

from labkit.exercises import families
from labkit.exercises.declaration import Misconception
from labkit.exercises.drawing import normal
from labkit.exercises.exercise import Exercise

CHANNELS_FIRST = Exercise(
    name="channels_first",
    prompt="A picture from a file has shape (H, W, C). Return it as (C, H, W), as PyTorch wants it, without copying a "
    "pixel.",
    stub='''def channels_first(picture):
    """Return a view with the channels first: (H, W, C) -> (C, H, W)."""
    return ...  # your turn''',
    solved='''def channels_first(picture):
    """Return a view with the channels first: (H, W, C) -> (C, H, W)."""
    return picture.permute(2, 0, 1)''',
    hints=(
        "The axes have to change places. Which functions do that, and which only regroup what is read row by row?",
        "`permute` takes the axes in their new order.",
        "New axis 0 is the old axis 2, then come the old axes 0 and 1.",
    ),
    cases=lambda generator: [
        (normal(generator, 4, 5, 3),),
        (normal(generator, 3, 3, 3),),
        (normal(generator, 2, 6, 4),),
    ],
    run=families.view_of,
    praise="Only the strides changed.",
    misconceptions=(
        Misconception(
            "reshape to change the order",
            lambda picture: picture.reshape(picture.shape[2], picture.shape[0], picture.shape[1]),
            "The shape is right and the pixels are scrambled: `reshape` and `view` read row by row and cut anew, so "
            "each 'channel' got a mixture of colours. A network trains on such noise without a word.",
        ),
        Misconception(
            "height and width swapped too",
            lambda picture: picture.transpose(0, 2),
            "You got (C, W, H): the picture lies on its side. The channels go to the front; height stays before width.",
        ),
        Misconception(
            "a copy",
            lambda picture: picture.permute(2, 0, 1).contiguous(),
            "The values are right, and all pixels were copied. `permute` alone changes only the strides.",
        ),
    ),
    note="Show both pictures side by side: the scrambled one has the same mean and deviation.",
)

FLATTEN = Exercise(
    name="flatten_pictures",
    prompt="Lay out each picture of a batch as one row. It must also work for a batch that is not contiguous.",
    stub='''def flatten_pictures(images):
    """Return one row for each picture: (N, C, H, W) -> (N, C·H·W)."""
    return ...  # your turn''',
    solved='''def flatten_pictures(images):
    """Return one row for each picture: (N, C, H, W) -> (N, C·H·W)."""
    return images.flatten(start_dim=1)''',
    hints=(
        "The first axis stays, all others become one.",
        "`view` fails on some batches. Which relative copies when it must?",
        "`flatten` has a `start_dim`.",
    ),
    cases=lambda generator: [
        (normal(generator, 2, 3, 4, 5),),
        (normal(generator, 3, 4, 5, 2).permute(0, 3, 1, 2),),
        (normal(generator, 1, 1, 2, 2),),
    ],
    praise="`flatten` and `reshape` copy only when they must.",
    misconceptions=(
        Misconception(
            "view",
            lambda images: images.view(len(images), -1),
            "`view` never copies, so it fails where the rows cannot be read with one step: after `permute`, for "
            "example, or for pictures in channels-last order. `flatten` and `reshape` copy then.",
        ),
        Misconception(
            "the batch flattened too",
            lambda images: images.flatten(),
            "One long row: all pictures run together. The first axis has to stay.",
        ),
        Misconception(
            "the channels kept",
            lambda images: images.flatten(start_dim=2),
            "You got (N, C, H·W): `start_dim=2` keeps the channels apart. A linear layer wants one row a picture.",
        ),
    ),
)

CLIP = Exercise(
    name="clip_in_place",
    prompt="Some pixels left the range from 0 to 1. Bring them back *in place*: after the call, the tensor that was "
    "given has changed.",
    stub='''def clip_in_place(pixels):
    """Set what is below 0 to 0 and what is above 1 to 1, in place."""
    return ...  # your turn; what is returned does not count''',
    solved='''def clip_in_place(pixels):
    """Set what is below 0 to 0 and what is above 1 to 1, in place."""
    pixels.clamp_(0, 1)''',
    hints=(
        "`pixels = …` gives the name to another tensor; the one that was given stays as it is.",
        "A method whose name ends in _ changes its tensor. Or write into it: `pixels[...] = …`.",
    ),
    cases=lambda generator: [
        (normal(generator, 3, 4) * 2,),
        (normal(generator, 20),),
        (normal(generator, 2, 2, 2) + 1,),
    ],
    run=families.in_place,
    praise="An underscore at the end changes the tensor itself, for everyone who looks at its memory.",
    misconceptions=(
        Misconception(
            "a new tensor",
            lambda pixels: pixels.clamp(0, 1),
            "`clamp` returns a new tensor and leaves the given one alone; `clamp_` with an underscore changes it.",
        ),
        Misconception(
            "only from below",
            lambda pixels: pixels.clamp_(min=0),
            "What is above 1 is still there.",
        ),
        Misconception(
            "from -1",
            lambda pixels: pixels.clamp_(-1, 1),
            "The lower end is 0.",
        ),
    ),
)
