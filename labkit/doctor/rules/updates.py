"""What is wrong with the updates: rules from the evidence to a finding."""

from collections.abc import Callable

from labkit.doctor.evidence import Evidence
from labkit.doctor.finding import Finding

RULES: list[Callable[[Evidence], Finding | None]] = []
