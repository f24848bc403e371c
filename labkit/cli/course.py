"""`labkit build`, `solve`, `run`, `progress`, `claims`: the chapters, and who stands where."""

import ast
import contextlib
import dataclasses
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from labkit.cli.group import examples, labkit
from labkit.errors import LabkitError


@labkit.command(
    epilog=examples(
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
    epilog=examples(
        "labkit solve all --out solved      every chapter with its answers, in the folder solved",
        "labkit solve 01 --out solved       one chapter by its number",
    ),
)
@click.argument("names", nargs=-1, required=True, metavar="CHAPTER...|all")
@click.option("--out", "folder", required=True, metavar="DIR", type=click.Path(file_okay=False))
def solve(names: tuple[str, ...], folder: str) -> None:
    """Make the instructor edition of chapters: answers filled in, notes shown, every section timed.

    A file in DIR that labkit did not write, or that was changed since, is never overwritten. nbgrader makes and grades
    assignments from these notebooks; DIR/nbgrader_config.py says how.
    """
    from labkit.course import editions, places

    if not folder.strip():  # for Path it would be the current folder
        raise LabkitError("--out names no folder. Write for instance: --out solved")
    chapters = places.chapters(places.find_course(), () if names == ("all",) else names)
    editions.prepare(Path(folder), chapters)
    for chapter in chapters:
        with _line_about(chapter.name) as line:
            seconds = editions.solve(chapter, Path(folder), line.count)
            line.end(f"{seconds:6.1f} s  {Path(folder) / chapter.notebook.name}")


@labkit.command(
    epilog=examples(
        "labkit run all --out course-runs                 every chapter, short, on this machine",
        "labkit run all --out course-runs --full --jobs 2   long trainings, two chapters at a time",
        "labkit run 09 --out cifar --full -p data cifar10   one chapter with a parameter of its own",
    ),
)
@click.argument("names", nargs=-1, required=True, metavar="CHAPTER...|all")
@click.option("--out", "folder", required=True, metavar="DIR", type=click.Path(file_okay=False))
@click.option("--fast/--full", default=True, help="Short trainings (the default), or as long as they ought to be.")
@click.option("--jobs", default=1, metavar="N", type=click.IntRange(1), help="How many chapters run at a time.")
@click.option(
    "parameters", "-p", nargs=2, multiple=True, metavar="NAME VALUE", help="A parameter, for all chapters that have it."
)
@click.option("--json", "as_json", is_flag=True, help="End with one JSON line.")
def run(
    names: tuple[str, ...], folder: str, fast: bool, jobs: int, parameters: tuple[tuple[str, str], ...], as_json: bool
) -> None:
    """Run chapters through papermill, and write a page about them: times, results, figures, the machine.

    DIR keeps each executed notebook, the records of its trainings, and report.html. A chapter that failed is kept and
    named, and the others go on. After Ctrl-C the same command goes on where it stopped.
    """
    from labkit.course import places, run_report, running

    if not folder.strip():
        raise LabkitError("--out names no folder. Write for instance: --out course-runs")
    chapters = places.chapters(places.find_course(), () if names == ("all",) else names)
    chosen = {name: _plain(value) for name, value in parameters}
    course = running.plan(chapters, Path(folder), fast, chosen)
    outcomes = running.run(course, jobs, _say_begun, _say_outcome)
    page = run_report.write_page(course, outcomes)
    click.echo(f"The page about it: {page}")
    if as_json:
        click.echo(json.dumps({each.name: {"status": each.status, "seconds": each.seconds} for each in outcomes}))
    failed = [each.name for each in outcomes if each.status == "failed"]
    if failed:
        raise LabkitError(f"{len(failed)} of {len(outcomes)} chapters failed: {', '.join(failed)}.")


def _plain(value: str) -> object:
    """Return the number or truth value that a text of the command line is, else the text."""
    try:
        read = ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return value
    return read if isinstance(read, int | float | bool | list | dict) else value


def _say_begun(name: str) -> None:
    if sys.stdout.isatty():  # where the line can be written over when the chapter has ended
        click.echo(f"\r{name:<32}runs", nl=False)


def _say_outcome(outcome: Any, before: bool) -> None:
    text = "finished earlier, not run again" if before else f"{outcome.status}  {outcome.error}".rstrip()
    begin = "\r" if sys.stdout.isatty() else ""
    click.echo(f"{begin}{outcome.name:<32}{outcome.seconds:6.1f} s  {text}")


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
    epilog=examples(
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


@progress.command(epilog=examples("labkit progress merge room/*.json", "labkit progress merge --json a.json b.json"))
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
    epilog=examples(
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
