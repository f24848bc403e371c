"""Axes that were renamed, and should have been turned: in the data, or by the model itself."""

from collections.abc import Callable
from typing import Any

from torch import Tensor
from torch.utils.data import DataLoader, Subset, TensorDataset

from labkit.doctor.evidence import Evidence
from labkit.doctor.finding import Finding
from labkit.doctor.nested import mapped
from labkit.doctor.probe.data_reading import root
from labkit.doctor.probe.model_axes import turn_of
from labkit.doctor.probe.model_layout import stores
from labkit.doctor.probe.model_trace import RESHAPES
from labkit.doctor.program import Program
from labkit.doctor.rules.model_mends import with_functions


def axes_renamed(evidence: Evidence) -> Finding | None:
    """In another order of the axes neighbours are much more alike, and the network learns better from it."""
    seen = evidence.model.layout
    if not seen.orders:
        return None
    shape = seen.shape if seen.of_all else ("N", *seen.shape[1:])
    fixes = [
        (
            in_order(order, seen.shape[0] if seen.of_all else None),
            f"x = x.permute{_back(order)}  # from {_text(tuple(shape[axis] for axis in order))}, in place of view or "
            "reshape",
        )
        for order in seen.orders[:3]
    ]
    return Finding(
        "axis_mixup",
        "warn",
        f"Neighbours in the inputs {_text(shape)} are hardly alike (correlation {seen.before:.2g}); with the same "
        f"numbers read in another order of the axes, and turned, they are (correlation {seen.after:.2g}).",
        "view and reshape keep the numbers in their order and only cut them anew; to swap axes they must be turned.",
        fixes[0][1],
        "plt.imshow or plt.plot of one sample shows what it should",
        "02",
        mend=fixes[0][0],
        instead=tuple(fixes[1:]),
        confirm=True,
        weight=6,
        explains=("lr_too_low", "lr_too_high", "model_too_weak", "label_misaligned", "input_scale"),
    )


def _text(shape: tuple) -> str:
    return f"({', '.join(map(str, shape))})"


def _back(order: tuple[int, ...]) -> tuple[int, ...]:
    """Return what `permute` needs to bring axes that are written in some order into their own."""
    return tuple(order.index(axis) for axis in range(len(order)))


def _places(dataset: Any, begin: int) -> list[int]:
    """Return where the samples of a part are in the store: its indices if it has some, else from `begin` on."""
    under, places = root(dataset, list(range(len(dataset))))
    return places if under is not dataset else [begin + place for place in places]


def in_order(order: tuple[int, ...], count: int | None = None) -> Callable[[Program], None]:
    """Return a fix that reads inputs as written in some order of axes, and turns these.

    count: the order holds for as many samples together, as they lie in the data set; None: for each sample by itself.
    """

    def turned(inputs: Tensor) -> Tensor:
        return inputs.reshape([inputs.shape[axis] for axis in order]).permute(_back(order)).contiguous()

    def each_batch(_: Any, inputs: tuple) -> tuple:
        return mapped(inputs, turned)

    def mend(program: Program) -> None:
        if count is None:
            program.model.register_forward_pre_hook(each_batch)
            return
        store = next(samples for samples in stores(program) if len(samples) == count)
        whole, begin = TensorDataset(turned(store.inputs), store.targets), 0
        for name in ("train_loader", "val_loader"):
            loader = getattr(program, name)
            places = _places(loader.dataset, begin) if loader is not None else []
            begin += len(places)
            if places and max(places) < count:
                part = Subset(whole, places)
                setattr(program, name, DataLoader(part, loader.batch_size or 32, shuffle=name == "train_loader"))

    return mend


def mixed_by_reshape(evidence: Evidence) -> Finding | None:
    """In the model, a reshape gives lengths in another order than they had, and turning the axes learns better."""
    if not evidence.model.answers.mixed:
        return None
    layer, turn = evidence.model.answers.mixed[0]
    return Finding(
        "axis_mixup",
        "warn",
        f"A reshape in {layer or 'forward'} makes {turn.after} out of {turn.before}: the same lengths, in another "
        "order or joined across it.",
        "A reshape keeps the numbers in their order and only cuts them anew; to swap axes they must be turned.",
        f"x = {turn}  # in place of view and reshape",
        "a pixel, or a moment, is at the same place before and after",
        "02",
        mend=turned_by_the_model,
        confirm=True,
        weight=6,
        explains=("model_too_weak", "lr_too_low"),
    )


def _turned(function: Callable, args: tuple, named: dict) -> Tensor:
    output = function(*args, **named)
    turn = turn_of(tuple(args[0].shape), tuple(output.shape))
    return output if turn is None else turn(args[0])


turned_by_the_model = with_functions(RESHAPES, _turned)

RULES = [axes_renamed, mixed_by_reshape]
