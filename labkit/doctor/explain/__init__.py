"""Explain an exception that PyTorch raised: the line, its operands, the rule it broke, the likely cause, the fix.

`explain_exception(error)` returns an `Explanation`, or None for what is not known. The kinds of error have stable
names, listed in `labkit.doctor.explain.kinds.KINDS`; an `Explanation` carries its name as `row`.
"""

from labkit.doctor.explain.explaining import explain_exception
from labkit.doctor.explain.explanation import Cause, Explanation, Reason
from labkit.doctor.explain.kinds import KINDS, Kind

__all__ = ["KINDS", "Cause", "Explanation", "Kind", "Reason", "explain_exception"]
