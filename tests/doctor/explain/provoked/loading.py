"""Data sets and loaders: samples that do not fit together, workers that fail, and things used in a wrong way."""

import json
import multiprocessing
from functools import partial
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
from PIL import Image
from torch.utils.data import DataLoader, Dataset, TensorDataset

from tests.doctor.explain.provoked.program import provokes

FORK = "fork" if "fork" in multiprocessing.get_all_start_methods() else "spawn"


class Sentences(Dataset):
    """Each longer than the one before."""

    def __len__(self):
        return 4

    def __getitem__(self, index):
        return torch.arange(index + 1)


class Pictures(Dataset):
    """Pictures that nobody turned into tensors."""

    def __init__(self, transform=None):
        self.transform = transform

    def __len__(self):
        return 4

    def __getitem__(self, index):
        picture = Image.new("RGB", (4, 4))
        return (self.transform(picture) if self.transform else picture), index


class Reviews(Dataset):
    """Lists of tokens, some without an answer."""

    def __init__(self, with_answer=True):
        self.with_answer = with_answer

    def __len__(self):
        return 6

    def __getitem__(self, index):
        return ([5] * (index + 1), 1) if self.with_answer else (torch.ones(2), None)


# Batches


@provokes("collate", names=["Sentences|loader|Sentences.__getitem__"], fix=("collate_fn", "pad_sequence"))
def sentences_of_other_lengths():
    loader = DataLoader(Sentences(), batch_size=2)
    for batch in loader:
        print(batch)


@provokes("collate", names=["Pictures|batches"], fix=("ToTensor", "pil_to_tensor", "to_image"))
def pictures_that_are_no_tensors():
    batches = DataLoader(Pictures(), batch_size=4)
    images, labels = next(iter(batches))
    return images, labels


@provokes("collate", names=["reviews|Reviews"], fix=("collate_fn", "pad"))
def lists_of_tokens():
    reviews = DataLoader(Reviews(), batch_size=3)
    return list(reviews)


@provokes("collate", names=["Reviews|train"], fix=("None", "collate_fn", "return"))
def answers_that_are_missing():
    def epoch(train):
        for texts, answers in train:
            print(texts, answers)

    epoch(DataLoader(Reviews(with_answer=False), batch_size=2))


@provokes("collate", names=["Sentences|loader", "worker"], fix=("collate_fn", "pad_sequence"), slow=True)
def sentences_in_a_worker():
    loader = DataLoader(Sentences(), batch_size=2, num_workers=1, multiprocessing_context=FORK)
    for batch in loader:
        print(batch)


@provokes("collate", names=["Pictures|loader", "worker"], fix=("ToTensor", "pil_to_tensor", "to_image"), slow=True)
def pictures_in_a_spawned_worker():
    loader = DataLoader(Pictures(), batch_size=2, num_workers=1, multiprocessing_context="spawn")
    for images, _ in loader:
        print(images.shape)


# Errors in workers


class Table(Dataset):
    """Reads a column that is not there."""

    def __len__(self):
        return 4

    def __getitem__(self, index):
        row = {"width": 3.0, "height": 2.0}
        return row["depth"]


class Files(Dataset):
    """Reads files that are not there."""

    def __init__(self, folder):
        self.paths = [Path(folder) / f"{number}.json" for number in range(4)]

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        return json.loads(self.paths[index].read_text(encoding="utf-8"))


def scaled(batch, by):
    return torch.tensor(batch) * by


class Steps(Dataset):
    """Works with PyTorch in the worker, and not as it should."""

    def __init__(self, form):
        self.form = form

    def __len__(self):
        return 3

    def __getitem__(self, index):
        features, weight = torch.rand(2, 3), torch.rand(4, 5)
        if self.form == "product":
            return features @ weight
        if self.form == "view":
            return features.view(4, 4)
        return torch.from_numpy(np.zeros((2, 2))[::-1])


@provokes("worker-error", names=["worker", "Table|__getitem__"], fix=("num_workers=0", "depth"), slow=True)
def a_column_that_is_not_there():
    rows = DataLoader(Table(), num_workers=1, multiprocessing_context=FORK)
    next(iter(rows))


@provokes("worker-error", names=["worker", "Files|__getitem__"], fix=("num_workers=0",), slow=True)
def a_file_that_is_not_there():
    loader = DataLoader(Files("nowhere"), num_workers=1, multiprocessing_context="spawn")
    for sample in loader:
        print(sample)


@provokes("worker-error", names=["worker", "scaled"], fix=("num_workers=0",), slow=True)
def a_collate_function_of_the_users():
    gather = partial(scaled, by="2")
    loader = DataLoader(range(8), batch_size=4, num_workers=1, collate_fn=gather, multiprocessing_context=FORK)
    return list(loader)


@provokes("matmul-shapes", names=["worker", "features", "weight"], fix=("3", "4"), never="in_features", slow=True)
def a_product_in_a_worker():
    products = DataLoader(Steps("product"), num_workers=1, multiprocessing_context=FORK)
    for product in products:
        print(product)


@provokes("reshape", names=["worker", "features"], fix=("view", "reshape", "-1"), slow=True)
def a_view_in_a_worker():
    for sample in DataLoader(Steps("view"), num_workers=1, multiprocessing_context=FORK):
        print(sample)


@provokes("array-conversion", names=["worker"], fix=".copy()", slow=True)
def a_flipped_array_in_a_spawned_worker():
    list(DataLoader(Steps("flip"), num_workers=1, multiprocessing_context="spawn"))


# What cannot be sent to a worker


@provokes("worker-pickle", names=["lambda"], fix=("def ", "num_workers=0"))
def a_lambda_as_a_transform():
    loader = DataLoader(Pictures(lambda picture: np.asarray(picture)), num_workers=1, multiprocessing_context="spawn")
    next(iter(loader))


@provokes("worker-pickle", names=["Local"], fix="class Local", says=("pickle", "local object"))
def a_class_inside_of_a_function():
    class Local(Dataset):
        def __len__(self):
            return 2

        def __getitem__(self, index):
            return index

    loader = DataLoader(Local(), num_workers=1, multiprocessing_context="spawn")
    return list(loader)


@provokes("worker-pickle", names=["generator"], fix=("__getitem__", "list", "num_workers=0", "worker"))
def a_generator_in_a_data_set():
    data = Pictures()
    data.stream = (number for number in range(4))
    for batch in DataLoader(data, num_workers=1, multiprocessing_context="spawn"):
        print(batch)


@provokes("worker-pickle", names=["lambda"], fix=("def ", "num_workers=0"), says=("pickle", "local object"))
def a_lambda_that_collates():
    class Loaders:
        def train(self):
            collate = lambda samples: samples  # noqa: E731
            return DataLoader(Sentences(), num_workers=1, collate_fn=collate, multiprocessing_context="spawn")

    list(Loaders().train())


# Things used in a wrong way


class Folder(Dataset):
    """Files of a folder, of which there are none."""

    def __init__(self, path):
        self.files = sorted(Path(path).glob("*.png"))

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        return self.files[index]


@provokes("loader-use", names=["dataset"], fix=("len(dataset)", "path", "empty"))
def a_folder_without_files():
    dataset = Folder("no/such/folder")
    DataLoader(dataset, batch_size=4, shuffle=True)


@provokes("loader-use", names=["shuffle"], fix="shuffle=False")
def a_sampler_and_a_shuffle():
    order = torch.utils.data.RandomSampler(range(5))
    DataLoader(range(5), sampler=order, shuffle=True)


@provokes("loader-use", names=["inputs", "answers"], fix=("len(", "same"))
def tensors_of_other_lengths():
    inputs, answers = torch.rand(10, 2), torch.rand(9)
    TensorDataset(inputs, answers)


@provokes("loader-use", names=["loader"], fix=("(x,)", "for (", ",)", "[0]", "TensorDataset("))
def batches_of_one_tensor():
    loader = DataLoader(TensorDataset(torch.rand(4, 2)), batch_size=2)
    for x, y in loader:
        print(x, y)


@provokes("loader-use", names=["loader"], fix=("next(iter(loader))", "iter(", "dataset["))
def a_batch_by_its_number():
    loader = DataLoader(torch.arange(6))
    first = loader[0]
    return first


@provokes("loader-use", names=["self.batches|batches"], fix=("next(iter(", "dataset["))
def a_batch_by_its_number_in_a_class():
    class Look:
        def __init__(self, data):
            self.batches = DataLoader(data, batch_size=2)

        def first(self):
            images, _ = self.batches[0]
            return images

    Look(TensorDataset(torch.rand(4, 1), torch.rand(4))).first()


@provokes("missing-super-init|loader-use", names=["Wrapped"], fix="super().__init__()", says="before Module.__init__()")
def a_model_inside_of_a_data_set():
    class Wrapped(nn.Module, Dataset):
        def __init__(self):
            self.encoder = nn.Linear(2, 2)

    DataLoader(Wrapped())
