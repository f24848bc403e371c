"""What is wrong where training and validation have relatives."""

from collections.abc import Callable

import torch
from torch.utils.data import DataLoader, TensorDataset

from labkit.doctor.evidence import Evidence
from labkit.doctor.finding import Finding
from labkit.doctor.probe.data_groups import MOST_TRAIN, families, in_units
from labkit.doctor.probe.data_reading import draw, stacked
from labkit.doctor.program import Program

JUMP = 1.7  # times farther than the last relative; of independent samples it is 1.0 to 1.4


def relatives_on_both_sides(evidence: Evidence) -> Finding | None:
    """Validation samples have near relatives in training, and the score is lower where families stay together."""
    seen = evidence.data.groups
    if seen is None or seen.jump < JUMP:
        return None
    return Finding(
        "data_leakage",
        "warn",
        f"A validation sample has about {seen.relatives} training samples right beside it, and the next one is "
        f"{seen.jump:.1f} times as far (the median of {seen.compared}): they come in families.",
        "A model that knows a sample by heart knows its relatives: the score says nothing of families nobody has seen.",
        "whole = torch.isin(patient, patient.unique()[:k])  # split families, not samples\n"
        "train_set, val_set = Subset(data, (~whole).nonzero()[:, 0]), Subset(data, whole.nonzero()[:, 0])",
        "no patient (scene, speaker, ...) is in both parts",
        "07",
        mend=_by_families(seen.limit),
        judge=seen_through,
        confirm=True,
        updates=240,
        weight=7,
    )


def windows_on_both_sides(evidence: Evidence) -> Finding | None:
    """Windows of one series overlap across the split."""
    seen = evidence.data.groups
    if seen is None or seen.overlapping < 0.5 * seen.compared:
        return None
    return Finding(
        "data_leakage",
        "warn",
        f"{seen.overlapping} of {seen.compared} validation samples are a training sample moved on by {seen.step}: the "
        "same numbers but for the ends.",
        "Windows that overlap were split by chance, so training has seen what validation asks for.",
        "cut = int(0.8 * len(series))\ntrain, val = windows(series[:cut]), windows(series[cut:])  # split, then cut",
        "the last number of training comes before the first of validation",
        "07",
        weight=7,
    )


def seen_through(program: Program) -> float:
    """Minus the score: what is higher in a mixed split is no knowledge."""
    return -float(program.score(program.val_loader))


def _by_families(limit: float) -> Callable[[Program], None]:
    """Return a fix that splits the samples anew, and leaves families whole."""

    def mend(program: Program) -> None:
        parts = [stacked(draw(loader, MOST_TRAIN, 0.5)) for loader in (program.train_loader, program.val_loader)]
        inputs = torch.cat([part.inputs for part in parts])
        data = TensorDataset(inputs, torch.cat([part.targets for part in parts]))
        family = families(in_units(parts[0].inputs, inputs), limit)
        known = family.unique()
        known = known[torch.randperm(len(known), generator=torch.Generator().manual_seed(0))]
        size = torch.bincount(family)[known].cumsum(0)
        held = torch.isin(family, known[size <= len(parts[1])])
        train, val = (TensorDataset(*data[rows.nonzero()[:, 0]]) for rows in (~held, held))
        program.train_loader = DataLoader(train, getattr(program.train_loader, "batch_size", None) or 32, shuffle=True)
        program.val_loader = DataLoader(val, 200)

    return mend


RULES = [relatives_on_both_sides, windows_on_both_sides]
