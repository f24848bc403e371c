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
    assert "storage of x\nand x.t()" in texts(picture)
    assert "the steps are +4 and -7, and one axis has one step: view(-1) fails" in picture.summary
    assert picture.summary.endswith("It shares the storage of x.")


def test_a_copy_has_a_strip_of_its_own():
    x = torch.arange(12).view(3, 4)
    picture = storage_strip(x.t().contiguous(), base=x, name="y", base_name="x")
    assert {"storage of x", "storage of y"} <= set(texts(picture))
    assert picture.summary.endswith("It has a storage of its own, not that of x.")


def test_memory_that_is_read_as_another_dtype_has_other_boxes():
    x = torch.tensor([1 + 2j, 3 + 4j])
    picture = storage_strip(x.imag, base=x, name="x.imag", base_name="x")
    assert {"storage of x", "the same memory, read as float32"} <= set(texts(picture))
    assert [row["box"] for row in picture.data if row["tensor"] == "x.imag"] == [1, 3]
    assert picture.summary.endswith("It shares the storage of x.")


@pytest.mark.parametrize("take", [lambda x: x, lambda x: x.t(), lambda x: x[:, ::2], lambda x: x[:, 1:3]])
def test_what_is_said_of_view_is_what_view_does(take):
    x = take(torch.arange(12).view(3, 4))
    try:
        x.view(-1)
    except RuntimeError:
        assert "view(-1) fails" in storage_strip(x).summary
    else:
        assert "view(-1) works" in storage_strip(x).summary


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


@pytest.mark.parametrize("shape", [(12,), (3, 4), (2, 2, 3), (2, 1, 3, 2)])
def test_words_stay_on_the_paper(shape):
    x = torch.arange(12).view(shape)
    turned = x.permute(*reversed(range(x.dim())))
    figure = storage_strip(turned, base=x, name="x.view(2, 6).transpose(0, 1).view(…)").figure
    figure.canvas.draw()
    width, height = figure.get_size_inches() * figure.dpi
    for text in figure.axes[0].texts:
        extent = text.get_window_extent()
        assert extent.x0 >= 0 and extent.x1 <= width and extent.y0 >= 0 and extent.y1 <= height


@pytest.mark.parametrize(
    "tensor",
    [
        torch.tensor(3.5),
        *(torch.empty(shape) for shape in ((0,), (3, 0, 2), (0, 3, 2), (3, 2, 0), (1, 1, 2, 1, 2, 1, 2))),
        torch.empty(2, 3, device="meta"),
        torch.tensor([1 + 2j]),
    ],
)
def test_unusual_tensors_are_drawn_too(tensor):
    assert storage_strip(tensor).png().startswith(b"\x89PNG")


def test_a_tensor_that_is_too_large_is_a_sentence():
    huge = torch.empty(10**12, device="meta")  # refused before anything is written for each of its boxes
    for tensor in (torch.zeros(100, 100), huge, huge[:3], torch.zeros(1).expand(10**12, 1)):
        with pytest.raises(LabkitError, match="too large to draw: at most 12 rows"):
            storage_strip(tensor)
