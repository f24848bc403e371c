"""`labkit runs`, `labkit rerun`: what was trained here, side by side, and once more."""

import contextlib
import json
import sys
from pathlib import Path

import click

from labkit.cli import pictures
from labkit.cli.group import INTERRUPTED, examples, labkit


class Listing(click.Group):
    """A group that lists where no command of its own is named: `labkit runs FOLDER` is `labkit runs list FOLDER`."""

    def parse_args(self, context: click.Context, arguments: list[str]) -> list[str]:
        """Put the word `list` in front where it is meant."""
        if not arguments or arguments[0] not in (*self.commands, "-h", "--help"):
            arguments = ["list", *arguments]
        return super().parse_args(context, arguments)


@labkit.group(
    cls=Listing,
    subcommand_metavar="[FOLDER] | COMMAND ...",
    epilog=examples(
        "labkit runs                               the runs in the folder runs",
        "labkit runs other_folder --json           those of another folder, as plain data",
        "labkit runs compare A B                   what two runs did differently, and what came of it",
        "labkit runs plot A B --out curves.png     their curves in one picture",
    ),
)
def runs() -> None:
    """List the runs in FOLDER (runs, if none is named), compare some, or draw their curves."""


as_json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of tables.")
in_option = click.option(
    "--in", "folder", default="runs", metavar="FOLDER", show_default=True, help="Where runs are that are named only."
)


@runs.command("list", epilog=examples("labkit runs list", "labkit runs list other_folder --json"))
@click.argument("folder", default="runs", metavar="[FOLDER]", type=click.Path(path_type=Path))
@as_json_option
def list_runs(folder: Path, as_json: bool) -> None:
    """List the runs in FOLDER.

    Each line says how a run ended, how long its epochs took, how good it is, and what is wrong with a damaged one.
    """
    from labkit.runs import listing

    table = listing.listing(folder)
    click.echo(json.dumps(table.rows) if as_json else str(table))


@runs.command(epilog=examples("labkit runs compare A B", "labkit runs compare A B C --in other_folder --json"))
@click.argument("names", nargs=-1, required=True, metavar="RUN RUN...")
@in_option
@as_json_option
def compare(names: tuple[str, ...], folder: str, as_json: bool) -> None:
    """Show what runs did differently, with what, and what came of it.

    RUN is the name of a run in the folder runs, or the path of one.
    """
    from labkit.runs import listing, reading

    comparison = listing.compare([reading.read(reading.find(name, folder)) for name in names])
    click.echo(json.dumps(comparison.to_dict()) if as_json else str(comparison))


@runs.command(epilog=examples("labkit runs plot A B --out curves.png"))
@click.argument("names", nargs=-1, required=True, metavar="RUN...")
@pictures.png_option(required=True)
@in_option
def plot(names: tuple[str, ...], out: Path, folder: str) -> None:
    """Draw the loss and the accuracy of runs by epoch into one picture.

    RUN is the name of a run in the folder runs, or the path of one.
    """
    from labkit.runs import listing, reading

    recorded = [reading.read(reading.find(name, folder)) for name in names]
    labels = listing.distinct_names(recorded)
    from labkit import show  # only now: it takes seconds

    picture = show.runs_curves({label: run.history for label, run in zip(labels, recorded, strict=True)})
    click.echo(f"{picture.summary}\n{pictures.save(picture, out)}")


@labkit.command(epilog=examples("labkit rerun runs/digits-cnn-seed0-20260131-181500", "labkit rerun A --json"))
@click.argument("run", metavar="RUN")
@in_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON line last; all else goes to stderr.")
@click.pass_context
def rerun(context: click.Context, run: str, folder: str, as_json: bool) -> None:
    """Train again from the record of RUN, and say whether the same came out, bit for bit.

    The new run stands beside the old one, which stays as it is, under its name with -again. The exit status is 0 when
    history and weights are the same, else 1. On the same CPU with the same versions they are.
    """
    from labkit.runs import reading

    recorded = reading.find(run, folder)
    from labkit import training  # only now: it takes seconds
    from labkit.runs import reproduction

    with contextlib.redirect_stdout(sys.stderr) if as_json else contextlib.nullcontext():
        again = training.rerun_project(recorded).run
        if again.status == "interrupted":
            click.echo("labkit: stopped by you, so there is nothing to compare yet.", err=True)
            context.exit(INTERRUPTED)
        outcome = reproduction.compare_runs(recorded, again.folder)
        click.echo(f"{outcome}\nrecord: {again.folder}")
    if as_json:
        click.echo(json.dumps(outcome.to_dict() | {"run_dir": str(again.folder)}))
    context.exit(0 if outcome.is_equal else 1)
