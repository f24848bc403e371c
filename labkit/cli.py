"""The command line: `labkit check`, `labkit data`, `labkit train`, `labkit build`, `labkit solve`,
`labkit progress`, `labkit claims`.

Modules are imported inside the commands, and only here: torch takes seconds, and `labkit --help` shall be instant.
"""

import contextlib
import dataclasses
import functools
import json
import os
import sys
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path

import click

from labkit import __version__
from labkit.errors import LabkitError

DEBUG = os.environ.get("LABKIT_DEBUG") == "1"
INTERRUPTED = 130  # what shells report for a program that Ctrl-C ended


def _examples(*lines: str) -> str:
    """Return lines for the end of a help text, marked so that click does not wrap them."""
    return "\n".join(["\b", "Examples:", *(f"  {line}" for line in lines)])


@click.group(
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=_examples(
        "labkit check                            is everything here that the course needs?",
        "labkit data                             which data sets are there?",
        "labkit train --data digits --epochs 6   train a network on handwritten digits",
        "labkit progress                         which exercises are right, and what comes next?",
        "labkit claims C041                      what people say about PyTorch, and what is right",
        "labkit COMMAND --help                   more about one command",
    ),
)
@click.version_option(__version__, message="labkit %(version)s")
def labkit() -> None:
    """The lab of the PyTorch course: check this computer, look at data, train, build the chapters."""


@labkit.command(
    epilog=_examples(
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
    epilog=_examples(
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


@labkit.command(
    epilog=_examples(
        "labkit build                 every chapter",
        "labkit build 05              one chapter by its number",
        "labkit build --check         do the stored notebooks equal a fresh build?",
    ),
)
@click.argument("names", nargs=-1, metavar="[CHAPTER]...")
@click.option("--check", "check_only", is_flag=True, help="Store nothing; say what a fresh build would change.")
def build(names: tuple[str, ...], check_only: bool) -> None:
    """Execute chapters from notebooks/source and store them as notebooks.

    Without CHAPTER, all of them. A notebook that comes out as it is stored is not written again.
    """
    from labkit.course import builder, places

    differing = []
    for chapter in places.chapters(places.find_course(), names):
        with _line_about(chapter.name) as line:
            outcome = (builder.check if check_only else builder.build)(chapter, line.count)
            line.end(f"{outcome.seconds:6.1f} s  {outcome.state}")
        if outcome.explanation:
            differing.append(f"{chapter.name}: {outcome.explanation}")
    if differing:
        raise LabkitError("stored notebooks differ from a fresh build.\n" + "\n".join(differing))


@labkit.command(
    epilog=_examples(
        "labkit solve all --out solved      every chapter with its answers, in the folder solved",
        "labkit solve 01 --out solved       one chapter by its number",
    ),
)
@click.argument("names", nargs=-1, required=True, metavar="CHAPTER...|all")
@click.option("--out", "folder", required=True, metavar="DIR", type=click.Path(path_type=Path, file_okay=False))
def solve(names: tuple[str, ...], folder: Path) -> None:
    """Make the instructor edition of chapters: answers filled in, notes shown, every section timed.

    A file in DIR that labkit did not write, or that was changed since, is never overwritten. nbgrader makes and grades
    assignments from these notebooks; DIR/nbgrader_config.py says how.
    """
    from labkit.course import editions, places

    chapters = places.chapters(places.find_course(), () if names == ("all",) else names)
    editions.prepare(folder, chapters)
    for chapter in chapters:
        with _line_about(chapter.name) as line:
            seconds = editions.solve(chapter, folder, line.count)
            line.end(f"{seconds:6.1f} s  {folder / chapter.notebook.name}")


@dataclasses.dataclass
class _Line:
    """The line about one chapter; on a terminal it counts the cells until it is ended."""

    name: str

    def count(self, cell: int, cells: int) -> None:
        """Say which cell runs, where a line can rewrite itself."""
        if sys.stdout.isatty():
            click.echo(f"\r{self.name:<32}cell {cell} of {cells} ", nl=False)

    def end(self, text: str) -> None:
        """Write the line that stays."""
        click.echo(f"\r{self.name:<32}{text:<24}" if sys.stdout.isatty() else f"{self.name:<32}{text}")


@contextlib.contextmanager
def _line_about(name: str) -> Iterator[_Line]:
    """Give the line to the block, and end it where the block cannot."""
    line = _Line(name)
    try:
        yield line
    except BaseException as error:
        line.end("stopped" if isinstance(error, KeyboardInterrupt) else "failed")
        raise


@labkit.group(
    invoke_without_command=True,
    epilog=_examples(
        "labkit progress                     how far am I, and what comes next?",
        'labkit progress --name Ada          put my name into the file; --name "" takes it out',
        "labkit progress merge room/*.json   for an instructor: where is the room stuck?",
    ),
)
@click.option("--name", metavar="NAME", help="Write your name into the file, for an instructor who merges files.")
@click.option("--json", "as_json", is_flag=True, help="Print the file as one JSON object instead of a table.")
@click.pass_context
def progress(context: click.Context, name: str | None, as_json: bool) -> None:
    """Show which exercises are right, which are begun, and what comes next.

    Progress is one file on this computer, ~/.labkit/progress.json, and is sent nowhere. It holds names of chapters,
    exercises and claims, outcomes, hints and solutions looked at, predictions, and types of errors: no code, no times,
    and no name unless you give one. Delete it when you like. LABKIT_PROGRESS names another file, or says off.
    """
    if context.invoked_subcommand:
        if name is not None or as_json:
            raise click.UsageError("Options go behind merge, such as: labkit progress merge --json FILES")
        return
    from labkit.exercises import overview, progress

    if name is not None:
        progress.record_name(name)
    content = progress.read()
    if name is not None and content["name"] != name:
        raise LabkitError("your name is not kept: nothing can be recorded at present.")
    click.echo(json.dumps(content) if as_json else overview.report(content))


@progress.command(epilog=_examples("labkit progress merge room/*.json", "labkit progress merge --json a.json b.json"))
@click.argument("files", nargs=-1, required=True, metavar="FILES...", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of tables.")
def merge(files: tuple[Path, ...], as_json: bool) -> None:
    """Show where a room is stuck, and on which wrong idea.

    FILES are the progress.json of its learners. Names appear only where learners gave theirs, and a file that cannot
    be used is named and left out.
    """
    from labkit.exercises import merging

    room = merging.merge(files)
    click.echo(json.dumps(room.to_dict()) if as_json else str(room))


@labkit.command(
    epilog=_examples(
        "labkit claims                       the topics, and how many claims of each are taught",
        "labkit claims --topic autograd      the claims of a topic, with what is right",
        "labkit claims C041 --demonstrate    one claim, measured on this computer",
        "labkit claims --demonstrate         measure every claim that can be",
    ),
)
@click.argument("claim_id", required=False, metavar="[CLAIM]")
@click.option("--topic", default="", metavar="TEXT", help="Take only claims whose topic contains TEXT.")
@click.option("--demonstrate", is_flag=True, help="Measure on this computer what the claims say.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of lines to read.")
def claims(claim_id: str | None, topic: str, demonstrate: bool, as_json: bool) -> None:
    """Look up what people say about PyTorch, what is right, and the measurement that decides it."""
    if claim_id and topic:
        raise click.UsageError("CLAIM names one claim and --topic many; give one of the two.")
    from labkit.course import places
    from labkit.exercises import claim_report as report

    if claim_id:
        answer = report.as_dict if as_json else report.as_text
        found = answer(claim_id, demonstrate)
    else:
        answer = report.coverage if as_json else report.table
        found = answer(places.find_course(), topic, demonstrate)
    click.echo(json.dumps(found) if as_json else str(found))


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
    epilog=_examples(
        "labkit train --data digits --epochs 6",
        "labkit train --data my_pictures.tar --model cnn --learning-rate 0.001 --seed 1",
        "labkit train --data shapes --json | tail -n 1",
        "labkit train --resume runs/digits-cnn-seed0-20260131-181500",
    ),
)
@click.option("--resume", metavar="RUN", type=click.Path(path_type=Path), help="Go on with the run in this folder.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON line last; the table goes to stderr.")
@click.pass_context
def train(context: click.Context, resume: Path | None, as_json: bool, **settings: object) -> None:
    """Train a network and measure it on the test pictures.

    The run's folder keeps its settings, its history and its best weights. Ctrl-C stops after the current step, and
    --resume goes on from there.
    """
    from labkit import training

    given = [name for name in settings if context.get_parameter_source(name).name == "COMMANDLINE"]
    if resume and given:
        raise click.UsageError(f"--resume takes all settings from the run; leave out --{given[0].replace('_', '-')}.")
    with contextlib.redirect_stdout(sys.stderr) if as_json else contextlib.nullcontext():
        project = training.resume_project(resume) if resume else training.project(training.Config(**settings))
        if project.test:
            click.echo(f"test accuracy {project.test.accuracy:.2%} on {len(project.splits.test)} pictures")
            click.echo(f"record: {project.run.folder or 'none, since --run-dir is empty'}")
    if as_json:
        click.echo(json.dumps(project.summary()))
    if project.run.status == "interrupted":
        way_on = f" To go on: labkit train --resume {project.run.folder}" if project.run.folder else ""
        click.echo(f"labkit: stopped by you.{way_on}", err=True)
        context.exit(INTERRUPTED)


def main() -> None:
    """Run the command line. What the user can mend is a sentence on stderr; LABKIT_DEBUG=1 shows where it came from."""
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="replace")  # a console without some letter shows "?" for it and goes on
    if not DEBUG:
        warnings.showwarning = _warn
    try:
        status = labkit.main(prog_name="labkit", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        status = error.exit_code
    except click.Abort:
        status = _say("stopped by Ctrl-C.", INTERRUPTED)
    except LabkitError as error:
        status = _say(str(error), 1)
    except ImportError as error:
        status = _say(f"a package is missing or broken ({error}). `labkit check` says what to do.", 1)
    except Exception as error:
        status = _say(f"an error that labkit did not expect, {type(error).__name__}: {error}", 1)
    sys.exit(status)


def _warn(message: Warning, *_: object) -> None:
    click.echo(f"labkit: {message}", err=True)


def _say(sentence: str, status: int) -> int:
    if DEBUG:
        traceback.print_exc()
    click.echo(f"labkit: {sentence}", err=True)
    return status
