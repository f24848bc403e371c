"""Random numbers: equal everywhere, a function of their arguments alone, and really random."""

import itertools
import random
from collections.abc import Callable

import numpy
import pytest
import torch

from labkit import randomness

ROWS = 100_000

# The first outputs of splitmix64 from the state 1234567, as other implementations give them.
SPLITMIX64_OF_1234567 = [
    6457827717110365317,
    3203168211198807973,
    9817491932198370423,
    4593380528125082431,
    16408922859458223821,
]


def splitmix64(state: int, steps: int) -> int:
    """Return output number `steps` of splitmix64, in Python's unbounded integers cut to 64 bits."""
    cut = (1 << 64) - 1
    bits = (state + steps * 0x9E3779B97F4A7C15) & cut
    bits = ((bits ^ bits >> 30) * 0xBF58476D1CE4E5B9) & cut
    bits = ((bits ^ bits >> 27) * 0x94D049BB133111EB) & cut
    return bits ^ bits >> 31


def correlation(first: torch.Tensor, second: torch.Tensor) -> float:
    return torch.corrcoef(torch.stack([first, second]))[0, 1].item()


def draw_from_all() -> list:
    """Draw from every global generator, an odd number of normal numbers, which are made in pairs."""
    normal = [random.gauss(0, 1), numpy.random.normal(), torch.randn(1, dtype=torch.float64).item()]
    return [*normal, random.random(), numpy.random.random(), torch.rand(1).item(), torch.randn(3).tolist()]


@pytest.fixture(autouse=True)
def generators_are_put_back():
    with randomness.frozen_randomness():
        yield


# --- seeds ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((0, "shuffle"), 5011543754173312540),
        ((0, "shuffle", 1), 5226016992975961191),
        ((3, "augment", 2, 1), 4050248616922195186),
        ((-1, "Ünïcode"), 5224416042072612655),
    ],
)
def test_a_seed_is_the_same_on_every_machine(arguments: tuple, expected: int) -> None:
    assert randomness.seed_for(*arguments) == expected


def test_every_argument_counts_and_none_runs_into_the_next() -> None:
    arguments = list(itertools.product((0, 1, 11, -1), ("a", "b", "a/1"), (0, 1, 11), (0, 1, 11)))
    seeds = {randomness.seed_for(*each) for each in arguments}
    assert len(seeds) == len(arguments)
    assert all(0 <= seed < 2**63 for seed in seeds)


def test_a_generator_starts_at_its_seed_and_is_fresh_each_time() -> None:
    first = torch.rand(3, generator=randomness.generator(5, "test", 1, 2))
    again = torch.rand(3, generator=randomness.generator(5, "test", 1, 2))
    expected = torch.rand(3, generator=torch.Generator().manual_seed(randomness.seed_for(5, "test", 1, 2)))
    assert torch.equal(first, again) and torch.equal(first, expected)


def test_a_permutation_holds_every_index_once_and_changes_with_seed_and_epoch() -> None:
    orders = [randomness.permutation(50, seed, epoch) for seed in (0, 1) for epoch in (0, 1)]
    assert all(order.dtype == torch.int64 and order.sort().values.equal(torch.arange(50)) for order in orders)
    assert len({tuple(order.tolist()) for order in orders}) == 4
    assert randomness.permutation(50, 1, 0).equal(orders[2])


def test_every_place_of_a_permutation_is_equally_likely() -> None:
    places = torch.stack([randomness.permutation(5, 0, epoch) for epoch in range(4000)])
    counts = torch.stack([torch.bincount(places[:, place], minlength=5) for place in range(5)])
    assert (counts - 800).abs().max() < 5 * 800**0.5


# --- uniform ----------------------------------------------------------------------------------------------------------


def test_the_reference_used_here_is_splitmix64() -> None:
    assert [splitmix64(1234567, step) for step in range(1, 6)] == SPLITMIX64_OF_1234567


@pytest.mark.parametrize("draws", [1, 5])
def test_uniform_equals_splitmix64_in_pure_python(draws: int, device: torch.device) -> None:
    if device.type == "mps":
        device = torch.device("cpu")  # Apple GPUs have no float64
    indices = torch.tensor([0, 1, 2, 49_999, 2**31 - 1, 2**31, 2**40 + 1, 2**50 + 3])
    start = randomness.seed_for(7, "test", 3)
    expected = [
        [(splitmix64(start, index * draws + column) >> 11) / 2**53 for column in range(draws)]
        for index in indices.tolist()
    ]
    found = randomness.uniform(7, "test", 3, indices.to(device), draws)
    assert found.dtype == torch.float64 and found.device.type == device.type
    assert found.tolist() == expected


def test_uniform_stays_what_it_was() -> None:
    """Whoever changes these numbers changes every training run that was ever written down."""
    found = randomness.uniform(0, "augment", 1, torch.tensor([0, 9]), 2)
    assert [[value.hex() for value in row] for row in found.tolist()] == [
        ["0x1.bc2661ff1df24p-3", "0x1.9054407c26be4p-1"],
        ["0x1.1f207ab8411cap-2", "0x1.16fac9bb2e753p-1"],
    ]


def test_a_row_does_not_depend_on_the_batch_it_is_in() -> None:
    indices = torch.randperm(200, generator=torch.Generator().manual_seed(0))
    together = randomness.uniform(1, "test", 2, indices, 5)
    alone = torch.cat([randomness.uniform(1, "test", 2, index[None], 5) for index in indices])
    assert torch.equal(together, alone)


def test_uniform_takes_int32_indices_and_none_at_all() -> None:
    indices = torch.tensor([3, 1], dtype=torch.int32)
    assert torch.equal(randomness.uniform(0, "a", 0, indices, 2), randomness.uniform(0, "a", 0, indices.long(), 2))
    assert randomness.uniform(0, "a", 0, indices[:0], 2).shape == (0, 2)


def test_uniform_numbers_are_uniform() -> None:
    numbers = randomness.uniform(0, "test", 0, torch.arange(ROWS), 4)
    assert numbers.min() >= 0 and numbers.max() < 1
    counts = torch.histc(numbers, bins=100, min=0, max=1)
    expected = numbers.numel() / 100
    chi_squared = ((counts - expected) ** 2 / expected).sum()
    assert 99 - 5 * 198**0.5 < chi_squared < 99 + 5 * 198**0.5  # 99 degrees of freedom: mean 99, variance 198
    assert abs(numbers.mean() - 1 / 2) < 5 / (12 * numbers.numel()) ** 0.5
    assert abs(numbers.var() - 1 / 12) < 5 / (180 * numbers.numel()) ** 0.5
    lowest_bits = (numbers * 2**53).long() % 2
    assert abs(lowest_bits.double().mean() - 1 / 2) < 5 / (4 * numbers.numel()) ** 0.5


@pytest.mark.parametrize(
    "other",
    [
        lambda numbers: (numbers[1:, 0], numbers[:-1, 0]),  # neighbours
        lambda numbers: (numbers[1:, 0], numbers[:-1, 1]),  # the last draw of a sample and the first of the next
        lambda numbers: (numbers[:, 0], numbers[:, 1]),  # columns
        lambda numbers: (numbers[:, 0], randomness.uniform(0, "test", 1, torch.arange(ROWS), 2)[:, 0]),  # epochs
        lambda numbers: (numbers[:, 0], randomness.uniform(1, "test", 0, torch.arange(ROWS), 2)[:, 0]),  # seeds
        lambda numbers: (numbers[:, 0], randomness.uniform(0, "other", 0, torch.arange(ROWS), 2)[:, 0]),  # purposes
    ],
    ids=["neighbours", "last and first", "columns", "epochs", "seeds", "purposes"],
)
def test_uniform_numbers_have_nothing_to_do_with_each_other(other: Callable) -> None:
    first, second = other(randomness.uniform(0, "test", 0, torch.arange(ROWS), 2))
    assert abs(correlation(first, second)) < 5 / ROWS**0.5
    assert abs(correlation((first - 0.5).abs(), (second - 0.5).abs())) < 5 / ROWS**0.5


# --- global generators ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 1, 2**40, -3])
def test_seed_everything_seeds_all_three(seed: int) -> None:
    randomness.seed_everything(seed)
    first = draw_from_all()
    randomness.seed_everything(seed)
    assert draw_from_all() == first
    randomness.seed_everything(seed + 1)
    assert all(one != other for one, other in zip(draw_from_all(), first, strict=True))


def test_state_comes_back_and_survives_a_checkpoint(tmp_path) -> None:
    randomness.seed_everything(3)
    draw_from_all()
    assert random.getstate()[2] is not None and numpy.random.get_state()[3] == 1, "half a pair of normals is kept"
    torch.save(randomness.rng_state(), tmp_path / "state.pt")
    expected = [draw_from_all() for _ in range(3)]
    randomness.seed_everything(4)
    randomness.set_rng_state(torch.load(tmp_path / "state.pt", weights_only=True))
    assert [draw_from_all() for _ in range(3)] == expected


def test_a_state_is_a_copy_and_taking_it_draws_nothing() -> None:
    randomness.seed_everything(3)
    expected = draw_from_all()
    randomness.seed_everything(3)
    state = randomness.rng_state()
    assert draw_from_all() == expected
    randomness.set_rng_state(state)
    assert draw_from_all() == expected


def test_a_state_from_a_machine_with_other_devices_is_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    state = randomness.rng_state()
    gpu_states = [torch.zeros(16, dtype=torch.uint8)] * (torch.cuda.device_count() + 1)
    expected = draw_from_all()
    with monkeypatch.context() as patch:
        patch.setattr(torch.cuda, "set_rng_state_all", lambda states: pytest.fail("these GPUs are not here"))
        randomness.set_rng_state(state | {"cuda": gpu_states})
    assert draw_from_all() == expected


def test_frozen_randomness_leaves_no_trace_even_after_an_error() -> None:
    def use(seed: int | None) -> None:
        with pytest.raises(KeyError), randomness.frozen_randomness(seed):
            draw_from_all()
            raise KeyError

    randomness.seed_everything(5)
    draw_from_all()
    state = randomness.rng_state()
    expected = draw_from_all()
    for seed in (None, 0, 2**62):
        randomness.set_rng_state(state)
        use(seed)
        assert draw_from_all() == expected


def test_frozen_randomness_starts_at_its_seed_or_goes_on() -> None:
    randomness.seed_everything(8)
    expected = draw_from_all()
    with randomness.frozen_randomness(8):
        assert draw_from_all() == expected
        with randomness.frozen_randomness(1):
            draw_from_all()
    randomness.seed_everything(8)
    with randomness.frozen_randomness():
        assert draw_from_all() == expected
