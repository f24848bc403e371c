"""Measurements for the topic "Checkpoints": what a training needs in order to go on as if nothing had happened."""

import copy
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from labkit.exercises.claims import claim


class Training:
    """A small training with dropout, an optimizer and a schedule, one random batch an update."""

    def __init__(self, make_optimizer: Callable = torch.optim.Adam, **options: float) -> None:
        torch.manual_seed(3)
        self.inputs, self.labels = torch.randn(64, 6), torch.randint(0, 3, (64,))
        self.model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Dropout(0.3), nn.Linear(16, 3))
        self.optimizer = make_optimizer(self.model.parameters(), lr=0.05, **options)
        self.schedule = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, T_max=12)

    def go_on(self, updates: int = 6) -> Tensor:
        """Train for some updates and return a copy of all weights, in one row."""
        for _ in range(updates):
            chosen = torch.randint(0, len(self.inputs), (16,))
            self.optimizer.zero_grad()
            functional.cross_entropy(self.model(self.inputs[chosen]), self.labels[chosen]).backward()
            self.optimizer.step()
            self.schedule.step()
        return nn.utils.parameters_to_vector(self.model.parameters()).detach().clone()

    def loss(self) -> float:
        """Return the loss on all samples, without dropout and without a change."""
        self.model.eval()
        with torch.no_grad():
            result = functional.cross_entropy(self.model(self.inputs), self.labels).item()
        self.model.train()
        return result

    def state(self) -> dict:
        """Return a copy of everything that the training consists of."""
        parts = {name: getattr(self, name).state_dict() for name in ("model", "optimizer", "schedule")}
        return copy.deepcopy({**parts, "random": torch.get_rng_state()})

    def resume(self, state: dict, *parts: str) -> "Training":
        """Load these parts of a state, leave the others as they were at the start, and return the training."""
        for part in parts:
            if part == "random":
                torch.set_rng_state(state["random"])
            else:
                getattr(self, part).load_state_dict(copy.deepcopy(state[part]))
        return self


@claim(
    "C269",
    true="Enough to go on, yes: the loss was the saved one, and it fell further. Not enough to go on *as it would "
    "have*: the schedule began anew, other batches and another dropout were drawn, and the weights were others.",
    false="Too hard. For many purposes such a resume is good enough. It is only another run than the one that was "
    "interrupted.",
    depends="Right: it runs, and it is another run. With schedule and random states in the file as well, the weights "
    "came out equal to the last bit.",
)
def it_goes_on_differently() -> dict[str, bool]:
    """Interrupt a training half way and resume it with parts of its state, then with all."""
    training = Training()
    training.go_on()
    state, loss = training.state(), training.loss()
    uninterrupted = training.go_on()

    resumed = Training().resume(state, "model", "optimizer")
    loss_there = resumed.loss()
    weights = resumed.go_on()
    complete = Training().resume(state, "model", "optimizer", "schedule", "random").go_on()
    return {
        "with model and optimizer the training goes on where it was": loss_there == loss and resumed.loss() < loss,
        "it goes on as it would have without the interruption": torch.equal(weights, uninterrupted),
        "schedule and random states would change nothing": torch.equal(weights, complete),
    }


@claim(
    "C270",
    true="It holds the rate of this moment, and that may look like it. How many steps the schedule has made is not in "
    "it: a schedule that was built anew began its course from the first step.",
    false="Right. Save `scheduler.state_dict()` beside it; with that, the rate went on along its course.",
    depends="It may seem to work for a while, as the rate is the right one at first. From the first `scheduler.step()` "
    "on the course is another, for every schedule that counts its steps.",
)
def the_schedule_has_a_state_of_its_own() -> dict[str, bool]:
    """Look for the count of steps in the optimizer's state, and resume with and without the schedule's own."""
    training = Training()
    training.go_on()
    state = training.state()

    def rate_after_going_on(*parts: str) -> float:
        resumed = Training().resume(state, *parts)
        resumed.go_on(3)
        return resumed.optimizer.param_groups[0]["lr"]

    training.go_on(3)
    rate = training.optimizer.param_groups[0]["lr"]
    counted = "last_epoch" in str(state["optimizer"])
    return {
        "the count of the schedule's steps is in the optimizer's state": counted,
        "with the optimizer's state alone the rate goes on along its course": rate_after_going_on("optimizer") == rate,
        "the schedule's own state adds nothing": rate_after_going_on("optimizer", "schedule")
        == rate_after_going_on("optimizer"),
    }


@claim(
    "C271",
    true="Adam has one, and SGD with momentum too. Plain SGD kept no tensor at all: its update is the rate times the "
    "gradient, with no memory. Save it anyway, the same line serves all.",
    false="Adam does: two running means for each weight, and leaving them out gave other weights. And SGD keeps one "
    "as soon as it has momentum.",
    depends="Right. Whatever an update takes from earlier ones is state. Plain SGD takes nothing.",
)
def plain_sgd_has_no_memory() -> dict[str, bool]:
    """Train with three optimizers and see what each keeps, and whether leaving it out changes the weights."""

    def needs_its_state(make_optimizer: Callable, **options: float) -> bool:
        training = Training(make_optimizer, **options)
        training.go_on()
        state = training.state()
        kept = any(isinstance(one, Tensor) for each in state["optimizer"]["state"].values() for one in each.values())
        going_on = training.go_on()
        without = Training(make_optimizer, **options).resume(state, "model", "schedule", "random")
        without.optimizer.param_groups[0]["lr"] = state["optimizer"]["param_groups"][0]["lr"]
        return kept and not torch.equal(without.go_on(), going_on)

    return {
        "Adam keeps tensors, and without them goes on differently": needs_its_state(torch.optim.Adam),
        "so does SGD with momentum": needs_its_state(torch.optim.SGD, momentum=0.9),
        "so does plain SGD": needs_its_state(torch.optim.SGD),
    }
