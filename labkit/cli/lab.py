"""`labkit check`, `labkit data`, `labkit train`: this computer, the data, a training."""

import contextlib
import dataclasses
import functools
import json
import sys
from pathlib import Path

import click

from labkit.cli.group import INTERRUPTED, examples, labkit


@labkit.command(
    epilog=examples(
        "labkit check",
        "labkit check --json",
    ),
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of lines to read.")
@click.pass_context
def check(context: click.Context, as_json: bool) -> None:
    """Examine this computer: Python, PyTorch, GPU, Jupyter, data, disk.

    Each line says ok, note (it works, and could be better) or problem, what was found, and what to do. The exit
    status is 1 when a problem would stop the course, else 0.
    """
    from labkit import environment

    report = environment.check()
    click.echo(report.as_json() if as_json else str(report))
    context.exit(0 if report.is_ready else 1)


@labkit.command(
    epilog=examples(
        "labkit data                 which data sets there are, and which of them are on this disk",
        "labkit data digits          its classes, sizes, statistics",
        "labkit data my_pictures/    the same for your own pictures",
    ),
)
@click.argument("name", required=False, metavar="[NAME|PATH]")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of lines to read.")
def data(name: str | None, as_json: bool) -> None:
    """List the data sets, or load one and describe it.

    PATH is a folder or a .tar of your own pictures, as split/class/picture or class/picture.
    """
    from labkit.data import summary

    if name is None:
        table = summary.list_sources()
        click.echo(json.dumps(table.rows) if as_json else str(table))
    else:
        description = summary.describe(name)
        click.echo(json.dumps(description) if as_json else summary.as_text(description))


class Train(click.Command):
    """Takes an option from every field of Config, but only when it is used: Config comes with torch."""

    @functools.cached_property
    def settings(self) -> list[click.Option]:
        """One option for each field of Config."""
        from labkit.training import Config

        return [_option(field) for field in dataclasses.fields(Config)]

    def get_params(self, context: click.Context) -> list[click.Parameter]:
        """Return the options of this command: those of Config, then its own."""
        return [*self.settings, *super().get_params(context)]


def _option(field: dataclasses.Field) -> click.Option:
    """Return the option for one field of Config, such as `--batch-size INTEGER`."""
    name = "--" + field.name.replace("_", "-")
    choices = field.metadata["choices"]
    return click.Option(
        [f"{name}/--no{name[1:]}" if field.type is bool else name, field.name],
        type=click.Choice(choices) if choices else field.type,
        default=field.default,
        show_default=field.default != "",
        help=field.metadata["help"],
    )


@labkit.command(
    cls=Train,
    epilog=examples(
        "labkit train --data digits --epochs 6",
        "labkit train --data my_pictures.tar --model cnn --learning-rate 0.001 --seed 1",
        "labkit train --data shapes --json | tail -n 1",
        "labkit train --resume runs/digits-cnn-seed0-20260131-181500",
        "torchrun --nproc-per-node 2 -m labkit train --data cifar10      two processes share each batch",
    ),
)
@click.option("--resume", metavar="RUN", type=click.Path(path_type=Path), help="Go on with the run in this folder.")
@click.option("--examine", is_flag=True, help="Let the doctor look first, and stop where it proves a fault.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON line last; the table goes to stderr.")
@click.pass_context
def train(context: click.Context, resume: Path | None, examine: bool, as_json: bool, **settings: object) -> None:
    """Train a network and measure it on the test pictures.

    The run's folder keeps its settings, its history and its best weights. Ctrl-C stops after the current step, and
    --resume goes on from there.
    """
    from labkit import distributed, training
    from labkit.runs import reading

    given = [name for name in settings if context.get_parameter_source(name).name == "COMMANDLINE"]
    if resume and given:
        raise click.UsageError(f"--resume takes all settings from the run; leave out --{given[0].replace('_', '-')}.")
    with contextlib.redirect_stdout(sys.stderr) if as_json else contextlib.nullcontext():
        device = reading.read(resume).settings.get("device", "auto") if resume else settings["device"]
        with distributed.joined(device):
            if resume:
                project = training.resume_project(resume)
            else:
                project = training.project(training.Config(**settings), examine=examine)
            speaks = distributed.is_main()
        if project.test:
            click.echo(f"test accuracy {project.test.accuracy:.2%} on {len(project.splits.test)} pictures")
            click.echo(f"record: {project.run.folder or 'none, since --run-dir is empty'}")
    if as_json and speaks:
        click.echo(json.dumps(project.summary()))
    if project.run.status == "interrupted":
        if speaks:
            way_on = f" To go on: labkit train --resume {project.run.folder}" if project.run.folder else ""
            click.echo(f"labkit: stopped by you.{way_on}", err=True)
        context.exit(INTERRUPTED)
