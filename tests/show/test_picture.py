"""A Picture shows itself once, as an image with a sentence."""

import base64

from matplotlib.figure import Figure

from labkit.show import Picture

PNG_START = b"\x89PNG\r\n\x1a\n"


def small_picture() -> Picture:
    figure = Figure(figsize=(2, 1))
    figure.subplots().plot([1, 2, 3])
    return Picture(figure, [{"x": 1}], "A line that rises from 1 to 3.")


def test_jupyter_gets_the_image_its_sentence_and_the_alternative_text():
    data, metadata = small_picture()._repr_mimebundle_()
    assert base64.b64decode(data["image/png"]).startswith(PNG_START)
    assert data["text/plain"] == "A line that rises from 1 to 3."
    assert metadata["image/png"]["alt"] == data["text/plain"]


def test_a_terminal_gets_the_sentence():
    assert repr(small_picture()) == "A line that rises from 1 to 3."


def test_the_same_picture_is_the_same_bytes():
    assert small_picture().png() == small_picture().png()


def test_saving_writes_the_png(tmp_path):
    path = small_picture().save(tmp_path / "line.png")
    assert path.read_bytes().startswith(PNG_START)
