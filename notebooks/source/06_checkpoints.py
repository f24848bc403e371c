# %% [markdown]
# # 06 · Checkpoints
#
# **The question.** A training is cut: by a power failure, a full disk, somebody who needs the machine. How can it go on
# as if nothing had happened? And when it has ended: would the same program give the same result again?
#
# It sounds like one line, `torch.save(model.state_dict(), path)`. In this chapter you kill a training for real, go on,
# and compare with one that was never cut, down to the last bit. You will see what that line forgets, what a
# half-written file is worth, what a file can do to your computer, and what a seed does not fix.
#
# As before: predict before you run, answer in the cells with `...`, ask for a `hint()`. About two and a half hours.
#
# ## 1 · What has to be saved?
#
# Below is a training as people write it: a network with dropout, AdamW, a rate that falls along a cosine, and a loader
# that shuffles. It is cut after three of six epochs. Then another program goes on in its place, and gets back
#
# - the weights alone; then
# - the state of the optimizer, too; then
# - the state of the schedule, too; then
# - the state of torch's random numbers, too.
#
# You will read that *model, optimizer and epoch* are what a checkpoint needs, that *the optimizer's state includes that
# of the schedule*, and that *SGD has a state as Adam has*. Is it so?

# %% tags=["parameters"]
fast: bool = True  # True: short runs that show each effect; False: longer ones

# %% claims=["C285"]
# %load_ext labkit

import contextlib
import copy
import hashlib
import importlib
import io
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.optim import lr_scheduler
from torch.utils.data import DataLoader, TensorDataset

from labkit import data, exercises, models, randomness, show, training
from labkit.course import parameters
from labkit.errors import error_of
from labkit.runs import checkpoint, listing, reading, reproduction
from labkit.training.weights import load_weights, unwrapped

chosen = parameters(globals())
lab = exercises.load("06_checkpoints")
torch.set_num_threads(1)  # as many in every run: the number of threads can change last digits
temporary = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
folder = Path(temporary.name)  # all files of this chapter; it goes when the kernel ends

digits = data.load("digits")
train_loader = data.loader(digits.train, 64, shuffle=True, shift=1)
val_loader = data.loader(digits.val, 512, statistics=train_loader.statistics)
everything = next(data.loader(digits.train, len(digits.train)).at(epoch=0, batch=0))
batches = DataLoader(TensorDataset(*everything), batch_size=64, shuffle=True)
epochs = 6 if fast else 20


class Session:
    """A training and all that belongs to it."""

    def __init__(self):
        self.model = models.build("mlp", digits.train.image_shape, 10, dropout=0.3)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=3e-3)
        self.schedule = lr_scheduler.CosineAnnealingLR(self.optimizer, T_max=epochs * len(batches))

    def train(self, count):
        """Train for some epochs and return all weights in one row."""
        for _ in range(count):
            for inputs, targets in batches:
                loss = F.cross_entropy(self.model(inputs), targets)
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                self.schedule.step()
        return nn.utils.parameters_to_vector(self.model.parameters()).detach()


def file_with(content):
    """Return the file that `torch.save` makes, in memory, ready to be read."""
    file = io.BytesIO()
    torch.save(content, file)
    file.seek(0)
    return file


session = Session()
count = models.parameter_count(session.model)
print(f"{len(digits.train)} pictures, {len(batches)} batches of {batches.batch_size}, {count:,} parameters")
print(f"{type(session.optimizer).__name__}, rate {session.optimizer.param_groups[0]['lr']}, {epochs} epochs")

# %% predict="first_exact"

# %% tags=["nbval-ignore-output"] claims=["C269", "C270", "C271"]
torch.manual_seed(0)
session.train(epochs // 2)
members = {"weights": "model", "optimizer": "optimizer", "schedule": "schedule"}
file = file_with({part: getattr(session, member).state_dict() for part, member in members.items()})
random_numbers = torch.get_rng_state()
uncut = session.train(epochs - epochs // 2)

differences = {}
for number, part in enumerate([*members, "random numbers"], start=1):
    torch.manual_seed(number)  # another program, whose random numbers stand somewhere else
    resumed = Session()
    file.seek(0)
    saved = torch.load(file, weights_only=True)
    for name, member in list(members.items())[:number]:
        getattr(resumed, member).load_state_dict(saved[name])
    if part == "random numbers":
        torch.set_rng_state(random_numbers)
    differences[part] = (resumed.train(epochs - epochs // 2) - uncut).abs().max().item()

first_exact = next(part for part, difference in differences.items() if difference == 0)
lab.first_exact.reveal(guess, first_exact)
assert differences["weights"] > differences["schedule"] > differences["random numbers"] == 0
print("steps of the schedule in the optimizer's state:", "last_epoch" in str(session.optimizer.state_dict()))
for momentum in (0.0, 0.9):
    weight = nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([weight], lr=0.1, momentum=momentum)
    weight.sum().backward()
    optimizer.step()
    print(f"SGD, momentum={momentum}: its state is {optimizer.state_dict()['state'] or 'empty'}")
show.resume_ladder(differences)

# %% tags=["nbval-ignore-output"]
control = show.resuming()
control.set(optimizer="plain sgd", schedule="constant")
control

# %% exercise="full_state" claims=["C269", "C270"]

# %% [markdown]
# The last bar is no bar: not *nearly* the same, the same. The control above is a smaller training; move it. **Predict**
# before you do: for which settings do the weights alone suffice? When does the schedule not matter, and when not even
# the random numbers?
#
# **Rule:** whatever the next update reads has to be in the file. The weights, of course; the optimizer's memory (plain
# SGD has none, save it all the same); the step of the schedule (the optimizer knows the rate of this moment, and not
# how the course goes on); every generator from which something is drawn. Also the gradient scaler's scale, the best
# loss so far, and how long patience has waited: `labkit.training.state` has the list.
#
# ### In the middle of an epoch
#
# This cut fell between two epochs, since that is where most programs save. An epoch of real data takes hours, so one
# wants to save within. Then the *position* belongs in the file, too, and the order of the samples has to be known
# again. A loader that draws its order from torch's numbers can only repeat the epoch and throw away what was done.
#
# `labkit` computes the order of an epoch from (seed, epoch). So it can begin anywhere: `loader.at(epoch, batch)`.

# %% exercise="batches_to_go"

# %% [markdown]
# ## 2 · A view is no copy
#
# Before anything goes to a file: what *is* a state? You will read that it is *a dictionary of the learnable parameters,
# a snapshot of this moment*. Is it so? Here a state is kept in epoch 2, as programs do with their best one.

# %% predict="best_kept"

# %% claims=["C264", "C265"]
torch.manual_seed(0)
session = Session()
weights_of = {}
for epoch in range(1, 7):
    weights_of[epoch] = session.train(1).clone()
    if epoch == 2:
        best = session.model.state_dict()
        copied = copy.deepcopy(best)
        momentum = session.optimizer.state_dict()["state"][0]["exp_avg"]
        momentum_then = momentum.clone()


def epoch_of(state):
    """Return the epoch whose weights these are."""
    row = torch.cat([state[name].flatten() for name, _ in session.model.named_parameters()])
    return next(epoch for epoch, weights in weights_of.items() if torch.equal(row, weights))


print("best holds the weights of epoch", epoch_of(best))
print("dict(best) as well: epoch", epoch_of(dict(best)))
print("a deep copy: epoch", epoch_of(copied))
print("the optimizer's state is as it was:", torch.equal(momentum, momentum_then))
norm = nn.BatchNorm1d(4)
print("learned:", [name for name, _ in norm.named_parameters()])
print("in the state besides:", [name for name in norm.state_dict() if name not in dict(norm.named_parameters())])
lab.best_kept.reveal(guess, f"epoch {epoch_of(best)}")

# %% [markdown]
# **Rule:** `state_dict()` shows the living numbers, parameters *and* buffers. `torch.save` freezes them in a file,
# `copy.deepcopy` in memory. Its names come from your code, and so do the meanings: note the versions beside it.
#
# There is a second trap on the way back. `model.load_state_dict` copies numbers into the model. The optimizer's takes
# the very tensors that you give it, and goes on writing into them.

# %% exercise="Rewind" claims=["C265"]

# %% [markdown]
# ## 3 · Half a file
#
# Now the state goes to a file, over that of the epoch before. Writing takes time, and a kill does not wait. The cell
# starts a second Python that writes as `torch.save(state, path)` does, and kills it when half is written. It is a real
# kill, which no `except` and no `finally` in that program sees.

# %% predict="killed_writing"

# %%
(folder / "writer.py").write_text(
    """
import sys

source, target = sys.argv[1:]
with open(source, "rb") as file:
    content = file.read()
with open(target, "wb") as file:
    file.write(content[: len(content) // 2])
    file.flush()
    print("half is written", flush=True)
    sys.stdin.read()  # waits for what will never come
    file.write(content[len(content) // 2 :])
""",
    encoding="utf-8",
)
path, new = folder / "overwritten.pt", folder / "new.pt"
for epoch, file in ((1, path), (2, new)):
    torch.save({"epoch": epoch, "model": session.model.state_dict(), "optimizer": session.optimizer.state_dict()}, file)
print("before:", f"epoch {torch.load(path, weights_only=True)['epoch']}")

command = [sys.executable, folder / "writer.py", new, path]
with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writer:
    print("writer:", writer.stdout.readline().strip())
    writer.kill()  # SIGKILL; on Windows TerminateProcess
print("ended by itself:", writer.returncode == 0)

error = error_of(lambda: torch.load(path, weights_only=True))
print("after: ", error[:93], "…")
lab.killed_writing.reveal(guess, "nothing" if error != "no error" else "the old state")

# %% exercise="save_atomically"

# %% [markdown]
# **Rule:** never write over what you would miss. Write beside it, force it to the disk, then rename: whoever looks
# finds the old file or the new one.
#
# A whole file can still be a wrong one: disks flip bits, copies are cut off, and `torch.load` does not notice every
# change in the numbers. So `labkit` writes the SHA-256 of the bytes behind them, and keeps the checkpoint before. The
# cell below saves twice and then damages the newer file in three ways. **Predict:** does `torch.load` notice them, and
# from which epoch does `labkit` go on?


# %%
def said_by(action):
    """Run something; return what it prints, or its error, without the path of this computer."""
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        error = error_of(action)
    text = printed.getvalue().strip() if error == "no error" else error
    return text.replace(str(folder), "…").replace(os.sep, "/")


last = folder / "last.pt"
for epoch in (1, 2):
    checkpoint.save(last, {"epoch": epoch, "model": session.model.state_dict()})
print(sorted(file.name for file in folder.glob("last*")))
whole = last.read_bytes()
content, _, checksum = whole.rpartition(b"\nlabkit-sha256:")
print("behind the bytes stands their SHA-256:", hashlib.sha256(content).hexdigest().encode() == checksum)
middle = len(whole) // 2
damages = {
    "a bit flipped": whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :],
    "cut off": whole[:middle],
    "empty": b"",
}
for name, content in damages.items():
    last.write_bytes(content)
    noticed = error_of(lambda: torch.load(last, weights_only=True)) != "no error"
    print(f"\n{name}: noticed by torch.load: {noticed}\n{said_by(lambda: checkpoint.load(last))}")
checkpoint.previous(last).write_bytes(b"")
print("\nboth damaged:", said_by(lambda: checkpoint.load(last)))

# %% exercise="newest_intact"

# %% [markdown]
# ## 4 · A training that is killed
#
# Everything together. The script below is a real training, with dropout, augmentation and an average of the weights. It
# saves every five updates, and is killed after some sixty, wherever it happens to be. It starts under
# `if __name__ == "__main__"`: on Windows and macOS each process that it might start reads the file anew.
#
# Then *this* notebook goes on where it was, in another process with other random numbers, and compares with a run that
# nobody cut. **Predict:** how many weights will differ? How many epochs of the history?

# %%
(folder / "killed.py").write_text(
    """
import sys
import time

import torch

from labkit import data, models, training


def tell(training, outcome, stop):
    print("update", training.updates, file=sys.stderr, flush=True)
    time.sleep(0.02)  # leaves time for a kill


def main(folder):
    torch.set_num_threads(1)
    digits = data.load("digits")
    train_loader = data.loader(digits.train, 64, shuffle=True, shift=1)
    val_loader = data.loader(digits.val, 512, statistics=train_loader.statistics)
    model = models.build("mlp", digits.train.image_shape, 10, dropout=0.3)
    config = training.Config(
        model="mlp", batch_size=64, epochs=8, average=0.99, save_every=5, device="cpu", run_dir=folder, name="killed"
    )
    training.fit(model, train_loader, val_loader, config, watch=tell)


if __name__ == "__main__":
    main(sys.argv[1])
""",
    encoding="utf-8",
)
surroundings = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}  # the child finds what this notebook finds
command = [sys.executable, folder / "killed.py", folder]
pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
with subprocess.Popen(command, env=surroundings, **pipes) as child:
    told = []
    for line in child.stderr:
        told.append(line)
        if line == "update 60\n":
            break
    child.kill()
assert told[-1] == "update 60\n", "".join(told)
print("ended by itself:", child.returncode == 0)

saved = checkpoint.load(folder / "killed" / "last.pt")
config = training.Config.from_parameters(saved["config"])
print("what is in the checkpoint:", ", ".join(saved))
print("all of the run is done:", saved["position"]["updates"] == config.epochs * len(train_loader))

with contextlib.redirect_stdout(io.StringIO()):  # the tables of both runs
    model = models.build("mlp", digits.train.image_shape, 10, dropout=0.3)
    torch.manual_seed(123)  # whatever happened in this process before
    training.resume(model, train_loader, val_loader, folder / "killed")
    model = models.build("mlp", digits.train.image_shape, 10, dropout=0.3)
    training.fit(model, train_loader, val_loader, config.replace(name="uncut"))
outcome = reproduction.compare_runs(folder / "uncut", folder / "killed")
print("\n".join(str(outcome).splitlines()[:2]))
assert outcome.is_equal

# %% [markdown]
# The run in the middle of an epoch, in another process, with an average and with augmentation: the same bits. Nothing
# there is magic, it is the list of part 1, with the position, in a file that is always whole. Read
# [labkit/runs/checkpoint.py](../labkit/runs/checkpoint.py) now: under a hundred lines, of which you have written the
# heart.
#
# On a GPU the same list gets you nearly there; the last bits depend on the kernels (part 8).
#
# ## 5 · What a file can do
#
# A checkpoint comes from a colleague, or from the net. `torch.load` unpickles it, and unpickling means: calling the
# functions that the file names. The one below names `print`, so it does no harm. It could name any other.
#
# You will read: *save the model itself, that is shortest*; *such a file may be ten times as large*; *default
# `torch.load` reads any checkpoint*. **Predict** which of the seven files below load with `weights_only=True`, which is
# the default.


# %% claims=["C261", "C262", "C263", "C272"]
class Note:
    """Something whose file asks for a function to be called."""

    def __reduce__(self):
        return print, ("This line was printed by the file.",)


print("weights_only=False:", end=" ")
torch.load(file_with({"weights": torch.ones(2), "note": Note()}), weights_only=False)

layer = nn.Linear(8, 8)
files = {
    "weights": layer.state_dict(),
    "optimizer": torch.optim.AdamW(layer.parameters()).state_dict(),
    "Python's numbers and text": {"loss": 0.5, "epoch": 3, "name": "first"},
    "random numbers of torch and Python": {"torch": torch.get_rng_state(), "python": random.getstate()},
    "a NumPy number": {"loss": np.float64(0.5)},
    "the model itself": layer,
    "the note": Note(),
}
for name, content in files.items():
    file = file_with(content)
    refused = error_of(lambda file=file: torch.load(file, weights_only=True))
    file.seek(0)
    asks_for = ", ".join(sorted(torch.serialization.get_unsafe_globals_in_checkpoint(file))[-2:])
    print(f"{name:35} {'loads' if refused == 'no error' else 'refused, asks for ' + asks_for}")

# A model whose class lives in a module of its own, which is then renamed.
(folder / "layers_of_today.py").write_text(
    "import torch\n\n\nclass Net(torch.nn.Linear):\n    cache = None\n", encoding="utf-8"
)
sys.path.insert(0, str(folder))
net = importlib.import_module("layers_of_today").Net(8, 8)
whole, weights = file_with(net), file_with(net.state_dict())
del sys.modules["layers_of_today"]
sys.path.remove(str(folder))
print("\nthe module is gone:", error_of(lambda: torch.load(whole, weights_only=False)))
print("its weights load:", list(torch.load(weights, weights_only=True)))
net.cache = torch.zeros(100_000)
larger = len(file_with(net.state_dict()).getvalue()) == len(weights.getvalue())
print("with a cache on the model: file of the weights as large as before:", larger)

# %% exercise="plain" claims=["C272"]

# %% [markdown]
# **Rule:** save plain data, load with `weights_only=True`, and write that down even where it is the default.
# `float(loss)` before it goes into a history. A file of the model itself holds the *path* of its class and every
# attribute, is refused by default, and breaks at the first renaming.
#
# ## 6 · Names and shapes
#
# The file is whole and harmless, and does not fit: the code has changed since. You will read: *with missing keys, first
# compare shapes*; *`strict=False` skips layers in silence*; *it skips tensors of a wrong size, and the crash comes
# later*. Is it so?

# %% predict="wrong_shape"


# %% claims=["C266", "C267", "C268", "C278", "C279", "C280"]
def whole_error_of(action):
    """Return the error with all of its lines, in one."""
    try:
        action()
    except Exception as error:
        return f"{type(error).__name__}: {' '.join(str(error).split())}"
    return "no error"


old = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Dropout(0.5), nn.Linear(32, 10))
state = torch.load(file_with(old.state_dict()), map_location="cpu", weights_only=True)
again = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Dropout(0.5), nn.Linear(32, 10))
again.load_state_dict(state)
picture = torch.ones(1, 64)
same = [torch.equal(again.train(mode)(picture), old.eval()(picture)) for mode in (False, True)]
print(f"the same answers in evaluation mode: {same[0]}; in training mode: {same[1]}")

renamed = {name.replace("0.", "first."): value for name, value in state.items()}
fewer = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Dropout(0.5), nn.Linear(32, 3))
print("\na renamed layer:", whole_error_of(lambda: old.load_state_dict(renamed)))
print("another size:   ", whole_error_of(lambda: fewer.load_state_dict(state)))
loosely = error_of(lambda: fewer.load_state_dict(state, strict=False))
print("not strict:     ", loosely)
lab.wrong_shape.reveal(guess, "an error at once" if "size mismatch" in loosely else "it skips that layer")
result = again.load_state_dict(renamed, strict=False)
print("renamed, not strict: no error; missing", result.missing_keys, "unexpected", result.unexpected_keys)

compiled, parallel = torch.compile(old, backend="eager"), nn.DataParallel(old)
for name, one in {"\ncompiled": compiled, "parallel": parallel, "unwrapped": unwrapped(parallel)}.items():
    print(f"{name}: {list(one.state_dict())}")
print("labkit:", error_of(lambda: load_weights(fewer, state, Path("runs/old"))))

# %% exercise="strip_prefix" claims=["C267"]

# %% exercise="load_matching" claims=["C280"]

# %% [markdown]
# **Rule:** *missing* and *unexpected* are about names, *size mismatch* is about shapes: compare what the message speaks
# of. `strict=False` tells what it skipped in what it *returns*; look at it, and count how many numbers were loaded.
# Better: save `unwrapped(model).state_dict()`, and no prefix ever gets in.
#
# ## 7 · Another machine, other data
#
# You will read that a file from a GPU *cannot be read without one*; that *by default everything lands on the CPU*, and
# then *clashes with a model on the GPU*. The cell makes a file that says of its tensors that they lay on a GPU (only
# the numbers are missing, so it needs none), and loads it here. The devices `meta` and a fake `cuda` stand for other
# machines.
#
# Then it asks `labkit` to go on with the run of part 4, each time with something changed. **Predict** which of the four
# it refuses. Would your own program notice?

# %% claims=["C273", "C274", "C275", "C276", "C277"]
from_gpu = io.BytesIO()
with FakeTensorMode(), torch.serialization.skip_data(materialize_fake_tensors=True):
    torch.save(nn.Linear(2, 2, device="cuda:0").state_dict(), from_gpu)  # nothing about devices when saving


def lands_on(file, **options):
    """Return the device on which the weight of a file lands, or the error."""
    file.seek(0)
    loaded = {}
    error = error_of(lambda: loaded.update(torch.load(file, weights_only=True, **options)))
    return loaded["weight"].device.type if loaded else error[:103] + " …"


from_cpu = file_with(nn.Linear(2, 2).state_dict())
print("from the CPU, plain load:        ", lands_on(from_cpu))
print('from a GPU, map_location="cpu":  ', lands_on(from_gpu, map_location="cpu"))
print('from a GPU, map_location="meta": ', lands_on(from_gpu, map_location=torch.device("meta")))
if not torch.cuda.is_available():
    print("from a GPU, plain load:", lands_on(from_gpu))
from_gpu.seek(0)
nn.Linear(2, 2).load_state_dict(torch.load(from_gpu, map_location="cpu", weights_only=True))
with FakeTensorMode():
    on_gpu = nn.Linear(2, 2, device="cuda")
    on_gpu.load_state_dict({"weight": torch.ones(2, 2), "bias": torch.ones(2)})  # tensors on the CPU
    print("CPU numbers into a model on CUDA: no clash; it stays on", on_gpu.weight.device.type)
    print("a CUDA tensor after .to('cpu'):", torch.ones(2, device="cuda").to("cpu").device)

fewer_pictures = data.loader(digits.train.select(torch.arange(1000)), 64, shuffle=True)
swapped = digits.train.select(torch.arange(len(digits.train)).flip(0))
other_order = data.loader(swapped, 64, shuffle=True, shift=1)
other_model = models.build("lenet", digits.train.image_shape, 10)


def going_on(model=model, loader=train_loader):
    """Return what labkit says when the run is to go on with these."""
    return said_by(lambda: training.resume(model, loader, val_loader, folder / "uncut"))


print("\nfewer pictures: ", going_on(loader=fewer_pictures))
print("\nanother order:  ", going_on(loader=other_order))
print("\nanother network:", going_on(model=other_model))
record = folder / "uncut" / "run.json"
text = record.read_text(encoding="utf-8")
record.write_text(text.replace('"learning_rate": 0.004', '"learning_rate": 0.1'), encoding="utf-8")
said = going_on()
record.write_text(text, encoding="utf-8")
print("\nanother setting:", said)

# %% exercise="fingerprint"

# %% [markdown]
# A file notes where each tensor lay, and a plain load asks for that place: a file of the CPU lands on the CPU, one of a
# GPU wants its GPU. There is no other default, and no clash.
#
# **Rule:** save without a thought of devices, load with `map_location="cpu"` and let `load_state_dict` bring the
# numbers to where the model is. And let a resume *refuse*: a run that goes on with other data or settings is neither
# the old one nor a new one, and its record says something that is not so.
#
# ## 8 · The same again
#
# Now the other half of the question: does the same program give the same result? You will read: *seed `random`, NumPy,
# torch, and CUDA for all devices*; *then weights, shuffling and dropout are stable*; *some optimizers use
# non-deterministic algorithms*. Is it so?

# %% predict="extra_draw"


# %% claims=["C281", "C282", "C283", "C284"]
def program(seed, extra_draws=0, generator=None):
    """Build, shuffle and drop as a training does; return weights, order and dropout."""
    torch.manual_seed(seed)
    weights = nn.Linear(8, 8).weight.detach()
    torch.rand(extra_draws)
    loader = DataLoader(TensorDataset(torch.arange(40)), batch_size=8, shuffle=True, generator=generator)
    order = torch.cat([numbers for (numbers,) in loader])
    return weights, order, F.dropout(torch.ones(64))


def what_is_equal(one, other):
    return [name for name, *pair in zip(("weights", "order", "dropout"), one, other, strict=True) if torch.equal(*pair)]


print("same program:     ", what_is_equal(program(7), program(7)))
print("one draw more:    ", what_is_equal(program(7), program(7, extra_draws=1)))
own = [program(7, draws, torch.Generator().manual_seed(7)) for draws in (0, 1)]
print("loader's own one: ", what_is_equal(*own))
words = {3: "weights, order and dropout", 2: "weights and order", 1: "weights", 0: "nothing"}
lab.extra_draw.reveal(guess, words[len(what_is_equal(program(7), program(7, extra_draws=1)))])

torch.manual_seed(7)
others = random.random(), np.random.rand()
torch.manual_seed(7)
print("\ntorch's seed repeats random and NumPy:", others == (random.random(), np.random.rand()))
repeated = []
for _ in range(2):
    randomness.seed_everything(7)
    repeated.append((random.random(), np.random.rand(), torch.rand(()).item()))
print("labkit.randomness.seed_everything does:", repeated[0] == repeated[1])
print("generators in a checkpoint of labkit:", ", ".join(randomness.rng_state()))

large, one = torch.tensor(1e8), torch.tensor(1.0)
print("\n(1e8 + 1) - 1e8 =", ((large + one) - large).item(), "  (1e8 - 1e8) + 1 =", ((large - large) + one).item())
for kind in (torch.optim.SGD, torch.optim.AdamW):
    ends = []
    for _ in range(2):
        weight = nn.Parameter(torch.ones(100))
        weight.grad = torch.linspace(-1, 1, 100)
        kind([weight], lr=0.1).step()
        ends.append(weight.detach())
    print(f"{kind.__name__:5} from the same gradient, twice the same weights:", torch.equal(*ends))
torch.use_deterministic_algorithms(True)
twice = torch.tensor([0, 0])
print(error_of(lambda: torch.zeros(3).put_(twice, torch.tensor([1.0, 2.0])))[:65], "…")
torch.use_deterministic_algorithms(False)

# %% exercise="generator_for" claims=["C282"]

# %% [markdown]
# **Rule:** a seed fixes what is *drawn*, as long as the same things are drawn in the same order. Give each purpose a
# generator of its own, and no added line shifts another. A `DataLoader` with workers seeds torch, `random` and NumPy in
# each of them, from a number that it draws from *its* generator: so give it one.
#
# What no seed fixes is how sums are *ordered*, and with it last digits: other kernels, another number of threads,
# another version, another processor, and on a GPU even the same program twice. The update of an optimizer is innocent.
# `torch.use_deterministic_algorithms(True)` takes kernels that repeat, and refuses where there is none; on a GPU set
# `CUBLAS_WORKSPACE_CONFIG=:4096:8` and `torch.backends.cudnn.benchmark = False` as well. It costs time. And the CPU and
# a GPU have different generators: the same seed gives other numbers there. `labkit` computes order and augmentation
# from plain numbers, and gets the same on every device.
#
# ## 9 · The record
#
# In three weeks you will ask: which run was that, and with what? `labkit` writes a folder a run: settings, seed, state
# of the code, versions, hardware, a fingerprint of the data, one row an epoch, the result. Two runs below differ in one
# setting; then the first is made once more, from its record alone. **Predict:** what will the table of differences
# show? And will the repetition have the same history, in every digit?
#
# In a terminal, for runs of your own: `labkit runs`, `labkit runs compare A B`, `labkit rerun A`.

# %% tags=["nbval-ignore-output"] claims=["C286"]
first = training.Config(
    model="mlp",
    batch_size=64,
    epochs=3 if fast else 10,
    seed=1,
    device="cpu",
    run_dir=str(folder / "runs"),
    name="first",
)
with contextlib.redirect_stdout(io.StringIO()):
    for config in (first, first.replace(name="faster", learning_rate=0.02)):
        training.project(config)
runs = [reading.read(folder / "runs" / name) for name in ("first", "faster")]
compared = listing.compare(runs)
assert [row["what"] for row in compared.differences.rows] == ["learning_rate"]
compared

# %%
print("written:", ", ".join(sorted({path.name.split(".")[0] for path in (folder / "runs" / "first").iterdir()} - {""})))
facts = runs[0].facts
print("noted:  ", ", ".join(facts))
with contextlib.redirect_stdout(io.StringIO()):
    again = training.rerun_project(folder / "runs" / "first").run
print("made anew:", again.folder.name)
outcome = reproduction.compare_runs(folder / "runs" / "first", again.folder)
print("\n".join(str(outcome).splitlines()[:2]))
other = reproduction.compare_runs(folder / "runs" / "first", folder / "runs" / "faster")
print("first and faster are equal:", other.is_equal)

# %% exercise="differing"

# %% [markdown]
# **Rule:** one change a run, one folder a run, and no number without its record. Bit-equal is the strongest test that a
# change of the code changed nothing: refactor, rerun, compare.
#
# ## 10 · What goes wrong here
#
# Ten real errors, on purpose. **Predict** the reason of each from its text before you read on.

# %% claims=["C267", "C272"]
model, wide = nn.Linear(4, 2), nn.Linear(4, 3)
optimizer = torch.optim.Adam(model.parameters())
state = {"model": model.state_dict(), "epoch": 3}
cut_off = file_with(state).getvalue()[:700]
not_there = folder / "runs" / "nothing"

print(" 1", whole_error_of(lambda: model.load_state_dict(nn.DataParallel(model).state_dict())))
print(" 2", error_of(lambda: wide.load_state_dict(model.state_dict()))[:108], "…")
print(" 3", whole_error_of(lambda: model.load_state_dict(state)))
print(" 4", error_of(lambda: model.load_state_dict("last.pt")))
print(" 5", error_of(lambda: torch.load(io.BytesIO(cut_off), weights_only=True))[:93], "…")
print(" 6", error_of(lambda: torch.load(file_with({"loss": np.float64(0.5)}), weights_only=True))[:43], "…")
print(" 7", error_of(lambda: optimizer.load_state_dict(torch.optim.Adam([model.weight]).state_dict())))
print(" 8", error_of(lambda: torch.set_rng_state(torch.get_rng_state().float())))
print(" 9", said_by(lambda: training.resume(model, train_loader, val_loader, not_there)))
print("10", said_by(lambda: training.project(first)))

# %% [markdown]
# 1. The state of a parallel model has `module.` in front of its names: save `unwrapped(model)`, or strip them (part 6).
# 2. The last layer is for another number of classes. Load what fits, and report it.
# 3. That is the whole checkpoint: `state["model"]` is what the model takes.
# 4. That is a path: `torch.load` comes first.
# 5. The file is cut off: a kill, a full disk, a download that broke. The one before it, if you kept it.
# 6. A NumPy number is in there: `float(loss)` before saving (part 5).
# 7. The optimizer was built for other parameters: of a frozen body, of another head, in other groups.
# 8. The states of generators are bytes. They became floats on their way, through `.to(dtype)` for all tensors of a
#    file.
# 9. The folder is not that of a run, or the run was never saved.
# 10. Nothing is overwritten: another name, or go on with that run.
#
# And three faults that raise *nothing*: a best state that is a view (part 2), `strict=False` without a look at what it
# returns (part 6), a resume that draws other random numbers (part 1). For these you compare with a run that was not
# cut.
#
# ## 11 · You will read that … is it so?
#
# Sentences from tutorials. Choose for each: true, false, or it depends. *Measure it* runs the evidence on your
# computer. The last two are about the test with which every training should begin: learning a few samples by heart
# (chapter 00).

# %% claims=["C262", "C264", "C265", "C268", "C269", "C270", "C271", "C273", "C279", "C282", "C283", "C287", "C288"]
show.quiz("C262", "C264", "C265", "C268", "C269", "C270", "C271", "C273", "C279", "C282", "C283", "C287", "C288")

# %% [markdown]
# ## Take away
#
# - In the file: weights, optimizer, schedule, scaler, every generator, the position, the best so far. Then the
#   difference is exactly 0.
# - `state_dict()` is a view. `torch.save` or `copy.deepcopy` makes a copy.
# - Write beside, force to the disk, rename. A checksum, and the file before.
# - Plain data, `weights_only=True`. A file of a model can run code, and breaks with the code.
# - Missing is about names, mismatch is about shapes. Look at what `strict=False` returns.
# - `map_location="cpu"` when loading; nothing when saving.
# - A resume refuses other data and other settings.
# - A seed fixes what is drawn, not how it is summed. A generator for each purpose.
# - A record for each run, and now and then a rerun that is equal bit for bit.
#
# To read: [labkit/runs/checkpoint.py](../labkit/runs/checkpoint.py), [labkit/durable.py](../labkit/durable.py), then
# [labkit/training/state.py](../labkit/training/state.py), all that a run consists of, and
# [labkit/randomness.py](../labkit/randomness.py). Next: chapter 07, when a network does not learn.
