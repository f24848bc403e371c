"""Pictures for training: where they come from, how they are split, and how they reach the model in batches."""

from labkit.data.collate import Padded, missing_samples, pad, skip_missing
from labkit.data.grouping import class_balance, split_by_group
from labkit.data.images import ImageSet
from labkit.data.leakage import duplicates
from labkit.data.loading import Loader, loader
from labkit.data.pictures import DataWarning, folder
from labkit.data.profiling import Profile, profile
from labkit.data.samplers import balanced, sampled_shares, subset, weighted
from labkit.data.shapes import shapes
from labkit.data.sources import cifar10, digits, fashion_mnist, mnist
from labkit.data.splits import Splits, load
from labkit.data.streaming import FolderDataset, stream
from labkit.data.workers import worker_error

__all__ = [
    "DataWarning",
    "FolderDataset",
    "ImageSet",
    "Loader",
    "Padded",
    "Profile",
    "Splits",
    "balanced",
    "cifar10",
    "class_balance",
    "digits",
    "duplicates",
    "fashion_mnist",
    "folder",
    "load",
    "loader",
    "missing_samples",
    "mnist",
    "pad",
    "profile",
    "sampled_shares",
    "shapes",
    "skip_missing",
    "split_by_group",
    "stream",
    "subset",
    "weighted",
    "worker_error",
]
