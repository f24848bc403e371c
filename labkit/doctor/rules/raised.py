"""The program raises an exception: the explainer says which, and which fault that is."""

from collections.abc import Callable

from labkit.doctor.evidence import Evidence
from labkit.doctor.finding import Finding

RULES: list[Callable[[Evidence], Finding | None]] = []
