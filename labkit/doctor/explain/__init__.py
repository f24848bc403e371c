"""Explain an exception that PyTorch raised: the line, its operands, the rule it broke, the likely cause, the fix.

- `with explain():` explains the error that leaves the block, and warnings in it that are silent traps.
- `explain_exception(error)` returns an `Explanation`, plain data, or None for what is not known.

In a notebook `%load_ext labkit` does it under every traceback, and `labkit explain FILE.py` does it for a script. The
kinds of error have stable names, listed in `KINDS`; an `Explanation` carries its name as `row`.
"""

from labkit.doctor.explain.explaining import explain_exception
from labkit.doctor.explain.explanation import Cause, Explanation, Reason
from labkit.doctor.explain.kinds import KINDS, Kind
from labkit.doctor.explain.watching import explain

__all__ = ["KINDS", "Cause", "Explanation", "Kind", "Reason", "explain", "explain_exception"]
