"""Measurements for the topic "nn.Module": what training mode and evaluation mode change."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from labkit.exercises.claims import claim


@claim(
    "C140",
    true="This is how dropout was first described, with p for the share that is kept, and some books still have it. "
    "In PyTorch p is the share that is dropped; what is kept was multiplied by 1/(1-p) in training already, and "
    "evaluation returned the input as it was.",
    false="Right. The values that are kept are enlarged in training, by 1/(1-p), so that the mean stays the same, and "
    "evaluation has nothing left to do.",
    depends="Neither half holds, for no p that was tried: in training the values that are kept were multiplied by "
    "1/(1-p), and in evaluation nothing was multiplied. Whoever adds a factor there spoils the outputs.",
)
def dropout_scales_in_training() -> dict[str, bool]:
    """Send ones through dropout, with two values of p, in training and in evaluation mode."""
    kept_as_they_are, otherwise, multiplied, changed = [], [], [], []
    for p in (0.25, 0.6):
        layer, ones = nn.Dropout(p), torch.ones(1000)
        survivors = layer(ones)
        survivors = survivors[survivors != 0]
        layer.eval()
        kept_as_they_are.append(torch.equal(survivors, torch.ones_like(survivors)))
        otherwise.append(not torch.allclose(survivors, torch.tensor(1 / (1 - p))))
        multiplied.append(torch.allclose(layer(ones), p * ones))
        changed.append(not torch.equal(layer(ones), ones))
    return {
        "in training the values that are kept stay as they are": any(kept_as_they_are),
        "in training they are multiplied by anything else than 1/(1-p)": any(otherwise),
        "in evaluation the outputs are multiplied by p": any(multiplied),
        "in evaluation dropout does anything at all": any(changed),
    }


@claim(
    "C141",
    true="Yes. In training each batch is measured by itself, and the running values move a tenth of the way towards "
    "it. In evaluation those are used, and stay as they are, so that one picture is enough.",
    false="You may ask why the layer needs two sets of numbers. In evaluation there may be a single picture, without a "
    "batch to measure; the running values stand in for it, as below.",
    depends="Only `track_running_stats=False` makes a layer without running values, and nobody writes that by "
    "accident. The usual layer did all four things.",
)
def batch_statistics_and_running_ones() -> dict[str, bool]:
    """Compute both kinds of normalisation by hand, and compare."""
    norm, inputs = nn.BatchNorm1d(3), torch.randn(16, 3) * 3 + 5
    mean, variance = inputs.mean(0), inputs.var(0, unbiased=False)
    in_training = norm(inputs)
    running = norm.running_mean.clone(), norm.running_var.clone()
    norm.eval()
    in_evaluation = norm(inputs)
    return {
        "in training it normalises by the mean and variance of the batch": torch.allclose(
            in_training, (inputs - mean) / (variance + norm.eps).sqrt(), atol=1e-5
        ),
        "in training it moves its running values a tenth of the way": torch.allclose(running[0], 0.1 * mean)
        and torch.allclose(running[1], 0.9 + 0.1 * inputs.var(0)),
        "in evaluation it normalises by the running values": torch.allclose(
            in_evaluation, (inputs - running[0]) / (running[1] + norm.eps).sqrt(), atol=1e-5
        ),
        "in evaluation it leaves them as they are": torch.equal(norm.running_mean, running[0])
        and torch.equal(norm.running_var, running[1]),
    }


def drops(model: nn.Module) -> bool:
    """Tell whether the dropout of a model is at work."""
    return bool((model[1](torch.ones(200)) == 0).any())


def learns_statistics(model: nn.Module) -> bool:
    """Tell whether the BatchNorm of a model moves its running values."""
    before = model[0].running_mean.clone()
    model(torch.randn(8, 3) + 5)
    return not torch.equal(model[0].running_mean, before)


@claim(
    "C148",
    true="For a model that was just made it is not so: it is in training mode from the start. After an `eval()` it is: "
    "both layers stayed switched until `train()` was called. Call it at the start of each epoch.",
    false="For the first epoch you are right, as a new model trains already. But the validation after it calls "
    "`eval()`, and without `train()` the second epoch runs with both layers switched off.",
    depends="Right: a new model needs no call, one that has been evaluated does. `model.train()` as the first line of "
    "each epoch covers both.",
)
def a_new_model_is_in_training_mode() -> dict[str, bool]:
    """Look at both layers in a new model, after `eval()`, and after `train()` again."""

    def state(model: nn.Module) -> tuple[bool, bool]:
        return drops(model), learns_statistics(model)

    model = nn.Sequential(nn.BatchNorm1d(3), nn.Dropout(0.5))
    new, evaluated, again = state(model), state(model.eval()), state(model.train())
    return {
        "in a new model dropout waits for `train()`": not new[0],
        "in a new model BatchNorm waits for `train()`": not new[1],
        "after `eval()` both wait for `train()`": (evaluated, again) == ((False, False), (True, True)),
    }


def draw(count: int, centres: Tensor) -> tuple[Tensor, Tensor]:
    """Return points around ten centres, float (count, 40), and the number of each one's centre."""
    labels = torch.randint(10, (count,))
    return centres[labels] + 2.2 * torch.randn(count, 40), labels


def train(
    training: tuple[Tensor, Tensor], validation: tuple[Tensor, Tensor], switches_back: bool
) -> tuple[float, float, float]:
    """Train a network with dropout for 16 epochs; return training loss, validation loss and accuracy at the end.

    Each epoch ends with a validation in evaluation mode. switches_back: whether the next one calls `train()`.
    """
    model = nn.Sequential(
        *(nn.Linear(40, 128), nn.ReLU(), nn.Dropout(0.5)),
        *(nn.Linear(128, 128), nn.ReLU(), nn.Dropout(0.5)),
        nn.Linear(128, 10),
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=6e-3)
    for _ in range(16):
        if switches_back:
            model.train()
        losses = []
        for points, labels in zip(*(part.split(100) for part in training), strict=True):
            loss = functional.cross_entropy(model(points), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        model.eval()
        with torch.no_grad():
            scores = model(validation[0])
    accuracy = (scores.argmax(1) == validation[1]).float().mean().item()
    return sum(losses) / len(losses), functional.cross_entropy(scores, validation[1]).item(), accuracy


@claim(
    "C150",
    true="The training loss did drop, as nothing is zeroed any more, and the network learned its points by heart. But "
    "the validation had been in evaluation mode before as well, and its accuracy stayed about where it was.",
    false="Something does happen, only not to the accuracy: the training loss fell to almost nothing and the "
    "validation loss rose. Dropout was off from the second epoch on.",
    depends="Right. Suspect a forgotten `train()` when the training loss is oddly low and the validation loss grows. "
    "An absurdly high validation accuracy has other causes; look for pictures that are in both parts.",
)
def a_forgotten_train_overfits() -> dict[str, bool]:
    """Train the same network twice on few points, with and without `train()` after each validation."""
    centres = torch.randn(10, 40)
    training, validation = draw(300, centres), draw(1000, centres)
    remembered, forgotten = (train(training, validation, switches_back) for switches_back in (True, False))
    return {
        "the training loss is less than a tenth of what it should be": forgotten[0] < 0.1 * remembered[0],
        "the validation accuracy is higher, by ten per cent or more": forgotten[2] > remembered[2] + 0.1,
        "generalisation is no better: the validation loss is not lower": forgotten[1] >= remembered[1],
    }
