"""What a resume lacks: one training, cut half way, that goes on with one part more of its state each time."""

import copy
from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import lr_scheduler

from labkit.errors import ConfigError, DataError
from labkit.randomness import frozen_randomness, generator
from labkit.show.controls import Control
from labkit.show.picture import Picture
from labkit.show.style import SERIES, course_style, new_figure

#: What a training consists of, in the order in which people think of saving it.
PARTS = ("weights", "optimizer", "schedule", "random numbers")
CUT, UPDATES = 40, 80
_OPTIMIZERS = {
    "adamw": lambda parameters: torch.optim.AdamW(parameters, lr=0.02),
    "sgd with momentum": lambda parameters: torch.optim.SGD(parameters, lr=0.05, momentum=0.9),
    "plain sgd": lambda parameters: torch.optim.SGD(parameters, lr=0.2),
}
_SCHEDULES = {
    "cosine": lambda optimizer: lr_scheduler.CosineAnnealingLR(optimizer, T_max=UPDATES),
    "constant": lambda optimizer: lr_scheduler.ConstantLR(optimizer, factor=1.0),
}
_BATCHES = ("drawn from torch's numbers", "a function of the update")


def resume_ladder(differences: Mapping[str, float]) -> Picture:
    """Draw how far a resumed training ended from the uncut one, a bar for each part more that was put back.

    differences: part -> largest difference of a weight, with this part and all before it. Raises DataError for none.
    """
    if not differences:
        raise DataError("There is no difference to draw: pass {part: largest difference of a weight}.")
    labels = [name if place == 0 else f"+ {name}" for place, name in enumerate(differences)]
    values = [float(value) for value in differences.values()]
    with course_style():
        figure = new_figure(7.5, 1.2 + 0.42 * len(values))
        panel = figure.subplots()
        panel.barh(labels, values, color=SERIES[0].color, height=0.6)
        for place, value in enumerate(values):
            style = {"fontweight": "bold"} if value == 0 else {}
            panel.annotate(_text(value), (value, place), (5, 0), textcoords="offset points", va="center", **style)
        panel.invert_yaxis()
        panel.set_xlim(0, 1.2 * (max(values) or 1))
        panel.grid(visible=False, axis="y")
        panel.set(title="What is put back, and how far the end is from the uncut training")
        panel.set_xlabel("largest difference of a weight")
    data = [{"part": name, "difference": value} for name, value in zip(differences, values, strict=True)]
    sentences = ", ".join(f"{label}: {_text(value)}" for label, value in zip(labels, values, strict=True))
    return Picture(figure, data, f"Largest difference of a weight from the uncut training: {sentences}.")


def resuming_picture(
    optimizer: str = "adamw", schedule: str = "cosine", dropout: float = 0.3, batches: str = _BATCHES[0]
) -> Picture:
    """Cut a small training after half of its updates, go on with more and more of its state, and draw the ladder.

    Raises ConfigError for an optimizer, a schedule or batches that it does not know.
    """
    chosen = (optimizer, schedule, batches)
    known_ones = {"optimizer": _OPTIMIZERS, "schedule": _SCHEDULES, "batches": _BATCHES}
    for value, (name, known) in zip(chosen, known_ones.items(), strict=True):
        if value not in known:
            raise ConfigError(f"{name}={value!r} is not known. Choose one of {', '.join(map(repr, known))}.")
    with frozen_randomness(seed=0):
        training = _Training(optimizer, schedule, dropout, batches)
        training.train(until=CUT)
        state = training.state()
        uncut = training.train(until=UPDATES)
        differences = {}
        for count, part in enumerate(PARTS, start=1):
            torch.manual_seed(1)  # another program, at another place in its random numbers
            resumed = _Training(optimizer, schedule, dropout, batches)
            resumed.put_back(state, PARTS[:count])
            differences[part] = (resumed.train(until=UPDATES) - uncut).abs().max().item()
    return resume_ladder(differences)


def resuming() -> Control:
    """Return a control over the optimizer, the schedule, the dropout, and where the batches come from."""
    return Control(
        resuming_picture,
        optimizer=list(_OPTIMIZERS),
        schedule=list(_SCHEDULES),
        dropout=[0.3, 0.0],
        batches=list(_BATCHES),
    )


class _Training:
    """A network that learns to tell three sorts of points apart, and all that belongs to it."""

    def __init__(self, optimizer: str, schedule: str, dropout: float, batches: str) -> None:
        drawn = generator(0, "points")
        self.points = torch.randn(90, 6, generator=drawn)
        self.sorts = (self.points @ torch.randn(6, 3, generator=drawn)).argmax(1)
        self.model = nn.Sequential(nn.Linear(6, 24), nn.ReLU(), nn.Dropout(dropout), nn.Linear(24, 3))
        self.optimizer = _OPTIMIZERS[optimizer](self.model.parameters())
        self.schedule = _SCHEDULES[schedule](self.optimizer)
        self.batches, self.updates = batches, 0

    def train(self, until: int) -> Tensor:
        """Make updates until there were so many; return all weights in one row."""
        while self.updates < until:
            by_update = None if self.batches == _BATCHES[0] else generator(0, "batch", index=self.updates)
            chosen = torch.randint(len(self.points), (16,), generator=by_update)
            loss = F.cross_entropy(self.model(self.points[chosen]), self.sorts[chosen])
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            self.schedule.step()
            self.updates += 1
        return nn.utils.parameters_to_vector(self.model.parameters()).detach()

    def state(self) -> dict:
        """Return a copy of everything."""
        parts = zip(PARTS, (self.model, self.optimizer, self.schedule), strict=False)
        return {name: copy.deepcopy(part.state_dict()) for name, part in parts} | {PARTS[3]: torch.get_rng_state()}

    def put_back(self, state: dict, names: tuple[str, ...]) -> None:
        """Put these parts of a state back, and go on from the update of the cut."""
        for name, part in zip(PARTS, (self.model, self.optimizer, self.schedule), strict=False):
            if name in names:
                part.load_state_dict(copy.deepcopy(state[name]))
        if PARTS[3] in names:
            torch.set_rng_state(state[PARTS[3]])
        self.updates = CUT


def _text(value: float) -> str:
    return "exactly 0" if value == 0 else f"{value:.2g}"
