"""Nine small pictures and answers to them, two of which are wrong."""

import matplotlib.pyplot
import pytest
import torch

from labkit.data.images import ImageSet
from labkit.training import Predictions


@pytest.fixture(autouse=True)
def no_figure_is_left_open():
    """Figures that pyplot knows are shown twice by Jupyter and pile up in memory."""
    yield
    assert matplotlib.pyplot.get_fignums() == []


@pytest.fixture
def pictures():
    """Make nine pictures 6×6 of noise, three a class, in turn."""

    def make(channels: int = 3) -> ImageSet:
        noise = torch.Generator().manual_seed(0)
        images = torch.randint(0, 256, (9, channels, 6, 6), dtype=torch.uint8, generator=noise)
        return ImageSet(images, torch.arange(9) % 3, ("bright", "dark", "grey"), "test pictures")

    return make


@pytest.fixture
def predictions():
    """Answer right everywhere but for pictures 4 (rather sure) and 8 (very sure), both said to be bright."""

    def make(image_set: ImageSet) -> Predictions:
        logits = 3.0 * torch.nn.functional.one_hot(image_set.labels, 3)
        logits[4] = torch.tensor([2.0, 0.0, 0.0])
        logits[8] = torch.tensor([5.0, 0.0, 0.0])
        return Predictions(logits, image_set.labels, image_set.classes)

    return make
