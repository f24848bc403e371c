"""Which class the loss asks for, sample by sample, beside the class that the loader gives."""

import contextlib
from dataclasses import dataclass, field

import torch
from torch import Tensor

from labkit.doctor.probe.evaluation_answers import without
from labkit.doctor.probe.objective_loss import View, same
from labkit.doctor.program import Program
from labkit.doctor.records import Recording


@dataclass
class ClassesEvidence:
    """What the loss does with classes.

    taught: class of the loader -> class whose output the loss lets grow fastest; empty unless it is one and the same
    for all samples of a class, and another one for each class. alike: whether the loss stays as it is when the outputs
    of all samples change their columns in the same way, so that no column can mean one class.
    """

    taught: dict[int, int] = field(default_factory=dict)
    alike: bool = False

    @property
    def renamed(self) -> dict[int, int]:
        """The classes that the loss calls something else than the loader does."""
        return {given: taught for given, taught in self.taught.items() if given != taught}


def look_at_classes(program: Program, recording: Recording) -> ClassesEvidence:
    """Ask the loss in which direction each output should go, for the batches of some updates."""
    seen = ClassesEvidence()
    loss_fn = program.copy().loss_fn
    taught: dict[int, set[int]] = {}
    with contextlib.suppress(Exception):  # targets of another form, or a loss without gradient
        for update in recording.updates[:8]:
            (call,), labels = update.losses, update.batch[1]
            view = View(loss_fn, call)
            classes = _axis(view.outputs, labels)
            wanted = (-view.gradient(torch.zeros_like(view.outputs))).argmax(classes)
            for given, asked in torch.stack([labels.flatten(), wanted.flatten()], 1).unique(dim=0).tolist():
                taught.setdefault(given, set()).add(asked)
        if all(len(asked) == 1 for asked in taught.values()):
            names = {given: asked.pop() for given, asked in sorted(taught.items())}
            seen.taught = names if len(set(names.values())) == len(names) > 1 else {}
        view = View(loss_fn, recording.updates[0].losses[0])
        seen.alike = _columns_alike(view, _axis(view.outputs, recording.updates[0].batch[1]))
    return seen


def _axis(outputs: Tensor, labels: Tensor) -> int:
    """Return the axis of the classes; raises ValueError where labels are no class numbers of such outputs."""
    for axis in (1, -1):
        fits = outputs.dim() > 1 and without(outputs, axis) == labels.shape and not labels.is_floating_point()
        if fits and outputs.shape[axis] > 1 and labels.min() >= 0 and labels.max() < outputs.shape[axis]:
            return axis
    raise ValueError("no class numbers")


def _columns_alike(view: View, axis: int) -> bool:
    """Say whether the columns of any outputs may change places, while it matters what is in them."""
    noise = torch.randn(view.outputs.shape, generator=torch.Generator().manual_seed(0)).to(view.outputs)
    noisy = view.outputs + noise
    turned = all(same(view(noisy), view(other)) for other in (noisy.roll(1, axis), noisy.flip(axis)))
    return turned and not same(view(noisy), view(), 1e-3)
