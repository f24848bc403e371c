"""All cases by name, and three for each day."""

import random
from datetime import date as Date

from labkit.doctor.clinic.case import Case
from labkit.doctor.clinic.ill_data import DATA_CASES
from labkit.doctor.clinic.ill_evaluation import EVALUATION_CASES
from labkit.doctor.clinic.ill_models import MODEL_CASES
from labkit.doctor.clinic.ill_objectives import OBJECTIVE_CASES
from labkit.doctor.clinic.ill_updates import UPDATE_CASES
from labkit.errors import ConfigError
from labkit.randomness import seed_for

_ALL = [*UPDATE_CASES, *MODEL_CASES, *OBJECTIVE_CASES, *DATA_CASES, *EVALUATION_CASES]
CASES: dict[str, Case] = {case.name: case for case in sorted(_ALL, key=lambda case: (case.level, case.name))}


def find(name: str) -> Case:
    """Return a case by its name. Raises ConfigError for an unknown one."""
    if name not in CASES:
        raise ConfigError(f"There is no case {name!r}; the cases are {', '.join(CASES)}.")
    return CASES[name]


def cases(level: int | None = None) -> list[Case]:
    """Return the cases of a level (1 to 3), or all. Raises ConfigError for another level."""
    if level not in (None, 1, 2, 3):
        raise ConfigError(f"The levels are 1, 2 and 3, not {level!r}.")
    return [case for case in CASES.values() if level in (None, case.level)]


def with_label(label: str) -> list[Case]:
    """Return the cases of one fault; there may be none."""
    return [case for case in CASES.values() if case.label == label]


def daily_mix(date: str | Date, seed: int = 0) -> list[Case]:
    """Return three cases for a day, one of each level; the same day and seed give the same three everywhere.

    date: a date, or text such as "2026-03-01". Raises ConfigError for text that is no date.
    """
    try:
        day = Date.fromisoformat(str(date))
    except ValueError:
        raise ConfigError(f'A date is written as "2026-03-01", and this is {date!r}.') from None
    draw = random.Random(seed_for(seed, "clinic", day.toordinal()))
    return [draw.choice(cases(level)) for level in (1, 2, 3)]
