"""Whether masks lie on their own pictures: for targets that are pictures themselves.

How much of the brightness, or of the roughness, of a picture the classes of a mask explain (the share of the variance
that lies between the classes) is computed for every picture with every mask, at the price of a matrix product.
Nothing is trained. A mask that belongs to its picture explains more of it than masks of others do, and more than it
does turned or mirrored.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from labkit.doctor.probe.data_reading import Samples

MOST = 300  # samples
FEWEST = 40
SIDE = 24  # pictures are made no larger than that
MOST_CLASSES = 12
BY_CHANCE = 0.05
CLEAR = 4.0  # deviations: then masks and pictures do belong together


@dataclass
class MasksEvidence:
    """How much masks explain of pictures: mean shares of the variance, less what a mask explains of all pictures.

    own: the mask of the same sample. deviation: what means of masks dealt out by chance deviate from 0. best: the best
    of all masks. of_noise: what that would be if the pixels of the pictures were mixed. partners: number of the best
    mask of each sample. turn: the way of turning that makes the fit so much better as in a share BY_CHANCE of the masks
    of other samples, in a share `turned` of its own. upright: the share of those that fit so much better as they are.
    """

    samples: int = 0
    own: float = 0.0
    deviation: float = 0.0
    best: float = 0.0
    of_noise: float = 0.0
    partners: tuple[int, ...] = ()
    turn: str = ""
    turned: float = 0.0
    upright: float = 0.0


TURNS = {
    "mirrored left to right": lambda x: x.flip(-1),
    "mirrored top to bottom": lambda x: x.flip(-2),
    "turned by 180 degrees": lambda x: x.flip((-2, -1)),
    "turned by 90 degrees": lambda x: x.rot90(1, (-2, -1)),
    "turned by 270 degrees": lambda x: x.rot90(3, (-2, -1)),
    "with rows and columns exchanged": lambda x: x.transpose(-2, -1),
}


def look_at_masks(samples: Samples | None, most: int = MOST) -> MasksEvidence | None:
    """Compare pictures (n, channels, height, width) with masks (n, height, width) or (n, k, height, width)."""
    if samples is None or samples.inputs is None or samples.targets is None:
        return None
    views, masks = views_of(samples.inputs, most), classes_of(samples.targets, most)
    if views is None or masks is None or masks.shape[1] < FEWEST or views.shape[-2:] != masks.shape[-2:]:
        return None
    found, table = MasksEvidence(masks.shape[1]), explained(views, masks)
    table = table - table.mean(1, keepdim=True)
    dealt = _dealt(table)
    clear = table.diagonal(dim1=1, dim2=2).mean(1) / dealt.clamp(min=1e-12)
    view = int(clear.argmax() if clear.max() > CLEAR else table.amax(2).mean(1).argmax())
    views, table = views[[view]], table[view]
    found.own, found.deviation = table.diagonal().mean().item(), dealt[view].item()
    best = table.max(1)
    found.best, found.partners = best.values.mean().item(), tuple(best.indices.tolist())
    if found.own < CLEAR * found.deviation:
        pixels = torch.randperm(views[0, 0].numel(), generator=torch.Generator().manual_seed(0))
        noise = explained(views.flatten(2)[:, :, pixels].view_as(views), masks)[0]
        found.of_noise = (noise - noise.mean(0)).amax(1).mean().item()
    _turns(views, masks, table, found)
    return found


def views_of(inputs: Tensor, most: int = MOST) -> Tensor | None:
    """Return (views, n, height, width): each channel, and where a picture is rough; each with mean 0 and length 1."""
    if inputs.dim() != 4 or min(inputs.shape[-2:]) < 4 or inputs.shape[1] > 8 or not inputs.double().isfinite().all():
        return None
    inputs = smaller(inputs[:most].double())
    mean = inputs.mean(1, keepdim=True)
    rough = functional.avg_pool2d((mean - functional.avg_pool2d(mean, 3, 1, 1)).square(), 3, 1, 1)
    views = torch.cat([inputs, rough], 1).transpose(0, 1)
    views = views - views.mean((-2, -1), keepdim=True)
    return views / views.square().sum((-2, -1), keepdim=True).sqrt().clamp(min=1e-9)


def classes_of(targets: Tensor, most: int = MOST) -> Tensor | None:
    """Return (classes, n, height, width): 1 where a pixel is of the class, 0 elsewhere."""
    if targets.dim() == 4 and targets.shape[1] == 1:
        targets = targets[:, 0]
    values = targets.unique() if targets.dim() in (3, 4) and min(targets.shape[-2:]) >= 4 else targets.new_empty(0)
    if not 2 <= len(values) <= MOST_CLASSES:
        return None
    targets = targets[:most]
    masks = targets.transpose(0, 1) if targets.dim() == 4 else torch.stack([targets == value for value in values])
    return smaller(masks.double())


def smaller(pictures: Tensor) -> Tensor:
    """Return pictures of at most SIDE rows and columns: means of neighbours."""
    step = -(-max(pictures.shape[-2:]) // SIDE)
    return functional.avg_pool2d(pictures, step) if step > 1 else pictures


def explained(views: Tensor, masks: Tensor) -> Tensor:
    """Return (views, n, n): what the classes of mask j explain of picture i in each view, from 0 to 1."""
    rows, total = views.flatten(2), 0.0
    for mask in masks.flatten(2):
        total = total + (rows @ mask.T).square() / mask.sum(1).clamp(min=1.0)
    return total


def _dealt(table: Tensor) -> Tensor:
    """Return for each view the deviation of the mean over all pictures, if masks are dealt out by chance."""
    draw, rows = torch.Generator().manual_seed(0), torch.arange(table.shape[1])
    return torch.stack([table[:, rows, torch.randperm(len(rows), generator=draw)].mean(1) for _ in range(40)]).std(0)


def _turns(views: Tensor, masks: Tensor, table: Tensor, found: MasksEvidence) -> None:
    """Look for a way of turning after which many masks fit their own pictures much better: more than others ever do."""
    for name, turn in TURNS.items():
        if turn(masks).shape != masks.shape:
            continue
        gain = explained(views, turn(masks))[0] - table
        outside = gain[~torch.eye(len(gain), dtype=torch.bool)]
        share = (gain.diagonal() > outside.quantile(1 - BY_CHANCE)).double().mean().item()
        if share > found.turned:
            upright = (gain.diagonal() < outside.quantile(BY_CHANCE)).double().mean().item()
            found.turn, found.turned, found.upright = name, share, upright


def explained_alone(views: Tensor, masks: Tensor) -> Tensor:
    """Return (views, n): what the classes of each mask explain of its own picture."""
    parts = [(views * mask).sum((-2, -1)).square() / mask.sum((-2, -1)).clamp(min=1.0) for mask in masks]
    return torch.stack(parts).sum(0)


def turned_to_fit(views: Tensor, masks: Tensor) -> list[str]:
    """Return for each sample the way of turning after which its mask explains most of its picture, "" for none."""
    names = [name for name in ("", *TURNS) if not name or TURNS[name](masks).shape == masks.shape]
    ways = [masks if not name else TURNS[name](masks) for name in names]
    fits = torch.stack([explained_alone(views, way).amax(0) for way in ways])
    return [names[number] for number in fits.argmax(0).tolist()]
