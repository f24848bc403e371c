"""The causes of errors, one module for each family; importing this package writes all rules down."""

from labkit.doctor.explain.causes import (
    arrays,
    binary_losses,
    broadcasting,
    checkpoints,
    convolutions,
    devices,
    dtypes,
    graphs,
    in_place,
    indices,
    loading,
    losses,
    modules,
    norms,
    optimizers,
    recurrent,
    reshaping,
    shapes,
    silent,
    single_values,
)
from labkit.doctor.explain.causes.rule import Rule, explains, rules

__all__ = ["Rule", "explains", "rules"]

FAMILIES = (
    arrays,
    binary_losses,
    broadcasting,
    checkpoints,
    convolutions,
    devices,
    dtypes,
    graphs,
    in_place,
    indices,
    loading,
    losses,
    modules,
    norms,
    optimizers,
    recurrent,
    reshaping,
    shapes,
    silent,
    single_values,
)
