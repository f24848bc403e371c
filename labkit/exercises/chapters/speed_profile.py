"""Chapter 08, second part: reading a profile, and what workers can do."""

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import torch

from labkit.exercises.declaration import Misconception
from labkit.exercises.exercise import Exercise

Spans = list[tuple[str, float, float]]


def _inside(spans: Spans, place: int) -> list[int]:
    """Return the places of all spans inside of one."""
    _, begin, end = spans[place]
    return [i for i, one in enumerate(spans) if i != place and begin <= one[1] and one[2] <= end]


def _children(spans: Spans, place: int) -> list[int]:
    """Return the places of those directly inside: in no other that is inside, too."""
    inner = _inside(spans, place)
    return [i for i in inner if not any(i in _inside(spans, j) for j in inner)]


def _by_name(own: Callable[[Spans, int], float], put: Callable[[list[float]], float] = sum) -> Callable:
    """Return an answer with its own idea of the time of one span, and of many with the same name."""

    def own_seconds(spans: Spans) -> dict[str, float]:
        found = defaultdict(list)
        for place, (name, _, _) in enumerate(spans):
            found[name].append(own(spans, place))
        return {name: put(values) for name, values in found.items()}

    return own_seconds


def _length(spans: Spans, place: int) -> float:
    return spans[place][2] - spans[place][1]


def _own(spans: Spans, place: int) -> float:
    return _length(spans, place) - sum(_length(spans, inner) for inner in _children(spans, place))


def _a_profile(generator: torch.Generator, *names: str) -> tuple:
    """Return a call of a linear layer, made of others, then a loss: with lengths that are drawn."""
    spans, now = [], 0.0

    def add(name: str, *inner: Any) -> None:
        nonlocal now
        place = len(spans)
        spans.append(None)
        begin = now
        now += 0.1 + torch.rand((), generator=generator).item()
        for one in inner:
            add(*one)
            now += 0.05
        now += 0.1 + torch.rand((), generator=generator).item()
        spans[place] = (name, begin, now)

    for name in names:
        add(name, ("linear", ("transpose", ("view",)), ("addmm",)), ("relu",))
        now += 0.2
    return (spans,)


OWN_SECONDS = Exercise(
    name="own_seconds",
    prompt="A profile is a list of calls `(name, begin, end)`, in the order of their beginnings. A call that lies in "
    "another was made by it. Return a dict: for each name the seconds of its *own*, over all its calls: the time in "
    "which it ran itself, without that of the calls that it made.",
    stub='''def own_seconds(spans):
    """Return, for each name, the seconds in which its calls ran themselves."""
    return ...  # your turn''',
    solved='''def own_seconds(spans):
    """Return, for each name, the seconds in which its calls ran themselves."""
    own, running = {}, []
    for name, begin, end in spans:
        own[name] = own.get(name, 0.0) + end - begin
        while running and running[-1][1] <= begin:
            running.pop()
        if running:
            own[running[-1][0]] -= end - begin
        running.append((name, end))
    return own''',
    hints=(
        "A call of 5 ms that made two others of 1 ms each has 3 ms of its own.",
        "Take a call's time away from the *one* call that made it: the last that has begun and not ended.",
        "Keep a stack of calls that run: at each new call drop those that have ended; the one on top is the caller.",
    ),
    cases=lambda generator: [_a_profile(generator, "forward"), _a_profile(generator, "forward", "head", "forward")],
    praise="This is the column `Self CPU` of the profiler.",
    misconceptions=(
        Misconception(
            "the time of all that is inside, too",
            _by_name(_length),
            "That is the *total* time of each name: `forward` contains everything below it, so each millisecond is "
            "counted several times. It says where to look, not what is slow.",
        ),
        Misconception(
            "taken away twice",
            _by_name(
                lambda spans, place: _length(spans, place) - sum(_length(spans, one) for one in _inside(spans, place))
            ),
            "You took away all calls inside, and those inside of these once more. Only those that a call made itself "
            "count: theirs already contain the others.",
        ),
        Misconception(
            "only the last call of a name",
            _by_name(_own, lambda values: values[-1]),
            "Names come more than once, and each new call overwrites the one before. Add.",
        ),
        Misconception(
            "the mean of the calls",
            _by_name(_own, lambda values: sum(values) / len(values)),
            "That is the time of one call. Ten thousand calls of a microsecond are worth a look: sum them.",
        ),
        Misconception(
            "how often, not how long",
            _by_name(lambda spans, place: 1),
            "You count the calls. Many calls need not take long.",
        ),
    ),
)


def _always(formula: Callable[[float, float, int], float]) -> Callable:
    def seconds_a_batch(load: float, compute: float, workers: int) -> float:
        return formula(load, compute, workers)

    return seconds_a_batch


def _loads(generator: torch.Generator) -> list[tuple]:
    """Return cases in which loading decides, and in which computing does."""
    load, compute = (1 + torch.rand(2, generator=generator)).tolist()
    return [(4 * load, compute, 0), (4 * load, compute / 2, 2), (load, 3 * compute, 2), (4 * load, compute, 1)]


SECONDS_A_BATCH = Exercise(
    name="seconds_a_batch",
    prompt="A batch takes one process `load` seconds to make, and the device `compute` seconds to train on. How many "
    "seconds does a batch take in the long run, with so many `workers`? With 0 the loop makes the batches itself. Each "
    "worker makes whole batches, all at the same time, on cores of their own, while the device computes.",
    stub='''def seconds_a_batch(load, compute, workers):
    """Return the seconds from one batch to the next, in the long run."""
    return ...  # your turn''',
    solved='''def seconds_a_batch(load, compute, workers):
    """Return the seconds from one batch to the next, in the long run."""
    if workers == 0:
        return load + compute
    return max(compute, load / workers)''',
    hints=(
        "Without workers: first make the batch, then compute.",
        "With workers both happen at the same time. Who is slower sets the pace.",
        "Two workers make two batches in the time of one.",
    ),
    cases=_loads,
    praise="More workers than load / compute gain nothing: the device sets the pace then.",
    misconceptions=(
        Misconception(
            "one after the other, always",
            _always(lambda load, compute, workers: load / max(workers, 1) + compute),
            "With workers the next batch is made *while* the device computes. The times do not add; the longer one "
            "counts.",
        ),
        Misconception(
            "no workers are as good as one",
            _always(lambda load, compute, workers: max(compute, load / max(workers, 1))),
            "With `num_workers=0` nobody loads while the loop computes: there the two times add.",
        ),
        Misconception(
            "the shorter one counts",
            _always(lambda load, compute, workers: min(compute, load / workers) if workers else load + compute),
            "Whoever is faster waits for the other.",
        ),
        Misconception(
            "workers share one pace",
            _always(lambda load, compute, workers: max(compute, load) if workers else load + compute),
            "Each worker makes batches of its own: with two, a batch comes twice as often.",
        ),
        Misconception(
            "workers compute, too",
            _always(lambda load, compute, workers: max(compute, load) / workers if workers else load + compute),
            "Workers prepare data. The device stays one, and `compute` does not shrink.",
        ),
    ),
)
