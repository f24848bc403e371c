import pytest

from labkit.show.boxes import box, cut, fit, sheet


def test_a_sheet_is_measured_in_inches_from_the_upper_left():
    panel = sheet(4.0)
    box(panel, 1.0, 0.5, 0.25)
    figure = cut(panel, 2.0)
    assert figure.get_size_inches().tolist() == [4.0, 2.0]
    left, top = panel.transData.transform((1.0, 0.5)) / figure.dpi
    assert (left, 2.0 - top) == pytest.approx((1.0, 0.5))


@pytest.mark.parametrize("size", [0.2, 0.35, 0.5])
@pytest.mark.parametrize("text", ["7", "11", "0.14", "False", "-1.5+2j"])
def test_a_text_stands_inside_its_box(size, text):
    panel = sheet(1.0)
    box(panel, 0.2, 0.2, size, text)
    figure = cut(panel, 1.0)
    figure.canvas.draw()
    extent = panel.texts[0].get_window_extent()
    assert extent.width <= size * figure.dpi and extent.height <= size * figure.dpi
    assert panel.texts[0].get_fontsize() == fit(text, size)


def test_the_kinds_of_boxes_differ_in_more_than_colour():
    panel = sheet(1.0)
    for kind in ("plain", "filled", "unused", "copied", "wrong"):
        box(panel, 0, 0, 0.1, kind=kind)
    greys = [patch.get_facecolor()[:3] for patch in panel.patches]
    lightness = [0.2126 * red + 0.7152 * green + 0.0722 * blue for red, green, blue in greys]
    plain, _, unused, copied, wrong = panel.patches
    assert lightness[1] < 0.2 < 0.9 < lightness[2] < lightness[0]
    assert copied.get_hatch() and not plain.get_hatch()
    assert wrong.get_linewidth() >= 2 * plain.get_linewidth() > unused.get_linewidth()
