"""Where the time of a training step goes: the picture of the loader doctor."""

from labkit.data.profiling import Profile
from labkit.show.picture import Picture
from labkit.show.style import INK, SERIES, course_style, new_figure


def loading_profile(profile: Profile) -> Picture:
    """Draw a bar for each number of workers: the milliseconds of a step, waiting (hatched) and computing.

    profile: what `labkit.data.profile` returned.
    """
    rows = profile.rows
    names = [str(row["workers"]) for row in rows]
    waiting, computing = ([row[part] for row in rows] for part in ("waiting", "computing"))
    with course_style():
        figure = new_figure(7.5, 1.4 + 0.45 * len(rows))
        panel = figure.subplots()
        look = {"edgecolor": INK, "linewidth": 0.8, "height": 0.7}
        panel.barh(names, waiting, color="#f4d9cc", hatch="////", label="waiting for data", **look)
        panel.barh(names, computing, left=waiting, color=SERIES[0].color, label="computing", **look)
        for place, row in enumerate(rows):
            text = f"{row['step']:.1f} ms"
            panel.annotate(text, (row["step"], place), (4, 0), textcoords="offset points", va="center", fontsize=9)
        panel.invert_yaxis()
        panel.margins(x=0.12)
        panel.grid(visible=False, axis="y")
        panel.set(title="Where a step spends its time", xlabel="milliseconds a step", ylabel="worker processes")
        figure.legend(loc="outside lower center", ncols=2)
    return Picture(figure, [dict(row) for row in rows], " ".join(profile.advice))
