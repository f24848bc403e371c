"""What is wrong with the workers of a loader."""

from labkit.doctor.evidence import Evidence
from labkit.doctor.finding import Finding


def same_random_numbers(evidence: Evidence) -> Finding | None:
    """Random transforms repeat: in two workers, or in every epoch."""
    seen = evidence.data.workers
    if not seen.random or not (seen.same_in_workers or seen.same_in_epochs):
        return None
    where = "the first and the second worker" if seen.same_in_workers else "the first worker of one epoch and the next"
    if seen.same_in_workers and seen.same_in_epochs:
        where += ", and of one epoch and the next,"
    return Finding(
        "worker_rng",
        "fail",
        f"Samples are random, and {where} give a sample with the same random numbers ({seen.workers} workers).",
        "A generator that is made with the data set, or a constant seed in worker_init_fn, is the same wherever and "
        "whenever a worker begins.",
        "torch.rand(...)  # the global generators: the loader seeds them anew in each worker and epoch\n"
        "# or, for one of your own: numpy.random.default_rng(torch.initial_seed()), made inside the worker",
        "the same sample of two epochs differs, with num_workers as it is",
        "07",
        weight=8,
    )


def whole_stream_in_each_worker(evidence: Evidence) -> Finding | None:
    """Each worker reads a stream from its beginning."""
    seen = evidence.data.workers
    if not seen.whole or seen.random:
        return None
    return Finding(
        "duplicate_samples",
        "fail",
        f"Each of the {seen.workers} workers begins with the same {seen.whole} samples of the stream: an epoch has "
        f"every sample {seen.workers} times.",
        "Every worker has a copy of an IterableDataset and reads all of it, unless the data set shares the work out.",
        "info = torch.utils.data.get_worker_info()\n"
        "for index in range(info.id if info else 0, n, info.num_workers if info else 1): ...",
        "an epoch has as many samples as with num_workers=0",
        "07",
        weight=8,
        explains=("data_leakage",),
    )


RULES = [same_random_numbers, whole_stream_in_each_worker]
