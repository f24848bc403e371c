"""One picture: every mode and every kind of damage that people's files have."""

import io

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from labkit.data.decoding import UnreadablePicture, decode


def saved(picture: Image.Image, form: str, **options) -> bytes:
    stream = io.BytesIO()
    picture.save(stream, form, **options)
    return stream.getvalue()


def gradient(height: int = 8, width: int = 8) -> Image.Image:
    values = numpy.arange(height * width * 3, dtype=numpy.uint32) * 37 % 251
    return Image.fromarray(values.astype(numpy.uint8).reshape(height, width, 3))


@pytest.mark.parametrize("form", ["PNG", "BMP", "TIFF"])
def test_lossless_formats_come_back_exactly(form: str) -> None:
    pixels, remark = decode(saved(gradient(), form), None)
    assert numpy.array_equal(pixels, numpy.asarray(gradient())) and remark is None


@pytest.mark.parametrize("form", ["JPEG", "WEBP"])
def test_lossy_formats_come_back_nearly(form: str) -> None:
    plain = Image.new("RGB", (16, 16), (200, 40, 90))
    pixels, _ = decode(saved(plain, form, quality=95), None)
    assert numpy.abs(pixels.astype(int) - [200, 40, 90]).max() <= 4


def test_grey_becomes_three_equal_channels() -> None:
    grey = Image.fromarray(numpy.arange(64, dtype=numpy.uint8).reshape(8, 8))
    pixels, _ = decode(saved(grey, "PNG"), None)
    assert numpy.array_equal(pixels[..., 0], numpy.asarray(grey)) and (pixels == pixels[..., :1]).all()


def test_one_bit_becomes_black_and_white() -> None:
    pixels, _ = decode(saved(Image.new("1", (4, 4), 1), "PNG"), None)
    assert (pixels == 255).all()


@pytest.mark.parametrize("form", ["PNG", "TIFF"])
def test_sixteen_bits_are_scaled_not_cut_off(form: str) -> None:
    values = numpy.array([[0, 257, 128], [32896, 65535, 65407]], numpy.uint16)
    pixels, _ = decode(saved(Image.fromarray(values), form), None)
    assert pixels[..., 0].tolist() == [[0, 1, 0], [128, 255, 255]]


def test_thirty_two_bits_beyond_the_known_range_are_refused() -> None:
    huge = Image.fromarray(numpy.full((4, 4), 70_000, numpy.int32))
    with pytest.raises(UnreadablePicture, match=r"outside 0\.\.65535"):
        decode(saved(huge, "TIFF"), None)


def test_fractions_are_refused() -> None:
    with pytest.raises(UnreadablePicture, match="fractions without a known range"):
        decode(saved(Image.fromarray(numpy.full((4, 4), 0.5, numpy.float32)), "TIFF"), None)


def test_cmyk_becomes_red_green_blue() -> None:
    cyan = Image.new("CMYK", (16, 16), (255, 0, 0, 0))
    pixels, _ = decode(saved(cyan, "JPEG", quality=95), None)
    assert numpy.abs(pixels.astype(int) - [0, 255, 255]).max() <= 6


def test_transparent_parts_become_white() -> None:
    picture = Image.new("RGBA", (2, 1), (255, 0, 0, 0))
    picture.putpixel((1, 0), (0, 0, 0, 128))
    pixels, _ = decode(saved(picture, "PNG"), None)
    assert pixels[0, 0].tolist() == [255, 255, 255]
    assert pixels[0, 1].tolist() == [127, 127, 127]


def test_transparent_grey_becomes_white() -> None:
    pixels, _ = decode(saved(Image.new("LA", (2, 2), (10, 0)), "PNG"), None)
    assert (pixels == 255).all()


def test_palette_with_a_transparent_colour() -> None:
    picture = Image.new("P", (2, 1))
    picture.putpalette([0, 0, 0, 10, 200, 30])
    picture.putpixel((1, 0), 1)
    pixels, _ = decode(saved(picture, "PNG", transparency=0), None)
    assert pixels[0].tolist() == [[255, 255, 255], [10, 200, 30]]


@pytest.mark.parametrize("form", ["GIF", "PNG", "WEBP", "TIFF"])
def test_of_several_frames_the_first_is_taken_with_a_remark(form: str) -> None:
    red, blue = Image.new("RGB", (8, 8), "red"), Image.new("RGB", (8, 8), "blue")
    content = saved(red, form, save_all=True, append_images=[blue], **({"lossless": True} if form == "WEBP" else {}))
    pixels, remark = decode(content, None)
    assert pixels[4, 4].tolist() == [255, 0, 0]
    assert remark == "has several frames; the first one was taken"


def test_the_previews_in_a_cameras_file_are_no_further_frames() -> None:
    content = saved(Image.new("RGB", (8, 8), "red"), "MPO", save_all=True, append_images=[Image.new("RGB", (4, 4))])
    pixels, remark = decode(content, None)
    assert pixels.shape == (8, 8, 3) and remark is None


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("form", ["PNG", "TIFF"])
def test_pictures_are_turned_upright(orientation: int, form: str) -> None:
    upright = gradient(4, 6)
    turns = {
        2: Image.Transpose.FLIP_LEFT_RIGHT,
        3: Image.Transpose.ROTATE_180,
        4: Image.Transpose.FLIP_TOP_BOTTOM,
        5: Image.Transpose.TRANSPOSE,
        6: Image.Transpose.ROTATE_90,  # the camera was turned the other way
        7: Image.Transpose.TRANSVERSE,
        8: Image.Transpose.ROTATE_270,
    }
    stored = upright.transpose(turns[orientation]) if orientation in turns else upright
    exif = Image.Exif()
    exif[0x0112] = orientation
    pixels, _ = decode(saved(stored, form, exif=exif), None)
    assert numpy.array_equal(pixels, numpy.asarray(upright))


def test_a_large_photograph_taken_upright_is_turned_too() -> None:
    """A camera held upright stores the picture lying on its side: what is at its left belongs at the top."""
    lying = Image.new("RGB", (900, 600), "blue")
    lying.paste("red", (0, 0, 450, 600))
    exif = Image.Exif()
    exif[0x0112] = 6
    pixels, _ = decode(saved(lying, "JPEG", exif=exif, quality=95), (16, 16))
    assert (pixels[:7, :, 0] > 240).all() and (pixels[9:, :, 2] > 240).all()


@settings(max_examples=40, deadline=None, derandomize=True)
@given(width=st.integers(1, 90), height=st.integers(1, 90), wanted=st.tuples(st.integers(1, 40), st.integers(1, 40)))
def test_every_picture_gets_the_wanted_size(width: int, height: int, wanted: tuple[int, int]) -> None:
    pixels, _ = decode(saved(gradient(height, width), "PNG"), wanted)
    assert pixels.shape == (*wanted, 3) and pixels.dtype == numpy.uint8


def test_the_middle_is_kept() -> None:
    picture = Image.new("RGB", (90, 30), "red")
    picture.paste("lime", (30, 0, 60, 30))
    pixels, _ = decode(saved(picture, "PNG"), (10, 10))
    assert (pixels[:, 1:-1] == [0, 255, 0]).all(axis=-1).all()


def test_shrinking_averages_instead_of_picking() -> None:
    stripes = numpy.zeros((64, 64, 3), numpy.uint8)
    stripes[:, ::2] = 255
    pixels, _ = decode(saved(Image.fromarray(stripes), "PNG"), (8, 8))
    assert (numpy.abs(pixels.astype(int) - 127) <= 12).all()


def test_a_large_photograph_is_decoded_small_and_looks_the_same() -> None:
    ramp = numpy.linspace(0, 255, 1024).astype(numpy.uint8)
    photograph = Image.fromarray(numpy.broadcast_to(ramp[None, :, None], (1024, 1024, 3)).copy())
    small, _ = decode(saved(photograph, "JPEG", quality=95), (16, 16))
    whole = numpy.asarray(photograph.resize((16, 16), Image.Resampling.BICUBIC))
    assert numpy.abs(small.astype(int) - whole.astype(int)).max() <= 3


@pytest.mark.parametrize("form", ["JPEG", "PNG", "BMP", "GIF", "WEBP", "TIFF"])
def test_truncated_files_are_refused(form: str) -> None:
    content = saved(gradient(64, 64), form)
    with pytest.raises(UnreadablePicture):
        decode(content[: len(content) // 2], None)


@pytest.mark.parametrize(
    ("content", "reason"),
    [(b"", "empty"), (b"just some words\n" * 20, "known format"), (b"\xff\xd8\xff\xe0", "known format|damaged")],
)
def test_what_is_no_picture_is_refused(content: bytes, reason: str) -> None:
    with pytest.raises(UnreadablePicture, match=reason):
        decode(content, None)


def test_a_decompression_bomb_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1000)
    with pytest.raises(UnreadablePicture, match="more than 1,000 pixels"):
        decode(saved(gradient(64, 64), "PNG"), None)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(data=st.data(), form=st.sampled_from(["JPEG", "PNG", "BMP", "GIF", "WEBP", "TIFF"]))
def test_damaged_bytes_give_a_picture_or_a_reason_and_nothing_else(data: st.DataObject, form: str) -> None:
    content = bytearray(saved(gradient(12, 12), form))
    for _ in range(data.draw(st.integers(1, 8))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    try:
        pixels, _ = decode(bytes(content), (8, 8))
    except UnreadablePicture:
        return
    assert pixels.shape == (8, 8, 3)
