"""Measurements for the topic "Framework and dynamic graph": what goes wrong in practice, and where to look first."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from labkit.exercises.claims import claim, judged
from labkit.exercises.ledger.measuring import error_of


def tanh_network(initialise: Callable[[Tensor], Tensor]) -> nn.Sequential:
    """Return three layers with tanh after each, whose weights `initialise` fills in."""
    layers: list[nn.Module] = []
    for inputs, outputs in ((32, 256), (256, 256), (256, 8)):
        layer = nn.Linear(inputs, outputs)
        initialise(layer.weight)
        layers += [layer, nn.Tanh()]
    return nn.Sequential(*layers)


def losses_of(model: nn.Module, inputs: Tensor, targets: Tensor, learning_rate: float, steps: int) -> list[float]:
    """Train with plain SGD on one batch and return the mean squared error before each step."""
    optimizer = torch.optim.SGD(model.parameters(), lr=learning_rate)
    losses = []
    for _ in range(steps):
        loss = nn.functional.mse_loss(model(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@claim(
    "C013",
    true="Data, network and optimizer were the same; only the scale of the first weights differed. With N(0, 1) most "
    "activations sat at the ends of tanh, where the slope is nearly zero, and the loss stayed high.",
    false="You may trust that training repairs any start. It repairs with gradients, and at the ends of tanh there "
    "are hardly any: the same steps that brought the one network down left the other where it was.",
    depends="You may think of ReLU and of normalisation layers, which forgive much. The claim says that it can "
    "happen, and here it did: the initial scale alone decided.",
)
def a_bad_scale_alone_keeps_the_loss_up() -> dict[str, bool]:
    """Train one network from two initial scales on the same batch."""
    inputs, targets = torch.randn(128, 32), torch.rand(128, 8) - 0.5
    too_large, fitting = tanh_network(nn.init.normal_), tanh_network(nn.init.xavier_normal_)
    answering_zero = targets.square().mean().item()

    def saturated_share(model: nn.Sequential) -> float:
        return (model[:4](inputs).abs() > 0.99).float().mean().item()

    shares = saturated_share(too_large), saturated_share(fitting)
    stuck, falling = (losses_of(model, inputs, targets, 0.5, steps=60) for model in (too_large, fitting))
    return {
        "weights from N(0, 1) saturate most activations (beyond 0.99), fitting ones none": shares[0]
        > 0.5
        > 10 * shares[1],
        "after 60 steps the saturated network is still worse than answering zero": stuck[-1] > answering_zero,
        "the one with fitting weights is better, after the same steps": falling[-1] < answering_zero,
    }


@dataclass
class Program:
    """The pieces of a small training program, any of which may hold a fault."""

    model: nn.Module
    optimizer: torch.optim.Optimizer
    inputs: Tensor
    targets: Tensor


class Cut(nn.Module):
    """Cuts the graph: what comes before it gets no gradient."""

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the inputs without their history."""
        return inputs.detach()


def program_with(fault: str) -> Program:
    """Return a program that learns the sum of each row, with one fault at the station named, or "none"."""
    middle = Cut() if fault == "autograd" else nn.Tanh()
    model = nn.Sequential(nn.Linear(4, 8), middle, nn.Linear(8, 1))
    trained = nn.Linear(4, 8) if fault == "loop" else model
    inputs = torch.randn(16, 4)
    targets = inputs.sum(1, keepdim=True)
    if fault == "data":
        targets = targets.flip(0)
    if fault == "tensors":
        targets = targets.squeeze(1)
    return Program(model, torch.optim.SGD(trained.parameters(), lr=0.1), inputs, targets)


def stations_that_speak_up(program: Program) -> list[str]:
    """Return the stations whose check fails: shapes, gradients, pairs of input and target, weights that move."""
    prediction = program.model(program.inputs)
    (prediction - program.targets).square().mean().backward()
    reached = [parameter for parameter in program.model.parameters() if parameter.grad is not None]
    before = [parameter.detach().clone() for parameter in reached]
    program.optimizer.step()
    is_well = {
        "tensors": prediction.shape == program.targets.shape,
        "autograd": len(reached) == len(list(program.model.parameters())),
        "data": torch.allclose(program.targets.flatten(), program.inputs.sum(1)),
        "loop": not any(torch.equal(new, old) for new, old in zip(reached, before, strict=True)),
    }
    return [station for station, well in is_well.items() if not well]


@claim(
    "C014",
    true="Four programs, each with one fault, and at each station one small check. Every fault was named by the check "
    "of its own station and by no other, so going through them in order leaves nowhere to hide.",
    false="You may prefer to change the learning rate and look again. None of these four faults is cured by that, and "
    "all of them were named by four checks that run in a moment.",
    depends="The order is a habit, and another may serve as well. That the stations can be told apart by one check "
    "each was measured, and it is what makes any fixed order work.",
)
def each_station_has_a_check_of_its_own() -> dict[str, bool]:
    """Plant a fault at each station in turn, and ask all four checks."""
    parts = {
        f"a fault in {station} is named by the check of {station} and by no other": stations_that_speak_up(
            program_with(station)
        )
        == [station]
        for station in ("tensors", "autograd", "data", "loop")
    }
    return {**parts, "a sound program passes all four": stations_that_speak_up(program_with("none")) == []}


MISFIT = """
class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 16)
        self.second = nn.Linear(32, 2)

    def forward(self, inputs):
        return self.second(self.first(inputs))

network = Network()
"""


@claim(
    "C023",
    true="Python read the faulty program and the network was built, both without a word; the first batch brought the "
    "error. And a learning rate that is too large showed only in the losses, some steps later.",
    false="You may hope that reading, or a tool that checks code, is enough. Nothing in the text was wrong for "
    "Python: the sizes meet for the first time when a batch comes through.",
    depends="Some faults do show before: a missing bracket, a name with a typing error. The two that were tried, "
    "shapes and runaway losses, are of the kind that only a run shows.",
)
def many_faults_show_only_in_the_run() -> dict[str, bool]:
    """Compile, build and run a network whose layers do not fit, and train another with too large a rate."""
    names: dict[str, object] = {"nn": nn}
    built = error_of(lambda: exec(compile(MISFIT, "a faulty program", "exec"), names))
    inputs = torch.randn(64, 8)
    losses = losses_of(nn.Linear(8, 1), inputs, inputs.sum(1, keepdim=True), learning_rate=10.0, steps=60)
    return {
        "a network whose layers do not fit is read and built without complaint": built == "",
        "its first batch brings the error": "shapes cannot be multiplied" in error_of(lambda: names["network"](inputs)),
        "too large a learning rate gives a usable first loss, and one that is not finite later": losses[0] < 100
        and not torch.tensor(losses[-1]).isfinite(),
    }


judged(
    "C024",
    "It is advice about the order of learning; a run can show that steps work, not in which order you learn best.",
    true="Yes. Each station uses what stands before it: no gradient without tensors, no loop without data and a "
    "model. It is also the order of the chapters here.",
    false="You may learn better from a whole program first, and take it apart afterwards. Then use the line as a map: "
    "when something is unclear, the missing piece lies further to the left.",
    depends="People differ, and some begin in the middle. The order of what needs what does not differ, and the line "
    "follows it.",
)
