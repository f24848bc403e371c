"""What is wrong with the place at which targets stand."""

from collections.abc import Callable

import torch
from torch.utils.data import DataLoader, TensorDataset

from labkit.doctor.evidence import Evidence
from labkit.doctor.finding import Finding
from labkit.doctor.probe.data_lag import moved, stored
from labkit.doctor.probe.data_reading import loaders_of
from labkit.doctor.program import Program
from labkit.doctor.trial import validation_score

SURE = 2.0  # times what shuffled targets give: then inputs and targets of some place do belong together
BETTER = 0.8  # of the best way: so much less the targets give where they stand


def targets_stand_further_on(evidence: Evidence) -> Finding | None:
    """The target of an input stands some places before or after it."""
    for part, seen in evidence.data.lag.items():
        if not seen.by_chance > 0 or seen.best < SURE * seen.by_chance or seen.best - seen.own < seen.by_chance:
            continue
        if seen.own > BETTER * seen.best:
            continue
        first, last = seen.lags[0], seen.lags[-1]
        return Finding(
            "label_misaligned",
            "warn",
            f"Of {seen.samples} stored {part} samples like inputs have like targets {seen.best / seen.by_chance:.1f} "
            f"times as much as by chance if the target is taken {first:+d} places on at the beginning and {last:+d} at "
            f"the end; as they stand, {seen.own / seen.by_chance:.1f} times.",
            "Rows were left out, or added, on one side only: from there on each target belongs to another input.",
            "kept = complete(x)\nx, y = x[kept], y[kept]  # one selection for both",
            "a look at some of the last samples with their targets",
            "07",
            mend=_moved(part, seen.lags),
            judge=validation_score,
            confirm=True,
            weight=8,
            explains=("train_val_mismatch", "lr_too_high", "lr_too_low", "model_too_weak", "metric_wrong"),
        )
    return None


def _moved(part: str, lags: tuple[int, ...]) -> Callable[[Program], None]:
    """Return a fix that takes targets from where they stand: two thirds of such pairs to train, the others to judge."""

    def mend(program: Program) -> None:
        pairs = moved(stored(loaders_of(program)[part]), lags)
        order = torch.randperm(len(pairs), generator=torch.Generator().manual_seed(0))
        cut = 2 * len(order) // 3
        first, other = (TensorDataset(pairs.inputs[rows], pairs.targets[rows]) for rows in (order[:cut], order[cut:]))
        program.train_loader, program.val_loader = DataLoader(first, 32, shuffle=True), DataLoader(other, 200)

    return mend


RULES = [targets_stand_further_on]
