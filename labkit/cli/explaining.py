"""`labkit explain`: run a script, and say under its traceback what its error means."""

import warnings

import click

from labkit.cli.group import examples, labkit

PYTHONS_OWN = warnings.showwarning  # the command line shows warnings in another way, and a script shall not


@labkit.command(
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    epilog=examples(
        "labkit explain train.py",
        "labkit explain train.py --epochs 3    what follows the script is for the script",
    ),
)
@click.argument("file", metavar="FILE.py")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[ARGUMENTS]...")
@click.pass_context
def explain(context: click.Context, file: str, arguments: tuple[str, ...]) -> None:
    """Run FILE.py with its ARGUMENTS, and explain the error that ends it.

    The script runs as with `python FILE.py`, prints its traceback, and ends with the same exit status. Under the
    traceback stands what the error means: the line with its values, the rule that was broken, the likely cause, the
    fix, and the chapter that teaches it. Warnings that are silent traps are explained as well.
    """
    from labkit.doctor.explain.script import run_script

    warnings.showwarning = PYTHONS_OWN
    context.exit(run_script(file, arguments))
