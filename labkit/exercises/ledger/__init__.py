"""The ledger: 300 sentences that people say about PyTorch, with a verdict and the right sentence for each.

The rows lie in claims_*.csv. The modules beside them measure the rows, one module a topic.
"""

import csv
from functools import cache
from pathlib import Path


@cache
def rows() -> tuple[dict[str, str], ...]:
    """Return the rows in order, each with id, topic, verdict, statement and right_statement.

    verdict: true, false, partly, depends, outdated or unverifiable-here.
    """
    found: list[dict[str, str]] = []
    for path in sorted(Path(__file__).parent.glob("claims_*.csv")):
        with path.open(encoding="utf-8", newline="") as file:
            found += csv.DictReader(file)
    return tuple(found)
