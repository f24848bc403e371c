import pytest
import torch

from labkit.errors import LabkitError
from labkit.show.storage import storage_strip


def texts(picture):
    return [text.get_text() for text in picture.figure.axes[0].texts]


def test_elements_stand_over_their_boxes():
    x = torch.arange(12).view(3, 4)
    picture = storage_strip(x.t(), base=x, name="x.t()", base_name="x")
    rows = [row for row in picture.data if row["tensor"] == "x.t()"]
    assert [row["box"] for row in rows] == x.t().flatten().tolist()
    assert [row["element"] for row in rows] == list(range(12))
    assert "storage of x and x.t()" in texts(picture)
    assert picture.summary.endswith("in reading order +4 and -7, so view(-1) fails. It shares the storage of x.")


def test_a_copy_has_a_strip_of_its_own():
    x = torch.arange(12).view(3, 4)
    picture = storage_strip(x.t().contiguous(), base=x, name="y", base_name="x")
    assert {"storage of x", "storage of y"} <= set(texts(picture))
    assert picture.summary.endswith("It has a storage of its own, not that of x.")


def test_boxes_that_are_read_often_or_never_are_shown_so():
    x = torch.arange(12).view(3, 4)
    picture = storage_strip(x[:, :1].expand(3, 4), base=x)
    assert texts(picture).count("read 4 times") == 3 and "reads 3 of 12 boxes" in picture.summary
    greys = [
        patch
        for patch in picture.figure.axes[0].patches
        if patch.get_facecolor()[:3] == pytest.approx((0.945,) * 3, abs=0.01)
    ]
    assert len(greys) == 9


def test_words_stay_on_the_paper():
    x = torch.arange(12).view(3, 4)
    figure = storage_strip(x.t(), base=x, name="x.t()").figure
    figure.canvas.draw()
    width = figure.get_figwidth() * figure.dpi
    assert all(text.get_window_extent().x1 <= width for text in figure.axes[0].texts)


@pytest.mark.parametrize(
    "tensor", [torch.tensor(3.5), torch.empty(0), torch.empty(2, 3, device="meta"), torch.tensor([1 + 2j])]
)
def test_unusual_tensors_are_drawn_too(tensor):
    assert storage_strip(tensor).png().startswith(b"\x89PNG")


def test_a_tensor_that_is_too_large_is_a_sentence():
    with pytest.raises(LabkitError, match="too large to draw: at most 12 rows"):
        storage_strip(torch.zeros(100, 100))
