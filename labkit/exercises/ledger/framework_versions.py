"""Measurements for the topic "Framework and dynamic graph": what is told about names, numbers and versions."""

import gc
import inspect
import io
import time
import weakref

import torch
from torch import nn
from torch.utils.data import DataLoader

from labkit import data
from labkit.exercises.claims import claim
from labkit.exercises.ledger.measuring import error_of, graph_nodes, warnings_of


@claim(
    "C015",
    true="Whoever counted, counted something else: this version has far more public methods. Knowing none of them "
    "will not do either, since the optimizer is given `parameters()` and evaluation begins with `eval()`.",
    false="Yes. The number is wrong, and so is the advice drawn from it: a training program cannot do without a few "
    "of the methods. Learn that handful, and look the others up.",
    depends="The number changes with the release, but it is far from 17 in this one. And which methods a program "
    "needs is no matter of taste: without `parameters()` nothing is trained.",
)
def a_module_has_many_methods_and_some_are_needed() -> dict[str, bool]:
    """Count the public methods of nn.Module, and see what an optimizer says when it is not given the parameters."""
    methods = [name for name, _ in inspect.getmembers(nn.Module, inspect.isfunction) if not name.startswith("_")]
    return {
        "`nn.Module` has 17 public methods": len(methods) == 17,
        "an optimizer takes the model itself, without its method `parameters`": not error_of(
            lambda: torch.optim.SGD(nn.Linear(2, 1), lr=0.1)
        ),
    }


def live_tensors() -> int:
    """Return how many tensors Python holds at this moment."""
    return sum(type(item) is torch.Tensor for item in gc.get_objects())


@claim(
    "C017",
    true="The line looks important because it stands at the top of every program. All it makes is a name for a place: "
    "no tensor was made, moved or freed by it. What frees memory is dropping the last reference.",
    false="Yes. It made no tensor, moved none and freed none. It decides where you will put things; how long they "
    "stay there is decided by your references.",
    depends="Where tensors go does depend on it, and a GPU has its own memory to fill. But the line itself does "
    "nothing to memory, on any machine.",
)
def choosing_a_device_does_nothing_to_memory() -> dict[str, bool]:
    """Choose a device, and look at the tensors that were there before."""
    held = torch.ones(1000)
    alive = weakref.ref(held)
    before = live_tensors()
    chosen = [torch.device("cuda" if torch.cuda.is_available() else "cpu"), torch.device("meta")]
    made, moved = live_tensors() - before, held.device in chosen[1:]
    freed_by_choosing = alive() is None
    del held
    return {
        "the line makes a tensor": made > 0,  # fewer than before would be rubbish that Python has cleared away
        "it moves a tensor that was there": moved,
        "it frees a tensor that was there": freed_by_choosing,
        "memory stays taken after the last reference is gone": alive() is not None,
    }


def nodes_in_mode(model: nn.Module, training: bool) -> list[str]:
    """Return the nodes of the graph that a model leaves in train or eval mode."""
    return graph_nodes(model.train(training)(torch.ones(4, 8)).sum())


@claim(
    "C018",
    true="You may have seen that results differ between the modes. They differ because Dropout and BatchNorm read a "
    "flag. A network without them leaves the same graph in both modes, node for node.",
    false="Yes. Both calls set one flag. Dropout reads it, so its own node comes and goes; the rest of the graph "
    "stays as it is.",
    depends="A network with Dropout does lose one node in eval mode, Dropout's own. That is a module reading a flag; "
    "the structure of the whole, which the sentence is about, did not change.",
)
def the_modes_only_set_a_flag() -> dict[str, bool]:
    """Compare the graphs of two networks, and the attributes of a layer, in both modes."""
    plain = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))
    dropping = nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.5), nn.Linear(16, 2))
    training, evaluating = nodes_in_mode(dropping, True), nodes_in_mode(dropping, False)
    training.remove("MulBackward0")  # Dropout's own: it multiplies by the mask
    layer = nn.Linear(8, 2)
    before = dict(vars(layer.train()))
    changed = [name for name, value in vars(layer.eval()).items() if value is not before[name]]
    return {
        "a network of linear layers and ReLU leaves another graph in eval mode": (
            nodes_in_mode(plain, True) != nodes_in_mode(plain, False)
        ),
        "in a network with Dropout, other nodes than Dropout's own change": training != evaluating,
        "the call changes another attribute of a layer than `training`": changed != ["training"],
    }


def seconds_of_an_epoch(workers: int) -> float:
    """Return how long it takes to go once over 64 numbers that cost nothing to fetch."""
    start = time.perf_counter()
    for _ in DataLoader(range(64), batch_size=8, num_workers=workers):
        pass
    return time.perf_counter() - start


@claim(
    "C019",
    true="Four processes had to be started and every batch sent over, for items that cost nothing. Here the workers "
    "took many times as long. They win when each item costs time: reading a file, decoding a picture.",
    false="More workers sound like more speed, and with expensive items that is so. Their own price, start and "
    "transport, is fixed; for cheap items it was many times the work.",
    depends="Which is faster does depend on the price of an item. The claim says only that four can be slower, and "
    "one case shows it.",
)
def workers_can_be_slower_than_none() -> dict[str, bool]:
    """Go over cheap items with four workers and with none."""
    return {
        "an epoch over cheap items takes longer with four workers than with none": seconds_of_an_epoch(4)
        > seconds_of_an_epoch(0)
    }


@claim(
    "C020",
    true="Most code of that time runs, which makes the rest harder to see. Each of the four habits tried here has "
    "changed since 1.12: two behave otherwise, one warns, one is gone.",
    false="Yes, it does not hold any more. Old text is still good for ideas; for defaults and names read the "
    "documentation of the version you have.",
    depends="Much has stayed, and for the core of a training loop you may be lucky. But the sentence promises all of "
    "it, and every one of the four places that were tried has changed.",
)
def defaults_and_names_have_changed() -> dict[str, bool]:
    """Try four habits of older programs on the version that is installed."""
    stored = io.BytesIO()
    torch.save(nn.Linear(1, 1), stored)
    stored.seek(0)
    weight = nn.Parameter(torch.ones(1))
    weight.sum().backward()
    torch.optim.SGD([weight], lr=0.1).zero_grad()
    told = warnings_of(lambda: torch.cuda.amp.autocast(enabled=False))
    return {
        "`torch.load` opens a whole stored model without being asked to trust it": not error_of(
            lambda: torch.load(stored)
        ),
        "`zero_grad()` leaves zeros in `.grad`": weight.grad is not None,
        "`torch.cuda.amp.autocast` comes without a warning that it is old": not any("Future" in text for text in told),
        "schedulers take the argument `verbose`": "verbose"
        in inspect.signature(torch.optim.lr_scheduler.StepLR).parameters,
    }


PREPARATION = """
pictures = data.digits()
images, labels = pictures.images.flatten(1).float() / 255, pictures.labels
training, held_back = slice(0, 1200), slice(1200, None)
model = nn.Linear(images.shape[1], len(pictures.classes))
optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
for epoch in range(50):"""
UPDATE = """
    optimizer.zero_grad()
    logits = model(images[training])
    loss = nn.functional.cross_entropy(logits, labels[training])
    loss.backward()
    optimizer.step()"""
MEASUREMENT = """
accuracy = (model(images[held_back]).argmax(1) == labels[held_back]).float().mean().item()
"""


@claim(
    "C021",
    true="You count the five lines of the update, and they are the heart of it. Alone they stop at the first name: "
    "data, model and optimizer are not there. The small program that does classify has more than twice as many lines.",
    false="Yes. Five steps, clear, predict, loss, backward, step, are the loop's body. The smallest honest program "
    "around them also has to load, build and measure.",
    depends="With a library that hides the rest, one line can start a training. Then the lines are still there, in "
    "the library; what you write yourself to train and measure is more than five.",
)
def five_lines_are_the_update_alone() -> dict[str, bool]:
    """Run the five lines of the update alone, then the small program around them, and count."""
    alone = error_of(lambda: exec(inspect.cleandoc(UPDATE), {"nn": nn}))
    program = (PREPARATION + UPDATE + MEASUREMENT).strip()
    names: dict[str, object] = {"torch": torch, "nn": nn, "data": data}
    exec(program, names)
    return {
        "the five lines of the update run without anything around them": not alone,
        "five lines are a program that reads nine of ten new digits": names["accuracy"] > 0.9
        and len(program.splitlines()) <= 5,
    }


@claim(
    "C022",
    true="You have read an old text: all four ordinary ways into this fault gave other words here, such as 'mat1 and "
    "mat2 must have the same dtype'. Search for the words that you see, not for those that were told.",
    false="Yes, it does not any more. The fault is as common as ever; it only has other names in other layers, and "
    "its cure is one: give the data its dtype where they are made.",
    depends="The old words may still live in some rare operation. In a linear layer, a convolution, a product and a "
    "recurrent layer, where people really meet the fault, none of the four errors used them.",
)
def dtype_errors_are_worded_otherwise_today() -> dict[str, bool]:
    """Give float64 to four kinds of float32 operation, and read each error."""
    matrix = torch.ones(3, 3, dtype=torch.float64)
    errors = {
        "a linear layer": error_of(lambda: nn.Linear(3, 2)(matrix)),
        "a convolution": error_of(lambda: nn.Conv2d(1, 1, 3)(matrix[None, None])),
        "a product of matrices": error_of(lambda: torch.ones(3, 3) @ matrix),
        "a recurrent layer": error_of(lambda: nn.LSTM(3, 3)(matrix)),
    }
    return {f"{where} says so": "expected scalar type Float but found Double" in text for where, text in errors.items()}
