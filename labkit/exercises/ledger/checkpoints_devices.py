"""Measurements for the topic "Checkpoints": a file that was written on one device and is read on another.

No GPU is needed: a tensor without numbers may lie on any device, and its file says so like every other.
"""

import io
from unittest import mock

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode

from labkit.exercises.claims import claim
from labkit.exercises.ledger.checkpoints_files import file_with, loaded
from labkit.exercises.ledger.measuring import error_of


def file_of_a_gpu_run() -> bytes:
    """Return the file of a layer whose weights lay on a GPU, saved without a thought about devices."""
    file = io.BytesIO()
    with FakeTensorMode(), torch.serialization.skip_data(materialize_fake_tensors=True):
        torch.save(nn.Linear(2, 2, device="cuda:0").state_dict(), file)
    return file.getvalue()


def lands_on(file: bytes, **options: object) -> str:
    """Return the kind of device on which the weight of this file lands, or the error instead."""
    found: list[Tensor] = []
    error = error_of(lambda: found.append(loaded(file, **options)["weight"]))
    return error or found[0].device.type


def load_without_a_gpu(file: bytes, **options: object) -> str:
    """Do the same as on a machine whose CUDA is not available."""
    with mock.patch.object(torch.cuda, "is_available", lambda: False):
        return lands_on(file, **options)


@claim(
    "C273",
    true="It does land on the CPU, because it came from there: each tensor goes back to the device it was saved from. "
    "And nothing clashes, since `load_state_dict` copies the numbers to where the model is.",
    false="The first half is right: it was on the CPU after loading. Wrong are the reason, a default that does not "
    "exist, and the clash.",
    depends="Right: the place is as said, the rest is not. A file from a GPU does not land on the CPU by itself, and "
    "a model on the GPU takes numbers from the CPU.",
)
def it_lands_where_it_came_from() -> dict[str, bool]:
    """Load a file of the CPU and one of a GPU, and load numbers of the CPU into a model that lies on CUDA."""
    from_cpu = file_with(nn.Linear(2, 2).state_dict())
    with FakeTensorMode():
        model = nn.Linear(2, 2, device="cuda")
        error = error_of(lambda: model.load_state_dict({"weight": torch.ones(2, 2), "bias": torch.ones(2)}))
    return {
        "saved on the CPU and loaded without arguments, it lands on the CPU": lands_on(from_cpu) == "cpu",
        "that is a default: a file from a GPU lands on the CPU as well": lands_on(file_of_a_gpu_run()) == "cpu",
        "loading it into a model on the GPU clashes": error != "" or model.weight.device.type != "cuda",
    }


@claim(
    "C274",
    true="Yes. The same file went to the CPU and to another device, by one argument. To the CPU first is a good "
    "habit: the GPU then holds one copy, that of the model.",
    false="You may expect that a file is bound to its device. It only notes where each tensor lay, and `map_location` "
    "overrules the note.",
    depends="Only a device that this machine has can be named there, and the sentence says so. For each that is there "
    "it is the same argument, as a string or as a `torch.device`.",
)
def one_argument_says_where() -> dict[str, bool]:
    """Load the file of a GPU on a machine without one, to several places."""
    file = file_of_a_gpu_run()
    return {
        "without it the file asks for its own GPU": "CUDA" in load_without_a_gpu(file),
        '`map_location="cpu"` loads it to the CPU': load_without_a_gpu(file, map_location="cpu") == "cpu",
        "`map_location=torch.device(...)` does the same": load_without_a_gpu(file, map_location=torch.device("cpu"))
        == "cpu",
        "another device can be named just so": load_without_a_gpu(file, map_location="meta") == "meta",
    }


@claim(
    "C275",
    true="Yes. The file was written from a GPU with no line about devices, and loading alone brought it to the CPU and "
    "into a model there.",
    false="Moving the model to the CPU before saving works as well, but it moves the model that is still in training. "
    "Adapting at loading was enough.",
    depends="You do not know, while you save, where the file will be read. So there is nothing to decide then; the "
    "reader knows the machine and says so with `map_location`.",
)
def adapt_when_you_load() -> dict[str, bool]:
    """Write a file on a GPU and one on the CPU in the same way, and read both into a model on the CPU."""
    model = nn.Linear(2, 2)
    files = {"a GPU": file_of_a_gpu_run(), "the CPU": file_with(nn.Linear(2, 2).state_dict())}

    def is_read(file: bytes) -> bool:
        return error_of(lambda: model.load_state_dict(loaded(file, map_location="cpu"))) == ""

    return {
        f"a file from {place}, saved as it was, is read on the CPU with `map_location`": is_read(file)
        for place, file in files.items()
    }


@claim(
    "C276",
    true="Yes, word for word. The message goes on with the cure: `map_location`. With it the file was read.",
    false="You may have loaded such files without trouble: then the machine had a GPU, or `map_location` stood there. "
    "Without both, this is the error.",
    depends="It depends on whether the machine has a GPU, and the sentence names that: without one. There the plain "
    "load failed in these words.",
)
def the_error_names_its_cure() -> dict[str, bool]:
    """Load the file of a GPU run with CUDA not available, with and without `map_location`."""
    file = file_of_a_gpu_run()
    words = "Attempting to deserialize object on a CUDA device but torch.cuda.is_available() is False"
    error = load_without_a_gpu(file)
    return {
        "the plain load raises this error": words in error,
        "the message names `map_location`": "map_location" in error,
        '`map_location="cpu"` cures it': load_without_a_gpu(file, map_location="cpu") == "cpu",
    }


@claim(
    "C277",
    true="Then the error came earlier: without CUDA it is `torch.load` that fails, before any model is moved. A tensor "
    "that has arrived on CUDA can always come back.",
    false="Right. `.to('cpu')` brought it back, tensor and model alike. What needs care is loading, and "
    '`map_location="cpu"` takes it.',
    depends="It does not depend on where the tensor came from. Loaded or computed, a CUDA tensor is one like any "
    "other, and it moved.",
)
def it_comes_back() -> dict[str, bool]:
    """Bring a tensor and a model back from CUDA, without numbers, and load the file of a GPU with `map_location`."""
    with FakeTensorMode():
        model, tensor = nn.BatchNorm1d(2, affine=False, device="cuda"), torch.ones(2, device="cuda")
        model_back, tensor_back = model.to("cpu").running_mean, tensor.to("cpu")
    return {
        "a tensor stays on CUDA after `.to('cpu')`": tensor_back.device.type != "cpu",
        "a model stays there": model_back.device.type != "cpu",
        "a file from a GPU cannot be brought to the CPU while loading": load_without_a_gpu(
            file_of_a_gpu_run(), map_location="cpu"
        )
        != "cpu",
    }
