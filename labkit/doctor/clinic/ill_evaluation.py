"""Cases in which the fault is in the evaluation."""

EVALUATION_CASES: list = []
