import importlib
import inspect
import json
import math
import shutil
import signal
import weakref
from pathlib import Path

import pytest
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

from labkit.data.loading import loader
from labkit.errors import CheckpointError, ConfigError, DataError, DeviceError, NonFiniteError
from labkit.runs import checkpoint
from labkit.runs.history import epochs_without_progress
from labkit.training import Config, evaluate, fit, step
from tests.training.helpers import small_loaders, small_model, stripes

CONFIG = Config(epochs=3, batch_size=8, device="cpu", run_dir="", learning_rate=0.01, log_every=1)


def test_the_loop_can_be_read_on_two_screens():
    """Of 70 lines: `fit` and what it calls to make one update; and the whole folder in an hour."""
    module = importlib.import_module("labkit.training.fit")
    functions = fit, module._train, module._train_epoch, step.windows, step.update, step.step_if_finite
    assert sum(len(inspect.getsource(function).splitlines()) for function in functions) <= 2 * 70
    files = Path(module.__file__).parent.glob("*.py")
    assert sum(len(file.read_text(encoding="utf-8").splitlines()) for file in files) < 1400


def numbers_of(model: nn.Module) -> list[torch.Tensor]:
    return [value.clone() for value in model.state_dict().values()]


def test_it_learns_and_tells_what_happened(capsys):
    model, (train, val) = small_model(), small_loaders()
    run = fit(model, train, val, CONFIG.replace(epochs=8))
    assert run.status == "finished" and len(run.history) == 8 and run.updates == 8 * 8 and run.folder is None
    assert run.history[-1]["val_accuracy"] > 0.9
    assert run.history[-1]["train_loss"] < run.history[0]["train_loss"] / 2
    last = evaluate(model, val)
    assert (run.history[-1]["val_loss"], run.history[-1]["val_accuracy"]) == (last.loss, last.accuracy)
    table = capsys.readouterr().out.splitlines()
    assert table[0].split()[:2] == ["epoch", "train"] and len(table) == 9 and "*" in table[1]
    assert "\r" not in "".join(table), "nobody watches: no line that rewrites itself"


def test_the_same_seed_gives_the_same_run_and_another_seed_another():
    runs = []
    for seed in (0, 0, 1):
        model = small_model()
        fit(model, *small_loaders(), CONFIG.replace(seed=seed))
        runs.append(numbers_of(model))
    assert all(torch.equal(first, second) for first, second in zip(runs[0], runs[1], strict=True))
    assert not all(torch.equal(first, other) for first, other in zip(runs[0], runs[2], strict=True)), "dropout differs"


def test_every_epoch_trains_in_training_mode():
    """The fault it prevents: train() once before all epochs, and dropout is off from the second epoch on."""
    modes, model = [], small_model()
    model[4].register_forward_hook(lambda layer, inputs, output: modes.append(layer.training))
    fit(model, *small_loaders(), CONFIG)
    assert modes == ([True] * 8 + [False] * 2) * 3


def test_accumulation_makes_one_update_of_a_window_and_keeps_the_partial_last_one():
    run = fit(small_model(), *small_loaders(), CONFIG.replace(accumulate=3))
    assert run.updates == 3 * 3, "8 batches make windows of 3, 3 and 2"


def test_early_stopping_puts_the_best_weights_back():
    model, (train, val) = small_model(), small_loaders()
    run = fit(model, train, val, CONFIG.replace(epochs=60, learning_rate=0.5, schedule="constant", patience=3))
    assert run.status == "stopped early" and len(run.history) < 60
    losses = [row["val_loss"] for row in run.history]
    assert run.best["epoch"] == len(losses) - 3 and run.best["val_loss"] == min(losses)
    assert losses[-1] > min(losses), "the case must be able to tell last from best"
    assert evaluate(model, val).loss == run.best["val_loss"]


def test_loaders_of_torch_and_a_loss_of_ones_own_are_taken():
    torch.manual_seed(0)
    inputs = torch.randn(64, 4)
    data = TensorDataset(inputs, inputs @ torch.tensor([[1.0], [2.0], [-1.0], [0.5]]))
    model = nn.Linear(4, 1)
    settings = CONFIG.replace(epochs=30, learning_rate=0.1, shift=0)
    run = fit(model, DataLoader(data, 16, shuffle=True), DataLoader(data, 16), settings, loss_fn=nn.MSELoss())
    assert run.history[-1]["val_loss"] < 1e-3


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_mixed_precision_trains_on_the_cpu(precision):
    run = fit(small_model(), *small_loaders(), CONFIG.replace(epochs=8, amp=precision, clip_norm=1.0))
    assert run.history[-1]["val_accuracy"] > 0.9


def with_poison(position: int, value: float):
    data = stripes(60)
    inputs = data.images.float() / 255
    inputs[position, 0, 3, 3] = value
    return loader(TensorDataset(inputs, data.labels), 8, shuffle=False)


@pytest.mark.parametrize(
    ("log_every", "accumulate", "named"), [(1, 1, r"update 4 \(batch 4\)"), (50, 2, r"update 2 \(batch 3 to 4\)")]
)
def test_nan_in_the_inputs_stops_the_run_and_names_the_place(tmp_path, log_every, accumulate, named):
    model, train = small_model(), with_poison(position=27, value=float("nan"))
    config = CONFIG.replace(run_dir=str(tmp_path), name="poison", log_every=log_every, accumulate=accumulate)
    with pytest.raises(NonFiniteError, match=rf"epoch 1, {named}.*inputs of that batch hold 1 values") as caught:
        fit(model, train, None, config)
    assert "poison" in str(caught.value)
    assert all(torch.isfinite(value).all() for value in model.state_dict().values()), "batch statistics were spoilt"
    result = json.loads((tmp_path / "poison" / "result.json").read_text(encoding="utf-8"))
    assert result["status"] == "failed" and "NonFiniteError" in result["error"]


def test_numbers_that_grow_in_the_model_are_told_apart_from_bad_data():
    def loss_fn(outputs, targets):
        return (outputs * torch.inf).mean()

    with pytest.raises(NonFiniteError, match="inputs of that batch are finite.*learning_rate"):
        fit(small_model(), *small_loaders(), CONFIG, loss_fn=loss_fn)


def test_a_validation_loss_that_is_nan_is_never_the_best():
    model, (train, _) = small_model(), small_loaders()
    poisoned = with_poison(position=3, value=float("nan"))
    run = fit(model, train, poisoned, CONFIG.replace(epochs=5, patience=2))
    assert run.status == "stopped early" and len(run.history) == 2 and run.best is None


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("place", ["training", "validation"])
def test_a_stop_finishes_the_step_saves_and_returns(tmp_path, number, place, capsys):
    model, (train, val) = small_model(), small_loaders()
    calls = []

    def ask_to_stop(layer, inputs, output):
        calls.append(layer.training)
        if calls.count(place == "training") == 2:
            signal.raise_signal(number)

    model[4].register_forward_hook(ask_to_stop)
    before = signal.getsignal(signal.SIGINT)
    run = fit(model, train, val, CONFIG.replace(run_dir=str(tmp_path)))
    assert run.status == "interrupted" and signal.getsignal(signal.SIGINT) is before
    assert run.updates == (2 if place == "training" else 8) and run.history == []
    assert (run.folder / "last.pt").exists()
    assert f"Stopped after update {run.updates}, as asked." in capsys.readouterr().out


def test_a_second_stop_interrupts_at_once_and_the_record_says_so(tmp_path):
    model, (train, val) = small_model(), small_loaders()

    def insist(layer, inputs, output):
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    model[4].register_forward_hook(insist)
    with pytest.raises(KeyboardInterrupt):
        fit(model, train, val, CONFIG.replace(run_dir=str(tmp_path), name="insist"))
    assert "KeyboardInterrupt" in (tmp_path / "insist" / "result.json").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("changes", "arguments", "error", "sentence"),
    [
        ({"device": "tpu"}, {}, DeviceError, "'tpu' is not known"),
        ({"patience": 2}, {"val_loader": None}, ConfigError, "watch the validation loss"),
        ({"schedule": "plateau"}, {"val_loader": None}, ConfigError, "watch the validation loss"),
        ({}, {"train_loader": iter([])}, DataError, "needs a length and batches"),
        ({}, {"train_loader": []}, DataError, "has no batch"),
        ({}, {"model": nn.ReLU()}, ConfigError, "no parameter to train"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_runs(changes, arguments, error, sentence):
    train, val = small_loaders()
    given = {"model": small_model(), "train_loader": train, "val_loader": val} | arguments
    with pytest.raises(error, match=sentence):
        fit(**given, config=CONFIG.replace(**changes))


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_cuda_without_cuda_says_why():
    with pytest.raises(DeviceError, match="'cuda' cannot be used: .*Use device='auto' or 'cpu'"):
        fit(small_model(), *small_loaders(), CONFIG.replace(device="cuda"))


def test_a_run_that_exists_is_not_overwritten(tmp_path):
    config = CONFIG.replace(run_dir=str(tmp_path), name="mine", epochs=1)
    fit(small_model(), *small_loaders(), config)
    before = (tmp_path / "mine" / "last.pt").read_bytes()
    with pytest.raises(CheckpointError, match="named 'mine' exists"):
        fit(small_model(1), *small_loaders(), config)
    assert (tmp_path / "mine" / "last.pt").read_bytes() == before


def test_a_run_folder_that_cannot_be_written_is_said(tmp_path):
    (tmp_path / "file").write_text("in the way", encoding="utf-8")
    with pytest.raises(CheckpointError, match="cannot be written"):
        fit(small_model(), *small_loaders(), CONFIG.replace(run_dir=str(tmp_path / "file" / "runs")))


def test_a_folder_that_vanishes_during_a_run_is_said(tmp_path):
    model, (train, val) = small_model(), small_loaders()
    config = CONFIG.replace(run_dir=str(tmp_path), name="gone")
    model[4].register_forward_hook(lambda *_: shutil.rmtree(tmp_path / "gone", ignore_errors=True))
    with pytest.raises(CheckpointError, match="gone"):
        fit(model, train, val, config)


def test_the_best_epochs_keep_a_checkpoint_each(tmp_path):
    config = CONFIG.replace(run_dir=str(tmp_path), name="best", epochs=5, keep_best=2)
    run = fit(small_model(), *small_loaders(), config)
    best = sorted(run.history, key=lambda row: row["val_loss"])[:2]
    names = {f"epoch-{row['epoch']:03}.pt" for row in best}
    assert {file.name for file in run.folder.glob("epoch-*")} == names
    content = checkpoint.load(run.folder / "best.pt")
    assert content["epoch"] == best[0]["epoch"]
    model = small_model(3)
    model.load_state_dict(checkpoint.load(run.folder / f"epoch-{best[1]['epoch']:03}.pt")["weights"])
    assert evaluate(model, small_loaders()[1]).loss == best[1]["val_loss"]


def test_patience_counts_epochs_that_are_not_better_by_min_delta():
    run = fit(small_model(), *small_loaders(), CONFIG.replace(epochs=9, patience=2, min_delta=100.0))
    assert run.status == "stopped early" and len(run.history) == 3  # the first is better than nothing
    assert run.best["epoch"] == min(run.history, key=lambda row: row["val_loss"])["epoch"], "the best is still the best"
    rows = [{"val_loss": loss} for loss in (1.0, 0.9, 0.85, 0.79, float("nan"), 0.78)]
    assert epochs_without_progress(rows, 0.1) == 3 and epochs_without_progress(rows) == 0


def test_what_is_validated_is_the_average_and_the_model_holds_it_in_the_end():
    model, (train, val) = small_model(), small_loaders()
    run = fit(model, train, val, CONFIG.replace(average=0.9, epochs=3))
    assert evaluate(model, val).loss == run.history[-1]["val_loss"]
    plain = small_model()
    fit(plain, *small_loaders(), CONFIG.replace(epochs=3))
    assert not torch.equal(plain[0].weight, model[0].weight)


def test_channels_last_changes_the_layout_and_not_the_result():
    runs = {}
    for channels_last in (False, True):
        model = small_model()
        runs[channels_last] = fit(model, *small_loaders(), CONFIG.replace(channels_last=channels_last, epochs=2))
        assert model[0].weight.is_contiguous(
            memory_format=torch.channels_last if channels_last else torch.preserve_format
        )
    losses = [run.history[0]["train_loss"] for run in runs.values()]
    assert losses[0] == pytest.approx(losses[1], rel=0.05), "sums in another order are rounded otherwise"


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a C++ compiler")
def test_a_compiled_network_learns_the_same_and_its_names_stay(tmp_path):
    losses = []
    for number, is_compiled in enumerate((False, True)):
        model = small_model()
        model[4].p = 0.0  # compiled code draws other random numbers
        config = CONFIG.replace(compile=is_compiled, epochs=2, run_dir=str(tmp_path), name=str(number))
        run = fit(model, *small_loaders(), config)
        losses.append([row["val_loss"] for row in run.history])
        assert list(checkpoint.load(run.folder / "last.pt")["model"]) == list(small_model().state_dict())
    assert losses[0] == pytest.approx(losses[1], rel=0.05), "fused sums are rounded otherwise"


@pytest.mark.parametrize("settings", [{"label_smoothing": 0.1}, {"class_weights": "balanced"}])
def test_a_setting_of_the_built_in_loss_does_not_go_with_another(settings):
    with pytest.raises(ConfigError, match="you gave a loss_fn"):
        fit(small_model(), *small_loaders(), CONFIG.replace(**settings), torch.nn.functional.cross_entropy)


def test_weights_that_one_update_spoilt_are_never_saved(tmp_path):
    """Loss and gradient are finite, and the step is not: the rate goes through the roof in the last update."""
    model, (train, val) = small_model(), small_loaders()
    config = CONFIG.replace(
        run_dir=str(tmp_path), name="spoilt", epochs=1, optimizer="sgd", save_every=1, schedule="constant",
        learning_rate=1e37, momentum=0.0,
    )  # fmt: skip
    with pytest.raises(NonFiniteError, match="lower learning_rate"):
        fit(model, train, val, config)
    for name in ("last.pt", "last.previous.pt"):
        if (tmp_path / "spoilt" / name).exists():
            saved = torch.load(tmp_path / "spoilt" / name, weights_only=True)["model"]
            assert all(torch.isfinite(value).all() for value in saved.values())
    assert all(torch.isfinite(value).all() for value in model.state_dict().values())


@pytest.mark.parametrize("average", [0.0, 0.9])
def test_a_buffer_that_is_infinite_on_purpose_is_healthy(average, tmp_path):
    """As the mask of an attention: minus infinity above the diagonal, 0 elsewhere."""

    class Masked(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("mask", torch.full((3, 3), float("-inf")).triu(1))
            self.scores = nn.Linear(64, 9)

        def forward(self, inputs):
            return (self.scores(inputs.flatten(1)).view(-1, 3, 3) + self.mask).softmax(2).mean(1)

    model, mask = Masked(), Masked().mask
    run = fit(model, *small_loaders(), CONFIG.replace(average=average, run_dir=str(tmp_path), name="masked"))
    assert run.status == "finished" and torch.equal(model.mask, mask)
    assert all(math.isfinite(row["val_loss"]) for row in run.history)


def test_an_evaluation_that_runs_out_of_memory_leaves_gradients_alone():
    class Greedy(nn.Module):
        def forward(self, inputs):
            return inputs.new_empty(2**50)

    model = nn.Sequential(small_model(), Greedy())
    model[0](torch.randn(2, 1, 8, 8)).sum().backward()
    before = [parameter.grad.clone() for parameter in model.parameters()]
    with pytest.raises(DeviceError, match="Use a smaller batch_size, such as 8"):
        evaluate(model, small_loaders()[1])
    assert all(torch.equal(parameter.grad, old) for parameter, old in zip(model.parameters(), before, strict=True))


def test_memory_that_did_not_suffice_is_free_again():
    """A real refusal of the system, in the third layer; what the layers before it made must be gone."""
    made = []

    class Greedy(nn.Module):
        def forward(self, inputs):
            large = inputs.new_zeros(4, 2**20)
            made.append(weakref.ref(large))
            return large.new_empty(2**50)

    model = nn.Sequential(small_model(), Greedy())
    with pytest.raises(DeviceError, match="batch_size=4 with accumulate=2 makes the same update") as caught:
        fit(model, *small_loaders(), CONFIG)
    assert len(made) >= 1 and all(tensor() is None for tensor in made), "the error keeps the tensors of the step"
    assert all(parameter.grad is None for parameter in model.parameters())
    assert "allocate" in str(caught.value.__cause__)


def test_whoever_watches_sees_every_update_and_can_stop():
    seen = []

    def watch(training, outcome, stop):
        seen.append((training.updates, outcome.loss * outcome.count, len(training.history)))
        stop.requested = training.updates == 11

    run = fit(small_model(), *small_loaders(), CONFIG, watch=watch)
    assert [(update, epochs) for update, _, epochs in seen] == [(update, update > 8) for update in range(1, 12)]
    assert (run.status, run.updates) == ("interrupted", 11)
    mean = sum(loss for _, loss, _ in seen[:8]).item() / 60  # pictures
    assert run.history[0]["train_loss"] == pytest.approx(mean, rel=1e-5)
