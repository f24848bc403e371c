"""Cases in which the fault is in the loss."""

OBJECTIVE_CASES: list = []
