# %% [markdown]
# # 07 · When it does not learn
#
# **The question.** The program runs, nothing is red, and the network does not learn. Or it learns, and worse than it
# should. Where do you look first, and how do you know that you have found it?
#
# Most people change the learning rate, then the network, then the learning rate. In this chapter you work in an order
# instead, from the data to the evaluation, and at each station there is one measurement that decides. You write these
# measurements yourself; each is a few lines. At the end stands the doctor of `labkit`, which makes the same ones in a
# second, and a checklist of one page to print.
#
# | station | the question | what decides |
# |---|---|---|
# | 1 data | do labels belong to inputs? | neighbours, a look at samples, the first loss |
# | 2 by heart | can it learn 32 samples? | the loss after a minute |
# | 3 optimizer | does it hold what is to move? | the identity of parameters |
# | 4 gradients | do they arrive, layer by layer? | None, 0, or a norm |
# | 5 updates | does a step move enough, or too much? | change ÷ size |
# | 6 numbers | is all finite? | a hook on each layer |
# | 7 modes, evaluation | does the answer depend on company? | the same sample in another batch |
# | 8 curves | too little, too much, too fast? | training beside validation |
# | 9 time | what does an update wait for? | a clock |
#
# As before: predict before you run, answer in the cells with `...`, ask for a `hint()`. About two and a half hours.

# %% tags=["parameters"]
fast: bool = True  # True: short runs that show each effect; False: longer ones

# %%
# %load_ext labkit

import copy
import math
import warnings
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.data import DataLoader, TensorDataset

from labkit import data, doctor, exercises, show, trials
from labkit.course import parameters
from labkit.doctor import clinic
from labkit.doctor.explain import explain_exception
from labkit.errors import error_of

chosen = parameters(globals())
lab = exercises.load("07_when_it_does_not_learn")
torch.set_num_threads(1)

digits = data.load("digits")
inputs, targets = next(data.loader(digits.train, len(digits.train)).at(epoch=0, batch=0))
val_inputs, val_targets = next(data.loader(digits.val, len(digits.val)).at(epoch=0, batch=0))
epochs = 8 if fast else 30


def network(*widths, seed=0):
    """Return a network of linear layers with ReLU between them."""
    torch.manual_seed(seed)
    widths = (64, *widths, 10)
    layers = [nn.Flatten()]
    for before, after in pairwise(widths):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def train(model, inputs, targets, learning_rate=0.003, epochs=epochs, batch_size=64, optimizer=None):
    """Train and return the loss of training and of validation after each epoch."""
    optimizer = optimizer or torch.optim.Adam(model.parameters(), lr=learning_rate)
    shuffle = torch.Generator().manual_seed(0)
    losses = {"training": [], "validation": []}
    for _ in range(epochs):
        for chosen in torch.randperm(len(inputs), generator=shuffle).split(batch_size):
            optimizer.zero_grad()
            F.cross_entropy(model(inputs[chosen]), targets[chosen]).backward()
            optimizer.step()
        with torch.no_grad():
            losses["training"].append(F.cross_entropy(model(inputs), targets).item())
            losses["validation"].append(F.cross_entropy(model(val_inputs), val_targets).item())
    return losses


print(f"{len(inputs)} training pictures, {len(val_inputs)} for validation")

# %% [markdown] predict="first_loss"
# ## 1 · The data, and a number known beforehand
#
# Before any update you know what the loss has to be. That is the cheapest test of all: one forward pass.

# %% claims=["C234"]
first = F.cross_entropy(network(128, 128)(inputs), targets).item()
lab.first_loss.reveal(guess, f"{first:.1f}")
too_sure = network(32)
with torch.no_grad():
    too_sure[-1].weight *= 100
print("weights of the last layer 100 times too large:", F.cross_entropy(too_sure(inputs), targets).item() > 5)

# %% exercise="baseline_losses" claims=["C234"]

# %% [markdown]
# A first loss far *above* log(classes) is a network that is sure from the start, mostly since its weights or its inputs
# are too large. Far *below*: it has seen the answer somewhere. A loss that falls to the second number, and stays there,
# has learned how frequent the classes are.
#
# Always ask *which quantity is really being made smaller*. A loss can fall for hours and be the wrong one: chapter 01
# has the column that met a row, chapter 05 the second softmax.
#
# Now the labels. Learning 32 samples by heart (chapter 00) works with any labels, and looking at a page of pictures
# finds what is wrong in that page. Here is what finds it among thousands.

# %% exercise="mislabelled_source"

# %% tags=["nbval-ignore-output"]
show.samples(digits.train, 12)

# %% [markdown]
# **Rule:** look at the batch that goes *into* the model: shape, dtype, range, and a dozen pictures with their labels.
# Then one number, the first loss.
#
# ## 2 · Thirty-two samples by heart
#
# You know the test from chapter 00, and `labkit trial overfit` from chapter 05. Write it, so that it changes nothing.

# %% exercise="loss_by_heart"

# %% [markdown] predict="by_heart_without_head"
# It is a strong test. Is it a complete one?

# %% claims=["C230"]
model = network(64)
optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
model[-1] = nn.Linear(64, 10)  # a new head, after the optimizer was made
head = model[-1].weight.detach().clone()
losses = train(model, inputs[:32], targets[:32], epochs=200, batch_size=32, optimizer=optimizer)
lab.by_heart_without_head.reveal(guess, "yes" if losses["training"][-1] < 0.05 else "no")
print("the head has moved:", not torch.equal(head, model[-1].weight))
held = optimizer.param_groups[0]["params"]
print("first shape in the optimizer is that of the model:", held[0].shape == next(model.parameters()).shape)
print("the same objects:", {id(one) for one in held} == {id(one) for one in model.parameters()})

# %% exercise="not_in_optimizer" claims=["C230"]

# %% [markdown]
# **Rule:** learning by heart that *fails* proves a fault, or too small a rate. If it *succeeds*, data, loss, gradient
# and step are connected somewhere. Whether all of the network takes part is asked of its parameters.
#
# ## 3 · Nothing moves
#
# A loss that stands still has three causes, and each is seen in another place: a parameter is *not in the optimizer*;
# *no gradient* reaches it; or the *rate* is too small (or the step was never made).
#
# You will read: *forgotten `zero_grad`; with a small rate one sees almost no change*, and *back-propagation stops at a
# frozen layer*, and *90 % of all cases are one of these*. Is it so? **Predict** what stands in each row.


# %% claims=["C231", "C232", "C233"]
def gradients(model, x):
    """Return which weights have a gradient after one backward pass."""
    model(x).sum().backward()
    return [one.grad is not None for name, one in model.named_parameters() if name.endswith("weight")]


class NoGradInFront(nn.Module):
    """Three layers, the first two under no_grad."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = (nn.Linear(4, 4) for _ in range(3))

    def forward(self, x):
        with torch.no_grad():
            x = self.b(self.a(x))
        return self.c(x)


frozen = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4))
frozen[1].requires_grad_(False)
print("the middle layer frozen:     ", gradients(frozen, torch.ones(2, 4)))
print("no_grad around the first two:", gradients(NoGradInFront(), torch.ones(2, 4)))
all_frozen = nn.Linear(4, 4).requires_grad_(False)
print("all frozen:", error_of(lambda: all_frozen(torch.ones(2, 4)).sum().backward())[:68])

weights = torch.ones(2, requires_grad=True)
optimizer = torch.optim.SGD([weights], lr=0.01)
swings = []
for _ in range(200):  # never zero_grad
    loss = (torch.tensor([1.0, 3.0]) * weights**2).sum()
    loss.backward()
    optimizer.step()
    swings.append(loss.item())
print(f"zero_grad forgotten at a small rate: the loss goes down to {min(swings):.1f}, and up to {max(swings[50:]):.0f}")

# %% exercise="gradient_ends_at" claims=["C232"]

# %% [markdown]
# Freezing stops the update of *that* layer; a gradient passes through it. `no_grad`, `detach` and `.item()` cut the
# way. Forgetting `zero_grad` lets the loss swing, and does not stop it. And the 90 %: nobody has counted. The wrong
# rate, the second softmax, dead units and labels that do not fit belong on the list as well.
#
# ### None, zero, and little
#
# `None` says that no way leads there. Zeros say that a way leads there and nothing comes.

# %% predict="zeros_that_move"

# %%
model = network(16)
for one in model.parameters():
    nn.init.zeros_(one)
train(model, inputs, targets, epochs=5)
moved = [name for name, one in model.named_parameters() if one.any()]
names = {("3.bias",): "the last bias", (): "none", ("3.weight", "3.bias"): "the output layer"}
lab.zeros_that_move.reveal(guess, names.get(tuple(moved), "all"))

# %% [markdown]
# The picture shows the gradients of a deep network, layer by layer, once with ReLU and Kaiming's start (chapter 04) and
# once with sigmoids. **Predict** how much of the gradient reaches the first layer of each.


# %% tags=["nbval-ignore-output"]
def deep(activation):
    """Return a network of eight linear layers."""
    torch.manual_seed(0)
    layers = [nn.Flatten()]
    for before, after in [(64, 32), *[(32, 32)] * 6]:
        layers += [nn.Linear(before, after), activation()]
    return nn.Sequential(*layers, nn.Linear(32, 10))


norms = {}
for name, activation in {"ReLU": nn.ReLU, "sigmoid": nn.Sigmoid}.items():
    model = deep(activation)
    if name == "ReLU":
        for layer in model:
            if isinstance(layer, nn.Linear):
                nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
    F.cross_entropy(model(inputs[:256]), targets[:256]).backward()
    norms[name] = [layer.weight.grad.norm().item() for layer in model if isinstance(layer, nn.Linear)]
assert norms["sigmoid"][0] < 1e-3 * norms["sigmoid"][-1] and norms["ReLU"][0] > 0.01 * norms["ReLU"][-1]
show.comparison(norms, title="Gradient of each weight, at the start", x_label="layer", y_label="norm", log_y=True)

# %% exercise="dead_share"

# %% [markdown]
# Units die of one large step: their bias falls so far that no input brings them above 0, and with an output of 0 they
# get no gradient to come back. A smaller rate and a warm-up (chapter 05) prevent it; `nn.LeakyReLU` revives.
#
# ## 4 · How far does a step go?
#
# A rate has no meaning by itself: 0.1 is small for SGD and far too large for Adam. What has a meaning is by how much a
# weight *changes*, relative to its size.

# %% exercise="update_sizes"

# %% tags=["nbval-ignore-output"]
rates = [1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0]
curves = {}
for kind in (torch.optim.SGD, torch.optim.Adam):
    sizes = []
    for rate in rates:
        model = network(32)
        weight = model[1].weight
        optimizer = kind(model.parameters(), lr=rate)
        for _ in range(5):
            before = weight.detach().clone()
            optimizer.zero_grad()
            F.cross_entropy(model(inputs[:256]), targets[:256]).backward()
            optimizer.step()
        sizes.append(((weight - before).norm() / before.norm()).item())
    curves[kind.__name__] = sizes
assert curves["Adam"][3] > 3 * curves["SGD"][3]
show.comparison(
    curves,
    title="Change of the first weight in one update",
    x_label="learning rate",
    y_label="change ÷ size",
    x=rates,
    references={"usual": 1e-3},
    log_x=True,
    log_y=True,
)

# %% [markdown]
# **Rule:** about 0.001 a step is usual. Far below, nothing happens in the time that you have; far above, each step
# forgets the one before. `labkit trial learning-rate` proposes a rate.
#
# ## 5 · NaN
#
# You will read: *lower the rate by two orders, look for NaN in the data, look for log(0)*; *log(0) in the cross-entropy
# is a danger under strong class imbalance*; *stop when the loss is not finite*. Is it so?

# %% predict="root_at_zero"

# %% claims=["C237", "C238", "C239"]
x = torch.zeros(1, requires_grad=True)
torch.where(x > 0, x.sqrt(), 0 * x).sum().backward()
lab.root_at_zero.reveal(guess, x.grad.item())

logits, label = torch.tensor([[0.0, 200.0]]), torch.tensor([0])
print("by hand:", -logits.softmax(1).log()[0, 0].item(), " F.cross_entropy:", F.cross_entropy(logits, label).item())
zero = torch.zeros(1, requires_grad=True)
(zero * zero.log()).sum().backward()
print("0 · log(0) =", (zero * zero.log()).item(), " its gradient:", zero.grad.item())
print("float16: exp(12) =", torch.tensor(12.0, dtype=torch.float16).exp().item())
print("finite:", [torch.isfinite(torch.tensor(value)).item() for value in (math.nan, math.inf, 1.0)])


def with_names():
    """Fail with the name of the operation that made NaN, and without the warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with torch.autograd.detect_anomaly(check_nan=True):
            x = torch.zeros(1, requires_grad=True)
            (0 * x.sqrt()).sum().backward()


print("anomaly mode names the operation:", error_of(with_names))  # and warns, with the line of the forward pass

# %% exercise="first_non_finite"

# %% [markdown]
# Imbalance is innocent: what becomes infinite is a probability that was rounded to 0, in a formula written by hand. Use
# losses on logits.
#
# A second way to search is *halving*: is the loss finite for the first half of the batch? Seven questions find one bad
# sample among 128. **Rule:** `if not torch.isfinite(loss): stop`, *before* `backward`, and keep the batch. On a GPU the
# question waits for the device: ask every hundredth step. `clip_grad_norm_(…, error_if_nonfinite=True)` asks too.


# %%
def find_bad(inputs, is_fine):
    """Return the place of the one bad sample, by halving."""
    low, high, questions = 0, len(inputs), 0
    while high - low > 1:
        middle = (low + high) // 2
        questions += 1
        low, high = (middle, high) if is_fine(inputs[low:middle]) else (low, middle)
    return low, questions


spoiled = inputs[:128].clone()
spoiled[77, 0, 3, 3] = math.nan
model = network(32)
place, questions = find_bad(spoiled, lambda part: model(part).sum().isfinite().item())
print(f"sample {place}, after {questions} questions")

# %% [markdown]
# ## 6 · Modes and evaluation
#
# Training falls, validation makes no sense. Ask first whether the evaluation measures *this* sample: the same sample in
# other company must get the same answer.

# %% exercise="mixes_samples"

# %% [markdown]
# **Rule:** `model.eval()` before each evaluation, `model.train()` before each *epoch* (and not before the first alone);
# the same normalisation on both sides; sums divided by counts (chapter 05); no picture in both parts (chapter 03).
#
# ## 7 · What curves say, and what not
#
# Four trainings of digits: sound; a network that is too small; too few samples for it; a rate that is too high. The
# first picture is validation. **Predict** the second: which of the four look good in training?


# %% tags=["nbval-ignore-output"]
few = slice(60)
long = 40 if fast else 100
histories = {
    "sound": train(network(64), inputs, targets, epochs=long),
    "too small": train(network(2), inputs, targets, epochs=long),
    "few samples": train(network(256), inputs[few], targets[few], epochs=long),
    "rate too high": train(network(64), inputs, targets, learning_rate=0.3, epochs=long),
}
assert histories["sound"]["training"][-1] < 0.1 and histories["sound"]["validation"][-1] < 0.3
assert min(histories["too small"]["training"]) > 0.5
assert histories["few samples"]["training"][-1] < 0.05 and histories["few samples"]["validation"][-1] > 0.3
show.comparison(
    {name: history["validation"] for name, history in histories.items()},
    title="Validation",
    x_label="epoch",
    y_label="loss",
    log_y=True,
)

# %% tags=["nbval-ignore-output"]
show.comparison(
    {name: history["training"] for name, history in histories.items()},
    title="Training",
    x_label="epoch",
    y_label="loss",
    log_y=True,
)

# %% [markdown]
# | training | validation | it says | try |
# |---|---|---|---|
# | low | low | sound | the test set, once |
# | high | as high | it *underfits* | a larger network, longer, less regularisation |
# | low | high | it *overfits* | more data, augmentation, dropout, stop early |
# | jumps, or flat from the start | the same | the rate | a tenth of it, warm-up |
# | still falling | still falling | not ready | longer, or a larger rate |
# | high (with dropout) | lower | sound: dropout is on in training only | nothing |
#
# A curve tells *that* something is wrong, hardly ever *what*. Many faults leave a curve that looks
# well: this is why curves come late in the order of this chapter.
#
# ## 8 · It learns, slowly
#
# You will read: *suspect the loading, compare with `num_workers=0`*; *time each part with a small decorator*; *the
# model or the batch may be too large*; *change one thing at a time*. Is it so?

# %% exercise="waiting_and_computing" claims=["C289", "C290", "C291", "C292"]

# %% tags=["nbval-ignore-output"] claims=["C289", "C290"]
profile = trials.profile_step(network(256, 256), data.loader(digits.train, 64, shuffle=True, shift=1))
print(profile.advice)
show.step_profile(profile)

# %% [markdown]
# Split the update into its parts before you change anything; for a program of yours, `labkit trial profile`. That
# loading is faster without workers shows what workers cost, not that loading is slow. On a GPU a call returns *before*
# its work is done: a decorator times the orders. Synchronise, or use `torch.profiler`. A step that simply computes much
# is in order: half the batch shows it. One change at a time, repeated, the median: two changes can cancel each other.
#
# ## 9 · What errors say
#
# You loaded `%load_ext labkit`, so under each error of PyTorch stands what it means, in your names. `explain_exception`
# gives the same as text. **Predict** the cause of each before you read it.


# %% claims=["C227", "C228", "C229"]
def on(model, x, y):
    """Return the error of a loss when model, inputs and targets are on these devices."""
    with FakeTensorMode():
        layer, values = nn.Linear(2, 2, device=model), torch.ones(3, 2, device=x)
        return error_of(lambda: F.mse_loss(layer(values), torch.ones(3, 2, device=y)))[:66]


print("inputs left behind: ", on("cuda", "cpu", "cuda"))
print("model left behind:  ", on("cpu", "cuda", "cuda"))
print("targets left behind:", on("cuda", "cuda", "cpu"))
print("all moved:          ", on("cuda", "cuda", "cuda"))
print("DataParallel itself:", "DistributedDataParallel" in nn.DataParallel.__doc__)

# %% [markdown]
# *Expected all tensors on the same device*: inputs, parameters, targets, in this order, and the cure is `.to(device)`
# in the loop. `pin_memory` and `non_blocking` are about the way of a copy, not its place; a check in `forward` hides
# what the loop forgot. And `DataParallel` sends you on to `DistributedDataParallel` by itself.

# %% claims=["C235", "C236", "C240", "C241"]
small = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(100, 10))


def explained(action):
    """Run something that fails; return what it means."""
    try:
        action()
    except Exception as error:
        explanation = explain_exception(error)
        return f"{str(error).splitlines()[0][:96]}\n   -> {explanation.what}\n   -> {explanation.fix.splitlines()[0]}"


print("1", explained(lambda: nn.Linear(128, 10)(torch.ones(64, 100))))
print("2", explained(lambda: small(torch.ones(1, 3, 224, 224))))
print("3", explained(lambda: small(torch.ones(2, 1, 28, 28))))
print("4", explained(lambda: F.cross_entropy(torch.ones(4, 3), torch.tensor([1, 2, 3, 1]))))
print("5", explained(lambda: F.cross_entropy(torch.ones(4, 3), torch.ones(4, 1, dtype=torch.int64))))
print("6", explained(lambda: F.cross_entropy(torch.ones(4, 3), torch.ones(4))))
print("7", explained(lambda: nn.Linear(2, 2)(torch.ones(3, 2, dtype=torch.float64))))
print("8", explained(lambda: all_frozen(torch.ones(2, 4)).sum().backward()))

size = nn.Conv2d(3, 4, 3, padding="same")(torch.ones(1, 3, 32, 32)).shape[-1]
print("\npadding by the formula:", (32 - 3 + 2 * 1) // 1 + 1, " by 'same':", size)
pool = (nn.MaxPool2d(4), nn.AdaptiveAvgPool2d((4, 4)), nn.Flatten())
pooled = nn.Sequential(nn.Conv2d(3, 8, 3), *pool, nn.Linear(128, 10))
print("adaptive pooling:", [tuple(pooled(torch.ones(2, 3, size, size)).shape) for size in (32, 48, 64)])

# %% [markdown]
# - In old answers the first reads *size mismatch, m1: [64 x 100], m2: [128 x 10]*. The words changed, the cause did
#   not: the flattened size is not the `in_features`.
# - Trying a dummy first is right. Give it the shape of *your* samples, and a batch of two: `(1, 3, 224, 224)` fails on
#   a sound network for grey pictures, and a batch of one hides what goes wrong between samples.
# - Sizes of convolutions need not be computed by hand: `padding="same"`, and adaptive pooling before a linear layer.
#   The pictures only have to be large enough for what comes before.
#
# ## 10 · The doctor
#
# All that you wrote is in `labkit.doctor`. `examine` takes the pieces of a program, runs them on copies for a few
# steps, and says what it found, with the numbers. It fails a program only for what is proven, and is silent about what
# is merely unusual. In a terminal: `labkit doctor FILE.py`.


# %% tags=["nbval-ignore-output"]
class Softmaxed(nn.Module):
    """A network that ends in a softmax."""

    def __init__(self):
        super().__init__()
        self.network = network(32)

    def forward(self, x):
        return self.network(x).softmax(dim=1)


def program(model, train_set, val_set):
    """Return the pieces of a training, as the doctor takes them."""
    return {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=0.003),
        "train_loader": DataLoader(TensorDataset(*train_set), batch_size=64, shuffle=True),
        "val_loader": DataLoader(TensorDataset(*val_set), batch_size=256),
    }


both = torch.cat([inputs, val_inputs[:150]]), torch.cat([targets, val_targets[:150]])
train_set, val_set = (inputs, targets), (val_inputs, val_targets)
programs = {
    "A": program(Softmaxed(), train_set, val_set),
    "B": program(network(32), both, val_set),
    "C": program(network(32), train_set, val_set),
}
curves = {}
for name, pieces in programs.items():
    dataset = pieces["train_loader"].dataset.tensors
    curves[name] = train(copy.deepcopy(pieces["model"]), *dataset, epochs=8)["training"]
show.comparison(curves, title="Three programs", x_label="epoch", y_label="training loss")

# %% predict="healthy_program"

# %%
reports = {name: doctor.examine(**pieces) for name, pieces in programs.items()}
for name, report in reports.items():
    print(name, [(finding.severity, finding.fault) for finding in report.findings])
(healthy,) = [name for name, report in reports.items() if not report.findings]
lab.healthy_program.reveal(guess, healthy)

# %% tags=["nbval-ignore-output"]
reports["A"]

# %% [markdown]
# Read a finding as you would read a colleague: *what* was measured, *why* it hurts, the *fix*, and how to *check* it.
# What follows from a fault stands under it. Your weights, the optimizer and all random numbers are as before.
#
# The doctor does not know your task: whether labels mean what they should, whether a score is good enough. It looks at
# a few steps, and at what happens in the tenth epoch it does not.
#
# ## 11 · The clinic
#
# More than thirty real trainings, each with one fault planted. You see what a colleague reports, the code, and the
# picture of the training; the fault you name yourself. Take one: read the story, look at the picture, and **name the
# fault** before you ask for the reply. `clinic.cases(level=1)` are for the beginning, `clinic.daily_mix("2026-03-01")`
# are three for a day.

# %% tags=["nbval-ignore-output"]
patient = clinic.cases(level=1)[3]
seen = clinic.run(patient)
print(patient.name, "-", patient.story)
show.clinic_figure(seen)

# %% tags=["nbval-ignore-output"]
print(clinic.reply(patient, seen, "lr_too_low").text)  # your diagnosis in place of this one; clinic.WORDS has the words

# %% [markdown]
# `print(patient.code)` is what ran, `print(patient.diff())` the cure, `clinic.run(patient, cured=True)` the same
# training without the fault, and `doctor.examine(**clinic.pieces(patient))` what the doctor says.
#
# ## 12 · You will read that … is it so?
#
# Sentences from tutorials. Choose for each: true, false, or it depends. *Measure it* runs the evidence on your
# computer. You will also find lists that rank such pitfalls by how often they occur. Nobody has counted them: make your
# own list, from what you have met.

# %% claims=["C242"]
show.quiz(
    "C228", "C229", "C230", "C231", "C232", "C234", "C236", "C237", "C238", "C239", "C240", "C241", "C289", "C290"
)

# %% [markdown]
# ## Take away
#
# The same on one page, to print: [checklist.html](checklist.html) (open it in the browser, Ctrl-P).
#
# - First loss: log(classes). Look at a batch with its labels.
# - 32 samples by heart. Failing proves a fault; passing does not prove health.
# - Nothing moves: not in the optimizer, no gradient, or the rate. Compare objects, not shapes.
# - From the loss backwards: where is the gradient last seen? None is a cut, zeros are dead.
# - Change ÷ size of a step is about 0.001.
# - NaN: the first layer that is not finite, in the order of running. Losses on logits.
# - The same sample in another batch gets the same answer.
# - Curves say that something is wrong, not what.
# - Slow: split the update first. One change at a time.
# - Read an error to its end: shapes, dtypes, devices stand in it.
#
# To read: [labkit/doctor/examine.py](../labkit/doctor/examine.py), then one probe and its rules,
# [probe/updates.py](../labkit/doctor/probe/updates.py) and [rules/updates.py](../labkit/doctor/rules/updates.py). Next:
# chapter 08, speed.
