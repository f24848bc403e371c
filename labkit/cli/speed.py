"""`labkit record-device`: how fast this device is, as a file that others can draw beside their own figures."""

import dataclasses
import json
from pathlib import Path

import click

from labkit.cli.group import examples, labkit


@labkit.command(
    "record-device",
    epilog=examples(
        "labkit record-device --quick                   a look, in half a minute",
        "labkit record-device --out my_gpu.json         figures to keep, in some minutes",
        "labkit record-device --only precision --json   one measurement, for programs",
    ),
)
@click.option("--device", default="auto", show_default=True, help="auto, cpu, cuda, cuda:1 or mps")
@click.option(
    "--out", metavar="FILE.json", type=click.Path(dir_okay=False, path_type=Path), help="Keep them in a file."
)
@click.option("--quick", is_flag=True, help="Small batches and few rounds.")
@click.option("--only", "names", multiple=True, metavar="NAME", help="Make this measurement; may be given repeatedly.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of a table.")
def record_device(device: str, out: Path | None, quick: bool, names: tuple[str, ...], as_json: bool) -> None:
    """Measure how fast this device is, in all that chapter 08 compares.

    Nothing else should run meanwhile. The chapter draws the figures of FILE.json beside its own when it is named in
    its parameter `records`.
    """
    from labkit import speed
    from labkit.errors import ConfigError
    from labkit.speed import recorded

    if out is not None and not out.resolve().parent.is_dir():
        raise ConfigError(f"{out} cannot be written: its folder is not there.")  # said now, and not in ten minutes
    kept = speed.record(device, quick, names, told=lambda name: click.echo(f"measuring: {name}", err=True))
    if out is not None:
        recorded.save(kept, out)
    facts = dataclasses.asdict(kept) | ({"file": str(out)} if out else {})
    text = "\n".join([str(kept.table()), *kept.notes, *([f"written: {out}"] if out else [])])
    click.echo(json.dumps(facts) if as_json else text)
