"""Chapter 01: other ways to the right result, functions that change their input, and what predictions ask."""

import numpy as np
import torch
from torch.nn import functional as F


def loop_over_points(a, b):
    return torch.stack([torch.stack([(one - other).norm() for other in b]) for one in a])


def swaps_twice(picture):
    return picture.transpose(0, 2).transpose(1, 2)


def clips_by_masks(pixels):
    pixels[pixels < 0] = 0
    pixels[pixels > 1] = 1


def clips_by_copy(pixels):
    pixels.copy_(pixels.clamp(0, 1))


def clips_by_slice(pixels):
    pixels[...] = pixels.clip(0, 1)


OTHER_WAYS = {
    "class_labels": [
        torch.LongTensor([2, 0, 1]),
        torch.from_numpy(np.array([2, 0, 1])),
        torch.tensor([2.0, 0.0, 1.0]).to(torch.int64),
    ],
    "channel_means": [
        lambda images: images.transpose(0, 1).flatten(1).mean(dim=1),
        lambda images: torch.stack([images[:, channel].mean() for channel in range(images.shape[1])]),
        lambda images: images.mean(dim=(-1, -2)).mean(dim=0),
        lambda images: torch.einsum("nchw->c", images) / (images.numel() / images.shape[1]),
    ],
    "to_tensor": [
        lambda array: torch.from_numpy(array).float(),
        lambda array: torch.from_numpy(array.astype("float32")),
        lambda array: torch.as_tensor(array, dtype=torch.float32),
        lambda array: torch.from_numpy(array.copy()).to(torch.float32),
    ],
    "channels_first": [
        lambda picture: picture.movedim(2, 0),
        lambda picture: torch.einsum("hwc->chw", picture),
        swaps_twice,
    ],
    "flatten_pictures": [
        lambda images: images.reshape(len(images), -1),
        lambda images: torch.stack([image.reshape(-1) for image in images]),
        lambda images: images.contiguous().view(images.shape[0], -1),
    ],
    "squared_error": [
        lambda predictions, targets: F.mse_loss(predictions[:, 0], targets),
        lambda predictions, targets: (predictions - targets[:, None]).square().mean(),
        lambda predictions, targets: (
            sum((p[0] - t) ** 2 for p, t in zip(predictions, targets, strict=True)) / len(targets)
        ),
    ],
    "score_of_label": [
        lambda scores, labels: scores[torch.arange(len(labels)), labels],
        lambda scores, labels: (scores * F.one_hot(labels, scores.shape[1])).sum(dim=1),
        lambda scores, labels: torch.stack([row[label] for row, label in zip(scores, labels, strict=True)]),
    ],
    "distances": [
        torch.cdist,
        loop_over_points,
        lambda a, b: torch.linalg.vector_norm(a.unsqueeze(1) - b.unsqueeze(0), dim=-1),
    ],
    "clip_in_place": [clips_by_masks, clips_by_copy, clips_by_slice],
}


def centres_the_input_itself(images):
    means = images.mean(dim=(0, 2, 3))
    images -= means[:, None, None]
    return means


def squares_the_input_itself(predictions, targets):
    predictions.sub_(targets[:, None]).square_()
    return predictions.mean()


CHANGES_ITS_INPUT = {"channel_means": centres_the_input_itself, "squared_error": squares_the_input_itself}

MEASURED = {
    "promotion": lambda: (torch.tensor([1, 2]) + 0.5).dtype,
    "column_and_row": lambda: (torch.ones(8, 1) - torch.ones(8)).shape,
}
