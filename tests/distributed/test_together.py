"""Real processes, started by torchrun, do together what one does; they stop together, and go on in another number."""

import json
import signal

import pytest
import torch
import torch.distributed as dist

from labkit.runs import checkpoint
from labkit.training import fit, resume
from tests.distributed import launching, trainings
from tests.training.helpers import assert_identical, small_loaders, without_times

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not dist.is_gloo_available(), reason="this torch has no way for processes to talk"),
]
NAMES = ["plain", "accumulating", "recorded", "measure", "exchanges", "dropout", "begin", "refusals"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("together")


@pytest.fixture(scope="module")
def two(folder) -> list[dict]:
    """What came of everything in two processes, for each of them."""
    printed = launching.run(2, trainings.__file__, folder, *NAMES)
    assert printed.count("running acc.") == 5, "the main process prints each table, once"
    return [torch.load(folder / f"plain-{rank}.pt", weights_only=False) for rank in range(2)]


def assert_near(weights: dict, expected: dict) -> None:
    assert list(weights) == list(expected)
    for name, value in weights.items():
        torch.testing.assert_close(value, expected[name], rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", ["plain", "accumulating"])
def test_two_processes_make_the_updates_of_one(two, name):
    alone = trainings.THINGS[name](None)
    assert alone["updates"] == {"plain": 21, "accumulating": 9}[name]
    for together in (result[name] for result in two):
        assert_near(together["weights"], alone["weights"])
        for row, expected in zip(together["history"], alone["history"], strict=True):
            for key in ("train_accuracy", "val_accuracy", "skipped", "learning_rate", "epoch"):
                assert row[key] == expected[key], key
            for key in ("train_loss", "val_loss", "gradient_norm"):
                assert row[key] == pytest.approx(expected[key], rel=1e-5), key
    assert_identical(*(result[name]["weights"] for result in two))
    assert_identical(*(without_times(result[name]["history"]) for result in two))


def test_metrics_of_the_same_weights_are_the_same_to_the_last_bit(two):
    """Also where the batches do not go up, or there is one batch for two: nothing is measured twice to fill up."""
    alone = [vars(metrics) for metrics in trainings.measure()]
    assert [row["count"] for row in alone] == [90, 90, 90]
    assert two[0]["measure"] == two[1]["measure"] == alone


def test_gradients_travel_once_an_update(two):
    assert [result["exchanges"] for result in two] == [1, 1]


def test_one_record_is_written_once(two, folder, tmp_path):
    alone = fit(
        trainings.plain_model(), *small_loaders(9), trainings.CONFIG.replace(run_dir=str(tmp_path), name="alone")
    )
    written, expected = (
        {file.name.partition(".out")[0] for file in run.iterdir()} for run in (folder / "recorded", alone.folder)
    )
    assert written == expected and len([*(folder / "recorded").glob("events*")]) == 1
    facts = json.loads((folder / "recorded" / "run.json").read_text(encoding="utf-8"))
    assert facts["processes"] == 2
    lines = (folder / "recorded" / "history.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    assert rows == two[0]["recorded"]["history"]
    content, single = (checkpoint.read(run / "last.pt") for run in (folder / "recorded", alone.folder))
    assert list(content) == list(single) and list(content["model"]) == list(single["model"]), "no module. in names"


def test_a_run_that_was_cut_goes_on_bit_for_bit_in_as_many_processes(two):
    """With dropout, which draws in each process, and batch normalisation."""
    for result in two:
        assert_identical(*result["dropout"])


def test_a_run_goes_on_in_another_number_of_processes(two, folder, monkeypatch):
    """Two, then one, then four; each but the last is stopped in the middle of an epoch."""
    assert [(result["begin"]["status"], result["begin"]["updates"]) for result in two] == [("interrupted", 5)] * 2
    assert [result["begin"]["folder"] for result in two] == [str(folder / "run"), "None"]
    model, calls = trainings.plain_model(), []

    def ask_to_stop(layer, inputs, output):
        calls.append(layer)
        if len(calls) == 6:
            signal.raise_signal(signal.SIGINT)

    model[1].register_forward_hook(ask_to_stop)
    alone = resume(model, *small_loaders(9), folder / "run")
    assert alone.status == "interrupted" and 5 < alone.updates < 21
    launching.run(4, trainings.__file__, folder, "go on")
    four = [torch.load(folder / f"go on-{rank}.pt", weights_only=False)["go on"] for rank in range(4)]
    uncut = trainings.train(trainings.CONFIG)
    for result in four:
        assert result["status"] == "finished"
        assert_near(result["weights"], uncut["weights"])
        for key in ("train_accuracy", "val_accuracy"):
            assert [row[key] for row in result["history"]] == [row[key] for row in uncut["history"]]


def test_what_cannot_work_in_several_processes_is_said_in_all_of_them(two):
    for result in two:
        too_small, last, borrowed, in_the_way, unused = result["refusals"]
        assert too_small.startswith("DataError: Each batch has 1 sample, too few for 2 processes")
        assert last.startswith("DataError: The last batch of an epoch has 1 sample, too few for 2 processes")
        assert borrowed.startswith("DataError: 2 processes") and "labkit.data.loader" in borrowed
        assert in_the_way.startswith("CheckpointError: ") and "cannot be written" in in_the_way
        assert unused.startswith("ConfigError: Some parameters got no gradient")
