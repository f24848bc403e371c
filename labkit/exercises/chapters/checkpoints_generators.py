"""Chapter 06, tenth part: random numbers that no other draw can shift."""

import hashlib
from collections.abc import Callable
from typing import Any

import torch

from labkit.exercises import families
from labkit.exercises.declaration import Misconception
from labkit.exercises.exercise import Exercise


def run_generator_for(answer: Any, seed: int, purpose: str, epoch: int) -> Any:
    """Ask for generators, draw from each, and compare: the same question, other questions, torch's own numbers."""
    families.need_function(answer)
    if (made := answer(seed, purpose, epoch)) is ...:
        return ...
    if not isinstance(made, torch.Generator):
        raise families.WrongKind("The answer is a `torch.Generator`, which the caller draws from.")

    def draw(*question: Any) -> list[int]:
        return torch.randint(2**40, (4,), generator=answer(*question)).tolist()

    def torchs_own() -> tuple[list[int], list[int]]:
        """Draw from torch's global generator, with and without a question in between."""
        torch.manual_seed(5)
        alone = torch.randint(2**40, (4,)).tolist()
        torch.manual_seed(5)
        answer(seed, purpose, epoch)
        return alone, torch.randint(2**40, (4,)).tolist()

    first = draw(seed, purpose, epoch)
    torch.rand(3)
    undisturbed, after = torchs_own()
    same_length = purpose[::-1]
    return {
        "the same numbers each time one asks": draw(seed, purpose, epoch) == first,
        "others for another seed": draw(seed + 1, purpose, epoch) != first,
        "others for another purpose": draw(seed, "mask " + purpose, epoch) != first,
        "others for another purpose of the same length": draw(seed, same_length, epoch) != first,
        "others for another epoch": draw(seed, purpose, epoch + 1) != first,
        "others for seed + 1 and epoch - 1": draw(seed + 1, purpose, epoch - 1) != first,
        "others for epoch 0 of another seed": draw(seed, purpose, 0) != draw(seed + 1, purpose, 0),
        "a generator of its own": made is not torch.default_generator,
        "torch's own numbers go on undisturbed": undisturbed == after,
        "made with Python's `hash`": "hash" in getattr(getattr(answer, "__code__", None), "co_names", ()),
    }


def _seeded_with(number: Callable[[int, str, int], int]) -> Callable[[int, str, int], torch.Generator]:
    """Return an answer that makes its seed in its own way."""
    return lambda seed, purpose, epoch: torch.Generator().manual_seed(number(seed, purpose, epoch))


def _digest(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode("utf-8")).digest()[:7], "big")


def _python_hash(seed: int, purpose: str, epoch: int) -> torch.Generator:
    return torch.Generator().manual_seed(hash((seed, purpose, epoch)) % 2**60)


def _global(seed: int, purpose: str, epoch: int) -> torch.Generator:
    return torch.manual_seed(_digest(f"{seed}/{purpose}/{epoch}"))


def _by_a_draw(seed: int, purpose: str, epoch: int) -> torch.Generator:
    torch.manual_seed(_digest(f"{seed}/{purpose}/{epoch}"))
    return torch.Generator().manual_seed(int(torch.randint(2**60, ())))


def _surprising(seed: int, purpose: str, epoch: int) -> torch.Generator:
    made = torch.Generator()
    made.seed()
    return made


GENERATOR_FOR = Exercise(
    name="generator_for",
    prompt='Return a `torch.Generator` for one purpose, such as "shuffle", in one epoch: the same numbers each time '
    "one asks, in every process, and others as soon as seed, purpose or epoch is another. torch's own numbers are not "
    "touched. `seed` and `epoch` are whole numbers from 0 on; `manual_seed` takes any below 2⁶³.",
    stub='''def generator_for(seed, purpose, epoch):
    """Return a generator whose numbers depend on these three, and on nothing else."""
    return ...  # your turn''',
    solved='''import hashlib


def generator_for(seed, purpose, epoch):
    """Return a generator whose numbers depend on these three, and on nothing else."""
    digest = hashlib.sha256(f"{seed}/{purpose}/{epoch}".encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:7], "big"))''',
    hints=(
        "`torch.Generator()` is one of your own; `manual_seed` seeds it and returns it.",
        "Three things have to become one number, so that no two questions share it. A sum will not do.",
        "Write the three into one text with signs between them, take its SHA-256, and make a number of the first seven "
        'bytes: `int.from_bytes(digest[:7], "big")`.',
    ),
    cases=lambda generator: [(1, "shuffle", 2), (0, "augment", 1)],
    run=run_generator_for,
    praise="A resume needs no state of it: it asks again.",
    misconceptions=(
        Misconception(
            "torch's own generator",
            _global,
            "`torch.manual_seed` seeds the *global* generator and returns that. Dropout goes on from there, and every "
            "other draw shifts your numbers. Make a `torch.Generator()`.",
        ),
        Misconception(
            "torch's own numbers are set back on the way",
            _by_a_draw,
            "Your generator is right, and to seed it you seeded and drew from the global one. All dropout after it "
            "begins at that place again.",
        ),
        Misconception(
            "only the seed",
            _seeded_with(lambda seed, purpose, epoch: seed),
            "Each purpose gets the same numbers, and each epoch too: the same order again and again.",
        ),
        Misconception(
            "no purpose",
            _seeded_with(lambda seed, purpose, epoch: _digest(f"{seed}/{epoch}")),
            "Shuffling and augmentation draw the same numbers: what comes first is then always moved the same way.",
        ),
        Misconception(
            "no epoch",
            _seeded_with(lambda seed, purpose, epoch: _digest(f"{seed}/{purpose}")),
            "Every epoch has the order of the first. People forget `set_epoch` of a sampler with the same effect.",
        ),
        Misconception(
            "a sum",
            _seeded_with(lambda seed, purpose, epoch: seed + epoch + _digest(purpose)),
            "Seed 1 in epoch 2 is the same as seed 2 in epoch 1. Runs of several seeds, meant to be independent, share "
            "their orders.",
        ),
        Misconception(
            "a product",
            _seeded_with(lambda seed, purpose, epoch: (seed + 1) * epoch * (1 + _digest(purpose) % 1000)),
            "In epoch 0 the product is 0 for every seed and purpose.",
        ),
        Misconception(
            "the length of the purpose",
            _seeded_with(lambda seed, purpose, epoch: _digest(f"{seed}/{len(purpose)}/{epoch}")),
            "Two purposes with as many letters share their numbers.",
        ),
        Misconception(
            "Python's `hash`",
            _python_hash,
            "Right in this process. Python gives `hash` of a text another secret start in every process, so a resumed "
            "run, and each worker that is spawned, gets other numbers. `hashlib` is the same everywhere.",
        ),
        Misconception(
            "seeded by the computer",
            _surprising,
            "`generator.seed()` takes a seed from the machine, another each time. `manual_seed` takes yours.",
        ),
        Misconception(
            "not seeded",
            lambda seed, purpose, epoch: torch.Generator(),
            "A new generator always begins with the same default seed: all questions get the same numbers.",
        ),
    ),
)
