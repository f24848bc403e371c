"""The causes of errors, one module for each family; importing this package writes all rules down."""

from labkit.doctor.explain.causes import (
    binary_losses,
    broadcasting,
    checkpoints,
    convolutions,
    devices,
    dtypes,
    graphs,
    in_place,
    loading,
    losses,
    modules,
    norms,
    optimizers,
    recurrent,
    reshaping,
    shapes,
    values,
)
from labkit.doctor.explain.causes.rule import Rule, explains, rules

FAMILIES = (
    shapes,
    broadcasting,
    reshaping,
    convolutions,
    norms,
    recurrent,
    dtypes,
    values,
    losses,
    binary_losses,
    graphs,
    in_place,
    modules,
    optimizers,
    checkpoints,
    loading,
    devices,
)

__all__ = ["FAMILIES", "Rule", "explains", "rules"]
