"""`labkit trial`: what one should know about a network before training it for hours."""

import dataclasses
import json
import math
from pathlib import Path

import click

from labkit.cli import pictures
from labkit.cli.group import examples, labkit
from labkit.cli.lab import Train

LIKE_TRAIN = (  # settings of a training that make a difference to a trial
    "data",
    "model",
    "batch_size",
    "optimizer",
    "momentum",
    "weight_decay",
    "label_smoothing",
    "dropout",
    "flip",
    "shift",
    "cutout",
    "device",
    "seed",
    "num_workers",
)


class Trial(Train):
    """Takes its settings, with their defaults, from `labkit train`, and has options of its own besides."""

    def get_params(self, context: click.Context) -> list[click.Parameter]:
        """Return the settings that matter here, then the options of this command."""
        own = click.Command.get_params(self, context)
        return [*(option for option in self.settings if option.name in LIKE_TRAIN), *own]


@labkit.group(
    epilog=examples(
        "labkit trial overfit --data digits             can the network learn 32 pictures by heart?",
        "labkit trial learning-rate --model lenet       which learning rate to begin with?",
        "labkit trial profile --num-workers 2           where does an update spend its time?",
        "labkit trial memory --batch-size 256           what does an update need, and how large a batch fits?",
    ),
)
def trial() -> None:
    """Try a network for some seconds before training it for hours. Nothing is kept."""


as_json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of text.")
at_least_1 = click.IntRange(min=1)


def _prepared(settings: dict) -> tuple:
    """Return the network, the batches, the loss and the optimizer that `labkit train` would begin with."""
    from labkit import training
    from labkit.training.optimizers import make_loss

    config = training.Config(run_dir="", **settings)
    _, (loader, _, _), model = training.prepared(config)
    device = next(model.parameters()).device
    return model, loader, make_loss(config, loader, device), training.make_optimizer(model, config, device)


def _report(outcome, text: str, facts: dict, as_json: bool, out: Path | None, draw: str) -> None:
    """Print what came of a trial, and draw it with a function of `show` where a picture is wanted."""
    written = ""
    if out is not None:
        from labkit import show  # only now: it takes seconds

        written = pictures.save(getattr(show, draw)(outcome), out)
        facts = facts | {"picture": str(out)}
    click.echo(json.dumps(_plain(facts)) if as_json else f"{text}\n{written}".rstrip())


def _plain(value):
    """Return nested data with None in place of NaN and infinity, for which JSON has no words."""
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


@trial.command(
    cls=Trial,
    epilog=examples(
        "labkit trial overfit --data digits",
        "labkit trial overfit --data my_pictures/ --model lenet --samples 16 --out losses.png",
    ),
)
@click.option("--samples", type=at_least_1, default=32, show_default=True, help="Pictures to learn by heart.")
@click.option("--updates", type=at_least_1, default=300, show_default=True, help="Updates at most.")
@as_json_option
@pictures.png_option()
@click.pass_context
def overfit(context: click.Context, samples: int, updates: int, as_json: bool, out: Path | None, **settings) -> None:
    """Let the network learn a few pictures by heart, and say what to look at if it cannot.

    The exit status is 0 when it has learned them, else 1.
    """
    from labkit import trials

    model, loader, loss_fn, _ = _prepared(settings)
    outcome = trials.overfit_small_batch(model, loader, loss_fn, samples, updates)
    _report(outcome, repr(outcome), dataclasses.asdict(outcome), as_json, out, "overfit_trial")
    context.exit(0 if outcome.passed else 1)


@trial.command(
    "learning-rate",
    cls=Trial,
    epilog=examples(
        "labkit trial learning-rate --data digits --out rates.png",
        "labkit trial learning-rate --optimizer sgd --highest 10 --json",
    ),
)
@click.option("--lowest", type=float, default=1e-6, show_default=True, help="Rate of the first update.")
@click.option("--highest", type=float, default=1.0, show_default=True, help="Rate of the last update.")
@click.option("--updates", type=click.IntRange(min=10), default=100, show_default=True, help="Updates at most.")
@as_json_option
@pictures.png_option()
def learning_rate(lowest: float, highest: float, updates: int, as_json: bool, out: Path | None, **settings) -> None:
    """Let the learning rate grow from update to update, and suggest one to begin with."""
    from labkit import trials

    outcome = trials.find_learning_rate(*_prepared(settings), lowest, highest, updates)
    _report(outcome, repr(outcome), dataclasses.asdict(outcome), as_json, out, "learning_rate_trial")


@trial.command(
    cls=Trial,
    epilog=examples(
        "labkit trial profile --data shapes --batch-size 64",
        "labkit trial profile --num-workers 2 --json",
    ),
)
@click.option("--updates", type=at_least_1, default=20, show_default=True, help="Updates to measure.")
@as_json_option
@pictures.png_option()
def profile(updates: int, as_json: bool, out: Path | None, **settings) -> None:
    """Measure what an update spends its time with: waiting for data, forward, backward, the optimizer's step."""
    from labkit import trials

    outcome = trials.profile_step(*_prepared(settings), updates)
    _report(outcome, str(outcome), dataclasses.asdict(outcome), as_json, out, "step_profile")


@trial.command(
    cls=Trial,
    epilog=examples(
        "labkit trial memory --model cnn --batch-size 256",
        "labkit trial memory --data shapes --device cuda --json",
    ),
)
@as_json_option
@pictures.png_option()
def memory(as_json: bool, out: Path | None, **settings) -> None:
    """Say what an update needs in memory, and how large a batch fits."""
    from labkit import trials

    model, loader, loss_fn, optimizer = _prepared(settings)
    batch = next(iter(loader))
    outcome = trials.estimate_memory(model, batch, settings["batch_size"], optimizer, loss_fn)
    largest = trials.largest_batch(model, batch, None, optimizer, loss_fn)
    facts = dataclasses.asdict(outcome) | {"total": outcome.total, "largest_batch": dataclasses.asdict(largest)}
    _report(outcome, f"{outcome}\n{largest}", facts, as_json, out, "memory_estimate")
