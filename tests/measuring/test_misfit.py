"""What does not fit together is said in a sentence, wherever the loop meets it."""

import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import TensorDataset

from labkit.data.loading import loader
from labkit.errors import ConfigError, DataError, DeviceError
from labkit.measuring.misfit import explained
from labkit.training import Config, evaluate, fit, predict
from tests.training.helpers import small_loaders, small_model, stripes

CONFIG = Config(run_dir="", epochs=1, batch_size=8, device="cpu")


def with_targets(change, count: int = 24):
    data = stripes(count)
    return loader(TensorDataset(data.images.float() / 255, change(data.labels)), 8)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda labels: labels + 1, "targets from 1 to 3, but the model has 3 outputs, for the classes 0 to 2"),
        (lambda labels: labels - 1, "targets from -1 to 1"),
        (lambda labels: torch.where(labels == 0, -100, labels), "targets from -100 to 2"),
        (lambda labels: labels.float(), r"class numbers, int64 of shape \(8,\), got torch.float32"),
        (lambda labels: labels.int(), "got torch.int32.*targets.long"),
        (lambda labels: labels > 0, "got torch.bool"),
        (lambda labels: labels[:, None], r"got torch.int64 of shape \(8, 1\)"),
    ],
    ids=["too high", "negative", "the number that torch leaves out", "float", "int32", "bool", "a column"],
)
@pytest.mark.parametrize("place", ["training", "validation", "evaluate", "predict"])
def test_targets_that_are_no_class_numbers_of_the_model(change, sentence, place):
    bad, (train, val) = with_targets(change), small_loaders()
    if place == "predict":
        with pytest.raises(DataError, match="targets (run from|must be class numbers)"):
            predict(small_model(), bad)
        return
    with pytest.raises(DataError, match=sentence):
        if place == "evaluate":
            evaluate(small_model(), bad)
        else:
            fit(small_model(), *((bad, val) if place == "training" else (train, bad)), CONFIG)


def test_shares_of_classes_are_targets_too():
    shares = with_targets(lambda labels: F.one_hot(labels, 3).float())
    numbers = with_targets(lambda labels: labels)
    assert evaluate(small_model(), shares).loss == pytest.approx(evaluate(small_model(), numbers).loss, rel=1e-6)


INPUTS, TARGETS = torch.rand(4, 1, 8, 8), torch.tensor([0, 1, 2, 0])


@pytest.mark.parametrize(
    ("batch", "sentence"),
    [
        (1, "got int"),
        ((INPUTS, TARGETS, 3), "got tuple of Tensor, Tensor, int"),
        ([INPUTS.numpy(), TARGETS.numpy()], "got list of ndarray, ndarray"),
        ((INPUTS, TARGETS[:3]), r"one target for each: the inputs are \(4, 1, 8, 8\), the targets \(3,\)"),
        ((INPUTS[:0], TARGETS[:0]), "at least one sample"),
        ((torch.tensor(1.0), torch.tensor(1)), "at least one sample"),
    ],
    ids=["number", "three", "arrays", "uneven", "empty", "scalars"],
)
@pytest.mark.parametrize("use", [lambda b: fit(small_model(), b, None, CONFIG), lambda b: evaluate(small_model(), b)])
def test_batches_that_are_no_pairs(batch, sentence, use):
    with pytest.raises(DataError, match=f"A batch must .*{sentence}"):
        use([batch])


class Returns(nn.Module):
    """A small linear model whose outputs are changed before they are returned."""

    def __init__(self, change):
        super().__init__()
        self.linear, self.change = nn.Linear(64, 3), change

    def forward(self, inputs):
        return self.change(self.linear(inputs.flatten(1)))


@pytest.mark.parametrize(
    ("model", "error", "sentence"),
    [
        (nn.Sequential(nn.Flatten(), nn.Linear(5, 3)), ConfigError, r"layer '1' \(Linear\) cannot take its input"),
        (nn.Sequential(nn.Flatten(), nn.Linear(64, 2)), DataError, "targets from 0 to 2, but the model has 2 outputs"),
        (Returns(lambda outputs: outputs[:, 0]), DataError, "one row of K outputs for each sample"),
        (Returns(lambda outputs: (outputs, 1)), ConfigError, "must return one tensor of outputs, got tuple"),
        (Returns(lambda outputs: outputs.detach()), ConfigError, "does not depend on any trained parameter"),
        (small_model().double(), DataError, "inputs are torch.float32 and the weights of the model torch.float64"),
        (nn.Sequential(nn.Flatten(), nn.LazyLinear(3)), ConfigError, "has no size before its first batch"),
        (nn.Linear, ConfigError, "must be a torch.nn.Module, got <class"),
        (None, ConfigError, "must be a torch.nn.Module, got None"),
    ],
    ids=["input size", "few outputs", "one output", "tuple", "detached", "double", "lazy", "class", "none"],
)
def test_models_that_do_not_fit_the_data(model, error, sentence):
    with pytest.raises(error, match=sentence):
        fit(model, *small_loaders(), CONFIG)


@pytest.mark.parametrize(
    ("loss_fn", "sentence"),
    [
        (lambda outputs, targets: F.cross_entropy(outputs, targets, reduction="none"), r"a tensor of shape \(8,\)"),
        (lambda outputs, targets: None, "got NoneType"),
        (lambda outputs, targets: 1.0, "got float"),
    ],
    ids=["one for each sample", "nothing", "a number"],
)
def test_losses_that_are_no_mean(loss_fn, sentence):
    with pytest.raises(ConfigError, match=f"loss_fn must return the mean loss.*{sentence}"):
        fit(small_model(), *small_loaders(), CONFIG, loss_fn=loss_fn)


def test_an_error_in_a_loss_of_ones_own_goes_on_in_its_own_words():
    with pytest.raises(ZeroDivisionError, match="by zero"):
        fit(small_model(), *small_loaders(), CONFIG, loss_fn=lambda outputs, targets: outputs / (1 // 0))


@pytest.mark.parametrize(("count", "batch_size"), [(9, 8), (5, 1)])
def test_batch_normalisation_with_a_single_sample(count, batch_size):
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 4), nn.BatchNorm1d(4), nn.Linear(4, 3))
    with pytest.raises(DataError, match="one sample, and batch normalisation cannot be trained on that"):
        fit(model, loader(stripes(count), batch_size, shuffle=True), None, CONFIG)


@pytest.mark.parametrize(
    ("error", "kind", "sentence"),
    [
        (
            torch.OutOfMemoryError("CUDA out of memory"),
            DeviceError,
            "tried a batch of 4 with inputs of .*batch_size=2 with accumulate=2",
        ),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory"), DeviceError, "batch_size=2 with accumulate=2"),
        (RuntimeError("CUDA error: device-side assert triggered"), DataError, "most often a label outside 0 to K-1"),
    ],
)
def test_what_a_device_says_is_put_into_words(error, kind, sentence):
    with pytest.raises(kind, match=sentence), explained(small_model(), [(INPUTS, TARGETS)]):
        raise error


def test_a_config_must_be_one():
    with pytest.raises(ConfigError, match=r"must be a Config, such as Config\(epochs=3\), got dict"):
        fit(small_model(), *small_loaders(), {"epochs": 3})


@pytest.mark.parametrize("val_loader", [[], 5, stripes(9)])
def test_a_validation_that_cannot_be_is_refused_before_anything_runs(val_loader):
    with pytest.raises(DataError):
        fit(small_model(), small_loaders()[0], val_loader, CONFIG)
