"""Pictures of speed: one's own figures beside recorded ones, what a loop does when, what an update calls."""

from collections.abc import Mapping, Sequence

from labkit.errors import DataError
from labkit.show.controls import Control
from labkit.show.picture import Picture
from labkit.show.style import INK, QUIET, SERIES, course_style, new_figure
from labkit.speed import Comparison, Operations, Record, Timeline
from labkit.speed.simulation import simulated
from labkit.speed.timeline import WAITING

OWN, RECORDED = (SERIES[0].color, ""), ("#cfe4f1", "////")  # fill and hatching: known apart in grey, too
DEPTHS = ("#10284f", "#2f6fa0", "#9cc7e0", "#d8e8f2")


def beside(found: Comparison, name: str, records: Sequence[Record] = ()) -> Picture:
    """Draw how many times as fast as the first each way is: on this device, and as recorded on others.

    name: of the measurement, under which the records keep it. A record without it is left out. Devices differ in what
    they compute at a time, so each is compared with itself, and the milliseconds stand beside the bars.
    """
    own = [(row["way"], row["times as fast"], row["milliseconds"]) for row in found.rows]
    groups = [(f"measured now: {found.device}", own, OWN)]
    for one in records:
        ways = one.figures.get(name, {})
        figures = [(way, value["times as fast"], value["milliseconds"]) for way, value in ways.items()]
        if figures:
            groups.append((f"recorded: {one.label}", figures, RECORDED))
    count = sum(len(figures) + 1 for _, figures, _ in groups)
    with course_style():
        figure = new_figure(8.0, 0.9 + 0.32 * count)
        panel = figure.subplots()
        place, ticks, data = 0.0, [], []
        for title, figures, (fill, hatch) in groups:
            panel.annotate(title, (0, place), (2, 0), textcoords="offset points", va="center", fontsize=8.5, color=INK,
                           bbox={"facecolor": "white", "edgecolor": "none", "pad": 1})  # fmt: skip
            for way, ratio, milliseconds in figures:
                place += 1
                panel.barh([place], [ratio], color=fill, hatch=hatch, edgecolor=INK, linewidth=0.8, height=0.7)
                text = f"{ratio:.3g} ×   ({in_words(milliseconds)})"
                panel.annotate(text, (ratio, place), (4, 0), textcoords="offset points", va="center", fontsize=9)
                ticks.append((place, way))
                data.append({"device": title, "way": way, "times as fast": ratio, "milliseconds": milliseconds})
            place += 1
        panel.axvline(1, color=QUIET, linewidth=1, linestyle=(0, (2, 3)))
        panel.set_yticks([place for place, _ in ticks], [way for _, way in ticks])
        panel.set_ylim(place, -0.7)  # from top to bottom, with room for the first name of a device
        panel.set_xlim(0, 1.35 * max(row["times as fast"] for row in data))
        panel.grid(visible=False, axis="y")
        panel.set(title=f"Times as fast as “{own[0][0]}” on the same device", xlabel="times as fast")
    others = "; ".join(
        f"{title}: " + ", ".join(f"{way} {ratio:.3g}" for way, ratio, _ in figures[1:]) for title, figures, _ in groups
    )
    return Picture(figure, data, f"Compared with “{own[0][0]}”, times as fast. {others}.")


def in_words(milliseconds: float) -> str:
    """Return a time with its unit: "0.52 ms", "344 ms", "4.8 s"."""
    return f"{milliseconds:.3g} ms" if milliseconds < 999 else f"{milliseconds / 1000:.3g} s"


def timelines(found: Mapping[str, Timeline]) -> Picture:
    """Draw, for each named loop, when it waited for data (hatched) and when it computed.

    Raises DataError without a loop.
    """
    if not found:
        raise DataError("There is no timeline to draw: give a dict of names and timelines.")
    with course_style():
        figure = new_figure(8.0, 1.5 + 0.5 * len(found))
        panel = figure.subplots()
        for place, line in enumerate(found.values()):
            for kind, fill, hatch, label in (
                (WAITING, "#f4d9cc", "////", "waiting for data"),
                ("computing", SERIES[0].color, "", "computing"),
            ):
                pieces = [(one.begin, one.end - one.begin) for one in line.intervals if one.kind == kind]
                look = {"facecolor": fill, "hatch": hatch, "edgecolor": INK, "linewidth": 0.6}
                panel.broken_barh(pieces, (place - 0.35, 0.7), label=label if place == 0 else None, **look)
        names = [f"{name}\n{line.waiting_share:.0%} waiting" for name, line in found.items()]
        panel.set_yticks(range(len(found)), names)
        panel.invert_yaxis()
        panel.grid(visible=False, axis="y")
        panel.set(title="What the loop does when", xlabel="milliseconds")
        figure.legend(loc="outside lower center", ncols=2)
    data = [
        {"loop": name, "kind": one.kind, "begin": one.begin, "end": one.end}
        for name, line in found.items()
        for one in line.intervals
    ]
    shares = ", ".join(f"{name}: {line.waiting_share:.0%} waiting" for name, line in found.items())
    return Picture(figure, data, f"What the loop does when: {shares}.")


def calls(found: Operations, deepest: int = 3) -> Picture:
    """Draw the last call of an action as a profiler saw it: each operation a bar, below it those that it called.

    Names are written where they fit. deepest: how many levels below the first are drawn.
    """
    spans = [span for span in found.spans if span.depth <= deepest]
    if not spans:
        raise DataError("There is no operation to draw: the profiled action did nothing that torch knows of.")
    end = max(span.end for span in spans)
    with course_style():
        figure = new_figure(9.5, 1.2 + 0.5 * (1 + max(span.depth for span in spans)))
        panel = figure.subplots()
        for span in spans:
            length, color = span.end - span.begin, DEPTHS[span.depth % len(DEPTHS)]
            panel.barh(
                [span.depth], [length], left=span.begin, height=0.9, color=color, edgecolor="white", linewidth=0.3
            )
            name = span.name.rpartition(" ")[2].removeprefix("aten::")
            if length / end > 0.0072 * len(name):
                ink = "white" if span.depth < 2 else INK
                panel.text(span.begin + length / 2, span.depth, name, ha="center", va="center", color=ink, fontsize=8)
        panel.invert_yaxis()
        panel.set_yticks([])
        panel.grid(visible=False, axis="y")
        panel.set(title="One call, as the profiler saw it: what stands below was called by what is above")
        panel.set(xlabel="milliseconds", xlim=(0, end))
    top = [f"{span.name} {span.end - span.begin:.3g} ms" for span in spans if span.depth == 0]
    data = [{"operation": one.name, "begin": one.begin, "end": one.end, "depth": one.depth} for one in spans]
    most = found.rows[0]
    summary = f"One call takes {end:.3g} ms ({', '.join(top[:6])}); most time of its own has {most['operation']}."
    return Picture(figure, data, summary)


def workers_picture(load: float = 40.0, compute: float = 20.0, workers: int = 0) -> Picture:
    """Draw a loop whose batches take `load` milliseconds to make and `compute` to train on, with so many workers."""
    name = "no workers" if workers == 0 else f"{workers} {'worker' if workers == 1 else 'workers'}"
    return timelines({name: simulated(load, compute, workers)})


def workers_control() -> Control:
    """Return a control over the time to make a batch, the time to compute with it, and the number of workers."""
    return Control(
        workers_picture, load=[40.0, 10.0, 20.0, 80.0], compute=[20.0, 5.0, 10.0, 40.0], workers=[0, 1, 2, 3, 4, 8]
    )
