"""The chapters as files: their parameters, how they are built from text, and the rules they keep.

A chapter itself needs only `parameters`; everything that executes notebooks loads when it is asked for.
"""

from labkit.course.chosen import parameters

__all__ = ["parameters"]
