"""`labkit doctor`: examine the training program of a script."""

import click

from labkit.cli.group import examples, labkit


@labkit.command(
    epilog=examples(
        "labkit doctor train.py              the variables model, loss_fn, optimizer, train_loader of the script",
        "labkit doctor train.py:build        what its function build() returns, a dict of these pieces",
        "labkit doctor train.py --apply      mend a copy where that is mechanical, and prove it",
    ),
)
@click.argument("file", metavar="FILE.py[:FUNCTION]")
@click.option("--apply", "mend", is_flag=True, help="Also mend a copy where the fix is mechanical, and prove it.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
@click.option("--seed", default=0, show_default=True, help="Where random numbers start.")
@click.pass_context
def doctor(context: click.Context, file: str, mend: bool, as_json: bool, seed: int) -> None:
    """Examine a training program for a few steps on copies, and say what is wrong with it.

    FILE.py is imported, so write what trains under `if __name__ == "__main__":`. Its pieces are what a function
    returns, or the variables of the file: model, loss_fn, optimizer, train_loader, and if there are any val_loader,
    scheduler, train_step, evaluate. Usual other names (net, criterion, ...) are understood. The exit status is 1 when
    a fault is proven, and else 0.
    """
    from labkit import randomness
    from labkit.doctor import examine
    from labkit.doctor.explain.script import show_error
    from labkit.doctor.namespace import path_of, pieces_of_file
    from labkit.errors import LabkitError

    randomness.seed_everything(seed)
    try:
        pieces = pieces_of_file(file)
    except LabkitError:
        raise
    except Exception as error:  # the script's own
        show_error(error, path_of(file))
        context.exit(1)
    report = examine(**pieces)
    if as_json:
        click.echo(report.to_json())
    else:
        click.echo(str(report))
        click.echo(f"\nExamined in {report.seconds:.1f} s; nothing of the program was changed.")
    if mend and report.findings:
        try:
            click.echo(f"\n{report.apply()}", err=as_json)
        except LabkitError as error:
            click.echo(f"\n{error}", err=True)
    context.exit(1 if report.failed else 0)
