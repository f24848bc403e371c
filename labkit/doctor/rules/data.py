"""What is wrong with the data: rules from the evidence to a finding."""

from labkit.doctor.rules import (
    data_balance,
    data_groups,
    data_lag,
    data_left_out,
    data_masks,
    data_meaning,
    data_order,
    data_parts,
    data_split,
    data_told,
    data_turned,
    data_values,
    data_workers,
)

RULES = [
    *data_values.RULES,
    *data_order.RULES,
    *data_parts.RULES,
    *data_meaning.RULES,
    *data_balance.RULES,
    *data_groups.RULES,
    *data_left_out.RULES,
    *data_masks.RULES,
    *data_split.RULES,
    *data_told.RULES,
    *data_turned.RULES,
    *data_lag.RULES,
    *data_workers.RULES,
]
