"""Ten drawn shapes in colour: data without limit, without network, and with known truth.

Every shape is a *signed distance function*: it tells for a point how far away the outline is, negative inside.
Where the distance is below zero a pixel belongs to the shape; within half a pixel of the outline it belongs partly,
which gives smooth edges. All pictures of a class are drawn at once, as arithmetic on whole arrays.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from labkit import randomness
from labkit.data.images import ImageSet
from labkit.errors import DataError

SIDE = 32
CHUNK = 500
NOISE = 0.05


def shapes(count: int = 2000, seed: int = 0) -> ImageSet:
    """Draw `count` pictures, uint8 (count, 3, 32, 32), of ten classes in turn: picture i shows class i % 10.

    Colours, place, size, rotation, noise and a speck that hides a part are random, and picture i depends on (seed, i)
    alone: `shapes(100)` is the beginning of `shapes(200)`. Raises DataError if `count` is not a positive integer.
    """
    if not isinstance(count, int) or isinstance(count, bool) or count < 1:
        raise DataError(f"shapes: count must be a whole number of at least 1, got {count!r}.")
    try:
        indices, images = torch.arange(count), torch.empty(count, 3, SIDE, SIDE, dtype=torch.uint8)
    except (RuntimeError, MemoryError, OverflowError):
        raise DataError(f"shapes: {count:,} pictures of 3 KB do not fit into memory. Ask for fewer.") from None
    for chunk in indices.split(CHUNK):  # a chunk at a time, so that 50,000 pictures need little extra memory
        images[chunk] = _draw(chunk, seed)
    return ImageSet(images, indices % len(OUTLINES), tuple(OUTLINES), f"shapes, seed {seed}")


def _draw(indices: Tensor, seed: int) -> Tensor:
    """Draw the pictures with these numbers: uint8 (len(indices), 3, 32, 32)."""
    draw = iter(randomness.uniform(seed, "shapes", 0, indices, 18).float().unbind(1))

    hue, slope_x, slope_y = next(draw), next(draw) - 0.5, next(draw) - 0.5
    background = _colour(hue, saturation=0.2 + 0.6 * next(draw), brightness=0.3 + 0.6 * next(draw))
    other_hue = hue + 0.25 + 0.5 * next(draw)  # never close to the background's hue
    ink = _colour(other_hue, saturation=0.3 + 0.6 * next(draw), brightness=0.4 + 0.6 * next(draw))
    speck = _colour(next(draw), saturation=0.3 + 0.6 * next(draw), brightness=0.3 + 0.7 * next(draw))

    radius = 9 + 5 * next(draw)
    slack = SIDE / 2 - radius  # how far the centre may move before the shape leaves the picture
    centre_x, centre_y = slack * (2 * next(draw) - 1), slack * (2 * next(draw) - 1)
    x, y = _grid(len(indices), centre_x, centre_y)
    distance = _distance(indices % len(OUTLINES), x, y, radius, turn=0.25 * next(draw) - 0.125)

    # The speck lies somewhere on the shape's rim, so that it hides a part of the outline but never the whole.
    speck_radius, direction = radius * (0.15 + 0.15 * next(draw)), next(draw)
    speck_x, speck_y = (0.7 * radius * part for part in _turn(direction))
    speck_distance = _length(x - _pixels(speck_x), y - _pixels(speck_y)) - _pixels(speck_radius)

    gradient = (_pixels(slope_x) * x + _pixels(slope_y) * y) * (0.7 / SIDE)
    picture = _pixels(background) + gradient[:, None]
    picture = _paint(picture, ink, distance)
    picture = _paint(picture, speck, speck_distance)
    noise = randomness.uniform(seed, "shapes noise", 0, indices, SIDE * SIDE).float().view(-1, 1, SIDE, SIDE)
    picture = picture + (noise - 0.5) * (4 * NOISE) * _pixels(next(draw))[:, None]
    return (picture.clamp(0, 1) * 255).round().to(torch.uint8)


def _grid(count: int, centre_x: Tensor, centre_y: Tensor) -> tuple[Tensor, Tensor]:
    """Return each pixel's place in pixels from the centre of its picture's shape: two float32 (count, 32, 32)."""
    ticks = torch.arange(SIDE, dtype=torch.float32) - (SIDE - 1) / 2
    x = ticks[None, None, :] - _pixels(centre_x)
    y = ticks[None, :, None] - _pixels(centre_y)
    return x.expand(count, SIDE, SIDE), y.expand(count, SIDE, SIDE)


def _distance(labels: Tensor, x: Tensor, y: Tensor, radius: Tensor, turn: Tensor) -> Tensor:
    """Return how many pixels each pixel is outside its picture's shape, negative inside: float32 (N, 32, 32)."""
    cosine, sine = (_pixels(part / radius) for part in _turn(turn))
    turned_x, turned_y = cosine * x - sine * y, sine * x + cosine * y
    distance = torch.empty_like(turned_x)
    for label, outline in enumerate(OUTLINES.values()):
        members = torch.nonzero(labels == label).flatten()
        distance[members] = outline(turned_x[members], turned_y[members])
    return distance * _pixels(radius)


def _paint(picture: Tensor, colour: Tensor, distance: Tensor) -> Tensor:
    """Lay a colour (N, 3) over pictures (N, 3, 32, 32) where the distance is negative, with soft edges."""
    cover = (0.5 - distance).clamp(0, 1)[:, None]
    return picture * (1 - cover) + _pixels(colour) * cover


def _colour(hue: Tensor, saturation: Tensor, brightness: Tensor) -> Tensor:
    """Turn hue (in turns), saturation and brightness (0..1), each (N,), into red, green, blue: (N, 3)."""
    channels = []
    for offset in (5.0, 3.0, 1.0):
        place = torch.remainder(offset + 6 * hue, 6)
        channels.append(brightness - brightness * saturation * torch.minimum(place, 4 - place).clamp(0, 1))
    return torch.stack(channels, dim=1)


def _turn(share: Tensor) -> tuple[Tensor, Tensor]:
    """Return cosine and sine of a share of a full turn, rounded: the last digits differ from machine to machine."""
    angle = share.double() * (2 * math.pi)
    return angle.cos().round(decimals=6).float(), angle.sin().round(decimals=6).float()


def _pixels(values: Tensor) -> Tensor:
    """Add two axes of size 1, so that a number a picture meets every pixel: (N, …) -> (N, …, 1, 1)."""
    return values[..., None, None]


# The outlines. Points are in units of the shape's radius, y points down, and each shape fits into the unit circle.
# min joins two shapes, max keeps what is in both, and max(a, -b) cuts b out of a.


def _length(x: Tensor, y: Tensor) -> Tensor:
    return (x * x + y * y).sqrt()


def _disc(x: Tensor, y: Tensor) -> Tensor:
    return _length(x, y) - 0.85


def _ring(x: Tensor, y: Tensor) -> Tensor:
    return (_length(x, y) - 0.68).abs() - 0.22


def _half_disc(x: Tensor, y: Tensor) -> Tensor:
    y = y + 0.4
    return torch.maximum(_length(x, y) - 0.95, -y)


def _crescent(x: Tensor, y: Tensor) -> Tensor:
    x = x + 0.1
    return torch.maximum(_length(x, y) - 0.9, 0.75 - _length(x - 0.5, y))


def _triangle(x: Tensor, y: Tensor) -> Tensor:
    return torch.maximum(x.abs() * math.sqrt(0.75) + y * 0.5, -y) - 0.47


def _square(x: Tensor, y: Tensor) -> Tensor:
    return torch.maximum(x.abs(), y.abs()) - 0.68


def _cross(x: Tensor, y: Tensor) -> Tensor:
    x, y = x.abs(), y.abs()
    return torch.minimum(torch.maximum(x - 0.9, y - 0.28), torch.maximum(x - 0.28, y - 0.9))


def _star(x: Tensor, y: Tensor) -> Tensor:
    """Five points: fold the plane into a tenth, then measure to one edge (Inigo Quilez, "2D distance functions")."""
    fold_x, fold_y, inner = 0.809016994, 0.587785252, 0.45
    x = x.abs()
    for mirror_x in (fold_x, -fold_x):
        overshoot = 2 * (mirror_x * x - fold_y * y).clamp(min=0)
        x, y = x - overshoot * mirror_x, y + overshoot * fold_y
    x, y = x.abs(), y - 1
    edge_x, edge_y = inner * fold_y, inner * fold_x - 1
    along = ((x * edge_x + y * edge_y) / (edge_x**2 + edge_y**2)).clamp(0, 1)
    return _length(x - edge_x * along, y - edge_y * along) * torch.sign(y * edge_x - x * edge_y)


def _heart(x: Tensor, y: Tensor) -> Tensor:
    """Two discs side by side, and the lower corner of a square on its tip between them."""
    x = x.abs()
    corner = torch.maximum((x + y - 0.728) * math.sqrt(0.5), torch.maximum(-0.3 - y, x - 0.72))
    return torch.minimum(corner, _length(x - 0.42, y + 0.3) - 0.43)


def _arrow(x: Tensor, y: Tensor) -> Tensor:
    x = x.abs()
    head = torch.maximum((x + y - 0.95) * math.sqrt(0.5), 0.1 - y)
    shaft = torch.maximum(x - 0.24, (y + 0.35).abs() - 0.6)
    return torch.minimum(head, shaft)


OUTLINES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "disc": _disc,
    "ring": _ring,
    "half disc": _half_disc,
    "crescent": _crescent,
    "triangle": _triangle,
    "square": _square,
    "cross": _cross,
    "star": _star,
    "heart": _heart,
    "arrow": _arrow,
}
