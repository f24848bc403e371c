"""The palette must survive a grey printer and the common forms of colour blindness."""

from itertools import combinations

import matplotlib
import numpy
import pytest

from labkit.show.style import QUIET, SERIES, course_style, line_style, luminance, new_figure

# A colour as seen without one kind of cone: Machado, Oliveira, Fernandes (2009), severity 1.0, linear RGB.
BLINDNESS = {
    "protanopia": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deuteranopia": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.01182, 0.04294, 0.968881],
    ],
    "tritanopia": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.3039],
    ],
}
TO_XYZ = [
    [0.4124564, 0.3575761, 0.1804375],
    [0.2126729, 0.7151522, 0.072175],
    [0.0193339, 0.119192, 0.9503041],
]
WHITE = numpy.array([0.95047, 1.0, 1.08883])


def linear(color: str) -> numpy.ndarray:
    channels = numpy.array(matplotlib.colors.to_rgb(color))
    return numpy.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)


def lab(rgb: numpy.ndarray) -> numpy.ndarray:
    ratio = numpy.array(TO_XYZ) @ rgb.clip(0, 1) / WHITE
    root = numpy.where(ratio > 0.008856, numpy.cbrt(ratio), 7.787 * ratio + 16 / 116)
    return numpy.array([116 * root[1] - 16, 500 * (root[0] - root[1]), 200 * (root[1] - root[2])])


def lightness(color: str) -> float:
    return lab(linear(color))[0]


def test_luminance_is_that_of_the_standard():
    assert luminance("#ffffff") == pytest.approx(1.0)
    assert luminance("#000000") == 0.0
    assert luminance("#808080") == pytest.approx(0.2158605)


@pytest.mark.parametrize(("first", "second"), list(combinations(range(len(SERIES)), 2)))
def test_series_are_told_apart_in_grey(first, second):
    assert abs(lightness(SERIES[first].color) - lightness(SERIES[second].color)) >= 10


@pytest.mark.parametrize("color", [series.color for series in SERIES] + [QUIET])
def test_every_line_stands_out_on_white_paper(color):
    contrast = 1.05 / (luminance(color) + 0.05)
    assert contrast >= 3  # WCAG 2.1, 1.4.11: graphical objects


@pytest.mark.parametrize("kind", BLINDNESS)
def test_series_are_told_apart_without_one_kind_of_cone(kind):
    seen = [lab(numpy.array(BLINDNESS[kind]) @ linear(series.color)) for series in SERIES]
    for first, second in combinations(seen, 2):
        assert numpy.linalg.norm(first - second) >= 15


def test_series_differ_in_dashes_and_marker_too():
    assert len({series.dashes for series in SERIES}) == len(SERIES)
    assert len({series.marker for series in SERIES}) == len(SERIES)


def test_long_lines_carry_about_a_dozen_markers():
    assert line_style(0, 6)["markevery"] == 1
    assert line_style(0, 1200)["markevery"] == 100
    assert line_style(len(SERIES), 5) == line_style(0, 5)


def test_the_style_leaves_the_callers_settings_alone():
    before = matplotlib.rcParams["axes.grid"]
    with course_style():
        assert matplotlib.rcParams["axes.grid"] is True
        assert new_figure(3, 2).get_size_inches().tolist() == [3, 2]
    assert matplotlib.rcParams["axes.grid"] == before
