"""The causes of errors, one module for each family; importing this package writes all rules down."""

from labkit.doctor.explain.causes import shapes
from labkit.doctor.explain.causes.rule import Rule, explains, rules

__all__ = ["Rule", "explains", "rules", "shapes"]
