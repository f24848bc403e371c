"""Chapter 01, first part: making tensors, their dtype, sums along an axis, and where NumPy comes in."""

from typing import Any

import numpy as np
import torch

from labkit.exercises import families
from labkit.exercises.declaration import Misconception
from labkit.exercises.drawing import normal
from labkit.exercises.exercise import Exercise


def after_a_change(answer: Any, array: np.ndarray) -> Any:
    """Convert an array, change the array afterwards, and return the tensor: a copy does not notice."""
    result = families.call(answer, array)
    array += 100
    return result


CLASS_LABELS = Exercise(
    name="class_labels",
    prompt="Three pictures show a dog (class 2), a cat (class 0) and a bird (class 1). Make the tensor of their "
    "labels, as a loss for classification wants it.",
    stub="class_labels = ...  # your turn: shape (3,)",
    solved="class_labels = torch.tensor([2, 0, 1])",
    hints=(
        "A class is a number that points to a column of the scores. What kind of number can point?",
        "`torch.tensor` takes a list. Of whole numbers it makes int64, of numbers with a point float32.",
    ),
    cases=lambda generator: [()],
    run=families.value,
    praise="`cross_entropy` accepts nothing else for class numbers.",
    misconceptions=(
        Misconception(
            "labels as floats",
            torch.tensor([2.0, 0.0, 1.0]),
            "Your labels are float32. Features are floats; a label points to a class, and only whole numbers can "
            "point. `cross_entropy` reads float targets as probabilities, and refuses these.",
        ),
        Misconception(
            "labels as int32",
            torch.tensor([2, 0, 1], dtype=torch.int32),
            "The values are right, the dtype is int32. Losses want int64, which whole numbers get by themselves.",
        ),
        Misconception(
            "a column of labels",
            torch.tensor([[2], [0], [1]]),
            "The shape is (3, 1). One label for each picture is one axis: (3,).",
        ),
        Misconception(
            "a list",
            [2, 0, 1],
            "That is a Python list. A list has no dtype and no device, so a loss cannot use it.",
        ),
    ),
    note="Ask why uint8 works too: `cross_entropy` takes bytes, but indexing with a uint8 tensor is read as a mask.",
)

CHANNEL_MEANS = Exercise(
    name="channel_means",
    prompt="A batch of pictures has shape (N, C, H, W). Return the mean of each colour channel over all pictures and "
    "pixels: shape (C,). This is what pictures are normalised with.",
    stub='''def channel_means(images):
    """Return the mean of each channel: (N, C, H, W) float32 -> (C,)."""
    return ...  # your turn''',
    solved='''def channel_means(images):
    """Return the mean of each channel: (N, C, H, W) float32 -> (C,)."""
    return images.mean(dim=(0, 2, 3))''',
    hints=(
        "Which axes have to disappear, and which one stays?",
        "`mean` takes a `dim`: the axis that disappears. It may be several at once, as a tuple.",
        "The axes are numbered N 0, C 1, H 2, W 3; all but 1 go: `mean(dim=(...))`.",
    ),
    cases=lambda generator: [
        (normal(generator, 4, 3, 5, 6),),
        (normal(generator, 3, 3, 3, 3) + 2,),
        (normal(generator, 1, 2, 4, 1),),
    ],
    praise="`dim` names what disappears.",
    misconceptions=(
        Misconception(
            "dim names what stays",
            lambda images: images.mean(dim=1),
            "`dim=1` makes the channels *disappear*: you got a grey picture for each picture. `dim` names the axes "
            "that go.",
        ),
        Misconception(
            "one mean of everything",
            lambda images: images.mean(),
            "Without `dim` everything is averaged into one number, red with blue. Each channel needs its own.",
        ),
        Misconception(
            "only the pictures",
            lambda images: images.mean(dim=0),
            "You averaged over the pictures: that is the mean *picture*, (C, H, W). The pixels have to go too.",
        ),
        Misconception(
            "only the pixels",
            lambda images: images.mean(dim=(2, 3)),
            "You averaged over the pixels of each picture: (N, C). The pictures have to go too.",
        ),
        Misconception(
            "axes kept",
            lambda images: images.mean(dim=(0, 2, 3), keepdim=True),
            "The numbers are right, the shape is (1, C, 1, 1): `keepdim=True` leaves axes of size 1. That is handy for "
            "subtracting; here (C,) is asked for.",
        ),
    ),
)

TO_TENSOR = Exercise(
    name="to_tensor",
    prompt="`array` is a float64 array of NumPy that the caller goes on using. Return a float32 tensor that does not "
    "change when the array does.",
    stub='''def to_tensor(array):
    """Return a float32 copy of a NumPy array: (…) float64 -> (…) float32."""
    return ...  # your turn''',
    solved='''def to_tensor(array):
    """Return a float32 copy of a NumPy array: (…) float64 -> (…) float32."""
    return torch.tensor(array, dtype=torch.float32)''',
    hints=(
        "Two questions: does it share the memory of the array, and which dtype comes out?",
        "`torch.from_numpy` shares, `torch.tensor` copies. Both keep float64 unless you say otherwise.",
    ),
    cases=lambda generator: [(normal(generator, 4).double().numpy(),), (normal(generator, 2, 3).double().numpy(),)],
    run=after_a_change,
    praise="A copy, in the dtype of the weights.",
    misconceptions=(
        Misconception(
            "shared memory",
            lambda array: torch.from_numpy(array),
            "`from_numpy` shares the memory: the caller's next change arrives in your tensor. It is float64 too.",
        ),
        Misconception(
            "float64 kept",
            lambda array: torch.tensor(array),
            "A copy, but float64, as NumPy's floats are. The first layer, whose weights are float32, will refuse it.",
        ),
        Misconception(
            "bits read anew",
            lambda array: torch.from_numpy(array.view(np.float32)).clone(),
            "`array.view(np.float32)` does not convert: it reads the same bits as twice as many small numbers. "
            "`astype` converts.",
        ),
    ),
)
