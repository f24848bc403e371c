"""Chapter 03: other ways to the right result, a function that changes its input, and what predictions ask."""

import hashlib
import random
from collections import Counter, defaultdict

import numpy as np
import torch
from PIL import Image
from sklearn.model_selection import GroupShuffleSplit
from torch.nn import functional
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset, WeightedRandomSampler, default_collate
from torchvision.datasets import ImageFolder
from torchvision.io import ImageReadMode, decode_image
from torchvision.transforms import v2

from labkit import randomness


class FolderByDecodeImage(Dataset):
    def __init__(self, folder):
        self.classes = sorted(path.name for path in folder.iterdir() if path.is_dir())
        self.samples = []
        for label, name in enumerate(self.classes):
            self.samples += [(path, label) for path in sorted((folder / name).glob("*.png"))]

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, index):
        path, label = self.samples[index]
        return decode_image(str(path), mode=ImageReadMode.RGB), label


class FolderByImageFolder(ImageFolder):
    def __init__(self, root):
        super().__init__(str(root), transform=v2.functional.pil_to_tensor)


class FolderWithoutBase:
    def __init__(self, folder):
        self.files = sorted(str(path) for path in folder.rglob("*.png"))
        names = sorted({path.parent.name for path in folder.rglob("*.png")})
        self.number = {name: number for number, name in enumerate(names)}
        self.folder = folder

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        pixels = np.asarray(Image.open(self.files[index]).convert("RGB"))
        name = (self.folder / self.files[index]).parent.name
        return torch.tensor(np.moveaxis(pixels, -1, 0).copy()), torch.tensor(self.number[name]).item()


class FolderThatRemembers(FolderByDecodeImage):
    """Opens a file when its sample is asked for, and keeps it; its labels are tensors."""

    def __init__(self, folder):
        super().__init__(folder)
        self.kept = {}

    def __getitem__(self, index):
        if index not in self.kept:
            picture, label = super().__getitem__(index)
            self.kept[index] = picture, torch.tensor(label)
        return self.kept[index]


def padded_by_torch(samples):
    return pad_sequence(samples, batch_first=True), torch.tensor(list(map(len, samples)))


def padded_by_functional(samples):
    longest = max(sample.numel() for sample in samples)
    rows = [functional.pad(sample, (0, longest - sample.shape[0])) for sample in samples]
    return torch.stack(rows), torch.tensor([sample.shape[0] for sample in samples], dtype=torch.int64)


def padded_by_mask(samples):
    lengths = torch.as_tensor([sample.size(0) for sample in samples])
    mask = torch.arange(int(lengths.max())) < lengths[:, None]
    padded = torch.zeros(mask.shape, dtype=samples[0].dtype)
    padded[mask] = torch.cat(samples)
    return [padded, lengths]


def kept_by_filter(batch):
    kept = list(filter(lambda sample: sample is not None, batch))
    return (default_collate(kept) if kept else None, batch.count(None))


def kept_by_hand(samples):
    inputs = [sample[0] for sample in samples if sample]
    labels = [sample[1] for sample in samples if sample]
    dropped = sum(sample is None for sample in samples)
    return ((torch.stack(inputs), torch.tensor(labels)) if inputs else None), dropped


def kept_by_try(samples):
    dropped = 0
    whole = []
    for sample in samples:
        if sample is None:
            dropped += 1
        else:
            whole.append(sample)
    try:
        return torch.utils.data.default_collate(whole), dropped
    except IndexError:
        return None, dropped


def statistics_by_variance(pictures):
    values = pictures.to(torch.float64).div(255)
    variance, mean = torch.var_mean(values, dim=(0, 2, 3), correction=0)
    return mean.to(torch.float32), variance.sqrt().to(torch.float32)


def statistics_by_counting(pictures):
    means, deviations = [], []
    for channel in range(pictures.shape[1]):
        counts = torch.bincount(pictures[:, channel].flatten().long(), minlength=256).double()
        values, share = torch.arange(256).double() / 255, counts / counts.sum()
        means.append((share * values).sum())
        deviations.append((share * (values - means[-1]) ** 2).sum().sqrt())
    return torch.stack(means).float(), torch.stack(deviations).float()


def statistics_by_whole_sums(images):
    columns = images.movedim(1, 0).flatten(1).long()
    n = columns.shape[1]
    total, squares = columns.sum(1), (columns**2).sum(1)
    variance = (n * squares - total**2).double() / n**2
    return [(total.double() / n / 255).float(), (variance.sqrt() / 255).float()]


def statistics_by_numpy(pictures):
    values = pictures.numpy().astype("float64") / 255
    mean, deviation = values.mean((0, 2, 3)), values.std((0, 2, 3))
    return torch.tensor(mean, dtype=torch.float32), torch.tensor(deviation, dtype=torch.float32)


def statistics_in_float32(pictures):
    values = pictures / 255
    return values.mean((0, 2, 3)), values.std((0, 2, 3))


def flipped_by_index(images, generator):
    result = images.clone()
    chosen = torch.randint(2, (len(images),), generator=generator).bool()
    result[chosen] = images[chosen].flip(-1)
    return result


def flipped_by_gather(images, generator):
    columns = torch.arange(images.shape[3])
    coin = torch.empty(len(images)).bernoulli_(0.5, generator=generator).bool()
    columns = torch.where(coin[:, None], columns.flip(0), columns)
    return images.gather(3, columns[:, None, None, :].expand_as(images))


def flipped_by_order(images, generator):
    both = torch.stack([images, images.flip(3)])
    return both[torch.randint(0, 2, (images.size(0),), generator=generator), torch.arange(images.size(0))]


def drawn_by_text(seed, epoch, index):
    return random.Random(f"{seed}/{epoch}/{index}").random()


def drawn_by_torch(seed, epoch, index):
    mixed = int.from_bytes(hashlib.sha256(repr((seed, epoch, index)).encode()).digest()[:8], "little")
    return torch.rand((), generator=torch.Generator().manual_seed(mixed % 2**63))


def drawn_by_hash_alone(seed, epoch, index):
    digest = hashlib.sha256(f"{seed}-{epoch}-{index}".encode()).digest()
    return int.from_bytes(digest[:6], "big") / 2**48


def drawn_by_hash_of_numbers(seed, epoch, index):
    return random.Random(hash((seed, epoch, index))).random()


def drawn_by_wide_factors(seed, epoch, index):
    return random.Random(seed * 10**24 + epoch * 10**12 + index).random()


def drawn_by_labkit(seed, epoch, index):
    return torch.rand(1, generator=randomness.generator(seed, "exercise", epoch, index)).item()


def weights_by_counter(labels):
    counts = Counter(labels.tolist())
    return [1 / counts[label] for label in labels.tolist()]


def weights_by_inverse(labels):
    _, places, counts = labels.unique(return_inverse=True, return_counts=True)
    return (len(labels) / (len(counts) * counts))[places]


def weights_by_numpy(labels):
    _, places, counts = np.unique(labels.numpy(), return_inverse=True, return_counts=True)
    weights = 1.0 / counts[places]
    return torch.as_tensor(weights / weights.sum())


def weights_by_comparison(labels):
    return 1 / (labels[:, None] == labels).sum(dim=1)


def groups_by_python(groups, share, seed):
    names = sorted(set(groups.tolist()))
    held_out = set(random.Random(seed).sample(names, k=round(len(names) * share)))
    train, validation = [], []
    for place, name in enumerate(groups.tolist()):
        (validation if name in held_out else train).append(place)
    return train, validation


def groups_by_scikit_learn(groups, share, seed):
    split = GroupShuffleSplit(n_splits=1, test_size=share, random_state=seed)
    return next(split.split(np.zeros(len(groups)), groups=groups.numpy()))


def groups_by_sorting(groups, share, seed):
    names, places = groups.unique(return_inverse=True)
    luck = torch.rand(len(names), generator=torch.Generator().manual_seed(seed))
    rank = luck.argsort().argsort()
    held_out = (rank < int(share * len(names) + 0.5))[places]
    everybody = torch.arange(len(groups))
    return [everybody[~held_out], everybody[held_out]]


def shared_by_hash(first, second):
    def keys(pictures):
        return [hashlib.sha256(picture.numpy().tobytes()).hexdigest() for picture in pictures]

    places = defaultdict(list)
    for place, key in enumerate(keys(second)):
        places[key].append(place)
    return {(one, two) for one, key in enumerate(keys(first)) for two in places[key]}


def shared_by_unique(first, second):
    _, numbers = torch.cat([first, second]).unique(dim=0, return_inverse=True)
    one, two = numbers[: len(first)], numbers[len(first) :]
    return (one[:, None] == two).nonzero()


def shared_by_tuples(first, second):
    places = {}
    for place, picture in enumerate(first.flatten(1).tolist()):
        places.setdefault(tuple(picture), []).append(place)
    found = []
    for place, picture in enumerate(second.flatten(1).tolist()):
        found += [[other, place] for other in places.get(tuple(picture), ())]
    return found


def shared_one_by_one(first, second):
    places = defaultdict(list)
    for i, picture in enumerate(first.numpy()):
        places[picture.tobytes()].append(i)
    for j, picture in enumerate(second.numpy()):
        for i in places[picture.tobytes()]:
            yield i, j


def shared_by_sorting(first, second):
    both = np.concatenate([first.numpy(), second.numpy()]).reshape(len(first) + len(second), -1)
    order = np.lexsort(both.T)
    ends = np.flatnonzero((both[order][1:] != both[order][:-1]).any(1)) + 1
    return np.array(
        [
            (i, j - len(first))
            for run in np.split(order, ends)
            for i in run[run < len(first)]
            for j in run[run >= len(first)]
        ]
    ).reshape(-1, 2)


OTHER_WAYS = {
    "PictureFolder": [FolderByDecodeImage, FolderByImageFolder, FolderWithoutBase, FolderThatRemembers],
    "pad_batch": [padded_by_torch, padded_by_functional, padded_by_mask],
    "keep_whole_samples": [kept_by_filter, kept_by_hand, kept_by_try],
    "channel_statistics": [
        statistics_by_variance,
        statistics_by_counting,
        statistics_by_whole_sums,
        statistics_by_numpy,
        statistics_in_float32,
    ],
    "flip_batch": [flipped_by_index, flipped_by_gather, flipped_by_order],
    "draw_for": [
        drawn_by_text,
        drawn_by_torch,
        drawn_by_hash_alone,
        drawn_by_hash_of_numbers,
        drawn_by_wide_factors,
        drawn_by_labkit,
    ],
    "balancing_weights": [weights_by_counter, weights_by_inverse, weights_by_numpy, weights_by_comparison],
    "split_groups": [groups_by_python, groups_by_scikit_learn, groups_by_sorting],
    "shared_pictures": [shared_by_hash, shared_by_unique, shared_by_tuples, shared_one_by_one, shared_by_sorting],
}


def pads_its_samples(samples):
    for sample in samples:
        sample.clamp_(min=0)
    return padded_by_torch(samples)


CHANGES_ITS_INPUT = {"pad_batch": pads_its_samples}


def last_batch():
    sizes = [len(batch) for batch in DataLoader(torch.arange(103), batch_size=10)]
    return f"{len(sizes)}, the last of {sizes[-1]}"


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
