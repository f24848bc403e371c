# %% [markdown]
# # 05 · The training loop
#
# **The question.** Eight lines train a network. Why is the loop of every real project longer?
#
# Because each further line answers a training that went wrong without it. In this chapter you start from the eight
# lines, watch each fault happen, and write the line that prevents it. In part 12 you train with your own step and your
# own optimizer, read `labkit`'s loop, and know every line of it.
#
# As before: predict before you run, answer in the cells with `...`, ask for a `hint()`. About three hours.
#
# ## 1 · Eight lines
#
# The data: handwritten digits of 8 × 8 pixels, in three parts. The loaders give batches of pictures with their labels.
# Both subtract the mean of the *training* pixels and divide by their deviation (`statistics`): validation has to see
# the same scale. The network `mlp` is three linear layers with ReLU between them.
#
# A loader gives `at(epoch, batch)` the same batches each time, and `models.build` the same first weights. So when two
# runs in this chapter differ, it is by the line that was changed, not by chance.

# %% tags=["parameters"]
fast: bool = True  # True: short runs that show each effect; False: longer ones

# %% tags=["nbval-ignore-output"] claims=["C208"]
# %load_ext labkit

import warnings

import numpy as np
import torch
import torch.nn.functional as F
from IPython.display import display
from torch import nn
from torch.optim import lr_scheduler

from labkit import data, devices, exercises, models, show, training
from labkit.course import parameters
from labkit.errors import error_of
from labkit.exercises import swap_in

chosen = parameters(globals())
lab = exercises.load("05_training_loop")
torch.set_num_threads(1)  # networks as small as these are faster on one thread

digits = data.load("digits")
train_loader = data.loader(digits.train, 64, shuffle=True)
val_loader = data.loader(digits.val, 64, statistics=train_loader.statistics)
print(f"{len(digits.train)} pictures to train on, {len(digits.val)} to validate, {len(digits.test)} to test")

# The eight lines.
model = models.build("mlp", digits.train.image_shape, class_count=10)
optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
for epoch in range(6):
    for inputs, targets in train_loader:
        loss = F.cross_entropy(model(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch + 1}: loss {loss.item():.3f}")
assert loss.item() < 1.0

# %% [markdown] predict="never_zeroed"
# It learns. But the printed number is the loss of the *last batch* of an epoch: a handful of pictures, so it jumps
# about. You do not know how good the network is on pictures that it has not seen, nor would you notice if a line were
# in the wrong place. That is the list to work through:
#
# | part | what it adds |
# |---|---|
# | 2, 3 | the beat: what must come before what; one device |
# | 4, 5 | the right loss for the targets; an optimizer, its rate, its decay |
# | 6, 7 | numbers you can trust: sums over samples, evaluation mode, validation |
# | 8, 9 | gradients: accumulated, clipped |
# | 10, 11 | a schedule; stopping, and what to keep |
# | 12 | the whole loop, and yours in its place |
#
# ## 2 · The beat
#
# You will read that *the order cannot be swapped*, and that `zero_grad` belongs right before `backward`. Is it so?
# The function below makes the calls in the order you name, always after the forward pass. **Predict** for *zero
# backward step*, *backward zero step* and *backward step zero*: which two give the same losses, to the last digit?
# Which one learns nothing?


# %% tags=["nbval-ignore-output"] claims=["C208", "C211"]
def losses_when(order, learning_rate=0.2, epochs=3):
    """Train a fresh network, calling zero, backward and step in this order; return the loss of every update."""
    model = models.build("mlp", digits.train.image_shape, class_count=10)
    optimizer = torch.optim.SGD(model.parameters(), lr=learning_rate)
    losses = []
    for epoch in range(epochs):
        for inputs, targets in train_loader.at(epoch, batch=0):
            loss = F.cross_entropy(model(inputs), targets)
            calls = {"zero": optimizer.zero_grad, "backward": loss.backward, "step": optimizer.step}
            for call in order.split():
                calls[call]()
            losses.append(loss.item())
    return losses


losses = {order: losses_when(order) for order in ("zero backward step", "backward zero step", "backward step")}
assert losses["zero backward step"] == losses_when("backward step zero")  # zeroing after the step is as good
assert losses["backward zero step"][-1] > 2.2  # zeroed in between: nothing left to step with
assert max(losses["backward step"]) > 5  # never zeroed: in the end it blows up
right, never = (losses[order][10] for order in ("zero backward step", "backward step"))
lab.never_zeroed.reveal(guess, "lower" if never < right else "higher" if never > right else "the same")
print("step before backward:", error_of(lambda: losses_when("step zero backward")))
show.comparison(losses, title="The same beat in another order", x_label="update", y_label="loss", log_y=True)

# %% exercise="training_step" claims=["C208"]

# %% [markdown]
# The line without `zero` is the treacherous one: ahead for a while, like a ball that no friction stops, then it
# overshoots further and further. And `step` *before* `backward` changes, in place, the weights that `backward` needs:
# PyTorch notices. (A network of a single layer needs no old weights for its gradient: there the swap passes in silence,
# and each update comes one step late.)
#
# **Rule:** zero … backward … step, with `zero_grad` anywhere except between `backward` and `step`.
#
# ### What `backward` fills, and what stays attached
#
# The *graph* is PyTorch's note of how a number was computed; `backward` walks it from the loss to the weights. You will
# read that after `backward` the loss is *already detached from the graph*. Is it so? **Predict:** of four parameters,
# one is frozen and two belong to a layer that the forward pass does not use. Which get a gradient? And how many graphs
# does a running sum of a hundred losses hold?
#
# ## 3 · One device
#
# People move the model to the GPU and forget the batch. The two `.to` differ, and that is the trap. Here the device
# `meta` (shapes without numbers) stands for the GPU, so that it fails in the same way on every machine.
#
# Which device? You will read `torch.device("cuda" if torch.cuda.is_available() else "cpu")`. It works, and misses
# Apple and other accelerators. PyTorch now has one question for all of them.

# %% claims=["C212", "C213", "C214", "C216"]
inputs, targets = next(train_loader.at(epoch=0, batch=0))
layers = nn.ModuleDict({"used": nn.Linear(64, 10), "unused": nn.Linear(64, 10)})
layers["used"].bias.requires_grad_(False)

loss = F.cross_entropy(layers["used"](inputs.flatten(1)), targets)
loss.backward()
for name, parameter in layers.named_parameters():
    print(f"{name:14} gradient: {None if parameter.grad is None else tuple(parameter.grad.shape)}")

print(f"item() gives a {type(loss.item()).__name__}; the tensor still has a graph: {loss.grad_fn is not None}")
total = sum(F.cross_entropy(layers["used"](inputs.flatten(1)), targets) for _ in range(100))
graphs, node = 0, total.grad_fn
while "Add" in node.name():
    graphs, node = graphs + 1, node.next_functions[0][0]
print("graphs held by the sum of 100 losses:", graphs)

layer, batch = nn.Linear(64, 10), torch.zeros(8, 64)
layer.to("meta")  # a module moves itself
batch.to("meta")  # a tensor stays where it is: the moved copy is thrown away here
print("layer:", layer.weight.device, " batch:", batch.device)
print(error_of(lambda: layer(batch)))
batch = batch.to("meta")
print("after batch = batch.to(...):", tuple(layer(batch).shape))
old_way = torch.device("cuda" if torch.cuda.is_available() else "cpu")
new_way = torch.accelerator.current_accelerator(check_available=True) or torch.device("cpu")
print("old way agrees, or misses an accelerator:", old_way.type in ("cpu", new_way.type))
print("labkit.devices.choose() asks the new way:", devices.choose().type == new_way.type)

# %% [markdown] exercise="cross_entropy" claims=["C198", "C215"]
# `backward` fills `.grad` of each parameter that it meets and that wants one: None afterwards means frozen, or never
# used. The *number* from `item()` is free of the graph; the tensor is not. `total += loss` keeps the graph of every
# batch alive until memory ends. Add `loss.item()`, or `loss.detach()` where waiting for a GPU would be slow.
#
# **Rule:** `inputs, targets = inputs.to(device), targets.to(device)` at the top of every step, with the assignment. Ask
# for the device once, at the top of the program, and *pass it as an argument*, as `fit` does through its config. A
# global `device` is read by code that a test or a second model wants to run elsewhere.
#
# ## 4 · The loss that fits the targets
#
# | your targets | loss | outputs | targets as |
# |---|---|---|---|
# | one class of K | `cross_entropy` | K raw scores (logits) | int64 class numbers |
# | several labels at once | `binary_cross_entropy_with_logits` | K raw scores | float 0 or 1, same shape |
# | a number | `mse_loss` | a number | float, **same shape** |
#
# `cross_entropy` contains the softmax. A network that knows nothing gives each class the same score, and its loss is
# ln K. Look at the *first* loss of every training: far above ln K, and the scores start out wild; ln K for ever, and
# nothing is connected.

# %% [markdown] predict="softmax_twice"
# You will read that a second softmax, in the model, *makes the numbers unstable*; and that `BCEWithLogitsLoss` with
# class numbers as targets *gives a small loss and learns nothing*. Is it so? **Predict** also: four perfect predictions
# of shape (4, 1), four targets of shape (4,). What does `mse_loss` say?

# %% claims=["C197", "C198", "C199", "C200", "C201"]
scores, labels = torch.randn(5, 10, generator=torch.Generator().manual_seed(0)), torch.tensor([3, 1, 4, 1, 5])
in_two_steps = F.nll_loss(scores.log_softmax(1), labels)
print("log-softmax and nll in one:", torch.allclose(F.cross_entropy(scores, labels), in_two_steps))
print(f"equal scores: {F.cross_entropy(torch.zeros(1, 10), torch.tensor([3])).item():.4f}   ln 10 = {np.log(10):.4f}")
untrained = training.evaluate(models.build("mlp", digits.train.image_shape, 10), train_loader)
print("our untrained network is within 0.1 of it:", abs(untrained.loss - np.log(10)) < 0.1)

print("\na softmax too many")
certain = torch.full((1, 10), -50.0)
certain[0, 3] = 50.0
right, wrong = torch.tensor([3]), torch.tensor([4])
best = F.cross_entropy(certain.softmax(1), right).item()
print(f"logits:        perfect answer {F.cross_entropy(certain, right).item():.3f}")
print(f"softmax twice: perfect answer {best:.3f}, worst {F.cross_entropy(certain.softmax(1), wrong).item():.3f}")
lab.softmax_twice.reveal(guess, f"{best:.2f}")

print("\nyes or no, for each label")
logits, class_numbers = torch.randn(4, 10), torch.tensor([1, 2, 3, 9])
print("(4, 10) against (4,):", error_of(lambda: F.binary_cross_entropy_with_logits(logits, class_numbers)))
print("same shape, int64:", error_of(lambda: F.binary_cross_entropy_with_logits(logits[:, 0], class_numbers)))
score = torch.zeros(4, requires_grad=True)
optimizer = torch.optim.SGD([score], lr=1.0)
for _ in range(50):
    loss = F.binary_cross_entropy_with_logits(score, class_numbers.float())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"one score each, float: no error, and a loss of {loss.item():.0f} after 50 updates")
scores = torch.tensor([[2.0, -1.0, 0.5]], requires_grad=True)
several_labels = torch.tensor([[1.0, 0.0, 1.0]])
F.binary_cross_entropy_with_logits(scores, several_labels, reduction="sum").backward()
plain = scores.detach().sigmoid() - several_labels
print("float 0 and 1: gradient = sigmoid(scores) - targets:", torch.allclose(scores.grad, plain))

print("\nnumbers")
perfect, truth = torch.tensor([[0.0], [1.0], [2.0], [3.0]]), torch.tensor([0.0, 1.0, 2.0, 3.0])
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    print("(4, 1) against (4,):", F.mse_loss(perfect, truth).item())
print("only a warning:", str(caught[0].message)[:90], "…")
print("equal shapes:", F.mse_loss(perfect.squeeze(1), truth).item())


# %% tags=["nbval-ignore-output"] claims=["C199"]
def losses_of(forward, updates=100):
    """Train a fresh network on 512 pictures; forward(model, inputs) gives the scores for the loss."""
    inputs, targets = next(data.loader(digits.train, 512).at(epoch=0, batch=0))
    model = models.build("mlp", digits.train.image_shape, 10)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.002)
    losses = []
    for _ in range(updates):
        loss = F.cross_entropy(forward(model, inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


lines = {
    "logits": losses_of(lambda model, inputs: model(inputs)),
    "softmax twice": losses_of(lambda model, inputs: model(inputs).softmax(1)),
}
floor = np.log(np.e + 9) - 1
assert lines["logits"][-1] < 0.1 and floor < lines["softmax twice"][-1] < 1.6
show.comparison(lines, title="One softmax too many", x_label="update", y_label="loss", references={"floor": floor})

# %% [markdown]
# Nothing is unstable. The loss is squeezed between 1.461 and 2.461 and its gradients are flat, so it learns late and
# stops at the floor. **A loss that will not go below 1.46 on ten classes: look for a softmax in the model.**
#
# Class numbers in the yes-or-no loss raise, nearly always. The one silent form, a single score against a float class
# number, falls *below zero* without end. **A negative cross-entropy means targets outside 0 … 1.**
#
# And the perfect predictions have a loss of 2.5: a column against a row broadcasts to a 4 × 4 table of differences.
# Write `assert outputs.shape == targets.shape`.
#
# ## 5 · An optimizer and its rate
#
# You will read that *SGD is gradient descent with momentum*, and that AdamW is Adam, improved. Look at what they do
# by themselves: SGD's memory after one step, and one step of each Adam with a gradient of zero.
#
# Then play. The picture is the loss of a model with two weights, how wide a petal of an iris is from how long it is: a
# valley, steep across and nearly flat along. **Predict** before you move: at which rate does SGD begin to jump from
# wall to wall, and what does momentum change, across and along? Then try 0.06, and 0.9 of momentum with 0.01.
#
# The rate matters more than the choice of an optimizer; the cell after that tries seven of them. **Predict** for rates
# from 0.0001 to 100: where does SGD learn, where AdamW? And does it take 512 pictures to find out, or do 32 show the
# same?

# %% claims=["C202", "C203"]
for momentum in (0.0, 0.9):
    weight = nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([weight], lr=0.1, momentum=momentum)
    weight.sum().backward()
    optimizer.step()
    print(f"SGD, momentum={momentum}: remembers {list(optimizer.state[weight]) or 'nothing'}")
print("momentum if you say nothing:", torch.optim.SGD([weight]).defaults["momentum"])

for kind in (torch.optim.Adam, torch.optim.AdamW):
    weight = nn.Parameter(torch.tensor([10.0]))
    weight.grad = torch.zeros(1)
    kind([weight], lr=0.1, weight_decay=0.01).step()
    print(f"{kind.__name__:5} 10 -> {weight.item():.2f}")

control = show.loss_surface()
control.set(learning_rate=0.05)
control


# %% tags=["nbval-ignore-output"] claims=["C205", "C206", "C207"]
def last_loss(kind, learning_rate, inputs, targets, steps=60):
    """Train a fresh network on one fixed batch and return its last loss."""
    model = models.build("mlp", digits.train.image_shape, 10)
    optimizer = kind(model.parameters(), lr=learning_rate)
    for _ in range(steps):
        loss = F.cross_entropy(model(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


rates = [1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0]
inputs, targets = next(data.loader(digits.train, 512).at(epoch=0, batch=0))
sweep = {
    "SGD": [last_loss(torch.optim.SGD, rate, inputs, targets) for rate in rates],
    "AdamW": [last_loss(torch.optim.AdamW, rate, inputs, targets) for rate in rates],
    "AdamW, 32 pictures": [last_loss(torch.optim.AdamW, rate, inputs[:32], targets[:32]) for rate in rates],
}
assert sweep["SGD"][0] > 2.2 and sweep["AdamW"][0] > 1.0  # far too small: both crawl
assert min(sweep["SGD"][3:5]) < 0.6 and max(sweep["AdamW"][1:3]) < 0.2  # their good ranges lie far apart
assert sweep["AdamW, 32 pictures"][2] < 0.1 and sweep["AdamW, 32 pictures"][0] > 1.0  # 32 show the same
assert not sweep["SGD"][-1] < 2.0 and not sweep["AdamW"][-1] < 2.0  # far too large
show.comparison(
    sweep, title="Loss after 60 updates", x_label="learning rate", y_label="loss", x=rates, log_x=True, log_y=True
)

# %% [markdown] exercise="SGD" claims=["C202", "C204"]
# SGD has no momentum until you ask for it: pass `momentum=0.9`. Both Adams were asked for a decay of 0.01 at a rate of
# 0.1, so the weight 10 should lose 0.1 · 0.01 · 10 = 0.01. AdamW takes just that. Adam sends the decay through its
# adaptive step, which turns it into a whole step of 0.1. Use AdamW when you use decay; and think of *which* numbers
# should decay.
#
# Which is better, AdamW or SGD with a cosine schedule? It depends on the model: convolutional networks often end a
# little better with SGD, transformers stay with AdamW. No general proof exists; measure.
#
# Too small crawls; too large oscillates or blows up. You will read *start between 0.001 and 0.01*: true for AdamW,
# while SGD here wants far more. The first try depends on the optimizer: AdamW about 0.001, SGD with momentum about
# 0.1 in a network with normalisation, fine-tuning 0.00001 to 0.0001. Thirty-two pictures, overfitted, give the order of
# magnitude in a second. Then tune again on the real data: a few pictures forgive rates that the full set does not.

# %% exercise="decay_groups"

# %% [markdown] predict="mean_of_means"
# ## 6 · Numbers you can trust
#
# Three numbers that are often wrong. *The loss of an epoch:* you will read `total += loss.item()` divided by
# `len(loader)`, and `total += loss.item() * len(inputs)` divided by `len(loader.dataset)`. *The accuracy:* you will
# read that the mean over batches *misleads when classes are imbalanced*; take one sick among a hundred, and a model
# that always says *healthy*. *The best of many:* programs evaluate the test set after each epoch and report the best of
# these numbers. **Predict:** 200 models that merely guess among ten classes, 100 test pictures. What does the best
# score?

# %% claims=["C209", "C210", "C217", "C221", "C222", "C226"]
losses = torch.cat([torch.ones(128), torch.full((2,), 5.0)])
batches = losses.split(64)
seen = batches[:2]  # all that drop_last=True leaves: every loss in it is 1
print(f"true mean                      {losses.mean():.4f}")
print(f"mean of the batch means        {sum(batch.mean() for batch in batches) / len(batches):.4f}")
print(f"weighted, over the data set    {sum(batch.mean() * len(batch) for batch in batches) / len(losses):.4f}")
print(f"the same with drop_last=True   {sum(batch.mean() * len(batch) for batch in seen) / len(losses):.4f}")
print(f"and over the samples counted   {sum(batch.mean() * len(batch) for batch in seen) / sum(map(len, seen)):.4f}")

truth = torch.tensor([0] * 99 + [1])  # one sick among a hundred
outputs = torch.tensor([[1.0, 0.0]]).repeat(100, 1)  # a model that always says: healthy
predicted = outputs.argmax(dim=1)
assert torch.equal(predicted, outputs.max(1)[1])  # the older spelling of the same
right = (predicted == truth).float()
halves, unequal = right.split(50), right.split(99)
print(f"accuracy                       {right.mean():.2f}")
print(f"mean over batches of 50 and 50 {(halves[0].mean() + halves[1].mean()) / 2:.2f}")
print(f"mean over batches of 99 and 1  {(unequal[0].mean() + unequal[1].mean()) / 2:.2f}")
for label in (0, 1):
    print(f"recall of class {label}              {right[truth == label].mean():.1f}")

chance = torch.Generator().manual_seed(0)
test_labels = torch.randint(0, 10, (100,), generator=chance)
guesses = torch.randint(0, 10, (200, 100), generator=chance)
scores = (guesses == test_labels).float().mean(dim=1)
fresh_labels = torch.randint(0, 10, (100,), generator=chance)
best = scores.argmax()
print(f"mean of all guessers {scores.mean().item():.2f}, chosen by the test set {scores[best].item():.2f}")
print(f"the chosen one on fresh pictures {(guesses[best] == fresh_labels).float().mean().item():.2f}")
lab.mean_of_means.reveal(guess, f"{sum(batch.mean().item() for batch in batches) / len(batches):.2f}")

# %% exercise="evaluate_by_sums" claims=["C220", "C221", "C223"]

# %% [markdown]
# The first template is wrong whenever batches differ in size; the second as soon as the loader drops samples. **Rule:
# sum over samples, divide by the samples counted.**
#
# Imbalance is another fault with another cure. With equal batches both ways agree on 0.99, and *accuracy itself*
# misleads: look at the recall of each class (`predictions.per_class()` in `labkit`).
#
# And choosing by a set makes its score too good. Choose by *validation* (epoch, rate, model), and use the test set
# once, at the end. `labkit` splits in three for that reason.
#
# ## 7 · Validation
#
# Evaluation needs two switches, and they are independent: `model.eval()` changes what dropout and batch normalisation
# do; `no_grad` (or the stricter `inference_mode`) stops the recording of graphs. Without the second, each batch keeps
# its activations for a backward pass that never comes; store the outputs, and all graphs stay.
#
# Does your evaluation give the same numbers for every batch size? A right one does. The next cell asks that of
# `labkit`'s; put yours in its place.
#
# Then look at the line that puts the mode back. Many programs call `model.train()` *once*, before the first epoch, and
# `eval()` in each validation. From the second epoch on they train without dropout.
#
# The cell trains three times on 300 pictures, a fifth of them with a random label, so that there is something to learn
# by heart: without dropout, with dropout, and with dropout that validation switched off for good. **Predict:** how do
# the three training losses differ? And the validation losses? Which two runs will look alike?


# %% claims=["C220", "C223"]
def bytes_kept(model, inputs, recording):
    """Return how many bytes a forward pass keeps for a backward pass."""
    kept = []

    def note(tensor):
        kept.append(tensor.numel() * tensor.element_size())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor), recording():
        model(inputs)
    return sum(kept)


model = models.build("cnn", digits.train.image_shape, 10).eval()
loaders = [data.loader(digits.val, size, statistics=train_loader.statistics) for size in (7, 64, 1000)]
accuracies = {training.evaluate(model, loader).accuracy for loader in loaders}
print("batches of 7, 64 and 1000 give the same accuracy:", len(accuracies) == 1)
for recording in (torch.enable_grad, torch.no_grad, torch.inference_mode):
    kept = bytes_kept(model, torch.zeros(64, 1, 8, 8), recording)
    print(f"eval() and {recording.__name__:14} keeps {kept / 1e6:.1f} MB of one batch for a backward pass")

# %% tags=["nbval-ignore-output"] claims=["C219", "C224", "C225", "C260"]
few_loader = data.loader(digits.train.select(torch.arange(300)), 300, statistics=train_loader.statistics)
few_inputs, few_labels = next(few_loader.at(epoch=0, batch=0))
chance = torch.Generator().manual_seed(1)
spoilt = torch.rand(300, generator=chance) < 0.2
few_labels[spoilt] = torch.randint(0, 10, (int(spoilt.sum()),), generator=chance)


def two_losses(dropout, train_every_epoch, epochs=30):
    """Train on the few pictures; return training and validation loss of every epoch."""
    torch.manual_seed(0)
    model = models.build("mlp", digits.train.image_shape, 10, dropout=dropout)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    train_losses, val_losses = [], []
    for epoch in range(epochs):
        if train_every_epoch or epoch == 0:
            model.train()
        total = 0.0
        for picked in torch.randperm(300).split(32):
            loss = F.cross_entropy(model(few_inputs[picked]), few_labels[picked])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(picked)
        train_losses.append(total / 300)
        model.eval()
        with torch.inference_mode():
            losses = [F.cross_entropy(model(inputs), targets, reduction="sum") for inputs, targets in val_loader]
        val_losses.append(sum(losses).item() / len(digits.val))
    return train_losses, val_losses


runs = {
    "no dropout": two_losses(0.0, train_every_epoch=True),
    "dropout": two_losses(0.5, train_every_epoch=True),
    "dropout, train() once": two_losses(0.5, train_every_epoch=False),
}
last = {name: (train_losses[-1], val_losses[-1]) for name, (train_losses, val_losses) in runs.items()}
assert last["dropout"][0] > last["no dropout"][0] + 0.2  # dropout makes training harder …
assert last["dropout"][1] < last["no dropout"][1] - 0.05  # … and the network better
assert last["dropout, train() once"][1] > last["dropout"][1] + 0.05  # the mode bug costs what dropout gave
val_losses = runs["no dropout"][1]
print(f"no dropout: lowest validation loss in epoch {1 + val_losses.index(min(val_losses))} of {len(val_losses)}")
assert min(val_losses) < val_losses[-1] - 0.05
for place, title in enumerate(("Training loss", "Validation loss")):
    lines = {name: both[place] for name, both in runs.items()}
    display(show.comparison(lines, title=title, x_label="epoch", y_label="loss"))

# %% [markdown] predict="four_backwards"
# Without dropout, the training loss falls towards 0 while the validation loss turns and *rises*: overfitting. The
# cures are augmentation, dropout, weight decay, fewer parameters, earlier stopping, and above all more data. The
# third run claims to use dropout and looks like the first. So before you read a gap as overfitting, check the mode.
#
# **Rule:** `model.train()` at the top of *every* epoch. And always a validation: the training loss praised the worst
# run.
#
# ## 8 · A large batch in pieces
#
# Memory for 8 pictures, but a batch of 32 wanted: call `backward` for four small batches, then step once, since
# gradients add up. You will read that this *equals the batch of 32*. Is it so? And how often does batch normalisation
# update its statistics? Then move the sliders: what does one picture count with the usual `loss / k`, and how far off
# is the gradient? When does the usual way do no harm?

# %% claims=["C249", "C251", "C252"]
generator = torch.Generator().manual_seed(0)
pictures, labels = torch.randn(32, 64, generator=generator).double(), torch.randint(0, 10, (32,), generator=generator)
layer = nn.Linear(64, 10).double()


def gradient(parts, weight_of):
    """Return the gradient that builds up over the parts; each part's mean loss is weighted."""
    layer.zero_grad()
    for part in parts:
        (F.cross_entropy(layer(pictures[part]), labels[part]) * weight_of(part)).backward()
    return layer.weight.grad.clone()


large = gradient([torch.arange(32)], lambda part: 1)
even, uneven = torch.arange(32).split(8), torch.arange(32).split([20, 12])
ratio = (gradient(even, lambda part: 1) / large).median().item()
sizes = {1: "as large", 4: "4 times", 0.25: "a quarter"}
lab.four_backwards.reveal(guess, sizes[min(sizes, key=lambda size: abs(size - ratio))])
print("4 × 8, each loss / 4:        equal:", torch.allclose(gradient(even, lambda part: 1 / 4), large))
print("20 + 12, each loss / 2:      equal:", torch.allclose(gradient(uneven, lambda part: 1 / 2), large))
print("20 + 12, by share of samples: equal:", torch.allclose(gradient(uneven, lambda part: len(part) / 32), large))

once, in_parts = nn.BatchNorm1d(64).double(), nn.BatchNorm1d(64).double()
large_output = once(pictures)
small_output = torch.cat([in_parts(pictures[part]) for part in even])
updates = [norm.num_batches_tracked.item() for norm in (once, in_parts)]
print("batch normalisation, updates of its statistics:", updates)
print(f"largest difference of its outputs: {(large_output - small_output).abs().max().item():.1f}")

control = show.accumulation()
control.set(batches=4, unevenness=0.5)
control

# %% exercise="accumulate" claims=["C249"]

# %% [markdown]
# **Rule:** weight each loss by its share of the samples of the *window* (the small batches of one step), and step
# after the last, possibly shorter, window too. Done so it is exact, and no emergency measure: it costs time, not
# accuracy. One thing it cannot mend: batch normalisation sees each small batch. (GroupNorm and LayerNorm do not care,
# since they never look across samples.)
#
# ## 9 · Clipping, and a scaler
#
# `clip_grad_norm_` shortens the gradient to a largest length and keeps its direction. **Predict** how far the weights
# move (rate 1, gradient of length 200, `max_norm=1`) when clipping stands before the step, and after it. You will read
# that clipping *prevents NaN*. Is it so?
#
# Float16 has few small numbers: what is below 0.00000003 becomes 0. So a *scaler* multiplies the loss, and with it all
# gradients, and divides them again before the step. You will read accumulation written with it: `scaler.scale(loss)`
# before each `backward()` and, every few batches, `optimizer.step()`. **Predict** where a weight of 1 lands with
# gradient 2 and rate 0.001, and which gradient clipping would see.
#
# The picture below the cell shows the gradients of a deep network with sigmoids, layer by layer. At which `loss_scale`
# does float16 lose none of them, and what happens with far too much of it?


# %% claims=["C250", "C253", "C254"]
def distance(clip_before_step):
    """Make one step with a gradient of length 200 and return how far the weights moved."""
    weights = nn.Parameter(torch.zeros(4))
    optimizer = torch.optim.SGD([weights], lr=1.0)
    (100 * weights).sum().backward()
    if clip_before_step:
        norm = nn.utils.clip_grad_norm_([weights], max_norm=1.0)
        print(f"it returns the norm from before: {norm.item():.0f}")
    optimizer.step()
    if not clip_before_step:
        nn.utils.clip_grad_norm_([weights], max_norm=1.0)
    return weights.detach().norm().item()


def scaled_backward():
    """Return scaler, optimizer and weight after the backward pass of a loss scaled by 65536."""
    weight = nn.Parameter(torch.tensor([1.0]))
    scaler = torch.amp.GradScaler("cpu", init_scale=65536.0)
    scaler.scale((2 * weight).sum()).backward()
    return scaler, torch.optim.SGD([weight], lr=0.001), weight


print(f"clipped before the step: moved by {distance(True):.1f}")
print(f"clipped after the step:  moved by {distance(False):.1f}")

weights = nn.Parameter(torch.ones(3))
weights.grad = torch.tensor([1.0, float("nan"), 2.0])
refused = error_of(lambda: nn.utils.clip_grad_norm_([weights], 1.0, error_if_nonfinite=True))
print("error_if_nonfinite:", refused[:64], "…")
nn.utils.clip_grad_norm_([weights], 1.0)
print("a gradient with one NaN, after clipping:", weights.grad.tolist())

scaler, optimizer, weight = scaled_backward()
optimizer.step()
print(f"optimizer.step():  1 -> {weight.item():.3f}")

scaler, optimizer, weight = scaled_backward()
print(f"gradient that clipping would see: {weight.grad.item():.0f}", end="")
scaler.unscale_(optimizer)
print(f", after unscale_: {weight.grad.item():.0f}")
scaler.step(optimizer)  # skips the step if the gradient is not finite
scaler.update()
print(f"scaler.step():     1 -> {weight.item():.3f}")
show.underflow()

# %% exercise="clip_and_report" claims=["C253"]

# %% [markdown] predict="first_cut"
# **Rule:** backward, unscale, clip, step, update the scale; and log the norm that clipping returns. `scaler.step` and
# `scaler.update` stand at the end of a window. Without float16 nobody needs a scaler, accumulation least of all.
#
# Clipping bounds gradients that are large and finite. One NaN makes the norm NaN, and dividing by it spreads NaN to
# every weight. `labkit` looks at the norm, leaves the weights alone, and says in which batch it happened.
#
# ## 10 · Schedules
#
# You will read that `CosineAnnealingLR` *lowers the rate periodically*. **Predict** the rate over 20 steps with
# `T_max=10`. And since `T_max` counts calls of `step()`: 10 epochs of 100 batches, `T_max=10` meant as epochs, but
# stepped per batch. How often does the rate swing down and up? Two schedules on one optimizer both write the same
# number: what do a tenth every four steps and a half every step make together?
#
# Another schedule watches the validation loss: `ReduceLROnPlateau`. And `labkit` writes a schedule out as a table
# before training starts, from a function of the update. Move its sliders: what does a warm-up change, and what does the
# number of epochs? Then write such a function.


# %% claims=["C255", "C258", "C259"]
def rates_of(make_schedule, steps=20, rate=0.1):
    """Step an optimizer and its schedule together; return the rate of every step."""
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=rate)
    schedule = make_schedule(optimizer)
    used = []
    for _ in range(steps):
        used.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    return used


def both_at_once(optimizer):
    """Multiply two schedules: a tenth every four steps, half every step."""
    tenth = lr_scheduler.StepLR(optimizer, step_size=4, gamma=0.1)
    half = lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.5)
    return lr_scheduler.ChainedScheduler([tenth, half], optimizer)


def one_after_the_other(optimizer):
    """Warm up for four steps, then follow a cosine."""
    warm_up = lr_scheduler.LinearLR(optimizer, start_factor=0.25, total_iters=4)
    cosine = lr_scheduler.CosineAnnealingLR(optimizer, T_max=4)
    return lr_scheduler.SequentialLR(optimizer, [warm_up, cosine], milestones=[4])


for schedule in (both_at_once, one_after_the_other):
    print(f"{schedule.__name__:19}", [f"{rate:.2g}" for rate in rates_of(schedule, steps=8)])
per_batch = rates_of(lambda optimizer: lr_scheduler.CosineAnnealingLR(optimizer, T_max=10), steps=1000)
print("full swings of T_max=10 in 1000 steps:", sum(rate > 0.0999 for rate in per_batch))
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.1)
    lr_scheduler.StepLR(optimizer, step_size=1).step()
print("schedule before optimizer:", str(caught[0].message)[:66], "…")

shown = {
    "CosineAnnealingLR, T_max=10": rates_of(lambda optimizer: lr_scheduler.CosineAnnealingLR(optimizer, T_max=10)),
    "WarmRestarts, T_0=10": rates_of(lambda optimizer: lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=10)),
    "OneCycleLR, 20 steps": rates_of(lambda optimizer: lr_scheduler.OneCycleLR(optimizer, max_lr=0.1, total_steps=20)),
}
show.rates(shown)

# %% claims=["C256", "C257"]
optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.1)
schedule = lr_scheduler.ReduceLROnPlateau(optimizer, mode="min", factor=0.5, patience=3)
rates = []
for _ in range(10):
    schedule.step(1.0)
    rates.append(schedule.get_last_lr()[0])
print("after each call:", "  ".join(f"{rate:g}" for rate in rates))
fresh = lr_scheduler.ReduceLROnPlateau(optimizer)
print(f"if you say nothing: factor {fresh.factor}, patience {fresh.patience}")
print(error_of(lambda: schedule.step()))
print(error_of(lambda: lr_scheduler.ReduceLROnPlateau(optimizer, verbose=True)))
lab.first_cut.reveal(guess, 1 + [rate < 0.1 for rate in rates].index(True))

control = show.schedule_explorer()
control.set(schedule="cosine", warm_up=0.1)
control

# %% exercise="warm_up_cosine" claims=["C258"]

# %% [markdown] exercise="stop_early" claims=["C260"]
# The cosine goes down *once*, in half a wave over `T_max` steps, and climbs back up if you go on. For cycles take
# `CosineAnnealingWarmRestarts`; to begin with a warm-up take `OneCycleLR`. Of two schedules, say which you mean:
# `ChainedScheduler` multiplies them, `SequentialLR` lets one follow the other. **Rule:** `T_max` is in the unit of
# `step()`, and the schedule steps after the optimizer.
#
# The plateau wants the validation loss, once an epoch. (`verbose` is gone; read `get_last_lr()`.) An article that says
# *cuts to a tenth* and writes `factor=0.5` states the default and uses another value; both are legal.
#
# ## 11 · Stopping, and what to keep
#
# You will read: *no improvement for several epochs: save the current model and stop.* By then the current model is
# worse than the best. So two things are needed, and they are two: a rule that stops, and a copy of the best.
# In part 7 the network without dropout had its lowest validation loss long before its last epoch. **Rule:** keep the
# weights at *each improvement*, as a copy, and put the best ones back at the end.
#
# Often there are weights better than those of any single epoch: their average. The last updates jump around a minimum,
# and the mean of where they were lies nearer to it. It costs one more copy of the weights, and no gradient.

# %% exercise="keep_best" claims=["C260"]

# %% exercise="average_weights"

# %% [markdown]
# ## 12 · The whole loop
#
# All of it together is `training.fit`: settings in, history out. Beside the eight lines it has these:
#
# | the bare line | in `labkit` | what it prevents (part) |
# |---|---|---|
# | `for inputs, targets in train_loader` | `windows(batches, accumulate)` | a short last window, lost (8) |
# | | `training.model.train()` in every epoch | dropout off from the second epoch on (7) |
# | | `inputs.to(device), targets.to(device)` | model and batch on two devices (3) |
# | `optimizer.zero_grad()` | first in `update` | gradients of the last update (2) |
# | `loss = cross_entropy(…)` | `loss * (len(targets) / count)` | gradients too large by the number of batches (8) |
# | `loss.backward()` | `scaler.scale(…).backward()`, `unscale_` | vanishing float16 gradients (8, 9) |
# | | `clip_grads_with_norm_` | one wild batch (9) |
# | `optimizer.step()` | skipped when loss or norm is not finite | weights full of NaN (9) |
# | | `schedule.set_rate`, and `advance` only if it stepped | a schedule that runs ahead (10) |
# | | `average.follow` | weights that jump around the minimum (11) |
# | `print(loss.item())` | `totals.add(outcome)`, read every `log_every` | the last batch taken for the epoch (6) |
# | | `evaluate(model, val_loader)` | judging by the training loss (7) |
# | | `_remember_best`, `put_final_weights` | the last weights taken for the best (11) |
#
# Now read [labkit/training/step.py](../labkit/training/step.py), one update, and
# [labkit/training/fit.py](../labkit/training/fit.py), the loop around it, with this table beside it.
#
# The next cell watches it: `show.live_training` is `fit`, to the last bit, with a curve that grows and buttons to
# pause, go on and stop. It is over in a second or two; give it 400 epochs, and try them.
#
# ### Yours in its place
#
# A check compares outputs; a training is the harder proof. A small network learns digits, once with torch's parts, then
# with yours: equal numbers to the end, then time and memory. What you have skipped is torch's. First a training step
# with a well-known fault, so that you see what the table says.

# %% tags=["nbval-ignore-output"] claims=["C218"]
config = training.Config(
    data="digits",
    model="mlp",
    epochs=8 if fast else 40,
    learning_rate=0.003,
    clip_norm=1.0,
    patience=4,
    device="cpu",
    run_dir="",
)
model = models.build("mlp", digits.train.image_shape, 10, dropout=0.5)
run = await show.live_training(model, train_loader, val_loader, config)
assert run.best["val_accuracy"] > 0.9
assert training.evaluate(model, val_loader).loss == run.best["val_loss"]  # the best weights are back in the model
running = run.history[0]["train_accuracy"]
print(f"first epoch: running accuracy {running:.3f}, on pictures never seen {run.history[0]['val_accuracy']:.3f}")
print(f"the best weights on all training pictures: {training.evaluate(model, train_loader).accuracy:.3f}")
display(show.curves(run.history))


def hasty_step(model, loss_fn, optimizer, inputs, targets):
    """Make one update; whoever wrote it had read that the mode is set before the first epoch."""
    loss = loss_fn(model(inputs), targets)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.detach()


found = swap_in.side_by_side(training_step=hasty_step, updates=10)
assert not found.is_right
display(found)
swap_in.side_by_side(training_step=training_step, loss=cross_entropy, optimizer=SGD, updates=10 if fast else 20)

# %% [markdown]
# In the first epochs the training accuracy lies *below* that on pictures never seen. It is a *running* figure: it mixes
# many versions of the weights, and dropout was on. To judge the gap to validation fairly, evaluate the training
# pictures, too.
#
# ## 13 · What goes wrong here
#
# Ten real errors, on purpose. **Predict** the reason of each from its text before you read on.

# %% claims=["C211", "C214"]
inputs, targets = next(train_loader.at(epoch=0, batch=0))
model = models.build("mlp", digits.train.image_shape, 10)
outputs = model(inputs)
loss = F.cross_entropy(outputs, targets)
loss.backward()
weights = torch.optim.SGD(model.parameters(), lr=0.1)

print(" 1", error_of(lambda: F.cross_entropy(outputs, targets.float())))
print(" 2", error_of(lambda: F.cross_entropy(outputs, targets[:, None])))
print(" 3", error_of(lambda: F.cross_entropy(outputs, targets + 1)))
print(" 4", error_of(lambda: F.cross_entropy(outputs, targets.to("meta"))))
print(" 5", error_of(lambda: model(inputs.double())))
print(" 6", error_of(lambda: loss.backward())[:72], "…")
with torch.inference_mode():
    outputs = model(inputs)
print(" 7", error_of(lambda: F.cross_entropy(outputs, targets).backward()))
print(" 8", error_of(lambda: F.cross_entropy(model(inputs), targets, reduction="none").backward()))
print(" 9", error_of(lambda: torch.amp.GradScaler("cpu").unscale_(weights))[:72], "…")
print("10", error_of(lambda: lr_scheduler.OneCycleLR(weights, max_lr=0.1)))

# %% [markdown]
# 1. Class numbers are int64 (`Long`). They became float, often on their way through NumPy or pandas:
#    `targets.long()`.
# 2. Targets came as a column `(N, 1)`; `cross_entropy` wants `(N,)`: `targets.squeeze(1)`.
# 3. Labels count from 1, but the network has outputs 0 … 9. On a GPU this arrives late, as a *device-side assert*.
# 4. The batch moved, the targets did not: part 3.
# 5. NumPy's default is float64, PyTorch's float32: `inputs.float()`.
# 6. `backward` twice through one graph, which the first call freed: compute the loss again in each step.
# 7. The outputs come from `inference_mode`: training and evaluation got mixed up.
# 8. A loss for each sample: `backward` starts from one number. Take the mean.
# 9. Nothing was scaled yet: `scaler.scale(loss).backward()` comes first.
# 10. A schedule that ends must know when: `total_steps=epochs * len(loader)`.
#
# And three faults that raise *nothing*: a missing `zero_grad` (part 2), a second softmax (part 4), `train()` called
# once (part 7). For these you need the pictures, and the numbers to compare with: ln K at the start, 1.461 as a
# floor, validation beside training.
#
# ## 14 · You will read that … is it so?
#
# Sentences from tutorials. Choose for each: true, false, or it depends. *Measure it* runs the evidence on your
# computer.

# %% claims=["C199", "C200", "C202", "C210", "C211", "C213", "C222", "C226", "C249", "C254", "C255", "C257", "C260"]
show.quiz("C199", "C200", "C202", "C210", "C211", "C213", "C222", "C226", "C249", "C254", "C255", "C257", "C260")

# %% [markdown]
# ## Take away
#
# - zero … backward … step; `zero_grad` anywhere but between the last two.
# - `.to(device)` of a tensor needs the assignment; a module moves itself.
# - The first loss is ln K. A loss that stays above 1.46 hides a softmax; a negative one has targets outside 0 … 1.
# - The rate belongs to the optimizer: AdamW about 0.001, SGD with momentum about 0.1. Decay is for matrices.
# - Sum over samples, divide by the samples counted. Running accuracy is not training accuracy.
# - `train()` at the top of every epoch, `eval()` *and* `no_grad` for validation, the test set once.
# - Accumulation: weight by the share of samples. Clipping: after unscale, before step.
# - Know the unit of your schedule. Stopping is one rule, keeping the best, as a copy, another.
#
# To read: [labkit/training/step.py](../labkit/training/step.py) and [fit.py](../labkit/training/fit.py), then
# [schedule.py](../labkit/training/schedule.py), the schedules as functions, and
# [metrics.py](../labkit/measuring/metrics.py), evaluation as sums. Next: chapter 06, what must be kept so that a run
# can be cut anywhere.
