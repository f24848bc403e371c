"""A live training does what `fit` does, and holds and ends when it is told to. No test depends on how fast it is."""

import asyncio
import time

import pytest
import torch
from IPython.core.displaypub import CapturingDisplayPublisher
from IPython.core.interactiveshell import InteractiveShell

from labkit import show
from labkit.errors import DataError
from labkit.training import Config, fit
from tests.training.helpers import small_loaders, small_model

CONFIG = Config(epochs=3, batch_size=8, device="cpu", run_dir="", learning_rate=0.01)
ENDLESS = CONFIG.replace(epochs=100_000, schedule="constant")


async def until(condition) -> None:
    """Wait until something has come true; give up after a minute."""
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, "it never came true"
        await asyncio.sleep(0.02)


def updates_of(live: show.LiveTraining) -> int:
    live.picture  # noqa: B018 - reads what has come since
    return len(live._losses)


def test_it_is_fit_to_the_last_bit():
    ours, theirs = small_model(), small_model()
    live = show.live_training(ours, *small_loaders(), CONFIG)
    run, expected = asyncio.run(live._train()), fit(theirs, *small_loaders(), CONFIG)
    for name, value in theirs.state_dict().items():
        assert torch.equal(ours.state_dict()[name], value), name
    assert [row | {"seconds": 0} for row in run.history] == [row | {"seconds": 0} for row in expected.history]
    assert (run.status, run.updates) == ("finished", 24)
    assert live.picture.summary.startswith("Training: finished, 24 of 24 updates, training loss ")
    validation = [row["loss"] for row in live.picture.data if row["line"] == "validation"]
    assert validation == [row["val_loss"] for row in expected.history]
    assert all(button.disabled for button in live._buttons.values())


def test_a_pause_holds_and_a_stop_keeps_what_was_learned():
    model = small_model()
    before = [value.clone() for value in model.parameters()]
    live = show.live_training(model, *small_loaders(), ENDLESS)

    async def sit_before_it():
        task = asyncio.ensure_future(live._train())
        await until(lambda: updates_of(live) >= 3)
        live._buttons["Pause"].click()
        assert [live._buttons[name].disabled for name in ("Pause", "Go on", "Stop")] == [True, False, False]
        await asyncio.sleep(0.5)
        held = updates_of(live)
        await asyncio.sleep(0.5)
        assert updates_of(live) == held and "paused" in live.picture.summary
        live._buttons["Go on"].click()
        await until(lambda: updates_of(live) > held)
        live._buttons["Stop"].click()
        return await task

    run = asyncio.run(sit_before_it())
    assert run.status == "interrupted" and run.updates == updates_of(live)
    assert all(not torch.equal(old, new) for old, new in zip(before, model.parameters(), strict=True))


@pytest.mark.parametrize("is_paused", [False, True])
def test_an_interrupt_ends_it_cleanly_also_while_it_is_held(is_paused):
    live = show.live_training(small_model(), *small_loaders(), ENDLESS)

    async def interrupted():
        task = asyncio.ensure_future(live._train())
        await until(lambda: updates_of(live) >= 1)
        if is_paused:
            live.pause()
        task.cancel()  # what a kernel does with a cell that awaits
        return await task

    assert asyncio.run(interrupted()).status == "interrupted"


def test_an_error_of_the_training_is_raised_and_nothing_is_left_running():
    live = show.live_training(small_model(), [], None, CONFIG)
    with pytest.raises(DataError, match="no batch"):
        asyncio.run(live._train())
    assert live.picture.summary == "Training: ended by an error, no update yet."
    assert all(button.disabled for button in live._buttons.values())


def test_without_a_page_it_leaves_buttons_and_the_last_curve():
    shell = InteractiveShell.instance()
    publisher, shell.display_pub = shell.display_pub, CapturingDisplayPublisher()
    try:
        shell.push({"live": show.live_training(small_model(), *small_loaders(), CONFIG)})
        assert shell.run_cell("run = await live").success and shell.user_ns["run"].status == "finished"
        buttons, first, *later = shell.display_pub.outputs
        assert buttons["data"]["text/plain"] == "Buttons in JupyterLab, while this cell runs: Pause, Go on, Stop."
        assert "image/png" in first["data"] and later[-1]["update"] is True
        assert later[-1]["transient"] == first["transient"]
        assert later[-1]["data"]["text/plain"].startswith("Training: finished, 24 of 24 updates")
    finally:
        shell.display_pub = publisher
        InteractiveShell.clear_instance()


def test_who_forgets_await_reads_how_it_begins():
    assert "run = await show.live_training(" in repr(show.live_training(small_model(), *small_loaders(), CONFIG))


def test_the_curve_has_means_over_equally_many_updates():
    rows = [{"epoch": 1, "val_loss": 0.5}, {"epoch": 2, "val_loss": None}]
    picture = show.live_picture([float(loss) for loss in range(1000)], rows, 4, 500, "paused")
    training = [row for row in picture.data if row["line"] == "training"]
    assert len(training) == 200 and training[0] == {"line": "training", "epoch": 5 / 500, "loss": 2.0}
    assert training[-1] == {"line": "training", "epoch": 2.0, "loss": 997.0}
    assert picture.summary == "Training: paused, 1000 of 2000 updates, training loss 997.000, validation loss 0.500."
    assert picture.figure.axes[0].get_xlim() == (0, 4)
    assert show.live_picture([], [], 4, 500, "training").summary == "Training: training, no update yet."


def test_losses_that_are_not_finite_can_be_drawn():
    assert show.live_picture([1.0, float("nan"), float("inf"), 2.0], [], 1, 4, "training").png()
