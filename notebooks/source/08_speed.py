# %% [markdown]
# # 08 · Speed
#
# **The question.** It learns, and it takes too long. What makes it faster here, on *your* computer, and what only costs
# time or memory? And how do you know?
#
# There are dozens of recipes: more workers, half precision, `channels_last`, `torch.compile`, fused optimizers. Each of
# them makes some programs faster and others slower. So the first thing to learn is to measure, and the second to read
# where the time goes. Then you try the recipes, one at a time.
#
# Every figure of this chapter is measured when you run it, on your device. Beside it stand *recorded* figures of other
# devices, labelled with device, date and version. Yours will differ from the stored ones; the rules will not.
#
# | part | what it is about | the tool |
# |---|---|---|
# | 1, 2 | measure; read a profile | `speed.compare`, `torch.profiler` |
# | 3, 4 | wait for data less | workers, whole batches |
# | 5 to 8 | compute the same faster | half precision, layout, `torch.compile`, fused |
# | 9 | do not wait for the device | fewer `.item()` |
# | 10, 11 | memory | batch size, checkpointing |
# | 12, 13 | do not do what nobody needs | no graph, threads |
#
# As before: predict before you run, answer in the cells with `...`, ask for a `hint()`. About two and a half hours.

# %% tags=["parameters"]
fast: bool = True  # True: small batches and few rounds; False: figures worth keeping
device: str = "auto"  # what to measure: auto, cpu, cuda, cuda:1 or mps
records: list = []  # files of `labkit record-device` to draw beside your figures, with those of the course

# %%
# %load_ext labkit

import torch
import torch.nn.functional as F
from IPython.display import display
from torch import nn
from torch.utils.data import DataLoader

from labkit import devices, exercises, models, show, speed, trials
from labkit.course import parameters
from labkit.errors import error_of
from labkit.models.memory import kept_for_backward
from labkit.speed.ways_around import Decoded, Deep

chosen = parameters(globals())
lab = exercises.load("08_speed")
where = devices.choose(chosen["device"])
recorded = speed.records(*chosen["records"])
bench = speed.Bench(where, quick=fast)


def beside_recorded(name):
    """Measure under this name on your device; draw it beside what was recorded elsewhere."""
    return show.beside(speed.measure(name, where, quick=fast), name, recorded)


# %% [markdown]
# ## 1 · Measure first
#
# Four things make a measurement lie. The device may work *after* the call has returned: a GPU takes orders and works
# through them by itself. The first calls fetch memory and compile. Single measurements are disturbed by everything else
# that runs. And a machine gets slower for a while, just when the second way is tried.
#
# So: **wait for the device, warm up, repeat and take the median, take turns.** Write the first three yourself. The
# device in this exercise is one that works by itself, as a GPU does, so a clock that does not wait sees only the order.

# %% exercise="median_seconds" claims=["C290"]

# %% [markdown]
# Now two ways. A ratio is worth more than seconds: what slows the machine slows both, *if* both were measured in the
# same round.

# %% exercise="times_as_fast" claims=["C292"]

# %% [markdown]
# `speed.compare` does all of this. Its last column says in how many rounds a way was faster than the first: 5 of 5 is a
# difference, 3 of 5 is none. Here are three ways to add up the same million numbers.

# %% tags=["nbval-ignore-output"] claims=["C292"]
numbers = torch.rand(1000, 1000, device=where)
found = speed.compare(
    {
        "row by row, in Python": lambda: sum(row.sum() for row in numbers),
        "rows, then their sum": lambda: numbers.sum(dim=1).sum(),
        "all at once": lambda: numbers.sum(),
    },
    where,
    rounds=5,
)
found

# %% [markdown]
# ## 2 · Where does the time go?
#
# In chapter 07 you split an update into data, forward, backward and step (`labkit trial profile`). `torch.profiler`
# goes deeper: it notes each *operation*, when it began and ended, and which one called it. `record_function` gives your
# own parts a name. **Predict:** what takes longer, forward or backward? And which operation takes most?

# %% tags=["nbval-ignore-output"]
model, (inputs, targets) = bench.network(), bench.batch()
optimizer = torch.optim.AdamW(model.parameters(), fused=True)


def update():
    """Make one update, its parts with names."""
    with torch.profiler.record_function("forward"):
        loss = F.cross_entropy(model(inputs), targets)
    with torch.profiler.record_function("backward"):
        loss.backward()
    with torch.profiler.record_function("step"):
        optimizer.step()
        optimizer.zero_grad()


profile = speed.profile_operations(update, where)
show.calls(profile)

# %%
print("convolutions in the network:", sum(isinstance(layer, nn.Conv2d) for layer in model.modules()))
print("forward, a call each:       ", int(profile.calls("aten::conv2d")))
print("backward, a call each:      ", int(profile.calls("aten::convolution_backward")))

# %% [markdown]
# Read it from top to bottom: `forward` called `conv2d`, which called `convolution`, and so on down to what computes. So
# the time of `forward` *contains* that of everything below it. To find what is slow, take the time of each operation's
# *own*: without the calls that it made.

# %% exercise="own_seconds"

# %% tags=["nbval-ignore-output"]
profile

# %% [markdown]
# A convolution goes back twice: once for its inputs, once for its weights. So backward costs about two forward passes.
#
# If a few large operations fill the picture, the device computes: parts 5 to 7 are for you. If hundreds of tiny ones
# do, with gaps between, Python cannot give orders fast enough: larger batches, `torch.compile`, fused optimizers. If
# there are gaps before each update, the data are late: parts 3 and 4. And if the profile shows nothing but work, it may
# be *much* work: half the batch should take half the time (chapter 07).
#
# In a program of your own: `profiler.export_chrome_trace("trace.json")`, and open the file in perfetto.dev.
#
# ## 3 · Waiting for data
#
# Move the sliders: a batch takes `load` to make and `compute` to train on. **Predict** for 40 and 20 milliseconds: how
# long does a batch take with no workers, with one, with two, with eight?

# %%
control = show.workers_control()
control.set(load=40.0, compute=20.0, workers=1)
control

# %% exercise="seconds_a_batch" claims=["C289"]

# %% [markdown]
# The same, measured: pictures that are decoded one by one, as from a folder of JPEGs. A bar, hatched where the loop
# waits. The first batches are left out, for which the worker has to start.


# %% tags=["nbval-ignore-output"] claims=["C289"]
def train_on(inputs, targets):
    """Make one update with a batch from the loader."""
    speed.updates(model, (inputs.to(where), targets.to(where)), optimizer=optimizer)()


pictures = Decoded(10 * bench.batch_size, bench.side)
lines = {
    "no workers": speed.timeline(DataLoader(pictures, bench.batch_size), train_on, where, batches=6, skip=2),
    "1 worker": speed.timeline(
        DataLoader(pictures, bench.batch_size, num_workers=1), train_on, where, batches=6, skip=3
    ),
}
show.timelines(lines)

# %% tags=["nbval-ignore-output"]
beside_recorded("workers")

# %% [markdown]
# **Rule:** workers hide loading behind computing, and they help until computing sets the pace: about load ÷ compute of
# them. They need cores of their own. On a machine with two cores, both busy, there is nothing to gain, and each one
# costs memory and seconds to start. `labkit.data.profile(loader, step)` tries several numbers and says what to choose.
#
# ## 4 · Whole batches
#
# Often the better answer is to make loading *cheap*. Pictures that fit in memory need no worker: pick a batch from one
# tensor, and augment it as a whole. Each picture still gets a draw of its own; what disappears is the loop in Python.

# %% exercise="windows"

# %% tags=["nbval-ignore-output"]
beside_recorded("augmentation")

# %% [markdown]
# All three ways give the same pictures, to the last bit. A whole batch at once need not be much faster: picking single
# *pixels* by number reads memory in small pieces. `labkit.data.augment` copies whole *rows*, and that is what makes the
# difference. Few orders, large pieces of memory: it holds for nearly everything in this chapter.
#
# ## 5 · Half precision
#
# float32 has 24 bits of precision and a wide range. bfloat16 keeps the range and has 8 bits; float16 has 11 bits and a
# short range. Half the bytes, and on devices with units for it several times the speed.
#
# `torch.autocast` computes the *layers* in half precision and leaves everything else. You will read `torch.cuda.amp`,
# that a scaler belongs to it, and that memory *drops at once*. Is it so?

# %% [markdown] predict="half_for_one"
# First the memory: layers of 512 × 512, and what they keep for the way back, in a batch of 4096 samples and of one.

# %% claims=["C243", "C244", "C245", "C247"]
for dtype in (torch.float32, torch.bfloat16, torch.float16):
    info = torch.finfo(dtype)
    print(f"{dtype!s:15} largest {info.max:8.1e}   1e-8 becomes {torch.tensor(1e-8).to(dtype).item():.0e}")

layer, samples = nn.Linear(512, 512), torch.randn(256, 512)
with torch.autocast("cpu", dtype=torch.bfloat16):
    outputs = layer(samples)
    loss = F.cross_entropy(outputs, torch.zeros(256, dtype=torch.int64))
print("under autocast: layer", outputs.dtype, " loss", loss.dtype, " weights", layer.weight.dtype)


def kept(batch, half):
    """Return the bytes that two layers keep for the way back."""
    layers = nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 512))
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=half):
        return kept_for_backward(lambda: layers(torch.ones(batch, 512)), layers.parameters())


for batch in (4096, 1):
    print(f"batch of {batch:4}: float32 keeps {kept(batch, False):10,} bytes, bfloat16 {kept(batch, True):10,}")
lab.half_for_one.reveal(guess, "more" if kept(1, True) > kept(1, False) else "less")
print("a float16 gradient of 1e-8, scaled by 65536:", (torch.tensor(1e-8) * 65536).half().item() > 0)

# %% exercise="half_precision_step" claims=["C243", "C245", "C248"]

# %% tags=["nbval-ignore-output"] claims=["C246"]
beside_recorded("precision")

# %% [markdown]
# - The names are `torch.autocast(device_type, dtype=…)` and `torch.amp.GradScaler(device)`; those with `cuda` in them
#   warn.
# - A scaler is for float16, whose smallest number is too large for small gradients. bfloat16 needs none.
# - Activations take about half. Weights, gradients and the optimizer's state stay float32, and with a tiny batch the
#   additional copy of the weights costs *more*.
# - Faster? Only where the device has units for it. Look at the recorded processors that have none: there half precision
#   is done by conversions, and is many times *slower*. "Never slower" is a promise nobody can make.
# - Accuracy hardly suffers, since losses and sums stay float32. Compare once with a run in full precision.
#
# ## 6 · Where the channels lie
#
# A picture in memory is three grey pictures, one after the other; or pixel after pixel, its three numbers side by side.
# Many kernels for convolutions want the second.

# %% [markdown] predict="shape_of_channels_last"
# `channels_last` is a *memory format*. Before you run it: what does it do to the shape?

# %%
x = torch.arange(2 * 3 * 4 * 5).view(2, 3, 4, 5)
last = x.to(memory_format=torch.channels_last)
lab.shape_of_channels_last.reveal(guess, last.shape)
print("strides before:", x.stride(), " after:", last.stride(), " same pixels:", torch.equal(x, last))

convolution = nn.Conv2d(3, 8, 3).to(memory_format=torch.channels_last)
outputs = convolution(last.float())
print("a convolution passes it on:", outputs.is_contiguous(memory_format=torch.channels_last))
print("so does a ReLU:            ", outputs.relu().is_contiguous(memory_format=torch.channels_last))
print("view:   ", error_of(lambda: outputs.view(2, -1)))
print("flatten:", tuple(outputs.flatten(1).shape), "- copies where it must")

# %% tags=["nbval-ignore-output"]
beside_recorded("channels_last")

# %% [markdown]
# **Rule:** `model.to(memory_format=torch.channels_last)`, and the same for each batch of pictures. In `labkit`:
# `labkit train --channels-last`. Worth a try for convolutions, most of all together with half precision; nothing to
# gain without them.
#
# ## 7 · `torch.compile`
#
# Ten small operations in a row read and write all of the memory ten times. `torch.compile` makes *one* loop of them.
# For that it watches your function run once, writes the operations down as a graph, and lets a compiler translate it.
# Your code stays as it was written, as they say. What is *not* in the graph?

# %% [markdown] predict="branch_graphs"
# An `if` on the value of a tensor, for one. Graphs can be counted without any compiler, by a backend that only counts.


# %% claims=["C005"]
def with_a_branch(x):
    """Decide by the value of a tensor."""
    if x.sum() > 0:
        return x * 2
    return x - 1


def without_a_branch(x):
    """Decide without asking Python."""
    return torch.where(x.sum() > 0, x * 2, x - 1)


up, down = torch.ones(3), -torch.ones(3)
counts = speed.graphs_after(with_a_branch, [(up,), (down,), (up,)])
print("with an if, graphs after each call:", counts)
lab.branch_graphs.reveal(guess, counts[-1])
print("without:                           ", speed.graphs_after(without_a_branch, [(up,), (down,), (up,)]))
print(speed.graph_breaks(with_a_branch, up))

# %% predict="new_sizes"

# %% claims=["C005"]
calls = [(torch.ones(size),) for size in (3, 4, 5, 6)]
counts = speed.graphs_after(without_a_branch, calls)
lab.new_sizes.reveal(guess, counts[-1])
print("graphs after each size:", counts, " with dynamic=False:", speed.graphs_after(without_a_branch, calls, False))
changing = nn.Sequential(nn.Linear(3, 3), nn.Dropout())
modes = speed.graphs_after(lambda x, training: changing.train(training)(x), [(up, True), (up, False), (up, True)])
print("train, eval, train:    ", modes)
print("names in a state_dict: ", *torch.compile(nn.Linear(3, 3)).state_dict())

# %% exercise="shortened"

# %% tags=["nbval-ignore-output"] claims=["C005"]
found = speed.measure("compile", where, quick=fast)
print(*found.notes)
show.beside(found, "compile", recorded)

# %% [markdown]
# The first call compiles, and takes *seconds*; the second time a program runs, it finds most of the work in a cache.
# (If there is no compiler on your computer, a sentence says so above, and the recorded figures must do. Linux needs a
# C++ compiler, Windows that of Visual Studio, macOS the command line tools; a GPU needs Triton.)
#
# **Rule:** compile what runs thousands of times with few different sizes. A break is not an error: the result is right,
# and the gain ends there. Look for breaks with `speed.graph_breaks`, or turn them into errors with `fullgraph=True`. A
# last, smaller batch costs one more compilation: `drop_last=True` saves it. Large matrices and convolutions gain little
# on a CPU, since they were fast already; chains of small operations gain most.
#
# ## 8 · The optimizer's step
#
# AdamW does about ten small operations for each parameter. *foreach* does the first operation for all parameters, then
# the second; *fused* does everything in one go. **Predict:** is the result the same?


# %%
def after_three_steps(**how):
    """Return the weights of a small network after three equal steps of AdamW."""
    torch.manual_seed(0)
    layers = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8))
    optimizer = torch.optim.AdamW(layers.parameters(), lr=0.01, **how)
    for _ in range(3):
        optimizer.zero_grad()
        layers(torch.ones(2, 8)).square().sum().backward()
        optimizer.step()
    return torch.cat([one.detach().flatten() for one in layers.parameters()])


plain = after_three_steps(foreach=False)
for how in ({"foreach": True}, {"fused": True}):
    print(how, "gives the same to six digits:", torch.allclose(plain, after_three_steps(**how), rtol=1e-6))

# %% tags=["nbval-ignore-output"]
beside_recorded("optimizer")

# %% [markdown]
# **Rule:** `fused=True` where the optimizer has it; `labkit` always asks for it. It matters for many small parameters,
# and hardly for a few large ones: look at the share of `step` in your profile first.
#
# ## 9 · Who waits for whom
#
# A GPU is fed with orders. As long as it has some left, Python may do something else. Whatever needs a *number* ends
# that: the program waits until all orders are carried out, and meanwhile gives no new ones.

# %% predict="waiting_lines"

# %%
loss, total, best = torch.tensor(0.3), torch.tensor(0.0), torch.tensor(0.5)
values, mask = torch.arange(4.0), torch.tensor([True, False, True, True])
with speed.Waits() as waits:
    loss.item()
    total += loss
    if loss < best:
        best = loss
    print(loss)
    values[mask]
    torch.where(mask, values, -values)
lab.waiting_lines.reveal(guess, len({row["line"] for row in waits.table().rows}))


def a_loop(model, optimizer, batches):
    """Train as it is often written: with numbers to watch."""
    total, right = 0.0, 0
    for inputs, targets in batches:
        outputs = model(inputs)
        loss = F.cross_entropy(outputs, targets)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0, error_if_nonfinite=True)
        optimizer.step()
        total += loss.item()
        right += (outputs.argmax(1) == targets).sum().item()
        if loss.isnan():
            break
    return total, right


small = nn.Sequential(nn.Linear(4, 3))
batches = [(torch.ones(5, 4), torch.zeros(5, dtype=torch.int64))] * 10
with speed.Waits() as waits:
    a_loop(small, torch.optim.SGD(small.parameters(), lr=0.1), batches)
print(f"10 updates, {waits.total} waits:", *(f"{row['call']} {row['times']}" for row in waits.table().rows), sep="  ")

# %% exercise="mean_loss"

# %% tags=["nbval-ignore-output"]
beside_recorded("waiting")

# %% [markdown]
# On a CPU there is nobody to wait for: the two are equally fast, and the figure says so. On a GPU the difference grows
# with the number of waits and shrinks with the size of the work between them. `speed.Waits` finds the lines on any
# computer; on an NVIDIA GPU, `torch.cuda.set_sync_debug_mode("warn")` does so as well, and sees more.
#
# **Rule:** in the loop add *tensors*, and read them every twenty updates. `pin_memory=True` and
# `.to(device, non_blocking=True)` let copies run beside the computing; of a copy *to* the CPU you must wait for the end
# before you read it.
#
# ## 10 · Batch size
#
# As many samples, in smaller or larger batches. What an update costs *besides* its samples is paid once a batch.

# %% tags=["nbval-ignore-output"] claims=["C291"]
beside_recorded("batch_size")

# %% [markdown]
# A small network gains most: in a batch of four there is nearly nothing to compute, and as much to order. Where the
# gain ends, the device is full; a larger batch takes as much longer as it has more samples. Remember that fewer updates
# an epoch also learn otherwise: the rate has to be set anew (chapter 05).
#
# What ends the growth is memory. Some of it is there whatever the batch, the rest grows evenly.

# %% claims=["C291"]
network = models.build("cnn", (3, 32, 32), 10)
for batch_size in (16, 32, 64):
    estimate = trials.estimate_memory(network, (3, 32, 32), batch_size)
    print(f"batch of {batch_size:2}: {estimate.total:11,} bytes", end="   ")
    print(", ".join(f"{row['kind']} {row['bytes']:,}" for row in estimate.rows if row["kind"] != "buffers"))

# %% exercise="largest_batch"

# %% [markdown]
# `labkit trial memory` says it for a network of yours. If the batch that you want does not fit, there are three ways:
# accumulate gradients over smaller ones (chapter 05), half precision, or the next part.
#
# ## 11 · Compute twice, keep less
#
# The way back needs the inner values of the way there. *Activation checkpointing* keeps only what comes into each
# block, and computes the rest a second time. **Predict** for twelve blocks with four layers each: how much less is
# kept, and how much longer does an update take?

# %% exercise="computed_again"


# %%
def gradients_of(again):
    """Make one way there and back; say what was kept for it, and return all gradients."""
    torch.manual_seed(0)
    deep, samples = Deep(again), torch.ones(64, 256)
    bytes_kept = kept_for_backward(lambda: deep(samples), deep.parameters())
    print(f"{'computed again' if again else 'values kept':15} {bytes_kept:10,} bytes for a batch of 64")
    deep(samples).sum().backward()
    return torch.cat([one.grad.flatten() for one in deep.parameters()])


print("the same gradients, to the last bit:", torch.equal(gradients_of(False), gradients_of(True)))

# %% tags=["nbval-ignore-output"]
beside_recorded("checkpointing")

# %% [markdown]
# **Rule:** checkpoint blocks, and only when memory is what keeps you from a batch that you need. It costs
# another forward pass: a third of an update by arithmetic, and mostly more by the clock, as you see above.
#
# ## 12 · No graph that nobody needs
#
# For evaluation no graph is wanted. `no_grad` keeps none. `inference_mode` does not even count versions of tensors
# (chapter 02), and what it gives can never meet autograd again.

# %%
layer, samples = nn.Linear(4, 4), torch.ones(2, 4)
with torch.no_grad():
    quiet = layer(samples)
with torch.inference_mode():
    quieter = layer(samples)
print("no_grad:       ", quiet.requires_grad, " may enter a graph later:", layer(quiet).requires_grad)
print("inference_mode:", quieter.requires_grad, " later:", error_of(lambda: layer(quieter).sum().backward())[:68], "…")

# %% tags=["nbval-ignore-output"]
beside_recorded("no_gradients")

# %% [markdown]
# **Rule:** `inference_mode` around what only predicts, `no_grad` where the result may be trained on later. Large layers
# gain little *time*; all of them save memory, since inner values are thrown away at once.
#
# ## 13 · Threads
#
# On a CPU a large operation is divided among threads. Dividing costs some microseconds: for large operations nothing,
# for tiny ones more than the work. And threads that have no core of their own wait for each other,
# as on a recorded computer that was *shared with other programs*.

# %% tags=["nbval-ignore-output"]
if where.type == "cpu":
    display(beside_recorded("threads"), beside_recorded("threads_tiny"))

# %% [markdown]
# **Rule:** small networks, one thread (`torch.set_num_threads(1)`, as in chapter 05); large ones, as many as cores.
# Several processes at the same time, such as workers or a sweep, divide the cores: else ten processes with ten threads
# each fight for ten cores. Sums over other numbers of threads differ in the last digits (chapter 06).
#
# ## 14 · What goes wrong here
#
# Nine real errors. **Predict** the cause of each before you read on.

# %%
pictures = torch.ones(2, 3, 8, 8).to(memory_format=torch.channels_last)
weights = [nn.Parameter(torch.ones(3))]
print("1", error_of(lambda: pictures.view(2, -1)))
print("2", error_of(lambda: torch.ones(3, 8, 8).to(memory_format=torch.channels_last)))
print("3", error_of(lambda: nn.Linear(4, 2).bfloat16()(torch.ones(2, 4))))
print("4", error_of(lambda: torch.ones(2, dtype=torch.bfloat16).numpy()))
print("5", error_of(lambda: torch.autocast("gpu"))[:58], "…")
print("6", error_of(lambda: torch.compile(with_a_branch, fullgraph=True, backend="eager")(up)))
print("7", error_of(lambda: torch.optim.AdamW(weights, fused=True, foreach=True)))
print("8", error_of(lambda: DataLoader(range(4), prefetch_factor=4)))
with torch.inference_mode():
    outputs = nn.Linear(4, 2)(torch.ones(2, 4))
print("9", error_of(lambda: outputs.sum().backward()))

# %% [markdown]
# 1. `view` promises not to copy, and in `channels_last` the numbers do not lie in that order: `flatten(1)`.
# 2. The format is for batches of pictures, with four dimensions. Put `[None]` in front.
# 3. Weights were converted, inputs were not. Use `autocast`, and convert neither.
# 4. NumPy has no bfloat16: `.float().numpy()`.
# 5. Devices are called `cuda`, `mps` or `cpu`. Take `inputs.device.type`.
# 6. A branch on the value of a tensor. Without `fullgraph=True` the graph breaks in silence.
# 7. One or the other.
# 8. Nobody fetches ahead without workers: `num_workers=1` or more.
# 9. Evaluation and training got mixed up: part 12.
#
# And what raises *nothing*: a clock that does not wait, a comparison without turns, `item()` in every update, workers
# that have no core, half precision without units for it. Only a measurement finds these.
#
# ## 15 · You will read that … is it so?
#
# Choose for each: true, false, or it depends. *Measure it* runs the evidence on your computer.

# %% claims=["C005", "C243", "C244", "C245", "C247", "C248", "C291", "C292"]
show.quiz("C005", "C243", "C244", "C245", "C247", "C248", "C291", "C292")

# %% [markdown]
# ## Your device, for others
#
# `labkit record-device --out my_device.json` makes all these measurements thoroughly, in some minutes, and keeps them
# with the name of your device, the date and the versions. Name the file in the parameter `records` above, and this
# chapter draws it beside the others. Do it on the machine that you rent, and know before you pay.
#
# ## Take away
#
# - Wait for the device, warm up, take the median, take turns. Compare ratios of one round.
# - In a profile, own time says what is slow, total time where to look.
# - Workers until computing sets the pace; data in memory need none. Few orders, large pieces of memory.
# - bfloat16 by `autocast`, without scaler; weights stay float32. Faster only where there are units for it.
# - `channels_last` for convolutions. `fused=True` for many parameters.
# - `torch.compile` for chains of small operations; no `if` on values, few sizes, seconds to start.
# - Add tensors, read numbers seldom.
# - Memory = fixed + per sample · batch. Checkpointing: a third more time for much less memory.
# - One change at a time, and measured on *your* device.
#
# To read: [labkit/speed/clock.py](../labkit/speed/clock.py), how ways are compared, then
# [waits.py](../labkit/speed/waits.py) and [ways_of_computing.py](../labkit/speed/ways_of_computing.py), what was
# measured above. Next: chapter 09, a whole project.
