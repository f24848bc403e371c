"""One picture: from the bytes of a file to an array of red, green and blue, or the reason why not."""

import io

import numpy
from PIL import Image, ImageOps

FORMATS = ("JPEG", "PNG", "BMP", "GIF", "WEBP", "TIFF")
ORIENTATION = 0x0112  # the EXIF tag in which a camera notes how it was held


class UnreadablePicture(Exception):
    """The bytes are no picture that can be used. Its text is the reason, as the end of a sentence."""


def decode(content: bytes, size: tuple[int, int] | None) -> tuple[numpy.ndarray, str | None]:
    """Return (pixels uint8 (H, W, 3), remark or None), scaled and centre-cropped to `size` (H, W) unless it is None.

    The shorter side is scaled to fit, with antialiasing, and the middle is kept. Turned upright as EXIF says;
    transparent parts become white; 16 bits a channel become 8; of an animation the first frame is taken, with a remark.
    Raises UnreadablePicture with the reason.
    """
    if not content:
        raise UnreadablePicture("the file is empty")
    try:
        picture = Image.open(io.BytesIO(content), formats=FORMATS)
        if size is not None and min(picture.size) >= 4 * max(size):
            picture.draft(None, (2 * max(size), 2 * max(size)))  # decode a large JPEG at half its size, or less
        remark = "has several frames; the first one was taken" if _is_animated(picture) else None
        if picture.getexif().get(ORIENTATION, 1) != 1:
            picture = ImageOps.exif_transpose(picture)
        picture = _rgb(picture)
        if size is not None and picture.size != (size[1], size[0]):
            picture = ImageOps.fit(picture, (size[1], size[0]), Image.Resampling.BICUBIC)
        return numpy.asarray(picture), remark
    except UnreadablePicture:
        raise
    except Image.UnidentifiedImageError:
        raise UnreadablePicture("it holds no picture in a known format, whatever its name says") from None
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise UnreadablePicture(f"it would unpack to more than {Image.MAX_IMAGE_PIXELS:,} pixels") from None
    except MemoryError:
        raise UnreadablePicture("it does not fit into memory") from None
    except Exception as error:  # on damaged bytes the decoders raise nearly every kind of error there is
        raise UnreadablePicture(f"it is damaged ({error})") from None


def _is_animated(picture: Image.Image) -> bool:
    """Say whether there are several frames; in a camera's MPO file the further ones are only previews."""
    return getattr(picture, "is_animated", False) and picture.format != "MPO"


def _rgb(picture: Image.Image) -> Image.Image:
    """Turn any mode into RGB."""
    if picture.mode == "RGB" and not picture.has_transparency_data:
        picture.load()
        return picture
    if picture.mode.startswith("I"):
        return _eight_bits(picture).convert("RGB")
    if picture.mode == "F":
        raise UnreadablePicture("its pixels are fractions without a known range; save it with 8 bits a channel")
    if picture.has_transparency_data:
        picture = picture.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", picture.size, "white"), picture).convert("RGB")
    return picture.convert("RGB")


def _eight_bits(picture: Image.Image) -> Image.Image:
    """Scale grey values 0..65535 to 0..255; Pillow's own conversion makes everything above 255 white."""
    values = numpy.asarray(picture).astype(numpy.int64)
    if values.min() < 0 or values.max() > 65535:
        raise UnreadablePicture("its values lie outside 0..65535; save it with 8 or 16 bits a channel")
    grey = Image.fromarray(((values + 128) // 257).astype(numpy.uint8))
    grey.info = picture.info
    return grey
