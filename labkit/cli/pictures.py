"""What commands share that write a picture into a file."""

from pathlib import Path

import click

from labkit.errors import LabkitError


def png_option(required: bool = False):
    """Return the option --out FILE.png. Another ending is refused before any work is done."""
    kind = click.Path(dir_okay=False, path_type=Path)
    text = "Draw a picture into this file."
    return click.option("--out", required=required, metavar="FILE.png", type=kind, callback=_checked, help=text)


def _checked(context: click.Context, option: click.Option, out: Path | None) -> Path | None:
    if out is not None and out.suffix != ".png":
        raise LabkitError(f"--out {out} does not end in .png, and a picture is what will be written.")
    return out


def save(picture, out: Path) -> str:
    """Write a picture into a file and return a line that says so."""
    try:
        picture.save(out)
    except OSError as error:
        raise LabkitError(f"{out} cannot be written: {error.strerror or error}.") from error
    return f"written: {out}"
