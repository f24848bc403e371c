"""Measurements for the topic "Checkpoints": names, shapes, and what `load_state_dict` says about them."""

import copy
import io

import torch
from torch import Tensor, nn

from labkit.exercises.claims import claim
from labkit.exercises.ledger.measuring import error_of


def two_layers(outputs: int = 2) -> nn.Sequential:
    """Return a small network with the layers "0" and "1"."""
    return nn.Sequential(nn.Linear(4, 3), nn.Linear(3, outputs))


def renamed(state: dict[str, Tensor], old: str, new: str) -> dict[str, Tensor]:
    """Return the state with `new` in place of `old` at the start of each name that begins with `old`."""
    return {new + name[len(old) :] if name.startswith(old) else name: value for name, value in state.items()}


@claim(
    "C264",
    true="The weights are in it, but so are BatchNorm's running statistics, which nobody learns by gradients. And the "
    "names come from the code: a file of other names did not load.",
    false="Too hard: parameters are the main part of it, and plain numbers do outlive many releases of the framework. "
    "Only buffers and names are forgotten in the sentence.",
    depends="Right. It holds buffers too, and it fits only the code whose names it has. Note the versions beside it; "
    "that costs one line.",
)
def buffers_are_in_it_and_names_matter() -> dict[str, bool]:
    """List what is saved of a network with BatchNorm, write it to a file, and load it into other names."""
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    saved, learned = set(model.state_dict()), set(dict(model.named_parameters()))
    other = nn.Sequential()
    other.add_module("first", nn.Linear(2, 2))
    other.add_module("second", nn.BatchNorm1d(2))
    return {
        "each parameter is in it": learned <= saved,
        "only parameters are in it": saved == learned,
        "it loads whatever the code calls its layers": error_of(lambda: other.load_state_dict(model.state_dict()))
        == "",
    }


@claim(
    "C265",
    true="A snapshot stays as it was. This dict changed with the model, since its tensors are the model's own. Whoever "
    "keeps it as *the best so far* keeps the last.",
    false="Names and learnable parameters are in it, that much is right. What is missing are the buffers; what is "
    "wrong is the snapshot.",
    depends="Right: buffers are in it as well, and it is a live view. `torch.save` freezes the numbers in a file; in "
    "memory, `copy.deepcopy(model.state_dict())` does.",
)
def it_is_no_snapshot() -> dict[str, bool]:
    """Keep a state and a copy of it, change the model, and look at both."""
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    kept = model.state_dict()
    copied, names = copy.deepcopy(kept), set(dict(model.named_parameters()))
    with torch.no_grad():
        model[0].weight.fill_(42.0)
    return {
        "it maps the name of each parameter to its values": names <= set(kept),
        "it maps parameters only": names == set(kept),
        "it stays as it was when the model changes": not (kept["0.weight"] == 42).any(),
        "a deep copy does stay as it was": not (copied["0.weight"] == 42).any(),
    }


@claim(
    "C266",
    true="Yes. A new network with the loaded weights gave the same digits. `eval()` is part of it: without it dropout "
    "went on, and the answers differed.",
    false="You may miss a step that brings the network itself back. There is none: the file has the numbers, your code "
    "has the network, and the two meet here.",
    depends="For a network without dropout and BatchNorm `eval()` changes nothing, and yet it costs nothing. With "
    "them, all three steps were needed.",
)
def build_load_and_switch() -> dict[str, bool]:
    """Save a network with dropout, load it into one that is built anew, and compare the answers in both modes."""

    def build() -> nn.Sequential:
        return nn.Sequential(nn.Linear(4, 64), nn.Dropout(0.5), nn.Linear(64, 2))

    trained, file, inputs = build().eval(), io.BytesIO(), torch.randn(3, 4)
    torch.save(trained.state_dict(), file)
    file.seek(0)
    model = build()
    different = not torch.equal(model.eval()(inputs), trained(inputs))
    model.load_state_dict(torch.load(file, map_location="cpu", weights_only=True))
    return {
        "a network that is only built answers differently": different,
        "with the loaded weights and `eval()` it gives the same answers": torch.equal(
            model.eval()(inputs), trained(inputs)
        ),
        "without `eval()` it does not": not torch.equal(model.train()(inputs), trained(inputs)),
    }


@claim(
    "C267",
    true="Yes. A renamed layer gave two lists in one error: the new name as missing, the old one as unexpected. "
    "`torch.compile` renames too, with `_orig_mod` in front.",
    false="The order of layers and all shapes may agree, and still it is refused: values are matched by name, and by "
    "nothing else.",
    depends="`strict=False` lets it pass, and then the renamed layer keeps its random start. That is no match, only "
    "silence. For the plain call the names must be equal.",
)
def names_must_match() -> dict[str, bool]:
    """Load a state as it is, with a renamed layer, and look at the names of a compiled model."""
    model = two_layers()
    state = model.state_dict()
    error = error_of(lambda: model.load_state_dict(renamed(state, "0.", "first.")))
    compiled = torch.compile(two_layers(), backend="eager")
    return {
        "with equal names it loads": error_of(lambda: model.load_state_dict(state)) == "",
        "with a renamed layer the model's name is missing": 'Missing key(s) in state_dict: "0.weight"' in error,
        "the file's name is unexpected": 'Unexpected key(s) in state_dict: "first.weight"' in error,
        "a compiled model has other names": all(name.startswith("_orig_mod.") for name in compiled.state_dict()),
    }


@claim(
    "C268",
    true="Compare *names* first: a missing key is a name that the file does not have. Shapes of layers with the same "
    "name have an error of their own, 'size mismatch'.",
    false="Looking at both sides is a good habit, and shapes do cause the sister error. For missing keys it is the "
    "wrong list: with the same names, no shape made a key missing.",
    depends="Right: missing and unexpected keys are about names; 'size mismatch' is about shapes. Read which of the "
    "two you have, then compare that.",
)
def missing_is_about_names() -> dict[str, bool]:
    """Load a state with other names, and one with another shape, and read both errors."""
    state = two_layers().state_dict()
    by_name = error_of(lambda: two_layers().load_state_dict(renamed(state, "1.", "last.")))
    by_shape = error_of(lambda: two_layers(5).load_state_dict(state))
    return {
        "another shape under the same name makes a key missing": "Missing key" in by_shape,
        "another name with the same shape is no reason for missing keys": "Missing key" not in by_name,
        "loading compares the shapes of layers with the same name": "size mismatch for 1.weight" in by_shape,
    }


@claim(
    "C278",
    true="They are skipped, yes. But the call tells you, in what it returns: `missing_keys` and `unexpected_keys`. It "
    "is silent only when nobody looks.",
    false="Skipping is exactly what `strict=False` is for: no error came, and the layer kept its values. Only "
    "*silently* is wrong.",
    depends="Right: skipped, and reported. Write `result = model.load_state_dict(…, strict=False)` and assert that "
    "exactly the expected names are missing.",
)
def skipped_and_reported() -> dict[str, bool]:
    """Load a state without its second layer, not strictly, and look at the model and at what the call returns."""
    model = two_layers()
    before = model[1].weight.detach().clone()
    state = {name: value + 1 for name, value in model.state_dict().items() if name.startswith("0.")}
    result = model.load_state_dict(state, strict=False)
    return {
        "the layer that the checkpoint lacks keeps its values": torch.equal(model[1].weight, before),
        "the other layer is loaded": torch.equal(model[0].weight, state["0.weight"]),
        "nothing says that a layer was skipped": not result.missing_keys,
    }


@claim(
    "C279",
    true="Only *names* are passed over. A tensor of the wrong size raised 'size mismatch' at once, strict or not, "
    "before any forward pass.",
    false="Right. And that is a relief: the crash comes at the line that causes it. To load the rest, leave the "
    "entries of other shapes out yourself.",
    depends="It does not depend on `strict`: with it and without it the same sentence appeared. What differs is only "
    "what happens to names.",
)
def a_wrong_size_raises_at_once() -> dict[str, bool]:
    """Load a state with another shape both ways."""
    state = two_layers().state_dict()
    loose = error_of(lambda: two_layers(5).load_state_dict(state, strict=False))
    strict = error_of(lambda: two_layers(5).load_state_dict(state))
    return {
        "with `strict=False` a tensor of the wrong size is passed over": "size mismatch for 1.weight" not in loose,
        "`strict` makes the difference": ("size mismatch" in loose) != ("size mismatch" in strict),
    }


@claim(
    "C280",
    true="Yes. What fits by name and shape was loaded, and what was left out came back as missing. Then report how "
    "many numbers were really loaded: it may be hardly any.",
    false="You may expect that something is left half loaded. Each tensor is taken whole or not at all, and the list "
    "of missing names tells you which.",
    depends="How much fits depends on the file. The way is the same each time: compare, filter, load, and read what "
    "is missing.",
)
def load_what_fits() -> dict[str, bool]:
    """Load the entries of a file whose shapes match into a network with another last layer."""
    old, new = two_layers(), two_layers(5)
    saved, own = old.state_dict(), new.state_dict()
    fitting = {name: value for name, value in saved.items() if name in own and value.shape == own[name].shape}
    result = new.load_state_dict(fitting, strict=False)
    return {
        "only the entries that fit are left": set(fitting) == {"0.weight", "0.bias"},
        "they are loaded": torch.equal(new[0].weight, old[0].weight),
        "those left out are returned as missing": set(result.missing_keys) == {"1.weight", "1.bias"},
    }
