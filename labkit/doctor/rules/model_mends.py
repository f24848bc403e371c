"""Mechanical fixes of a model: each changes the model of a Program in place."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn as nn
from torch import Tensor
from torch.nn import functional
from torch.nn.modules.batchnorm import _BatchNorm
from torch.overrides import TorchFunctionMode
from torch.utils.data import DataLoader

from labkit.doctor.nested import leaves
from labkit.doctor.probe.model_layers import DROPOUTS
from labkit.doctor.program import Program
from labkit.doctor.rules.mends import optimizer_over_the_model
from labkit.doctor.trial import most_updates, train, validation_score

WEIGHTED = (nn.Linear, nn.modules.conv._ConvNd)
Change = Callable[[Callable, tuple, dict], Any]


class _Replaced(TorchFunctionMode):
    """Lets `change(function, arguments, named)` do the calls of functions with some names."""

    def __init__(self, names: set[str], change: Change) -> None:
        super().__init__()
        self.names, self.change = names, change

    def __torch_function__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        if getattr(func, "__name__", "") in self.names:
            return self.change(func, args, kwargs or {})
        return func(*args, **kwargs or {})


def with_functions(names: set[str], change: Change) -> Callable[[Program], None]:
    """Return a fix under which the model's forward gets other functions of torch for those with some names."""

    def mend(program: Program) -> None:
        forward = program.model.forward

        def changed(*args: Any, **kwargs: Any) -> Any:
            with _Replaced(names, change):
                return forward(*args, **kwargs)

        program.model.forward = changed

    return mend


leaky = with_functions(
    {"relu", "relu_", "relu6", "threshold", "threshold_"}, lambda _, args, __: functional.leaky_relu(args[0], 0.1)
)


def _less(function: Callable, args: tuple, kwargs: dict) -> Any:
    if "p" in kwargs:
        return function(*args, **kwargs | {"p": kwargs["p"] / 4})
    return function(args[0], args[1] / 4, *args[2:], **kwargs) if len(args) > 1 else function(*args, **kwargs)


def quarter_of_dropout(program: Program) -> None:
    """Let every dropout act with a quarter of its p."""
    with_functions(DROPOUTS, _less)(program)
    for module in program.model.modules():
        if isinstance(module, nn.RNNBase):
            module.dropout /= 4


def without_chance(program: Program) -> None:
    """Train as the model is evaluated: in evaluation mode."""
    program.model.train = lambda mode=True: nn.Module.train(program.model, False)
    program.model.eval()


def he_weights(program: Program) -> None:
    """Draw the weights anew with the spread that keeps signals as large as they are (He), and set biases to zero."""
    with torch.no_grad():
        for module in program.model.modules():
            if isinstance(module, nn.RNNBase):
                module.reset_parameters()
            elif isinstance(module, WEIGHTED):
                nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
                if module.bias is not None:
                    nn.init.zeros_(module.bias)


def unit_signals(program: Program) -> None:
    """Scale each weight matrix so that its layer's outputs have a spread of one on the first batch."""
    he_weights(program)

    def scale(module: nn.Module, _: Any, output: Any) -> Any:
        spread = output.std().item()
        if not spread > 0:
            return None
        with torch.no_grad():
            module.weight.div_(spread)
        return output / spread

    hooks = [m.register_forward_hook(scale) for m in program.model.modules() if isinstance(m, WEIGHTED)]
    inputs, _ = next(iter(program.train_loader))
    with torch.no_grad():
        program.model(inputs)
    for hook in hooks:
        hook.remove()


def rectified_signals(program: Program) -> None:
    """Let rectifiers do the work of sigmoid and tanh, and scale the weights for them."""
    with_functions({"sigmoid", "tanh", "sigmoid_", "tanh_"}, lambda _, args, __: functional.silu(args[0]))(program)
    unit_signals(program)


def rectified(program: Program) -> None:
    """Put a rectifier behind every weight layer except the last."""
    layers = [module for module in program.model.modules() if isinstance(module, WEIGHTED)]
    for layer in layers[:-1]:
        layer.register_forward_hook(lambda _, __, output: functional.relu(output))


def widened(first: str, second: str, width: int = 16) -> Callable[[Program], None]:
    """Return a fix that puts `width` numbers where one layer hands a single number to the next."""

    def mend(program: Program) -> None:
        for name, end in ((first, "out"), (second, "in")):
            old = program.model.get_submodule(name)
            if isinstance(old, nn.Linear):
                sizes = (old.in_features, width) if end == "out" else (width, old.out_features)
                new: nn.Module = nn.Linear(*sizes, bias=old.bias is not None)
            else:
                sizes = (old.in_channels, width) if end == "out" else (width, old.out_channels)
                same = {"stride": old.stride, "padding": old.padding, "dilation": old.dilation}
                new = type(old)(*sizes, old.kernel_size, bias=old.bias is not None, **same)
            program.model.set_submodule(name, new)
        optimizer_over_the_model(program)

    return mend


class InOrder(nn.Module):
    """Reads a sequence step by step; its answer has the shape of another model's answers."""

    def __init__(self, example: Tensor, outputs: tuple[int, ...], width: int = 32) -> None:
        super().__init__()
        words = not example.is_floating_point()
        self.enter = nn.Embedding(int(example.max()) + 1000, 16) if words else nn.Linear(example.shape[2], 16)
        self.read = nn.GRU(16, width, batch_first=True)
        self.out = nn.Linear(width, outputs[-1] if len(outputs) > 1 else 1)
        self.squeezed = len(outputs) == 1
        self.disordered = False

    def forward(self, x: Tensor) -> Tensor:
        """Return one answer for each sample; with `disordered` the steps come in any order."""
        if self.disordered:
            x = x[:, torch.randperm(x.shape[1])]
        answer = self.out(self.read(self.enter(x))[0].mean(1))
        return answer.squeeze(1) if self.squeezed else answer


def read_in_order(program: Program) -> None:
    """Train a small recurrent network in place of the model."""
    inputs, _ = next(iter(program.train_loader))
    with torch.no_grad():
        outputs = next(leaf for leaf in leaves(program.model(inputs)) if isinstance(leaf, Tensor))
    program.model = InOrder(inputs, tuple(outputs.shape))
    optimizer_over_the_model(program)


def batches_of(size: int) -> Callable[[Program], None]:
    """Return a fix that draws larger batches of the same data set, in random order."""

    def mend(program: Program) -> None:
        old = program.train_loader
        program.train_loader = DataLoader(old.dataset, size, shuffle=True, drop_last=True, collate_fn=old.collate_fn)

    return mend


def kept_in_evaluation_mode(names: list[str]) -> Callable[[Program], None]:
    """Return a fix after which some modules stay in evaluation mode, whatever mode the model is set to."""

    def mend(program: Program) -> None:
        for name in names:
            part = program.model.get_submodule(name)
            part.train = _stays_evaluated(part)
            part.train()

    return mend


def _stays_evaluated(part: nn.Module) -> Callable[..., nn.Module]:
    return lambda mode=True: nn.Module.train(part, False)


def usual_momentum(program: Program) -> None:
    """Let every normalisation layer take a tenth of each batch into its running statistics."""
    for module in program.model.modules():
        if isinstance(module, _BatchNorm):
            module.momentum = 0.1


def score_by_order(program: Program) -> float:
    """The validation score, which a network that reads in order must owe to the order of the steps.

    Any other network may train on before it is judged: what only learns more slowly is not too weak.
    """
    score = validation_score(program)
    if not isinstance(program.model, InOrder):
        train(program, 3 * most_updates(program, 6))
        return max(score, validation_score(program))
    loader = program.val_loader if program.val_loader is not None else program.train_loader
    program.model.disordered = True
    without = float(program.score(loader))
    return score if score - without > 0.15 * max(abs(score), abs(without)) else -float("inf")
