"""Chapter 06: other ways to the right result, functions that change their input, and what predictions ask."""

import copy
import hashlib
import io
import os
import re
import struct
import tempfile
import zlib
from itertools import chain, islice

import numpy as np
import torch
from torch import nn

from labkit import durable, randomness
from labkit.errors import error_of


def state_in_a_loop(model, optimizer, schedule, epoch):
    parts = {"model": model, "optimizer": optimizer, "schedule": schedule}
    state = {name: copy.deepcopy(part.state_dict()) for name, part in parts.items()}
    state.update(random=torch.default_generator.get_state(), epoch=int(epoch))
    return state


def state_with_more(model, optimizer, schedule, epoch):
    state = dict(epoch=epoch, random=torch.random.get_rng_state(), versions={"torch": str(torch.__version__)})
    state |= {"schedule": schedule.state_dict(), "optimizer": optimizer.state_dict()}
    return state | {"model": dict(model.state_dict())}


def state_with_copies(model, optimizer, schedule, epoch):
    weights = {name: value.detach().clone() for name, value in model.state_dict().items()}
    rest = copy.deepcopy((optimizer.state_dict(), schedule.state_dict()))
    names = ("model", "optimizer", "schedule", "random", "epoch")
    return dict(zip(names, (weights, *rest, torch.get_rng_state(), epoch), strict=True))


def to_go_by_chain(loader, epoch, batch, epochs):
    if epoch >= epochs:
        return []
    return list(chain(loader.at(epoch, batch), *(loader.at(later, 0) for later in range(epoch + 1, epochs))))


def to_go_by_counting(loader, epoch, batch, epochs):
    todo = []
    while epoch < epochs:
        todo.extend(loader.at(epoch, batch))
        epoch, batch = epoch + 1, 0
    return todo


def to_go_by_skipping(loader, epoch, batch, epochs):
    everything = chain.from_iterable(loader.at(number, 0) for number in range(epochs))
    return list(islice(everything, epoch * len(loader) + batch, None))


class RewindThroughAFile:
    def __init__(self, model, optimizer):
        self.parts = (model, optimizer)
        file = io.BytesIO()
        torch.save([part.state_dict() for part in self.parts], file)
        self.file = file.getvalue()

    def back(self):
        for part, state in zip(self.parts, torch.load(io.BytesIO(self.file), weights_only=True), strict=True):
            part.load_state_dict(state)


class RewindInPlace:
    def __init__(self, model, optimizer):
        self.model, self.optimizer = model, optimizer
        self.weights = [value.clone() for value in model.state_dict().values()]
        self.memory = copy.deepcopy(optimizer.state_dict())

    @torch.no_grad()
    def back(self):
        for value, remembered in zip(self.model.state_dict().values(), self.weights, strict=True):
            value.copy_(remembered)
        self.optimizer.load_state_dict(copy.deepcopy(self.memory))
        return self


class RewindAgain:
    def __init__(self, model, optimizer):
        self.model, self.optimizer = model, optimizer
        self._remember()

    def _remember(self):
        self.states = copy.deepcopy([self.model.state_dict(), self.optimizer.state_dict()])

    def back(self):
        self.model.load_state_dict(self.states[0])
        self.optimizer.load_state_dict(self.states[1])
        self._remember()


def saved_by_labkit(path, content):
    durable.write_durably(path, content)


def saved_by_descriptor(path, content):
    number, name = tempfile.mkstemp(dir=path.parent)
    os.write(number, content)
    os.fsync(number)
    os.close(number)
    os.replace(name, path)


def saved_unbuffered(path, content):
    other = path.parent / (path.stem + ".new")
    with other.open("wb", buffering=0) as file:
        file.write(content)
        os.fsync(file)
    other.replace(path)


def saved_and_read_back(path, content):
    other = path.with_suffix(".writing")
    other.write_bytes(content)
    with other.open("rb+") as file:
        os.fsync(file)
    assert other.read_bytes() == content
    os.replace(str(other), str(path))


def intact_by_filter(files):
    whole = [file for file in files if hashlib.sha256(file[:-32]).digest() == file[-32:]]
    return whole[0][:-32] if whole else None


def intact_by_hexdigest(files):
    for file in files:
        if len(file) < 32:
            continue
        digest = hashlib.new("sha256")
        digest.update(file[: len(file) - 32])
        if digest.hexdigest() == file[len(file) - 32 :].hex():
            return file[: len(file) - 32]


def intact_recursively(files):
    if not files:
        return None
    content = files[0][:-32]
    return content if files[0] == content + hashlib.sha256(content).digest() else intact_recursively(files[1:])


def plain_by_match(content):
    match content:
        case dict():
            return {name: plain_by_match(value) for name, value in content.items()}
        case tuple():
            return tuple(map(plain_by_match, content))
        case list():
            return list(map(plain_by_match, content))
        case np.ndarray():
            return torch.tensor(content)
        case np.generic():
            return content.tolist()
        case _:
            return content


def plain_by_kind(content):
    if isinstance(content, np.bool_):
        return bool(content)
    if isinstance(content, np.integer):
        return int(content)
    if isinstance(content, np.floating):
        return float(content)
    if isinstance(content, np.ndarray):
        return torch.as_tensor(content.copy())
    if isinstance(content, dict):
        return dict((name, plain_by_kind(value)) for name, value in content.items())
    if isinstance(content, (list, tuple)):
        values = [plain_by_kind(value) for value in content]
        return tuple(values) if isinstance(content, tuple) else values
    return content


def plain_by_name(content):
    if type(content).__module__ == "numpy":
        return torch.from_numpy(content) if hasattr(content, "__len__") else content.item()
    if isinstance(content, dict):
        return dict(zip(content, map(plain_by_name, content.values()), strict=True))
    return type(content)(map(plain_by_name, content)) if isinstance(content, tuple | list) else content


def stripped_by_pattern(weights):
    return {re.sub(r"^(?:(?:module|_orig_mod)\.)+", "", name): value for name, value in weights.items()}


def stripped_by_parts(weights):
    def own(name):
        parts = name.split(".")
        while parts[0] in ("module", "_orig_mod"):
            parts.pop(0)
        return ".".join(parts)

    return {own(name): weights[name] for name in weights}


def stripped_recursively(weights):
    new = {name.removeprefix("module.").removeprefix("_orig_mod."): value for name, value in weights.items()}
    return weights if new.keys() == weights.keys() else stripped_recursively(new)


def matching_by_pop(model, weights):
    left, kept, count = dict(weights), [], 0
    for name, value in model.state_dict().items():
        if name in left and left[name].shape == value.shape:
            count += value.copy_(left.pop(name)).numel()
        else:
            kept.append(name)
    return count, kept, list(left)


def matching_by_result(model, weights):
    own = model.state_dict()
    fitting = {name: one for name, one in weights.items() if getattr(own.get(name), "shape", None) == one.shape}
    result = model.load_state_dict(fitting, strict=False)
    return [sum(map(torch.numel, fitting.values())), result.missing_keys, sorted(set(weights) - set(fitting))]


def matching_by_filling_up(model, weights):
    full = model.state_dict()
    fits = {name for name in set(full) & set(weights) if full[name].size() == weights[name].size()}
    model.load_state_dict(full | {name: weights[name] for name in fits})
    return sum(full[name].numel() for name in fits), set(full) - fits, weights.keys() - fits


def fingerprint_of_one_text(images, labels):
    text = repr((images.shape, images.tolist(), labels.tolist()))
    return hashlib.md5(text.encode()).digest()


def fingerprint_by_blake(images, labels):
    digest = hashlib.blake2b(digest_size=16)
    for tensor in (images, labels):
        digest.update(str((tuple(tensor.shape), tensor.dtype)).encode())
        digest.update(tensor.contiguous().numpy())
    return digest.hexdigest()


def fingerprint_as_number(images, labels):
    start = struct.pack(f"<{images.ndim}q", *images.shape)
    return zlib.crc32(labels.numpy().tobytes(), zlib.crc32(images.numpy().tobytes(), zlib.crc32(start)))


def generator_by_labkit(seed, purpose, epoch):
    return randomness.generator(seed, purpose, epoch)


def generator_by_letters(seed, purpose, epoch):
    letters = int.from_bytes(purpose.encode(), "big")
    number = ((letters * 1_000_003 + seed) * 1_000_033 + epoch) % (2**61 - 1)
    generator = torch.Generator()
    generator.manual_seed(number)
    return generator


def generator_by_numpy(seed, purpose, epoch):
    words = np.random.SeedSequence([seed, epoch, *purpose.encode()]).generate_state(2)
    return torch.Generator(device="cpu").manual_seed(int(words[0]) << 31 | int(words[1]) >> 1)


def differing_by_view(one, other):
    def same(a, b):
        if a.dtype != b.dtype or a.shape != b.shape:
            return False
        return torch.equal(a.contiguous().view(torch.uint8), b.contiguous().view(torch.uint8))

    names = set(one).union(other)
    return [name for name in names if not (name in one and name in other and same(one[name], other[name]))]


def differing_by_files(one, other):
    def bits(state, name):
        if name not in state:
            return None
        array = state[name].numpy()
        return array.dtype.str, array.shape, bytes(array)

    return sorted(name for name in {**one, **other} if bits(one, name) != bits(other, name))


def differing_by_symmetric_difference(one, other):
    found = list(one.keys() ^ other.keys())
    for name, value in one.items():
        if name in other and (
            str(value.dtype) + str(list(value.shape)) != str(other[name].dtype) + str(list(other[name].shape))
            or value.numpy().tobytes() != other[name].numpy().tobytes()
        ):
            found.append(name)
    return set(found)


OTHER_WAYS = {
    "full_state": [state_in_a_loop, state_with_more, state_with_copies],
    "batches_to_go": [to_go_by_chain, to_go_by_counting, to_go_by_skipping],
    "Rewind": [RewindThroughAFile, RewindInPlace, RewindAgain],
    "save_atomically": [saved_by_labkit, saved_by_descriptor, saved_unbuffered, saved_and_read_back],
    "newest_intact": [intact_by_filter, intact_by_hexdigest, intact_recursively],
    "plain": [plain_by_match, plain_by_kind, plain_by_name],
    "strip_prefix": [stripped_by_pattern, stripped_by_parts, stripped_recursively],
    "load_matching": [matching_by_pop, matching_by_result, matching_by_filling_up],
    "fingerprint": [fingerprint_of_one_text, fingerprint_by_blake, fingerprint_as_number],
    "generator_for": [generator_by_labkit, generator_by_letters, generator_by_numpy],
    "differing": [differing_by_view, differing_by_files, differing_by_symmetric_difference],
}


def strips_in_place(weights):
    for name in list(weights):
        weights[name.removeprefix("module.").removeprefix("_orig_mod.").removeprefix("module.")] = weights.pop(name)
    return dict(weights)


def sorts_the_files(files):
    found = intact_by_filter(files)
    files.clear()
    return found


CHANGES_ITS_INPUT = {"strip_prefix": strips_in_place, "newest_intact": sorts_the_files}


def weights_that_a_view_holds():
    layer, kept = nn.Linear(1, 1, bias=False), {}
    for epoch in range(1, 7):
        with torch.no_grad():
            layer.weight.fill_(epoch)
        if epoch == 2:
            kept = layer.state_dict()
    return f"epoch {kept['weight'].item():.0f}"


def what_strict_false_does():
    model, file = nn.Linear(2, 3), nn.Linear(2, 10).state_dict()
    error = error_of(lambda: model.load_state_dict(file, strict=False))
    return "it skips that layer" if error == "no error" else "an error at once"


def what_one_draw_leaves():
    def program(draws):
        torch.manual_seed(0)
        weights = nn.Linear(4, 4).weight.detach()
        torch.rand(draws)
        return weights, torch.randperm(50), nn.functional.dropout(torch.ones(64))

    same = [torch.equal(one, other) for one, other in zip(program(0), program(1), strict=True)]
    return {(True, True, True): "weights, order and dropout", (True, False, False): "weights"}[tuple(same)]


MEASURED = {
    "best_kept": weights_that_a_view_holds,
    "wrong_shape": what_strict_false_does,
    "extra_draw": what_one_draw_leaves,
}
