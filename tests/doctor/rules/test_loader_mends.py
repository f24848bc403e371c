"""Fixes of how samples are delivered."""

import random

import numpy
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, Subset, TensorDataset

from labkit.doctor.rules import loader_mends as mends
from tests.doctor.small import program

X, Y = torch.arange(33.0)[:, None].repeat(1, 6), torch.arange(33) % 2


def loader(**options) -> DataLoader:
    return DataLoader(TensorDataset(X.clone(), Y), **({"batch_size": 8} | options))


def test_samples_come_in_random_order_in_batches_of_the_same_size():
    one = program(train_loader=loader())
    mends.shuffled(one)
    first = [batch[0][:, 0].tolist() for batch in one.train_loader]
    assert [len(rows) for rows in first] == [8, 8, 8, 8, 1] and sum(first, []) != list(range(33))
    assert sorted(sum(first, [])) == list(range(33))


@pytest.mark.parametrize("options, sizes", [({}, [8] * 4), ({"batch_size": 1}, [16, 16])])
def test_no_batch_has_one_sample(options, sizes):
    one = program(train_loader=loader(**options))
    mends.without_single_samples(one)
    assert [len(x) for x, _ in one.train_loader] == sizes


def test_batches_of_any_other_loader_are_filtered():
    one = program(train_loader=[(X[:4], Y[:4]), (X[:1], Y[:1])])
    mends.without_single_samples(one)
    assert [len(x) for x, _ in one.train_loader] == [4]


class Centred(Dataset):
    """Takes one from the stored row."""

    def __init__(self, rows):
        self.rows, self.labels = rows, Y

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        row = self.rows[index]
        row -= 1
        return torch.as_tensor(row), self.labels[index]


@pytest.mark.parametrize("kind", [torch.clone, lambda rows: rows.numpy().copy()])
@pytest.mark.parametrize("part", [lambda data: data, lambda data: Subset(data, range(20))])
def test_reading_leaves_the_store_as_it_is(kind, part):
    data = Centred(kind(X))
    one = program(train_loader=DataLoader(part(data), 8, shuffle=True))
    mends.untouched_store(one)
    for _ in range(2):
        rows = torch.cat([x for x, _ in one.train_loader])
        assert rows[:, 0].sort().values.tolist() == [place - 1.0 for place in range(len(rows))]
    assert numpy.array_equal(numpy.asarray(data.rows), X.numpy())


class Pictures(Dataset):
    def __init__(self, *transforms):
        self.transforms, self.transform = transforms, self.all_of_them

    def all_of_them(self, row):
        for transform in self.transforms:
            row = transform(row)
        return row

    def __len__(self):
        return len(X)

    def __getitem__(self, index):
        return self.transform(X[index]), Y[index]


class Compose:
    def __init__(self, *transforms):
        self.transforms = list(transforms)

    def __call__(self, row):
        for transform in self.transforms:
            row = transform(row)
        return row


def noise(row):
    return row + random.random() * torch.rand(6)


def halved(row):
    return row / 2


def test_the_random_transform_goes_and_the_others_stay():
    data = Pictures()
    data.transform = Compose(halved, noise)
    one = program(val_loader=DataLoader(data, 33))
    mends.validation_without_chance(one)
    assert torch.equal(next(iter(one.val_loader))[0], X / 2)
    assert len(data.transform.transforms) == 2  # training may have the same data set


def test_a_random_transform_alone_goes():
    data = Pictures()
    data.transform = noise
    one = program(val_loader=DataLoader(Subset(data, range(5)), 5))
    mends.validation_without_chance(one)
    assert torch.equal(next(iter(one.val_loader))[0], X[:5])
