"""Pictures of short trials: how the loss answers to a growing learning rate, and where the time of an update goes."""

import math

from labkit.show.picture import Picture
from labkit.show.style import INK, QUIET, SERIES, course_style, line_style, new_figure
from labkit.trials.learning_rate import LearningRateTrial
from labkit.trials.step_profile import StepProfile

HATCHES = {"data": "////", "forward": "", "backward": "....", "step": "xxxx"}  # known apart without any colour
FILLS = {"data": "#f4d9cc", "forward": SERIES[0].color, "backward": "#cfe4f1", "step": "#ffffff"}


def learning_rate_trial(trial: LearningRateTrial) -> Picture:
    """Draw the loss over the learning rate, each update and smoothed, with the lowest point and the suggestion.

    trial: what `labkit.trials.find_learning_rate` returned. A loss far above the smoothed ones is left out of sight.
    """
    finite = [value for value in trial.smoothed if math.isfinite(value)]
    with course_style():
        figure = new_figure(7.5, 3.9)
        panel = figure.subplots()
        panel.plot(trial.rates, trial.losses, color=QUIET, linewidth=0.8, label="loss of each update")
        panel.plot(trial.rates, trial.smoothed, **line_style(0, len(trial.rates)), label="smoothed")
        if finite:
            lowest, highest = min(finite), min(max(finite), 1.5 * finite[0])
            margin = 0.15 * (highest - lowest) + 0.01 * abs(highest)
            panel.set_ylim(min(lowest, *(one for one in trial.losses if math.isfinite(one))) - margin, highest + margin)
        if trial.suggestion is not None:
            best = trial.smoothed.index(min(finite))
            star = {"marker": "*", "markersize": 13, "color": SERIES[1].color, "markeredgecolor": INK}
            name = f"lowest, at {trial.rates[best]:.2g}"
            panel.plot([trial.rates[best]], [trial.smoothed[best]], linestyle="none", label=name, zorder=3, **star)
            look = {"color": SERIES[1].color, "linewidth": 1.6, "linestyle": "--"}
            panel.axvline(trial.suggestion, label=f"suggestion: {trial.suggestion:.2g}", **look)
        panel.set(xscale="log", title="Loss while the learning rate grows", xlabel="learning rate", ylabel="loss")
        figure.legend(loc="outside lower center", ncols=4)
    columns = zip(trial.rates, trial.losses, trial.smoothed, strict=True)
    data = [{"rate": rate, "loss": loss, "smoothed": smoothed} for rate, loss, smoothed in columns]
    return Picture(figure, data, repr(trial))


def step_profile(profile: StepProfile) -> Picture:
    """Draw one bar, an update, divided by what takes its time.

    profile: what `labkit.trials.profile_step` returned.
    """
    rows = profile.rows
    with course_style():
        figure = new_figure(7.5, 1.9)
        panel = figure.subplots()
        begin = 0.0
        for row in rows:
            part, width = row["part"], row["milliseconds"]
            look = {"color": FILLS[part], "hatch": HATCHES[part], "edgecolor": INK, "linewidth": 0.8}
            label = f"{part} {row['share']:.0%}"
            panel.barh([""], [width], left=begin, height=0.7, label=label, **look)
            begin += width
        panel.grid(visible=False, axis="y")
        panel.set_yticks([])
        panel.set_xlim(0, begin * 1.02)
        panel.set(title="Where one update spends its time", xlabel="milliseconds")
        figure.legend(loc="outside lower center", ncols=4)
    shares = ", ".join(f"{row['part']} {row['share']:.0%}" for row in rows)
    summary = f"An update of {profile.batch_size} samples takes {begin:.3g} ms: {shares}. {profile.advice}"
    return Picture(figure, [dict(row) for row in rows], summary)
