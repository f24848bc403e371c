"""The command itself, and what its parts share."""

import click

from labkit import __version__

INTERRUPTED = 130  # what shells report for a program that Ctrl-C ended


def examples(*lines: str) -> str:
    """Return lines for the end of a help text, marked so that click does not wrap them."""
    return "\n".join(["\b", "Examples:", *(f"  {line}" for line in lines)])


@click.group(
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=examples(
        "labkit check                            is everything here that the course needs?",
        "labkit data                             which data sets are there?",
        "labkit train --data digits --epochs 6   train a network on handwritten digits",
        "labkit trial learning-rate              which rate to begin with? and other short trials",
        "labkit doctor train.py                  why does my script's model not learn?",
        "labkit explain train.py                 what does the error of my script mean?",
        "labkit clinic                           a training that goes wrong: what is its fault?",
        "labkit runs                             what was trained here, and what came of it",
        "labkit record-device                    how fast is this computer? figures to compare with",
        "labkit run all --out course-runs        every chapter through papermill, and a page about it",
        "labkit progress                         which exercises are right, and what comes next?",
        "labkit claims C041                      what people say about PyTorch, and what is right",
        "labkit COMMAND --help                   more about one command",
    ),
)
@click.version_option(__version__, message="labkit %(version)s")
def labkit() -> None:
    """The lab of the PyTorch course: check this computer, look at data, train, build the chapters."""
