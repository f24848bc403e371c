"""Measurements for the topic "Reproducibility, records, small-batch test": seeds, and what repeats after them."""

import random
from collections.abc import Callable
from unittest import mock

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from labkit.exercises.claims import claim
from labkit.exercises.ledger.measuring import error_of


def draws() -> tuple:
    """Draw one number each from `random`, NumPy and torch."""
    return random.random(), np.random.rand(), torch.rand(()).item()


@claim(
    "C281",
    true="Yes, three libraries with three generators. The line for CUDA does no harm, and it is not needed: "
    "`torch.manual_seed` passes the seed on to all devices.",
    false="You may think that one seed rules them all. It does not: with `torch.manual_seed` alone, `random` and NumPy "
    "went on as they liked.",
    depends="If your program never draws from NumPy, its seed changes nothing. But a library that you use may draw, "
    "and a function for all of them is three lines.",
)
def three_generators_and_the_devices() -> dict[str, bool]:
    """Seed all three libraries twice, then torch alone, and see whether torch passes its seed on to CUDA."""

    def seed_all() -> None:
        random.seed(7)
        np.random.seed(7)
        torch.manual_seed(7)

    with mock.patch.object(torch.cuda, "manual_seed_all") as seed_of_all_gpus:
        seed_all()
        first = draws()
        seed_all()
        again = draws()
        torch.manual_seed(7)
        torch_alone = draws()
    return {
        "with all three seeded, all three repeat": first == again,
        "the seed of torch leaves the other two alone": torch_alone[2] == first[2] and torch_alone[:2] != first[:2],
        "torch passes its seed on to all CUDA devices": mock.call(7) in seed_of_all_gpus.call_args_list,
    }


def seeded_run(extra_draws: int = 0, generator: torch.Generator | None = None) -> tuple[Tensor, list[int], Tensor]:
    """Seed torch, make a layer, draw some numbers that nobody needs, and return weights, order and a dropout."""
    torch.manual_seed(7)
    weights = nn.Linear(8, 8).weight.detach()
    torch.rand(extra_draws)
    loader = DataLoader(TensorDataset(torch.arange(20)), batch_size=4, shuffle=True, generator=generator)
    order = [index for (batch,) in loader for index in batch.tolist()]
    return weights, order, nn.functional.dropout(torch.ones(64))


@claim(
    "C282",
    true="For the same program they did, all three. Then one more random number was drawn somewhere in between, and "
    "order and dropout were others: they all take from one row of numbers.",
    false="Too hard: the same program with the same seed did repeat, weights, order and dropout. What breaks it is a "
    "change in between, were it a single draw.",
    depends="Right: the same seed *and* the same sequence of draws; also the same versions and number of threads. A "
    "loader with a generator of its own keeps its order, whatever else is drawn.",
)
def one_draw_shifts_all_later_ones() -> dict[str, bool]:
    """Run twice from a seed, then with one extra draw, then so with a generator that belongs to the loader."""
    weights, order, dropped = seeded_run()
    same_weights, same_order, same_dropped = seeded_run()
    _, other_order, other_dropped = seeded_run(extra_draws=1)
    own_orders = [seeded_run(extra, torch.Generator().manual_seed(5))[1] for extra in (0, 1)]
    return {
        "the same program gives the same weights": torch.equal(weights, same_weights),
        "the same order and the same dropout": order == same_order and torch.equal(dropped, same_dropped),
        "the order repeats although one more number was drawn before": order == other_order,
        "so does dropout": torch.equal(dropped, other_dropped),
        "with a generator of its own, the loader repeats its order after that extra draw": own_orders[0]
        == own_orders[1],
    }


def after_ten_updates(make_optimizer: Callable) -> Tensor:
    """Give an optimizer ten times the same gradients and return the weights."""
    generator = torch.Generator().manual_seed(5)
    weight = nn.Parameter(torch.ones(1000))
    optimizer = make_optimizer([weight], lr=0.01)
    for _ in range(10):
        weight.grad = torch.randn(1000, generator=generator)
        optimizer.step()
    return weight.detach()


@claim(
    "C283",
    true="The optimizers are innocent: from the same gradients each of them came to the same bits. What differs is the "
    "order in which a device adds up: one and the same sum came out as 0 and as 1.",
    false="Right. Look at sums: kernels that add in another order round differently, on a GPU from run to run. The "
    "update of an optimizer works on each number by itself, and repeats.",
    depends="It does not depend on the optimizer, none of those below differed. It depends on the kernels that made "
    "the gradients.",
)
def sums_differ_and_optimizers_repeat() -> dict[str, bool]:
    """Give five optimizers the same gradients twice, and add the same three numbers in two orders."""
    names = ("SGD", "Adam", "AdamW", "RMSprop", "Adagrad")
    optimizers = [getattr(torch.optim, name) for name in names]
    repeat = [torch.equal(after_ten_updates(make), after_ten_updates(make)) for make in optimizers]
    large, one = torch.tensor(1e8), torch.tensor(1.0)
    return {
        "from the same gradients some optimizer comes to other weights": not all(repeat),
        "the order of a sum makes no difference, so only the optimizer is left": bool(
            (large + one) - large == (large - large) + one
        ),
    }


def fills_memory() -> bool:
    """Tell whether memory that was only asked for is filled with NaN, so that nothing undefined can be read."""
    used = [torch.ones(1000) for _ in range(100)]
    del used  # what is handed out next has been used, and holds ones
    pieces = [torch.empty(1000) for _ in range(100)]
    return all(bool(piece.isnan().all()) for piece in pieces)


@claim(
    "C284",
    true="Yes. An operation that has no deterministic form raised an error in place of giving what it likes. And the "
    "cost is real: even memory that will be overwritten is filled first.",
    false="You may have seeded everything and seen equal runs on the CPU. The seed rules what is drawn; this switch "
    "rules *how* is computed, and refuses what it cannot promise.",
    depends="How much it costs depends on the model, and on a CPU it is little. What it does is the same everywhere: "
    "repeat, or refuse.",
)
def repeat_or_refuse() -> dict[str, bool]:
    """Write two values to one place with the switch off and on, and look at memory that was only asked for."""

    def write_twice() -> Tensor:
        return torch.zeros(3).put_(torch.tensor([0, 0]), torch.tensor([1.0, 2.0]))

    torch.use_deterministic_algorithms(False)
    off, fills_when_off = error_of(write_twice), fills_memory()
    torch.use_deterministic_algorithms(True)
    on, fills_when_on = error_of(write_twice), fills_memory()
    return {
        "without it an operation may be one that is not deterministic": off == "",
        "with it this operation is refused": on.startswith("RuntimeError") and "deterministic" in on,
        "it costs some work: memory is filled that is otherwise taken as it is": fills_when_on and not fills_when_off,
    }
