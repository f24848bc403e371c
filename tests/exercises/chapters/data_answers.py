"""Chapter 03: other ways to the right result, a function that changes its input, and what predictions ask."""

import random

import torch
from torch.utils.data import DataLoader, Dataset, WeightedRandomSampler
from torchvision.transforms import v2

OTHER_WAYS = {}

CHANGES_ITS_INPUT = {}


def last_batch():
    sizes = [len(batch) for batch in DataLoader(torch.arange(103), batch_size=10)]
    return f"{len(sizes)}, and the last has {sizes[-1]}"


class GeneratorInInit(Dataset):
    def __init__(self):
        self.draws = random.Random(0)

    def __len__(self):
        return 8

    def __getitem__(self, index):
        return self.draws.random()


def same_noise():
    return len({batch.item() for batch in DataLoader(GeneratorInInit(), batch_size=1, num_workers=2)})


def never_seen():
    weights = [1 / 900] * 900 + [1 / 100] * 100
    drawn = set(WeightedRandomSampler(weights, 1000, generator=torch.Generator().manual_seed(0)))
    share = 1 - len(drawn & set(range(900))) / 900
    return "about 57 %" if 0.5 < share < 0.65 else f"{share:.0%}"


def whole_batch_draw():
    pictures, flip = torch.rand(8, 3, 4, 4), v2.RandomHorizontalFlip(0.5)
    mirrored = [pictures.ne(flip(pictures)).flatten(1).any(dim=1).sum().item() for _ in range(50)]
    return "all or none" if set(mirrored) == {0, 8} else str(mirrored)


MEASURED = {
    "last_batch": last_batch,
    "same_noise": same_noise,
    "never_seen": never_seen,
    "whole_batch_draw": whole_batch_draw,
}
