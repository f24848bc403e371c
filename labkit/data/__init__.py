"""Pictures for training: where they come from, how they are split, and how they reach the model in batches."""

from labkit.data.images import ImageSet
from labkit.data.loading import Loader, loader
from labkit.data.pictures import DataWarning, folder
from labkit.data.shapes import shapes
from labkit.data.sources import cifar10, digits, fashion_mnist, mnist
from labkit.data.splits import Splits, load

__all__ = [
    "DataWarning",
    "ImageSet",
    "Loader",
    "Splits",
    "cifar10",
    "digits",
    "fashion_mnist",
    "folder",
    "load",
    "loader",
    "mnist",
    "shapes",
]
