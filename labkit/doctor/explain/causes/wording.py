"""How names, sizes and layers are written in an explanation."""

import ast

import torch.nn as nn
from torch import Tensor

from labkit.doctor.explain.operands import shape_in_words
from labkit.doctor.explain.situation import Situation


def named(*names: str) -> tuple[str, ...]:
    """Return the names that are there, each once."""
    return tuple(dict.fromkeys(name for name in names if name))


def shape(tensor: object) -> str:
    """Return "(32, 400)"."""
    return shape_in_words(tuple(tensor.shape if isinstance(tensor, Tensor) else tensor))


def dtype(tensor: Tensor) -> str:
    """Return "float32"."""
    return str(tensor.dtype).removeprefix("torch.")


def numbers(text: str) -> tuple[int, ...]:
    """Return the whole numbers of "32, 3, 28, 28"."""
    return tuple(int(number) for number in text.replace(",", " ").split())


def or_else(name: str, otherwise: str) -> str:
    """Return a name, or a general word where there is none."""
    return name or otherwise


def simple(expression: str) -> str:
    """Return an expression so that a method can be called on it: `(a + b)`."""
    try:
        node = ast.parse(expression, mode="eval").body
    except SyntaxError:
        return expression
    return expression if isinstance(node, ast.Name | ast.Attribute | ast.Subscript | ast.Call) else f"({expression})"


def instead(new: str, layer: nn.Module, situation: Situation) -> str:
    """Return the line that makes a layer anew, and which one it replaces."""
    place = f", which is {situation.layer_name}" if situation.layer_name else ""
    return f"{new}  # in place of {made(layer)}{place}"


def made(layer: nn.Module) -> str:
    """Return how a layer was made: `nn.Linear(784, 10)`."""
    name = f"nn.{type(layer).__name__}" if type(layer).__module__.startswith("torch.nn") else type(layer).__name__
    if isinstance(layer, nn.Linear):
        return f"{name}({layer.in_features}, {layer.out_features})"
    if isinstance(layer, nn.modules.conv._ConvNd):
        return f"{name}({layer.in_channels}, {layer.out_channels}, {_side(layer.kernel_size)})"
    if isinstance(layer, nn.Embedding):
        return f"{name}({layer.num_embeddings}, {layer.embedding_dim})"
    if isinstance(layer, nn.RNNBase | nn.RNNCellBase):
        return f"{name}({layer.input_size}, {layer.hidden_size})"
    if isinstance(layer, nn.modules.batchnorm._NormBase):
        return f"{name}({layer.num_features})"
    return f"{name}(…)"


def _side(sizes: tuple[int, ...]) -> str:
    return str(sizes[0]) if len(set(sizes)) == 1 else str(sizes)
