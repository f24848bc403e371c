"""Chapter 03, second part: samples that do not simply stack."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import default_collate

from labkit.exercises.declaration import Misconception
from labkit.exercises.drawing import normal
from labkit.exercises.exercise import Exercise


def _lengths(samples: list[Tensor]) -> Tensor:
    return torch.tensor([len(sample) for sample in samples])


def _padded(samples: list[Tensor]) -> Tensor:
    return pad_sequence(samples, batch_first=True)


def _cut_to_the_shortest(samples: list[Tensor]) -> tuple[Tensor, Tensor]:
    shortest = min(len(sample) for sample in samples)
    return torch.stack([sample[:shortest] for sample in samples]), _lengths(samples)


def _padded_in_front(samples: list[Tensor]) -> tuple[Tensor, Tensor]:
    return _padded([sample.flip(0) for sample in samples]).flip(1), _lengths(samples)


def _samples_in_columns(samples: list[Tensor]) -> tuple[Tensor, Tensor]:
    return pad_sequence(samples), _lengths(samples)


def _sorted_by_length(samples: list[Tensor]) -> tuple[Tensor, Tensor]:
    ordered = sorted(samples, key=len, reverse=True)
    return _padded(ordered), _lengths(ordered)


def _numbers(generator: torch.Generator, *lengths: int) -> list[Tensor]:
    """Draw whole numbers, 0 among them and at the end: as real as any other."""
    drawn = [torch.randint(1, 9, (length,), generator=generator) for length in lengths]
    drawn[0][-1] = 0
    return drawn


PAD_BATCH = Exercise(
    name="pad_batch",
    prompt="A batch has samples of different lengths. Return `(padded, lengths)`: `padded` of shape (B, longest), a "
    "row for each sample in the order in which they came, filled up with 0 at the end; `lengths`, int64 (B,), how long "
    "each was. The dtype stays that of the samples.",
    stub='''def pad_batch(samples):
    """Return (padded (B, longest), lengths int64 (B,)) for a list of tensors (length,) of one dtype."""
    return ...  # your turn''',
    solved='''def pad_batch(samples):
    """Return (padded (B, longest), lengths int64 (B,)) for a list of tensors (length,) of one dtype."""
    lengths = torch.tensor([len(sample) for sample in samples])
    padded = samples[0].new_zeros(len(samples), int(lengths.max()))
    for row, sample in zip(padded, samples, strict=True):
        row[: len(sample)] = sample
    return padded, lengths''',
    hints=(
        "First the lengths, then a tensor of zeros that is wide enough for the longest, then row after row.",
        "A row of `padded` is a view: `row[: len(sample)] = sample` writes into `padded`.",
        "`samples[0].new_zeros(rows, columns)` has the dtype of the samples. (`pad_sequence` of `torch.nn.utils.rnn` "
        "does it all in one call, with `batch_first=True`.)",
    ),
    cases=lambda generator: [
        ([normal(generator, 2), normal(generator, 4), normal(generator, 3)],),
        (_numbers(generator, 3, 1, 5, 2),),
        ([normal(generator, 3)],),
    ],
    praise="The lengths travel with the batch: whoever takes a mean needs to know what is real.",
    misconceptions=(
        Misconception(
            "cut to the shortest",
            _cut_to_the_shortest,
            "It stacks, and what is longer than the shortest sample is lost; which part of a sample is learned then "
            "depends on its neighbours in the batch. Fill up to the longest instead.",
        ),
        Misconception(
            "filled up in front",
            _padded_in_front,
            "The zeros stand before the values, so position 0 is something else in each row. Here they go to the end: "
            "`row[: len(sample)] = sample`.",
        ),
        Misconception(
            "samples in columns",
            _samples_in_columns,
            "`pad_sequence` gives (longest, B) by default, from the time when recurrent networks wanted it so. "
            "`batch_first=True` gives a row for each sample.",
        ),
        Misconception(
            "one length for all",
            lambda samples: (_padded(samples), torch.full((len(samples),), max(map(len, samples)))),
            "These are the lengths *after* filling up: all alike, and they tell nothing. Measure before.",
        ),
        Misconception(
            "zeros counted as filling",
            lambda samples: (_padded(samples), (_padded(samples) != 0).sum(dim=1)),
            "A sample may hold a 0 of its own, and yours was taken for filling. After filling up nobody can tell them "
            "apart: take `len(sample)` before.",
        ),
        Misconception(
            "sorted by length",
            _sorted_by_length,
            "The rows come in another order than the samples, and the targets of the batch do not know. "
            "`pack_padded_sequence` once needed that; today it has `enforce_sorted=False`.",
        ),
        Misconception(
            "all becomes float32",
            lambda samples: (_padded(samples).float(), _lengths(samples)),
            "`torch.zeros(…)` is float32, and the whole numbers that you wrote into it became floats: `nn.Embedding` "
            "refuses them. `new_zeros` takes the dtype of the samples.",
        ),
    ),
)


def _there(samples: list) -> list:
    return [sample for sample in samples if sample is not None]


def _with(replaced: Callable[[list], list]) -> Callable[[list], Any]:
    """Return an answer that puts something in the place of the missing samples, and counts them."""

    def keep_whole_samples(samples: list) -> Any:
        there = _there(samples)
        return (default_collate(replaced(samples)) if there else None), len(samples) - len(there)

    return keep_whole_samples


def _zeros_instead(samples: list) -> list:
    empty = torch.zeros_like(_there(samples)[0][0]), 0
    return [empty if sample is None else sample for sample in samples]


def _another_instead(samples: list) -> list:
    return [_there(samples)[0] if sample is None else sample for sample in samples]


def _nobody_is_told(samples: list) -> Any:
    there = _there(samples)
    return default_collate(there) if there else None


def _those_that_are_left(samples: list) -> Any:
    return _nobody_is_told(samples), len(_there(samples))


def _all_or_nothing(samples: list) -> Any:
    return (None, len(samples)) if None in samples else (default_collate(samples), 0)


def _samples(generator: torch.Generator, pattern: str) -> list:
    """Draw a sample (input, label) for each x, and None for each dot."""
    return [(normal(generator, 3), place + 1) if letter == "x" else None for place, letter in enumerate(pattern)]


KEEP_WHOLE_SAMPLES = Exercise(
    name="keep_whole_samples",
    prompt="A Dataset gives None for a sample that cannot be read. Return `(batch, dropped)`: the samples that are "
    "there, put together by `default_collate`, and how many were None. When none is left, the batch is None. (A "
    "sample is a pair `(input, label)`.)",
    stub='''def keep_whole_samples(samples):
    """Return (batch of the samples that are not None, or None if there are none; how many were None)."""
    return ...  # your turn''',
    solved='''from torch.utils.data import default_collate


def keep_whole_samples(samples):
    """Return (batch of the samples that are not None, or None if there are none; how many were None)."""
    there = [sample for sample in samples if sample is not None]
    batch = default_collate(there) if there else None
    return batch, len(samples) - len(there)''',
    hints=(
        "Make a list of those that are there. Its length tells how many were dropped.",
        "`torch.utils.data.default_collate` makes a batch of a list of samples. It cannot make one of an empty list.",
        "`sample is not None` asks exactly what is to be asked.",
    ),
    cases=lambda generator: [
        (_samples(generator, "x.xx."),),
        (_samples(generator, "xxx"),),
        (_samples(generator, ".xx"),),
        (_samples(generator, "..."),),
    ],
    praise="Dropping is fine as long as somebody counts: at 30 % you want to know.",
    misconceptions=(
        Misconception(
            "nobody is told",
            _nobody_is_told,
            "The batch is right, and the count is missing. When a disk fails and half of the data is gone, training "
            "goes on as if nothing were. Return the number with the batch.",
        ),
        Misconception(
            "zeros in their place",
            _with(_zeros_instead),
            "A black picture with the label 0 is a sample too: the model learns that black means class 0. What is "
            "missing is left out.",
        ),
        Misconception(
            "another sample in their place",
            _with(_another_instead),
            "The batch has its full size, and one sample counts twice, more often the more are missing. Nobody asks "
            "for a full batch: let it be smaller.",
        ),
        Misconception(
            "the whole batch is thrown away",
            _all_or_nothing,
            "With 1 % missing and 64 samples in a batch, half of all batches have a None. Leave out the samples that "
            "are missing, and no others.",
        ),
        Misconception(
            "counted those that are left",
            _those_that_are_left,
            "That is the size of the batch, which the batch itself tells. Asked for is how many were dropped.",
        ),
        Misconception(
            "no batch of nothing",
            lambda samples: (default_collate(_there(samples)), samples.count(None)),
            "All is well until a batch comes in which every sample is None: `default_collate` looks at the first one "
            "of an empty list. It will come, at night, in epoch 40.",
        ),
    ),
)
