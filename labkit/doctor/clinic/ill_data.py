"""Cases in which the fault is in the data."""

DATA_CASES: list = []
