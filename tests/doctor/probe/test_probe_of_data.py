"""What the probe of the data writes down, and that it leaves the program's data as they are."""

import torch
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from labkit.doctor.probe.data_reading import draw, order_of, prints, read, spread_out, stacked


class Numbers(IterableDataset):
    def __iter__(self):
        yield from ((torch.tensor(float(number)), number) for number in range(30))


def test_a_stream_is_drawn_until_there_are_enough() -> None:
    samples = stacked(draw(DataLoader(Numbers(), 10), most=20))
    assert samples.inputs.tolist() == [float(number) for number in range(20)]


def test_places_are_spread_over_the_data_set() -> None:
    assert spread_out(10, 5) == [0, 2, 4, 6, 8]
    assert spread_out(3, 5) == [0, 1, 2]


def test_reading_gives_copies() -> None:
    x = torch.zeros(6, 2)
    samples = read(DataLoader(TensorDataset(x, torch.arange(6)), 2), [0, 5])
    samples.inputs += 1
    assert x.sum() == 0
    assert samples.targets.tolist() == [0, 5]


def test_the_order_of_an_epoch_needs_no_samples() -> None:
    loader = DataLoader(TensorDataset(torch.arange(5)), 2)
    assert order_of(loader) == [[0, 1], [2, 3], [4]]


def test_equal_rows_have_equal_prints() -> None:
    first, second, third = prints(torch.tensor([[1.0, 2.0], [1.0, 2.0], [2.0, 1.0]]))
    assert first == second != third
