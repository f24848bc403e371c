"""`labkit sweep`: run one notebook with many parameters."""

import json
import time
from pathlib import Path

import click

from labkit.cli.group import examples, labkit
from labkit.errors import ConfigError


@labkit.command(
    epilog=examples(
        "labkit sweep notebooks/09_cifar10.ipynb --grid batch_size=32,128 --grid model=cnn,mlp --out first",
        "labkit sweep my.ipynb --random 'learning_rate=log(1e-4,1e-1)' --trials 20 --jobs 4 --out rates",
        "labkit sweep my.ipynb --grid seed=0,1,2 --backend dask --scheduler tcp://10.0.0.1:8786 --out seeds",
    ),
)
@click.argument("notebook", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--grid", multiple=True, metavar="NAME=A,B", help="Every one of these values, with every other.")
@click.option(
    "--random", "random", multiple=True, metavar="NAME=log(LOW,HIGH)",
    help="Drawn for each trial: log(…), uniform(…), int(…), or one of A,B,C.",
)  # fmt: skip
@click.option("--trials", type=click.IntRange(1), help="How many draws of the --random parameters.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0), help="Decides the draws.")
@click.option("--jobs", default=1, show_default=True, type=click.IntRange(1), help="How many runs at a time.")
@click.option("--out", required=True, metavar="DIR", type=click.Path(path_type=Path), help="The folder for everything.")
@click.option("--by", default="", metavar="RESULT", help="The result that the picture shows.")
@click.option("--backend", type=click.Choice(("processes", "dask")), default="processes", show_default=True)
@click.option("--scheduler", envvar="DASK_SCHEDULER_ADDRESS", metavar="ADDRESS", help="Of the Dask cluster.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON line instead of the table.")
@click.pass_context
def sweep(
    context: click.Context, notebook: Path, grid: tuple[str, ...], random: tuple[str, ...], trials: int | None,
    seed: int, jobs: int, out: Path, by: str, backend: str, scheduler: str | None, as_json: bool,
) -> None:  # fmt: skip
    """Run NOTEBOOK once for each set of parameters, and compare what comes out.

    All parameters are checked before anything starts. DIR gets a folder for each run, with the executed notebook and a
    record, which `labkit runs DIR` lists, results.csv, and a picture. A run that fails is kept and named, and stops no
    other. When the sweep was stopped, the same command goes on with what is missing. The exit status is 1 when a run
    failed, else 0.
    """
    from labkit.sweeps import parameters, plan, results, running

    if not grid and not random:
        raise ConfigError("Name what to vary: --grid NAME=A,B or --random NAME=log(LOW,HIGH).")
    if bool(random) != (trials is not None):
        raise ConfigError("--random and --trials belong together: what to draw, and how often.")
    fixed, drawn = parameters.grid_values(grid), parameters.random_values(random)
    if twice := set(fixed) & set(drawn):
        raise ConfigError(f"The parameter {min(twice)!r} is in --grid and in --random. Leave one of them out.")
    declared = plan.declared_in(notebook)
    runs = parameters.combinations(fixed, drawn, trials or 1, seed, declared)
    plan.check_settings(notebook, runs)
    planned = plan.begin(notebook, out, runs)
    waiting, started = len(planned.waiting()), time.perf_counter()
    if waiting < len(runs):
        click.echo(f"{len(runs) - waiting} of {len(runs)} runs were made before.", err=as_json)
    for number, run in enumerate(running.run(planned, jobs, backend, scheduler) if waiting else (), start=1):
        result, seconds = planned.recorded(run).result, time.perf_counter() - started
        told = f"{run}  {result.get('status', 'unfinished')}  {result.get('error', '')}".rstrip()
        click.echo(f"{number}/{waiting}  {seconds:6.1f} s  {told}", err=as_json)
    table = results.table(planned)
    facts = {"runs": table.rows, "table": results.write_csv(planned)} | _picture(planned, by)
    click.echo(json.dumps(facts) if as_json else f"\n{table}\n\nwritten: {facts['table']}")
    if not as_json and "picture" in facts:
        click.echo(f"{facts['summary']}\nwritten: {facts['picture']}")
    context.exit(1 if any(row["status"] != "finished" for row in table.rows) else 0)


def _picture(planned, by: str) -> dict:
    """Draw the runs, where at least two have the result; return the path and what can be seen."""
    from labkit.sweeps import results

    result, rows = results.main_result(planned, by), results.table(planned).rows
    if sum(isinstance(row.get(result), int | float) for row in rows) < 2:
        return {}
    from labkit.show.sweeps import sweep_lines  # only now: it takes seconds

    names = list(dict.fromkeys(name for parameters in planned.runs.values() for name in parameters))
    picture = sweep_lines(rows, names, result)
    return {"picture": str(picture.save(planned.folder / "results.png")), "summary": picture.summary}
