"""`labkit clinic`: trainings with a planted fault, in the terminal."""

import click

from labkit.cli import pictures
from labkit.cli.group import examples, labkit


@labkit.command(
    epilog=examples(
        "labkit clinic                              which cases are there?",
        "labkit clinic --case wren --out wren.png   story, code, numbers and picture of a case",
        "labkit clinic --case wren --say lr_too_low is it this?",
        "labkit clinic --case wren --mend           the cure, and what it brings",
        "labkit clinic --daily                      three cases for today",
    ),
)
@click.option("--case", "name", metavar="NAME", help="The case to look at.")
@click.option("--level", type=click.IntRange(1, 3), help="List the cases of this level only.")
@click.option("--daily", is_flag=True, help="List three cases for today, one of each level.")
@click.option("--date", metavar="YYYY-MM-DD", help="The three cases of another day.")
@click.option("--faults", is_flag=True, help="List the faults that a case can have.")
@click.option("--say", "fault", metavar="FAULT", help="Name the fault of the case.")
@click.option("--mend", is_flag=True, help="Show the cure of the case, and train without the fault.")
@click.option("--doctor", is_flag=True, help="Show what the doctor says about the case.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of the training.")
@pictures.png_option()
def clinic(name, level, daily, date, faults, fault, mend, doctor, seed, out) -> None:
    """Look at a small training that goes wrong, and name its fault."""
    from labkit.doctor import clinic as ward
    from labkit.errors import ConfigError

    if faults:
        click.echo("\n".join(f"{label:28}{words}" for label, words in ward.WORDS.items()))
    elif name is None and (fault or mend or doctor or out):
        raise ConfigError("Which case? Add --case NAME; `labkit clinic` lists the names.")
    elif name is None:
        click.echo(_listed(level, daily, date, seed))
    else:
        case = ward.find(name)
        if doctor:
            _ask_the_doctor(case, seed)
        elif mend:
            _mend(case, seed, out)
        elif fault:
            _judge(case, fault, seed)
        else:
            _present(case, seed, out)


def _listed(level: int | None, daily: bool, date: str | None, seed: int) -> str:
    """Return a line for each case: its level, its name, and whether it was solved."""
    import datetime

    from labkit.doctor import clinic as ward
    from labkit.exercises import progress

    mix = daily or date is not None
    chosen = ward.daily_mix(date or datetime.date.today(), seed) if mix else ward.cases(level)
    done = progress.read().get("clinic", {})
    solved = {name for name, entry in done.items() if entry.get("is_right")}
    lines = [
        f"level {case.level}  {case.name:8}{'solved' if case.name in solved else '':8}{case.story}" for case in chosen
    ]
    return "\n".join(lines)


def _present(case, seed: int, out) -> None:
    from labkit.doctor import clinic as ward

    seen = ward.run(case, seed)
    click.echo(f"{case.story}\n\n{case.code}")
    for row in seen.epochs:
        click.echo(
            f"epoch {row['epoch']}: loss {row['train_loss']:.3f}, {row['val_loss']:.3f} on validation; "
            f"{seen.score} {row['train_score']:.3f}, {row['val_score']:.3f} on validation"
        )
    click.echo("\nlayer, median gradient norm, median share by which an update moves its weights")
    for layer, ratios in seen.ratios.items():
        click.echo(f"{layer:20} {_median(seen.gradients[layer]):>10}  {_median(ratios):>10}")
    click.echo("\n`labkit clinic --faults` lists what it can be; say it with --say.")
    _draw(out, seen)


def _median(values: list) -> str:
    from statistics import median

    known = [value for value in values if value is not None]
    return f"{median(known):.3g}" if known else "none"


def _judge(case, fault: str, seed: int) -> None:
    from labkit.doctor import clinic as ward
    from labkit.exercises import progress

    reply = ward.reply(case, ward.run(case, seed), fault)
    progress.record_case(case.name, ward.label_of(fault), reply.is_right)
    click.echo(reply.text)


def _mend(case, seed: int, out) -> None:
    from labkit.doctor import clinic as ward
    from labkit.show.clinic import worth

    ill, cured = ward.run(case, seed), ward.run(case, seed, cured=True)
    click.echo(f"{case.cure}\n\n{case.diff()}\n\n{worth(ill, cured)}")
    _draw(out, ill, cured)


def _ask_the_doctor(case, seed: int) -> None:
    from labkit.doctor import clinic as ward
    from labkit.doctor import examine

    click.echo(str(examine(**ward.pieces(case, seed=seed))))


def _draw(out, *runs) -> None:
    if out is not None:
        from labkit.show.clinic_figure import clinic_figure

        click.echo(pictures.save(clinic_figure(*runs), out))
