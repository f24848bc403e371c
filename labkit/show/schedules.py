"""The learning rate of every update, as a training with these settings would use it."""

import torch

from labkit.errors import ConfigError
from labkit.show.controls import Control
from labkit.show.figures import rates
from labkit.show.picture import Picture
from labkit.training import Config, Schedule

UPDATES_PER_EPOCH = 45  # those of the digits, 32 pictures in a batch


def schedule_picture(
    schedule: str = "cosine",
    epochs: int = 12,
    learning_rate: float = 0.004,
    warm_up: float = 0.0,
    updates_per_epoch: int = UPDATES_PER_EPOCH,
) -> Picture:
    """Draw the rate of every update.

    warm_up: the share of the updates in which the rate rises first; "one_cycle" has its own and leaves this one alone.
    "plateau" watches a validation loss: here one that falls for a third of the epochs and then stays as it is.
    Raises ConfigError as Config does.
    """
    if updates_per_epoch < 1:
        raise ConfigError(f"updates_per_epoch={updates_per_epoch} must be at least 1.")
    warm_up = 0.0 if schedule == "one_cycle" else warm_up
    config = Config(schedule=schedule, epochs=epochs, learning_rate=learning_rate, warm_up=warm_up)
    name = f"{schedule}, warm-up {warm_up:.0%}" if warm_up else schedule
    picture = rates({name: used_rates(config, updates_per_epoch)})
    panel = picture.figure.axes[0]
    by_epoch = panel.secondary_xaxis(
        "top", functions=(lambda update: update / updates_per_epoch, lambda epoch: epoch * updates_per_epoch)
    )
    by_epoch.set_xlabel("epoch")
    panel.set_ylim(0, None)
    return picture


def schedule_explorer() -> Control:
    """Return a control over the schedule, the number of epochs, the highest rate and the warm-up."""
    return Control(
        schedule_picture,
        schedule=["constant", "step", "cosine", "one_cycle", "plateau"],
        epochs=[12, 24, 48, 96],
        learning_rate=[0.001, 0.004, 0.01, 0.1],
        warm_up=[0.0, 0.05, 0.1, 0.3],
    )


def used_rates(config: Config, updates_per_epoch: int) -> list[float]:
    """Return the rate of each update of a training, from the `Schedule` that sets them there."""
    schedule = Schedule(config, config.epochs * updates_per_epoch, torch.device("cpu"))
    stepped, used = torch.tensor(True), []
    for epoch in range(config.epochs):
        for _ in range(updates_per_epoch):
            used.append(float(schedule.rate()))
            schedule.advance(stepped)
        schedule.end_epoch(1 / (1 + min(epoch, config.epochs // 3)))
    return used
