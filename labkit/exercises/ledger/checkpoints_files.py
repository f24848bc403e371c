"""Measurements for the topic "Checkpoints": what stands in a file, and what loads from it again."""

import io
import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

import numpy as np
import torch
from torch import nn

from labkit.exercises.claims import claim
from labkit.exercises.ledger.measuring import error_of

ELSEWHERE = "layers_of_last_year"
calls: list[str] = []  # what `call` was called with, by an object that was unpickled


def file_with(content: object) -> bytes:
    """Return the bytes of the file that `torch.save` makes of this content."""
    file = io.BytesIO()
    torch.save(content, file)
    return file.getvalue()


def loaded(file: bytes, **options: object) -> object:
    """Load what `torch.save` wrote, by `torch.load` with these options."""
    return torch.load(io.BytesIO(file), **options)


def call(word: str) -> None:
    """Note that somebody called this function."""
    calls.append(word)


class Trap:
    """An object whose file calls a function when it is unpickled."""

    def __reduce__(self) -> tuple:
        """Tell pickle to call `call` in place of making a new object."""
        return call, ("sprung",)


class Remembering(nn.Linear):
    """A layer that keeps a plain attribute besides its weights."""

    def __init__(self, kept: int) -> None:
        super().__init__(8, 8)
        self.cache = torch.zeros(kept)


@contextmanager
def class_elsewhere() -> Iterator[type[nn.Module]]:
    """Give a block a module class that lives in a Python module of its own, which is gone afterwards."""
    module = ModuleType(ELSEWHERE)
    module.Net = type("Net", (nn.Linear,), {"__module__": ELSEWHERE})
    sys.modules[ELSEWHERE] = module
    try:
        yield module.Net
    finally:
        del sys.modules[ELSEWHERE]


@claim(
    "C261",
    true="Yes. The file with the weights loaded as it was. The file with the model was refused, and for a good "
    "reason: unpickling calls whatever function the file names.",
    false="Saving the whole model is shorter, and `weights_only=False` would load it. But then the file may call any "
    "function it likes, as one below did; and it loads only beside the code of that day.",
    depends="For a file of your own that you load tomorrow both ways work. A file lives longer than that, and only the "
    "`state_dict` loads by default, for everybody.",
)
def weights_load_and_models_are_refused() -> dict[str, bool]:
    """Save weights, a whole model, and an object that calls a function; load each by default, the last one openly."""
    model = nn.Linear(2, 2)
    weights = loaded(file_with(model.state_dict()))
    refused = error_of(lambda: loaded(file_with(model)))
    trap = file_with(Trap())
    error_of(lambda: loaded(trap))
    by_default = calls.copy()
    loaded(trap, weights_only=False)
    openly = calls.copy()
    calls.clear()
    return {
        "the `state_dict` loads by default": torch.equal(weights["weight"], model.weight),
        "the model itself is refused by default": "UnpicklingError" in refused,
        "a pickled file may call a function, and only the default keeps it from that": (by_default, openly)
        == ([], ["sprung"]),
    }


@claim(
    "C262",
    true="Yes. The file holds the name of the class and not its code, so Python has to find that name again. The file "
    "of the `state_dict` loaded without it.",
    false="A file of a whole model looks as if it held all of the model. The code is not in it: with the module gone, "
    "loading raised the error of an import.",
    depends="As long as you rename nothing it goes well, and that is what the sentence says: it depends on the path. "
    "Once the module had gone, no option helped.",
)
def a_pickled_model_needs_its_class() -> dict[str, bool]:
    """Save a model whose class lives in another module, let that module vanish, and load."""
    with class_elsewhere() as net:
        model = net(2, 2)
        whole, weights = file_with(model), file_with(model.state_dict())
        works = error_of(lambda: loaded(whole, weights_only=False)) == ""
    error = error_of(lambda: loaded(whole, weights_only=False))
    return {
        "with the module in its place, the whole model loads": works,
        "without it, loading fails with ModuleNotFoundError": error.startswith("ModuleNotFoundError")
        and ELSEWHERE in error,
        "the file holds the path of the class": ELSEWHERE.encode() in whole,
        "the file of the `state_dict` does not, and loads": ELSEWHERE.encode() not in weights and bool(loaded(weights)),
    }


@claim(
    "C263",
    true="For a model that carries caches, yes: the one below grew as its attribute grew. A plain model has nothing of "
    "the kind, and then both files are about the same.",
    false="It can well be: all attributes go into the file of a whole model, and a `state_dict` takes only parameters "
    "and buffers. A layer with a large cache shows it.",
    depends="Right: it depends on what hangs on the model besides its parameters and buffers. Often that is nothing.",
)
def the_size_depends_on_attributes() -> dict[str, bool]:
    """Compare both files for a layer with a large attribute and for one with none to speak of."""

    def ratio(kept: int) -> float:
        model = Remembering(kept)
        return len(file_with(model)) / len(file_with(model.state_dict()))

    large, small = ratio(20_000), ratio(1)
    return {
        "with a large attribute the file of the model is many times larger": large > 5,
        "with hardly any attribute it is many times larger": small > 5,
    }


@claim(
    "C272",
    true="It does as long as all of it is tensors, Python numbers and the states of torch and `random`. One NumPy "
    "number among them, a mean perhaps, and the whole file is refused.",
    false="It can: tensors, Python numbers and two of the three random states went through. NumPy is the guest that "
    "the default keeps out.",
    depends="Right. Write `float(loss)`, turn arrays into tensors or lists, and it loads. Test it on the first day, "
    "not on the day when you need the file.",
)
def numpy_is_refused() -> dict[str, bool]:
    """Save a checkpoint with each kind of number and random state, and load it by default."""
    model = nn.Linear(2, 2)
    plain = {"model": model.state_dict(), "optimizer": torch.optim.Adam(model.parameters()).state_dict(), "epoch": 3}
    generators = {"torch": torch.get_rng_state(), "python": random.getstate()}

    def loads(**more: object) -> bool:
        return error_of(lambda: loaded(file_with({**plain, **more}))) == ""

    return {
        "with a Python number as the loss it loads": loads(loss=0.5),
        "with the random states of torch and Python it loads": loads(loss=0.5, generators=generators),
        "with a NumPy number as the loss it loads": loads(loss=np.float64(0.5)),
        "with the random state of NumPy it loads": loads(loss=0.5, generators=np.random.get_state()),
    }
