# %% [markdown]
# # 03 · Data
#
# **The question.** A network tells three shapes apart. In the notebook it is right 99 times out of 100. Then somebody
# brings new pictures, and it is right in little more than half of them. What is in the data?
#
# Nothing is wrong with the network, and no line of the program is. The fault is in the data: what was split, what was
# drawn twice, what lay in two places. This chapter follows a picture from its file to the model and asks at each
# station what can happen to it there. In part 8 you find the fault of the question, and what the network is really
# worth.
#
# As before: predict before you run, answer in the cells with `...`, ask for a `hint()`. About two hours.
#
# Here are the pictures. Somebody walked around with a camera, pressed the button at each thing, and held it for a
# moment: six frames of every thing, sorted into a folder a class. The second cell writes such a folder, splits it at
# random (`ImageSet.split`), trains a small network on four fifths, and measures it on the last fifth; then on pictures
# of another day.

# %% tags=["parameters"]
fast: bool = True  # True: short trainings that show each effect; False: longer ones

# %%
# %load_ext labkit

import pickle
import subprocess
import sys
import tempfile
import traceback
import warnings
from pathlib import Path
from time import perf_counter

import numpy as np
import torch
import torch.nn.functional as F
from IPython.display import display
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset
from torchvision.transforms import v2

from labkit import data, exercises, models, show, training
from labkit.course import parameters
from labkit.errors import error_of
from labkit.table import Table

chosen = parameters(globals())
lab = exercises.load("03_data")
torch.set_num_threads(1)  # networks as small as these are faster on one thread
workshop = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)  # all files of this chapter; gone at the end
place = Path(workshop.name)


# %% tags=["nbval-ignore-output"]
def only(kinds, pictures):
    """Return the pictures of some classes, numbered anew."""
    numbers = {pictures.classes.index(kind): number for number, kind in enumerate(kinds)}
    kept = [index for index, label in enumerate(pictures.labels.tolist()) if label in numbers]
    labels = torch.tensor([numbers[int(pictures.labels[index])] for index in kept])
    return data.ImageSet(pictures.images[kept], labels, kinds, "shapes")


def film(picture, draws, frames=6):
    """Return frames of one thing, since a hand moves, light changes and a sensor is noisy: uint8 (frames, C, H, W)."""
    moves = torch.randint(-2, 3, (frames, 2), generator=draws).tolist()
    moved = torch.stack([picture.roll(move, (1, 2)) for move in moves])
    light = 0.9 + 0.2 * torch.rand(frames, 1, 1, 1, generator=draws)
    noise = 6 * torch.randn(moved.shape, generator=draws)
    return (moved * light + noise).clamp(0, 255).to(torch.uint8)


def train(part, epochs=8 if fast else 20, **augmentation):
    """Train a LeNet on an ImageSet; return it, and the statistics that its inputs are normalised with."""
    loader = data.loader(part, 32, shuffle=True, **augmentation)
    model = models.build("lenet", part.image_shape, len(part.classes))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.002)
    for _ in range(epochs):
        for inputs, targets in loader:
            loss = F.cross_entropy(model(inputs), targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return model, loader.statistics


def accuracy(model, statistics, part):
    """Return the share of right answers."""
    return training.evaluate(model, data.loader(part, 256, statistics=statistics)).accuracy


kinds, folder, draws = ("crescent", "cross", "disc"), place / "pictures", torch.Generator().manual_seed(0)
things = only(kinds, data.shapes(300, seed=1))
for number, (picture, label) in enumerate(things):
    (folder / kinds[label]).mkdir(parents=True, exist_ok=True)
    for frame, pixels in enumerate(film(picture, draws)):
        file = folder / kinds[label] / f"film{number:02}_frame{frame}.png"
        Image.fromarray(np.asarray(pixels.permute(1, 2, 0))).save(file)

photos = data.folder(folder)["all"]
another_day = only(kinds, data.shapes(1000, seed=2))
train_part, val_part = photos.split(0.2)
model, statistics = train(train_part)
in_the_notebook, on_new_pictures = (accuracy(model, statistics, part) for part in (val_part, another_day))
print(f"{len(photos)} pictures; right: {in_the_notebook:.0%} in the notebook, {on_new_pictures:.0%} on another day")
assert in_the_notebook > 0.9 and on_new_pictures < 0.7
show.samples(photos, per_class=12)

# %% [markdown]
# With three classes, guessing gives a third. Keep this in mind; first the way of a picture, from the beginning.
#
# ## 1 · What a data set is
#
# Two contracts, and no more:
#
# - **map-style**: `data[i]` gives sample `i`, `len(data)` how many there are. It can be shuffled and split.
# - **iterable**: `for sample in data` gives one after the other, as from a wire. Nobody knows how many, and nobody can
#   shuffle what has not arrived. Such a class inherits from `IterableDataset`, which is how a loader knows it.
#
# Nothing has to be inherited for the first one: a plain list is a data set. A `DataLoader` calls it once for each
# index and stacks what it gets. **Predict** why each of the lines with `error_of` fails, and how often a data set that
# lies in memory is called for a batch of 32.
#
# Pictures that fit into memory need no data set at all: one tensor, indexed a batch at a time, is simpler and much
# faster. That is labkit's `ImageSet`. For files that do not fit, somebody has to write the class; then it is you.


# %% claims=["C151", "C157", "C158"]
class Squares:
    """Six numbers and their squares, computed when asked for; no __init__, no parent."""

    calls = 0

    def __len__(self):
        return 6

    def __getitem__(self, index):
        Squares.calls += 1
        return torch.tensor([float(index)]), index**2


class Wire(IterableDataset):
    """Samples that arrive: only __iter__."""

    def __iter__(self):
        yield from range(5)


class WithoutLength:
    """Forgot to say how many there are."""

    def __getitem__(self, index):
        return index


inputs, targets = next(iter(DataLoader(Squares(), batch_size=4)))
print("a batch:", tuple(inputs.shape), targets.tolist(), "from", Squares.calls, "calls")
print("a list:", next(iter(DataLoader([10, 20, 30], batch_size=2))).tolist())
print("a wire:", [batch.tolist() for batch in DataLoader(Wire(), batch_size=2)])
print("a wire, shuffled:", error_of(lambda: DataLoader(Wire(), shuffle=True)))
print("no length:", error_of(lambda: DataLoader(WithoutLength(), shuffle=True)))
print("rows that do not fit:", error_of(lambda: next(iter(DataLoader([torch.ones(3), torch.ones(4)], batch_size=2)))))

rows = torch.arange(64.0).reshape(32, 2)
Squares.calls, Squares.__len__ = 0, lambda self: 32
next(iter(DataLoader(Squares(), batch_size=32)))
print(
    "calls for a batch of 32:", Squares.calls, "| indexing a tensor:", tuple(rows[torch.randperm(32)].shape), "at once"
)

# %% exercise="PictureFolder" claims=["C160"]

# %% [markdown]
# ## 2 · From samples to batches
#
# An epoch is an order of all samples, cut into pieces. Both are plain numbers before a single picture is read: draw
# the order, cut it, and pick each piece from inputs *and* targets.
#
# And why shuffle? A folder comes sorted by class, so without shuffling a batch shows one class, and the last class has
# the last word. **Predict** what a classifier of digits says that saw the nines last.

# %% exercise="batches"

# %% predict="last_batch"

# %% claims=["C152", "C154", "C156"]
sizes = [len(batch) for batch in DataLoader(range(103), batch_size=10)]
lab.last_batch.reveal(guess, f"{len(sizes)}, the last of {sizes[-1]}")

numbers = torch.arange(70)
pairs = TensorDataset(numbers[:, None].float(), numbers)
loader = DataLoader(pairs, batch_size=32, shuffle=True, num_workers=2, generator=torch.Generator().manual_seed(0))
pieces = list(loader)
order = torch.cat([targets for _, targets in pieces])
print("sizes:", [len(targets) for _, targets in pieces], "| each sample once:", order.sort().values.equal(numbers))
print("shuffled:", not order.equal(numbers), "| inputs and targets together:", all(x[:, 0].equal(y) for x, y in pieces))


def samples_seen(count, **settings):
    """Return how many samples an epoch of batches of 32 gives."""
    return sum(len(batch) for batch in DataLoader(range(count), 32, **settings))


print("\nseen with drop_last:", {count: samples_seen(count, drop_last=True) for count in (70, 33, 20)})
norm, of_33 = nn.BatchNorm1d(1), DataLoader(torch.randn(33, 1), 32)
print("a last batch of one:", error_of(lambda: [norm(inputs) for inputs in of_33]))


def after_one_epoch(pictures, shuffle):
    """Train a linear classifier of digits for one epoch and return what it says about the pictures."""
    torch.manual_seed(0)
    classifier = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    optimizer = torch.optim.SGD(classifier.parameters(), lr=0.1)
    for inputs, targets in data.loader(pictures, 16, shuffle=shuffle):
        loss = F.cross_entropy(classifier(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return training.predict(classifier, data.loader(pictures, 256))


digits = data.load("digits").train
by_class = digits.select(digits.labels.argsort(stable=True))
in_order, shuffled = (after_one_epoch(by_class, shuffle) for shuffle in (False, True))
nines = (in_order.labels == 9).float().mean().item()
print("\nlabels in the order of a folder:", by_class.labels[:12].tolist())
print("trained in this order: most answers are 9:", nines > 0.5, "| less than 40 % right:", in_order.accuracy < 0.4)
print("trained on the same, shuffled: more than 80 % right:", shuffled.accuracy > 0.8)

# %% [markdown]
# `drop_last=True` belongs to training, and only there: with a layer such as batch normalisation, or where all shapes
# must be equal. In an evaluation it loses samples, and of a data set smaller than a batch nothing is left.
#
# ### Samples that do not fit, and samples that are missing
#
# `collate_fn` takes the list of samples of a batch and returns what the model gets. It is the place for two troubles.
#
# **Ragged samples** are of different length. Fill up the shorter ones, and say how long each really was, or the
# network takes the filling for data.
#
# **Missing samples**: a file is damaged. An error ends the training in the third hour; a picture of zeros teaches
# nonsense in silence. Let `__getitem__` return None, leave it out of the batch, and *count*.

# %% exercise="pad_batch" claims=["C159"]

# %% exercise="keep_whole_samples"

# %% claims=["C158", "C159", "C182"]
sentences = [(torch.ones(3), 0), (torch.ones(5), 1), (torch.ones(2), 0)]
print("torch:", error_of(lambda: list(DataLoader(sentences, batch_size=3))))
padded, targets = next(iter(DataLoader(sentences, batch_size=3, collate_fn=data.pad)))
print(
    f"padded: {tuple(padded.values.shape)}, lengths {padded.lengths.tolist()}, real values {int(padded.mask().sum())}"
)
print(
    "mean of all ones:",
    round(padded.values.mean().item(), 2),
    "| behind the mask:",
    padded.values[padded.mask()].mean().item(),
)

whole = sorted((folder / "cross").iterdir())[0].read_bytes()
(folder / "cross" / "film98_frame0.png").write_bytes(whole[:90])
(folder / "disc" / "film99_frame0.png").write_bytes(b"")
print("\nopened without an error, though cut off:", Image.open(folder / "cross" / "film98_frame0.png").size)
print("pixels:", error_of(Image.open(folder / "cross" / "film98_frame0.png").load))
streamed = data.stream(folder, size=32)["all"]
print(streamed.classes, len(streamed), "files, and none was opened yet")
loader = data.loader(streamed, 64)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    seen = sum(len(targets) for _, targets in loader)
print("samples in an epoch:", seen)
print("warning:", caught[0].message)
data.missing_samples(streamed, loader.missing)

# %% [markdown]
# `Image.open` reads the head of a file and nothing else; the work comes later, and so do the errors. labkit's loader
# says after each epoch what was missing, and `missing_samples` has the names and the reasons.
#
# **Rule:** a sample may be left out, never replaced, and never in silence.
#
# ## 3 · Numbers that a network likes
#
# A pixel is 0 to 255. Subtract the mean and divide by the deviation of each channel: then no input is large, and none
# is always positive. Three things go wrong with this one line: the statistics of somebody else's pictures; those of
# all parts, test included; and those of the *validation* part for validation. There is one right source: the training
# part, for all. Below, the photos as if they were taken at dusk: a third of the light. **Predict** which of the four
# preparations learns fastest.

# %% exercise="channel_statistics" claims=["C170"]

# %% tags=["nbval-ignore-output"] claims=["C170", "C171", "C172", "C173", "C175"]
dim = data.ImageSet(train_part.images // 3, train_part.labels, kinds, "photos at dusk")
pixels, labels = dim.images.float(), dim.labels
mean, deviation = dim.statistics()
imagenet = v2.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
own = v2.Normalize(mean.tolist(), deviation.tolist())
prepared = {
    "raw, 0 to 85": pixels,
    "divided by 255": pixels / 255,
    "numbers of ImageNet": imagenet(pixels / 255),
    "its own numbers": own(pixels / 255),
}
losses, rows = {}, []
for name, inputs in prepared.items():
    torch.manual_seed(0)
    network = nn.Sequential(nn.Flatten(), nn.Linear(3 * 32 * 32, 32), nn.ReLU(), nn.Linear(32, 3))
    optimizer = torch.optim.SGD(network.parameters(), lr=0.02)
    losses[name] = []
    for _ in range(40 if fast else 200):
        loss = F.cross_entropy(network(inputs), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses[name].append(min(loss.item(), 1.5))  # what is higher would leave no room for the others
    red = inputs[:, 0]
    rows.append(
        {"inputs": name, "mean": red.mean().item(), "deviation": red.std().item(), "loss at the end": losses[name][-1]}
    )
display(Table(rows, "The red channel, and what 40 updates make of each"))

red = prepared["its own numbers"][:, 0]
within = (red.abs() < 1).float().mean().item()
print(f"within one deviation: {within:.0%}; of a normal distribution it would be 68 %")
assert own(pixels[:2] / 255).equal(v2.Normalize(mean, deviation)(pixels[:2] / 255))  # lists or tensors, all the same
red_first = torch.tensor([1.0, 0.0, 0.0]).view(3, 1, 1)  # a red pixel, and the same as OpenCV reads it
both = [v2.Normalize((1, 0, 0), (1, 1, 1))(one).flatten().tolist() for one in (red_first, red_first.flip(0))]
print("a red pixel minus red:", both[0], "| the same, in the order blue, green, red:", both[1])
assert losses["raw, 0 to 85"][-1] > 1.5 * losses["its own numbers"][-1]
show.comparison(
    losses, title="The same network, four kinds of numbers", x_label="update", y_label="loss, cut off at 1.5"
)

# %% [markdown]
# Three of the lines end on top of each other, at 1.1. That is the logarithm of 3, the loss of guessing among three
# classes: these networks stand still, each for a reason of its own, and only the fourth learns.
#
# Mean 0 and deviation 1, and no bell: shifting and scaling bends nothing. Divided by 255 is small, but still positive
# everywhere. The numbers of ImageNet belong to ImageNet's pictures, and to weights that were trained on them.
#
# `data.loader(val, …, statistics=train_loader.statistics)` is how labkit says it: one source for all.
#
# ## 4 · Augmentation
#
# A mirrored disc is a disc. So each picture may change a little in each epoch, and the network cannot learn the
# accidents by heart. Each picture in its own way: that is easy for single samples, and where a whole batch is changed
# at once somebody has to think of it.
#
# Look at what you do to a picture before you train on it. The cell below ends with a control: one picture as it is, and
# as the model gets it in eleven epochs. (Where a picture moves away from its edge, the strip that is left is filled
# with its mirror image: with a large shift a second arrow looks in.) At which setting would *you* no longer know the
# class? And some changes are wrong for some data: a mirrored 2 is no 2.
#
# The same changes in the *evaluation*: **predict** whether the score becomes better or worse, and whether it is the
# same each time.

# %% predict="whole_batch_draw"

# %% claims=["C153", "C176", "C177"]
batch = photos.images[:8]
mirror = v2.RandomHorizontalFlip(0.5)
mirrored = []
for seed in range(20):
    torch.manual_seed(seed)
    mirrored.append(sum(not old.equal(new) for old, new in zip(batch, mirror(batch), strict=True)))
print("mirrored of eight, in twenty calls of torchvision:", sorted(set(mirrored)))
loader = data.loader(photos, 8, flip=True, statistics=((0, 0, 0), (1, 1, 1)))
by_labkit = []
for epoch in range(20):
    inputs, _ = next(loader.at(epoch, batch=0))
    by_labkit.append(sum(not old.equal(new) for old, new in zip(batch / 255, inputs, strict=True)))
print("in twenty epochs of labkit's loader:", sorted(set(by_labkit)))
lab.whole_batch_draw.reveal(guess, "all or none" if set(mirrored) == {0, 8} else "about half")

before = [parameter.clone() for parameter in model.parameters()]
scores = {}
for title, augmentation in {"as they are": {}, "changed": {"flip": True, "shift": 6, "cutout": 12}}.items():
    loader = data.loader(val_part, 64, shuffle=True, statistics=statistics, **augmentation)
    scores[title] = [training.evaluate(model, loader).accuracy for _ in range(5)]
print("\nevaluated in five orders, as they are: one and the same number:", len(set(scores["as they are"])) == 1)
print("changed at random: different numbers:", len(set(scores["changed"])) > 1, end=", ")
print("all lower:", max(scores["changed"]) < scores["as they are"][0])
print("the weights are what they were:", all(map(torch.equal, before, model.parameters())))

drawn = data.shapes(20)
display(show.augmented(drawn, index=7, flip=True, shift=4, cutout=10))


def changed(flip, shift, cutout, index):
    """Draw a picture in eleven epochs."""
    return show.augmented(drawn, index=index, flip=flip, shift=shift, cutout=cutout)


control = show.Control(changed, flip=[False, True], shift=[0, 2, 4, 8, 14], cutout=[0, 6, 12, 24], index=range(20))
control.set(flip=True, shift=14, cutout=24, index=9)
control

# %% exercise="flip_batch"

# %% [markdown]
# The order of the validation changed nothing: a sum does not ask for it. (Leave it unshuffled all the same, so that
# answer 100 belongs to picture 100.) Augmented, the validation was lower, and another number each time: a spoilt
# measurement. It is no leak, though: nothing flowed into the weights. So the training loader gets `flip=True, shift=2`,
# and the others only its statistics.
#
# ## 5 · Random numbers that stay where they are
#
# Who draws the random numbers of augmentation? With worker processes this becomes a question, since each worker has a
# *copy* of the data set, with all that is in it. An old fault: the generator is made in `__init__`, *so that it is
# reproducible*.
#
# The data sets of this part stand in a file, for a reason that comes in part 6. `%%writefile` is how a notebook writes
# one.

# %% tags=["nbval-ignore-output"]
# %%writefile "{place}/my_data.py"
"""Data sets for worker processes, which import them from here."""

import os
import random
import time

import torch


class OwnGenerator:
    """Sample i is noise from a generator that was made in __init__."""

    def __init__(self):
        self.draws = random.Random(0)

    def __len__(self):
        return 8

    def __getitem__(self, index):
        return torch.tensor([self.draws.random()]), index


class GlobalGenerator(OwnGenerator):
    """Sample i is noise from the global generators of Python and torch."""

    def __getitem__(self, index):
        return torch.tensor([random.random()]) + torch.rand(1), index


class SeededByIndex(OwnGenerator):
    """Sample i is noise from a generator that begins anew with the number i."""

    def __getitem__(self, index):
        return torch.tensor([random.Random(index).random()]), index


class Slow:
    """Pictures that take two milliseconds each, as from a disk far away."""

    def __len__(self):
        return 2000

    def __getitem__(self, index):
        time.sleep(0.002)
        return torch.ones(3, 32, 32), index % 3


class Broken(Slow):
    """The fourth sample raises an error; the sixth ends its process, as when the memory is full."""

    def __getitem__(self, index):
        if index == 3:
            raise ValueError("film07_frame3.png has two channels")
        if index == 5:
            os._exit(1)
        return torch.zeros(1), index


# %% predict="same_noise"

# %% claims=["C166", "C167"]
sys.path.insert(0, str(place))
import my_data


def noise(loader, epochs=2):
    """Return what eight samples draw in each of two epochs."""
    return [[round(number, 2) for inputs, _ in loader for number in inputs.flatten().tolist()] for _ in range(epochs)]


different = {}
print("a generator made in __init__, samples 0 to 7 in batches of 1")
for workers, persistent in ((0, False), (2, False), (2, True)):
    loader = DataLoader(my_data.OwnGenerator(), 1, num_workers=workers, persistent_workers=persistent)
    epochs = noise(loader)
    different[workers] = len(set(epochs[0]))
    for epoch, numbers in enumerate(epochs):
        print(f"  {workers} workers{', kept' if persistent else '':6} epoch {epoch}: {numbers}")
by_index = {workers: noise(DataLoader(my_data.SeededByIndex(), 2, num_workers=workers)) for workers in (0, 2)}
print("\nseeded by the index: workers change nothing:", by_index[0] == by_index[2], end="; ")
print("the second epoch brings something new:", by_index[0][0] != by_index[0][1])

print("\nkeyed by (seed, epoch, index), by labkit's loader")
by_key = {workers: noise(data.loader(my_data.GlobalGenerator(), 2, num_workers=workers)) for workers in (0, 1, 2)}
print("0, 1 and 2 workers agree:", by_key[0] == by_key[1] == by_key[2])
print("the second epoch differs:", by_key[0][0] != by_key[0][1], "| no two samples agree:", len(set(by_key[0][0])) == 8)
halfway = data.loader(my_data.GlobalGenerator(), 2).at(epoch=1, batch=2)
print("begun in the middle of epoch 1:", noise(halfway, epochs=1)[0] == by_key[0][1][4:])
lab.same_noise.reveal(guess, str(different[2]))

# %% exercise="draw_for" claims=["C167"]

# %% [markdown] tags=["teaching-note"]
# Ask the room: who has a generator in a data set at home? torch seeds its own generator, Python's and NumPy's in each
# worker. A generator of one's own is copied, and nobody seeds it.

# %% [markdown]
# Every worker has the same generator in its copy, so samples of different workers get equal noise, and without kept
# workers every epoch begins with the same copy again. The picture looks random; look at it twice and you know it.
#
# **Rule:** a random number is a *function* of (seed, epoch, index). Then nobody has to remember anything: not how many
# workers there were, not where the run was cut. labkit's loader seeds the global generators so for each sample, and
# [randomness.py](../labkit/randomness.py) is the function.
#
# ## 6 · Workers
#
# `num_workers=2` starts two processes that make the next batches while you compute. How a process starts is a matter
# of the system:
#
# - **fork** (Linux, Python up to 3.13): a copy of this process, which knows everything in it.
# - **spawn** (Windows, macOS) and **forkserver** (Linux from Python 3.14): a new Python. It reads your program from
#   the top, and is sent the data set as bytes that say: *an object of the class X from the module Y*.
#
# Hence two famous errors. A program without `if __name__ == "__main__":` wants to start workers in each worker. And a
# class that was written in a notebook cell is in no module that another Python could import. Below, both for real: a
# program in a file, and the bytes of a data set in another Python. No torch is needed, for both rules are Python's.
# **Predict** the last words of each.
#
# An error in a worker reaches you as a traceback in a traceback, and the line that matters is the last one of
# yours. `data.worker_error` reads it; labkit's loader puts it first. A *death* has no traceback at all: the system
# took the process, mostly for want of memory. And one thing a loader never does, however slow its workers are: it
# leaves no sample out.
#
# Starting takes time, in each epoch anew: `persistent_workers=True` keeps the workers. They also keep their copy of
# the data set, so a change that you make to it in between does not reach them.
#
# And how many workers? No table can tell you. The second cell measures: `data.profile(loader, step)` says how much of a
# step is waiting for data and how much is computing, with several numbers of workers, and what to change. It does not
# move your loader. There are two kinds of data in it: pictures that take two milliseconds of *waiting* each, and
# pictures that lie in memory as one tensor.

# %% claims=["C165", "C183"]
program = """
import multiprocessing
worker = multiprocessing.get_context("spawn").Process(target=print, args=("the worker ran",))
{guard}
    worker.start()
    worker.join()
"""


def output_of(*command, **settings):
    """Run another Python and return what it and its workers wrote, line by line."""
    ended = subprocess.run([sys.executable, *command], capture_output=True, timeout=120, **settings)
    return (ended.stdout + ended.stderr).decode().strip().splitlines()


for guard in ("if True:", 'if __name__ == "__main__":'):
    (place / "program.py").write_text(program.format(guard=guard))
    lines = output_of(place / "program.py")
    print(f"{guard:27} the worker ran: {'the worker ran' in lines}")
    told = [line.strip() for line in lines if "An attempt" in line or "bootstrapping" in line]
    print("   ", *told or ["no error"])


class InACell(Squares):
    """A data set that was written in a notebook cell."""


as_bytes = pickle.dumps(InACell())
print("\nthe bytes name", [name for name in ("__main__", "InACell") if name.encode() in as_bytes])
print("another Python:", output_of("-c", "import pickle, sys; pickle.load(sys.stdin.buffer)", input=as_bytes)[-1][:60])
print("labkit, before it starts one:", error_of(lambda: data.loader(InACell(), 2, num_workers=1, start_method="spawn")))
from_a_file = data.loader(my_data.OwnGenerator(), 4, num_workers=1, start_method="spawn")
print("the way out, a class from a file:", [targets.tolist() for _, targets in from_a_file], "\n")

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # torch warns where there are fewer cores than workers
    crowd = DataLoader(my_data.OwnGenerator(), batch_size=1, num_workers=4)
    print("four workers, eight samples:", sum(len(targets) for _, targets in crowd), "came\n")
try:
    list(DataLoader(my_data.Broken(), sampler=[0, 1, 3], num_workers=1))
except ValueError as error:
    print("torch: a long text:", len(str(error).splitlines()) > 5, "| it begins:", str(error).splitlines()[0])
    print("read:", data.worker_error(error), "\n")
    traceback.clear_frames(error.__traceback__)  # an error keeps what raised it: let go of the loader and its worker
ends = data.loader(my_data.Broken(), 1, sampler=data.subset([0, 5], shuffle=False), num_workers=1)
print("a death:", error_of(lambda: list(ends)))

# %% predict="two_workers"

# %% tags=["nbval-ignore-output"] claims=["C155", "C164", "C178"]
learner = models.build("lenet", (3, 32, 32), 3)
optimizer = torch.optim.SGD(learner.parameters(), lr=0.01)


def step(inputs, targets):
    """Do the computing of a training step."""
    loss = F.cross_entropy(learner(inputs), targets)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from_afar = data.profile(data.loader(my_data.Slow(), 32), step, workers=[0, 1, 2, 4], seconds=0.5)
    in_memory = data.profile(data.loader(photos, 32, flip=True), step, workers=[0, 2], seconds=0.5)
waiting = {row["workers"]: row["waiting"] for row in from_afar.rows}
assert waiting[4] < waiting[0]
by_workers = {}
for workers in (0, 2):
    begun = perf_counter()
    list(DataLoader(pairs, batch_size=32, num_workers=workers))
    by_workers[workers] = perf_counter() - begun
lab.two_workers.reveal(guess, "slower" if by_workers[2] > by_workers[0] else "faster")
display(show.loading_profile(from_afar))
print("in memory:", *in_memory.advice, sep="\n  ")
from_afar

# %% [markdown]
# Where loading and computing run side by side, the slower of the two sets the pace. So look at the share of waiting
# before you buy anything: when that is small, no worker helps.
#
# Behind the workers lies one more stretch, from main memory to the GPU, and two switches are for it. **Pinned** memory
# may not be moved or swapped by the system, so the GPU can fetch it by itself. **`non_blocking=True`** lets the program
# go on while the copy runs. Together they let the next batch travel while this one is computed; neither makes a file
# load faster. In the other direction wait (`torch.accelerator.synchronize()`) before you read what you copied.
#
# The quiz at the end measures what holds on every computer. What the two *save* can only be measured with a GPU: there,
# run `data.profile` on two DataLoaders with and without `pin_memory`, with a `step` that copies the batch first.
# (labkit's loader with `device="cuda"` does both: workers' batches are pinned, and copies are not waited for.)
#
# ## 7 · Which samples, and how often
#
# A sampler says which samples an epoch takes. It is an order, so it excludes `shuffle=True`. labkit's samplers are
# functions (seed, epoch) → indices: `balanced`, `weighted`, `subset`; torch has the `WeightedRandomSampler`.
#
# A clinic has 1,000 pictures, and 10 of them show the illness. A network that always says *healthy* is right in 99 %.
# What a sampler really gives is measured by `data.sampled_shares`.

# %% exercise="balancing_weights" claims=["C193", "C195"]

# %% predict="never_seen"

# %% claims=["C192", "C193", "C194", "C195"]
ill = (torch.arange(1000) < 10).long()
sizes = torch.bincount(ill)
names = ("healthy", "ill")
by_size = (1 / sizes)[ill]
display(data.sampled_shares(data.weighted(by_size), ill, names, epochs=20))
display(data.sampled_shares(data.balanced(ill), ill, names, epochs=20))
display(data.sampled_shares(data.weighted((42.0 * ill).clamp(min=1)), ill, names, epochs=20))

shuffled = torch.cat([torch.randperm(1000, generator=torch.Generator().manual_seed(epoch)) for epoch in range(10)])
found = ill[shuffled].view(10, 1000).sum(1)
empty = sum(int(ill[part].sum() == 0) for epoch in shuffled.view(10, 1000) for part in epoch.split(32))
print("shuffled, the ill in each of ten epochs:", found.tolist(), "| batches of 32 without any:", f"{empty / 320:.0%}")
rare = (torch.arange(1000) < 100).long()
sampler, never = data.weighted((1 / torch.bincount(rare))[rare]), 0
for epoch in range(20):
    never += (1 - (sampler(0, epoch).unique() >= 100).sum().item() / 900) / 20
print(f"of 900 samples of the frequent class, not drawn in an epoch: {never:.1%} in the mean")
shares = {"none": 0, "about 10 %": 0.1, "about 57 %": 0.57, "about 90 %": 0.9}
lab.never_seen.reveal(guess, min(shares, key=lambda share: abs(shares[share] - never)))
print("both:", error_of(lambda: DataLoader(range(4), shuffle=True, sampler=range(4))))

# %% [markdown]
# Every epoch of a shuffled loader has every sample, though most batches have no ill one. Balanced, each class is half
# of what the network sees, and the same ten pictures come fifty times an epoch: an augmentation, and a validation on
# the *natural* shares, belong to it. Weights of 42 to 1 make it 30 %.
#
# ## 8 · The same picture twice
#
# Back to the question: 99 % in the notebook, little more than half on another day. What does a validation picture have
# in common with the training pictures?
#
# The first suspicion is cheap to check: equal pictures in both parts. A *hash* is a short number of all bytes; equal
# pictures have equal hashes, and a set of hashes finds them without comparing each with each. `data.duplicates` does
# it, and looks for pictures that differ in brightness only, or are mirrored.
#
# But a hash cannot know that several frames show *one thing*; the name of the file does. With a random split five
# frames of a disc are learned by heart, and the sixth is asked. The remedy is to split by **group**: whole films (or
# patients, cameras, writers, days) on one side. **Predict** what the network is worth on films it has never seen.

# %% exercise="split_groups"

# %% exercise="shared_pictures"

# %% tags=["nbval-ignore-output"]
count = len(photos)
merged = photos.select(torch.cat([torch.arange(count), torch.arange(0, count, 9)]))  # two downloads, put together
print("two downloads, merged:", data.duplicates(*merged.split(0.2)).caption)
print("the photos:", data.duplicates(train_part, val_part).caption)

names = [streamed.name(index) for index in range(len(streamed)) if not streamed.why_missing(index)]
print("what the names say:", names[100:103])
films = [name.rpartition("_")[0] for name in names]
rest, held_out = data.split_by_group(photos, films, 0.2)
the_first = on_new_pictures
model, statistics = train(rest)
honest, on_new_pictures = (accuracy(model, statistics, part) for part in (held_out, another_day))
display(
    Table(
        [
            {"split by": "frame", "validation": f"{in_the_notebook:.0%}", "another day": f"{the_first:.0%}"},
            {"split by": "film", "validation": f"{honest:.0%}", "another day": f"{on_new_pictures:.0%}"},
        ],
        "Two networks, each trained on four fifths of the photos",
    )
)
assert honest < in_the_notebook - 0.2
first = torch.arange(count) < 0.8 * count
data.class_balance(cut_train=photos.select(first), cut_val=photos.select(~first), film_train=rest, film_val=held_out)

# %% [markdown]
# There it is. No frame equals another, since the hand moved and the sensor is noisy; so the hash found nothing, and
# the search for other light only those few whose hand was still. The number in the notebook was about the camera's
# noise. The new one is rough, since few films were held out, but it tells what the other day will say. The second
# network is no better than the first; only now can you see what helps: more *things*, not more frames.
#
# The last table has the other classic beside it: a sorted folder that was *cut* at four fifths.
#
# **Rule:** before you split, ask what belongs together. After it, look for doubles, and compare the classes.
#
# ## 9 · Bring your own pictures
#
# Put your pictures into a folder for each class, say where it is, and run ten lines. Damaged files are named and left
# out. As an example, the handwritten digits as files.
#
# Too many for the memory? `data.stream(folder, size=64)["all"]` finds them without opening one, and the loader reads
# them when a batch asks for them, `num_workers` at a time. Several pictures of one thing? Then
# `data.split_by_group(pictures, groups, 0.2)` in place of `data.load`, as above.

# %% tags=["nbval-ignore-output"]
folder = place / "digits"
for number, (picture, label) in enumerate(data.digits()):
    (folder / str(label)).mkdir(parents=True, exist_ok=True)
    Image.fromarray(picture[0].numpy()).save(folder / str(label) / f"{number}.png")

# From here on it is ten lines, with your own folder in place of this one.
splits = data.load(folder)
config = training.Config(epochs=4 if fast else 12, device="cpu", run_dir="")
train_loader = data.loader(splits.train, 32, shuffle=True, shift=1)
val_loader = data.loader(splits.val, 256, statistics=train_loader.statistics)
model = models.build("lenet", splits.train.image_shape, len(train_loader.classes))
run = training.fit(model, train_loader, val_loader, config)
test_loader = data.loader(splits.test, 256, statistics=train_loader.statistics)
answers = training.predict(model, test_loader)
print(f"right on the test part: {answers.accuracy:.1%}")
assert answers.accuracy > 0.7
show.mistakes(splits.test, answers)

# %% [markdown]
# ## 10 · What goes wrong here
#
# Nine errors, on purpose. **Predict** the reason of each from its text before you read on.

# %% claims=["C158", "C187"]
classifier = nn.Sequential(nn.Conv2d(3, 4, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3))
picture, label = photos[0]


def first_loss(samples, **settings):
    """Make one batch and compute its loss."""
    inputs, targets = next(iter(DataLoader(samples, **settings)))
    return F.cross_entropy(classifier(inputs), targets)


print("1", error_of(lambda: first_loss([(picture / 255, 0), None], batch_size=2)), "\n")
print("2", error_of(lambda: first_loss([(picture, 0)])), "\n")
print("3", error_of(lambda: first_loss([((picture / 255).permute(1, 2, 0), 0)])), "\n")
print("4", error_of(lambda: first_loss([(picture / 255, "disc")])), "\n")
print("5", error_of(lambda: first_loss([(picture / 255, 3)])), "\n")
print("6", error_of(lambda: first_loss([(Image.new("RGB", (32, 32)), 0)])), "\n")
print("7", error_of(lambda: data.loader(val_part, 32, sampler=data.balanced(train_part.labels))), "\n")
print("8", error_of(lambda: data.loader([(torch.zeros(1), 0)] * 20, 32, drop_last=True)), "\n")
print("9", error_of(lambda: torch.ones(2, device="meta").pin_memory()))

# %% [markdown]
# 1. A sample is None, and torch's collate knows no None. A `collate_fn` leaves it out, and counts.
# 2. Pixels are uint8, weights are float: `picture / 255`, or normalise.
# 3. The channels came last, as PIL and NumPy have them: `.permute(2, 0, 1)`.
# 4. The label is a word. Number the classes, once, in sorted order, and keep the names for people.
# 5. Labels run from 0 to K - 1; this one counts from 1. On a GPU the same mistake is a far darker error.
# 6. A picture that is no tensor yet: `v2.ToImage()`, then `v2.ToDtype(torch.float32, scale=True)`, in the data set.
# 7. A sampler made from the labels of another part. It would ask for pictures that are not there.
# 8. Fewer samples than a batch, and the last batch is dropped: nothing is left. In torch this trains in silence.
# 9. Pinning is about pages of main memory, and this tensor lies elsewhere: pin first, then copy.
#
# ## 11 · You will read that … is it so?
#
# Sentences from tutorials. Choose for each: true, false, or it depends. *Measure it* runs the evidence on your
# computer.

# %% claims=["C161", "C162", "C168", "C169", "C174", "C180", "C184", "C185", "C188", "C189", "C190", "C191", "C196"]
show.quiz("C161", "C162", "C168", "C169", "C174", "C180", "C184", "C185", "C188", "C189", "C190", "C191", "C196")

# %% [markdown]
# ## Take away
#
# - Two contracts: `data[i]` with a length, or `for sample in data`. Small data in memory need neither: index a tensor.
# - Shuffle for training, keep the order for evaluation, and drop no last batch there.
# - A missing sample is left out, counted and named; ragged ones are padded *with* their lengths.
# - Statistics come from the training part, for all parts. Augmentation is for training alone.
# - A random number is a function of (seed, epoch, index). No generator lives in a data set.
# - Workers: the `__main__` guard always, classes in files. How many? `data.profile(loader, step)`.
# - What a sampler gives is counted, not believed; validate on natural shares.
# - Before a split: what belongs together? After it: which pictures are in both?
#
# To read: [labkit/data/loading.py](../labkit/data/loading.py), a loader that can begin at any batch, then
# [batches.py](../labkit/data/batches.py) and [randomness.py](../labkit/randomness.py), where every draw is a function.
