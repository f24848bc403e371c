"""Look inside a tensor: its storage and strides, who shares its memory, and how shapes are broadcast."""

from labkit.tensors.alignment import Alignment, Axis, align
from labkit.tensors.description import Description, describe
from labkit.tensors.places import element_places, reading_steps, shares_storage, whole_storage

__all__ = [
    "Alignment",
    "Axis",
    "Description",
    "align",
    "describe",
    "element_places",
    "reading_steps",
    "shares_storage",
    "whole_storage",
]
