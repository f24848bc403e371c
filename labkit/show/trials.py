"""Pictures of short trials: of the loss, and of where the time and the memory of an update go."""

import math

from matplotlib.figure import Figure

from labkit.show.picture import Picture
from labkit.show.style import INK, QUIET, SERIES, course_style, line_style, new_figure
from labkit.trials.learning_rate import LearningRateTrial
from labkit.trials.memory import MemoryEstimate
from labkit.trials.overfit import FALL, Overfit
from labkit.trials.step_profile import StepProfile

Look = tuple[str, str]  # fill and hatching
LOOKS: dict[str, Look] = {  # known apart without any colour
    "data": ("#f4d9cc", "////"),
    "forward": (SERIES[0].color, ""),
    "backward": ("#cfe4f1", "...."),
    "step": ("#ffffff", "xxxx"),
}
SPARE_LOOK: Look = ("#e8e8e8", "----")


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


def overfit_trial(outcome: Overfit) -> Picture:
    """Draw the loss while a few samples are learned by heart, and the height at which they are.

    outcome: what `labkit.trials.overfit_small_batch` returned.
    """
    losses = outcome.losses
    with course_style():
        figure = new_figure(7.5, 3.4)
        panel = figure.subplots()
        panel.plot(range(1, len(losses) + 1), losses, **line_style(0, len(losses)), label="loss")
        if losses[0] > 0:
            look = {"color": SERIES[1].color, "linewidth": 1.6, "linestyle": "--"}
            panel.axhline(FALL * losses[0], label=f"learned by heart: {FALL:.0%} of the first loss", **look)
            panel.set_yscale("log")
        panel.set(title=f"Loss of {outcome.samples} samples, again and again", xlabel="update", ylabel="loss")
        figure.legend(loc="outside lower center", ncols=2)
    data = [{"update": update, "loss": loss} for update, loss in enumerate(losses, start=1)]
    return Picture(figure, data, repr(outcome))


def step_profile(profile: StepProfile) -> Picture:
    """Draw one bar, an update, divided by what takes its time.

    profile: what `labkit.trials.profile_step` returned.
    """
    rows = profile.rows
    parts = [(f"{row['part']} {row['share']:.0%}", row["milliseconds"], LOOKS[row["part"]]) for row in rows]
    figure = _divided_bar(parts, "Where one update spends its time", "milliseconds")
    total = sum(row["milliseconds"] for row in rows)
    shares = ", ".join(f"{row['part']} {row['share']:.0%}" for row in rows)
    summary = f"An update of {profile.batch_size} samples takes {total:.3g} ms: {shares}. {profile.advice}"
    return Picture(figure, [dict(row) for row in rows], summary)


def memory_estimate(estimate: MemoryEstimate) -> Picture:
    """Draw one bar, the memory of an update, divided by what needs it.

    estimate: what `labkit.trials.estimate_memory` returned.
    """
    rows, looks = estimate.rows, [*LOOKS.values(), SPARE_LOOK]
    parts = [
        (f"{row['kind']} {row['share']:.0%}", row["bytes"] / 2**20, look) for row, look in zip(rows, looks, strict=True)
    ]
    figure = _divided_bar(parts, "What one update needs in memory", "MiB")
    shares = ", ".join(f"{row['kind']} {row['share']:.0%}" for row in rows)
    summary = f"An update of {estimate.batch_size} samples needs {estimate.total / 2**20:.3g} MiB: {shares}."
    return Picture(figure, [dict(row) for row in rows], summary)


def _divided_bar(parts: list[tuple[str, float, Look]], title: str, unit: str) -> Figure:
    """Draw (label, size, look) one after the other as one bar."""
    with course_style():
        figure = new_figure(7.5, 1.9)
        panel = figure.subplots()
        begin = 0.0
        for label, size, (fill, hatch) in parts:
            look = {"color": fill, "hatch": hatch, "edgecolor": INK, "linewidth": 0.8}
            panel.barh([""], [size], left=begin, height=0.7, label=label, **look)
            begin += size
        panel.grid(visible=False, axis="y")
        panel.set_yticks([])
        panel.set_xlim(0, begin * 1.02)
        panel.set(title=title, xlabel=unit)
        figure.legend(loc="outside lower center", ncols=3 if len(parts) > 4 else 4)
    return figure
