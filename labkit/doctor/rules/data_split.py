"""What is wrong with a split."""

from labkit.doctor.evidence import Evidence
from labkit.doctor.finding import Finding


def another_split_each_time(evidence: Evidence) -> Finding | None:
    """A function that splits gives other parts the second time, though all global seeds are the same."""
    seen = evidence.data.split
    if seen is None:
        return None
    return Finding(
        "unseeded_split",
        "fail",
        f"{seen.name}() was asked twice with the same global seeds: {seen.moved} of {seen.places} samples stand "
        "elsewhere the second time.",
        "Each run validates on other samples, some of which an earlier run, or a checkpoint, has learned.",
        "order = numpy.random.default_rng(0).permutation(n)  # a seed of its own, written down",
        f"list({seen.name}()) == list({seen.name}())",
        "07",
        weight=7,
    )


RULES = [another_split_each_time]
