"""The page about chapters that ran: what became of each, its figures and its results, on which machine. One file."""

import html
import time
from pathlib import Path

import nbformat

from labkit.course.running import Course, Outcome
from labkit.runs.listing import listing, runs_in
from labkit.runs.surroundings import surroundings
from labkit.table import Table

PAGE = "report.html"
STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem;
       color: #222; background: #fff; }
table { border-collapse: collapse; margin: 1rem 0; }
td, th { padding: .2rem .8rem; border-bottom: 1px solid #ccc; vertical-align: top; }
h2 { margin-top: 2.5rem; border-top: 2px solid #ccc; padding-top: .5rem; }
.figures { display: flex; flex-wrap: wrap; gap: 1rem; }
.figures img { max-width: 22rem; max-height: 16rem; border: 1px solid #ddd; background: #fff; }
pre { white-space: pre-wrap; background: #f4f4f4; padding: .5rem; }
"""


def write_page(course: Course, outcomes: list[Outcome]) -> Path:
    """Write the page of a course's run into its folder and return its path. It needs no other file and no network."""
    parts = [_summary(outcomes), _overview(course, outcomes), "<h2>This machine</h2>", _machine()]
    parts += [_chapter(course, outcome) for outcome in outcomes]
    page = (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>The course, run</title>'
        f"<style>{STYLE}</style></head><body>\n" + "\n".join(parts) + "\n</body></html>\n"
    )
    path = course.folder / PAGE
    path.write_text(page, encoding="utf-8")
    return path


def _summary(outcomes: list[Outcome]) -> str:
    good = sum(outcome.status == "finished" for outcome in outcomes)
    minutes = sum(outcome.seconds for outcome in outcomes) / 60
    when = time.strftime("%Y-%m-%d %H:%M")
    return (
        f"<h1>The course, run</h1><p>{when}: {good} of {len(outcomes)} chapters ran to their end. "
        f"Together they took {minutes:.1f} minutes.</p>"
    )


def _overview(course: Course, outcomes: list[Outcome]) -> str:
    rows = "".join(
        f'<tr><td><a href="#{outcome.name}">{outcome.name}</a></td><td>{outcome.status}</td>'
        f'<td style="text-align:right">{outcome.seconds:.1f}</td><td>{_parameters(outcome.parameters)}</td></tr>'
        for outcome in outcomes
    )
    return f"<table><tr><th>chapter</th><th>status</th><th>seconds</th><th>parameters</th></tr>{rows}</table>"


def _parameters(parameters: dict) -> str:
    shown = {name: value for name, value in parameters.items() if name != "run_dir"}
    return html.escape(", ".join(f"{name}={value!r}" for name, value in shown.items()))


def _machine() -> str:
    found = surroundings()
    facts = {"machine": found["machine"], **found["hardware"], **found["versions"], "threads": found["threads"]}
    facts["memory"] = f"{facts['memory'] / 2**30:.1f} GiB"
    return Table([{"what": name, "here": str(value)} for name, value in facts.items()])._repr_html_()


def _chapter(course: Course, outcome: Outcome) -> str:
    file = course.notebook(outcome.name)
    parts = [f'<h2 id="{outcome.name}">{outcome.name}</h2>', f"<p>{outcome.status} in {outcome.seconds:.1f} s."]
    if file.is_file():
        parts.append(f'The notebook: <a href="{file.name}">{file.name}</a>.')
    parts.append("</p>")
    if outcome.error:
        parts.append(f"<pre>{html.escape(outcome.error)}</pre>")
    runs = course.runs(outcome.name)
    if runs.is_dir() and runs_in(runs):
        parts.append(listing(runs)._repr_html_())
    if file.is_file():
        parts.append(f'<div class="figures">{"".join(_figures(file))}</div>')
    return "\n".join(parts)


def _figures(file: Path) -> list[str]:
    """Return the pictures of a notebook as elements that hold their own bytes."""
    return [
        f'<img src="data:image/png;base64,{"".join(output.data["image/png"].split())}" alt="{_words(output)}">'
        for cell in nbformat.read(file, as_version=4).cells
        for output in cell.get("outputs", [])
        if "image/png" in output.get("data", {})
    ]


def _words(output: nbformat.NotebookNode) -> str:
    """Return what the text of an output says in place of its picture."""
    return html.escape(output.data.get("text/plain", "a figure"))
