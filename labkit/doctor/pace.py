"""How often something may be repeated: as often as is wished, unless once takes long.

What the doctor says must not hang on how fast a machine is, or on what else it has to do. So a clock never stops
what is short. Of some repetitions the fastest counts: it says what the work is, and not who else was at work. And
the limits are many times what a small program needs.
"""

from itertools import pairwise


def affordable(wished: int, fewest: int, once: float, seconds: float) -> int:
    """Return how many repetitions fit into some seconds if one takes `once`: between `fewest` and `wished`."""
    return max(fewest, min(wished, int(seconds / max(once, 1e-9))))


def fastest(moments: list[float]) -> float:
    """Return the least time between two moments that follow each other, 0.0 if there are no two."""
    return min((later - earlier for earlier, later in pairwise(moments)), default=0.0)
