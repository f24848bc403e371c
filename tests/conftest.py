"""What the tests of several modules need."""

from collections.abc import Callable

import pytest
import torch

from labkit.data.images import ImageSet

DEVICES = ["cpu"]
DEVICES += ["cuda"] if torch.cuda.is_available() else []
DEVICES += ["mps"] if torch.backends.mps.is_available() else []


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest) -> torch.device:
    """Every device of this machine, one after the other."""
    return torch.device(request.param)


@pytest.fixture
def noise_set() -> Callable[..., ImageSet]:
    """Make pictures of noise; label i belongs to picture i, in turn."""

    def make(
        count: int = 23, image_shape: tuple[int, int, int] = (3, 6, 5), class_count: int = 4, seed: int = 0
    ) -> ImageSet:
        noise = torch.Generator().manual_seed(seed)
        images = torch.randint(0, 256, (count, *image_shape), dtype=torch.uint8, generator=noise)
        return ImageSet(images, torch.arange(count) % class_count, [f"class {k}" for k in range(class_count)], "noise")

    return make
