"""The probe of the data: their values, how they are delivered, and how the two parts go together."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from labkit import randomness
from labkit.doctor.probe.data_balance import BalanceEvidence, look_at_balance
from labkit.doctor.probe.data_groups import GroupsEvidence, look_at_groups
from labkit.doctor.probe.data_lag import LagEvidence, look_at_lag
from labkit.doctor.probe.data_left_out import LeftOutEvidence, look_at_left_out
from labkit.doctor.probe.data_masks import MasksEvidence, look_at_masks
from labkit.doctor.probe.data_meaning import MeaningEvidence, look_at_meaning
from labkit.doctor.probe.data_order import OrderEvidence, look_at_order
from labkit.doctor.probe.data_parts import PartsEvidence, look_at_parts
from labkit.doctor.probe.data_reading import Samples, draw, has_places, loaders_of, read, size, spread_out, stacked
from labkit.doctor.probe.data_split import SplitEvidence, look_at_split
from labkit.doctor.probe.data_told import ToldEvidence, look_at_told
from labkit.doctor.probe.data_turned import TurnedEvidence, look_at_turned
from labkit.doctor.probe.data_values import ValuesEvidence, look_at_values
from labkit.doctor.probe.data_workers import WorkersEvidence, look_at_workers
from labkit.doctor.program import Program
from labkit.doctor.records import Recording

#: As many samples of a part are read if there is time; a data set that is no larger is read completely.
MOST_READ = 2000


@dataclass
class DataEvidence:
    """What was seen of the data, by topic."""

    values: ValuesEvidence = field(default_factory=ValuesEvidence)
    order: OrderEvidence = field(default_factory=OrderEvidence)
    parts: PartsEvidence = field(default_factory=PartsEvidence)
    meaning: MeaningEvidence = field(default_factory=MeaningEvidence)
    balance: BalanceEvidence = field(default_factory=BalanceEvidence)
    groups: GroupsEvidence | None = None
    left_out: LeftOutEvidence | None = None
    turned: TurnedEvidence | None = None
    split: SplitEvidence | None = None
    told: ToldEvidence | None = None
    lag: dict[str, LagEvidence] = field(default_factory=dict)  # by part
    masks: dict[str, MasksEvidence] = field(default_factory=dict)  # by part
    workers: WorkersEvidence = field(default_factory=WorkersEvidence)


def look(program: Program, recording: Recording) -> DataEvidence:
    """Look at the data: read copies of the loaders; the recording has some updates of one copy of the program."""
    seen = DataEvidence()
    loaders = _or(loaders_of, {"train": None, "val": None}, program)
    if loaders["train"] is None:
        return seen
    batches = {part: _or(draw, [], loader) for part, loader in loaders.items() if loader is not None}
    samples = {part: _or(_samples, None, loader, batches.get(part, [])) for part, loader in loaders.items()}
    with randomness.frozen_randomness(0):
        seen.values = _or(look_at_values, seen.values, program, recording, batches, samples)
        seen.order = _or(look_at_order, seen.order, program, _or(loaders_of, loaders, program))
        seen.parts = _or(look_at_parts, seen.parts, samples, loaders)
        seen.meaning = _or(look_at_meaning, seen.meaning, samples)
        seen.balance = _or(look_at_balance, seen.balance, program, recording, samples, loaders)
        seen.masks = _by_part(look_at_masks, samples)
        seen.groups = _or(look_at_groups, None, samples)
        seen.left_out = _or(look_at_left_out, None, samples["train"], loaders)
        if not seen.order.random:
            seen.turned = _or(look_at_turned, None, loaders["train"], samples.get("val"))
        seen.split = _or(look_at_split, None, program)
        seen.told = _or(look_at_told, None, recording, samples, _or(loaders_of, loaders, program))
        seen.lag = _by_part(look_at_lag, _or(loaders_of, loaders, program))
        seen.workers = _or(look_at_workers, seen.workers, program)
    return seen


def _samples(loader: Any, batches: list[Any]) -> Samples | None:
    """Return samples by their place where that is possible, otherwise those of the batches."""
    if loader is None:
        return None
    if has_places(loader) and loader.batch_sampler is not None:
        return read(loader, spread_out(size(loader), MOST_READ))
    return stacked(batches)


def _by_part(look_at: Callable, things: dict[str, Any]) -> dict[str, Any]:
    """Return what a look at each part gives, where it gives anything."""
    looked = {part: _or(look_at, None, thing) for part, thing in things.items()}
    return {part: found for part, found in looked.items() if found is not None}


def _or(look_at: Callable, otherwise: Any, *arguments: Any) -> Any:
    """Return what a look gives; whatever the user's data raise, the other value."""
    try:
        return look_at(*arguments)
    except Exception:  # what cannot be examined stays unexamined
        return otherwise
