"""`fit(..., examine=True)`: the doctor looks before the first update."""

import pytest
import torch
import torch.nn as nn

from labkit import data, models
from labkit.doctor import FaultError
from labkit.keeping import same_bits
from labkit.training import Config, fit
from tests.command_line import labkit


def config(tmp_path, **changes) -> Config:
    return Config(**({"epochs": 1, "run_dir": str(tmp_path), "device": "cpu"} | changes))


@pytest.fixture(scope="module")
def splits():
    return data.load("digits", seed=0)


class Unmoved(nn.Module):
    """A network in which the gradient does not reach the body."""

    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(64, 32), nn.Linear(32, 10)

    def forward(self, images):
        with torch.no_grad():
            features = self.body(images.flatten(1)).relu()
        return self.head(features)


def test_a_proven_fault_stops_the_run_before_anything_is_written(tmp_path, splits):
    loader, model = data.loader(splits.train, 32, shuffle=True), Unmoved()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    with pytest.raises(FaultError, match=r"examine=False\) trains all the same") as raised:
        fit(model, loader, None, config(tmp_path), examine=True)
    assert raised.value.report.findings[0].fault == "graph_detached" and "body" in str(raised.value)
    assert list(tmp_path.iterdir()) == []
    assert all(same_bits(value, before[name]) for name, value in model.state_dict().items())


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"schedule": "plateau", "optimizer": "sgd", "learning_rate": 0.05},
        {"accumulate": 4, "clip_norm": 1.0, "average": 0.99},
        {"amp": "bf16", "model": "lenet"},
    ],
    ids=str,
)
def test_a_run_that_was_examined_is_the_run_that_was_not(tmp_path, splits, changes):
    """The doctor finds nothing, and leaves no trace: history and weights are the same bits."""
    results = []
    for examine in (False, True):
        settings = config(tmp_path, name=f"run-{examine}", **({"model": "mlp"} | changes))
        model = models.build(settings.model, splits.train.image_shape, 10, 0)
        train_loader, val_loader = data.loader(splits.train, 32, seed=0, shuffle=True), data.loader(splits.val, 512)
        run = fit(model, train_loader, val_loader, settings, examine=examine)
        rows = [{key: value for key, value in row.items() if key != "seconds"} for row in run.history]
        results.append((rows, model.state_dict()))
    (rows, weights), (rows_after, weights_after) = results
    assert rows == rows_after
    assert all(same_bits(value, weights_after[name]) for name, value in weights.items())


def test_what_is_only_likely_is_printed_and_training_goes_on(tmp_path, splits, capsys):
    settings = config(tmp_path, model="mlp", learning_rate=3.0, schedule="constant")
    model = models.build("mlp", splits.train.image_shape, 10, 0)
    run = fit(model, data.loader(splits.train, 32, shuffle=True), None, settings, examine=True)
    assert run.status == "finished" and "WARN  lr_too_high" in capsys.readouterr().out


def test_the_command_line_examines_too(tmp_path):
    answer = labkit("train", "--examine", "--epochs", "1", "--model", "mlp", "--run-dir", str(tmp_path))
    assert answer.returncode == 0 and "test accuracy" in answer.stdout
