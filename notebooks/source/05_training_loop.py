# %% [markdown]
# # 05 · The training loop
#
# **The question.** Eight lines train a network. Why is the loop of every real project longer?
#
# Because each further line answers a training that went wrong without it. In this chapter you start from the eight
# lines, watch each fault happen, and add the line that prevents it. At the end you read `labkit`'s own loop and know
# every line of it.
#
# Before a cell that says **Predict**, write down what you expect. A wrong prediction is where you learn something.
# You have seen [chapter 00](00_start_here.ipynb); the cells here run in under a minute on two CPU cores.

# %% tags=["parameters"]
fast: bool = True  # True: short runs that show each effect; False: longer ones

# %%
# %load_ext labkit

import copy
import math
import warnings

import torch
import torch.nn.functional as F
from IPython.display import display
from torch import nn
from torch.optim import lr_scheduler

from labkit import data, devices, models, show, training
from labkit.course import parameters
from labkit.errors import error_of

chosen = parameters(globals())
torch.set_num_threads(1)  # networks as small as these are faster on one thread

# %% [markdown]
# ## 1 · Eight lines
#
# The data: handwritten digits of 8 × 8 pixels, in three parts. The loaders give batches of pictures with their labels.
# Both subtract the mean of the *training* pixels and divide by their deviation (`statistics`): validation has to see
# the same scale. The network `mlp` is three linear layers with ReLU between them. Below, the eight lines.
#
# A loader gives `at(epoch, batch)` the same batches each time, and `models.build` the same first weights. So when two
# runs in this chapter differ, it is by the line that was changed, not by chance.
#
# **Predict:** an untrained network knows nothing of ten classes. What is its loss, roughly? Will the printed loss
# fall in each epoch?

# %%
digits = data.load("digits")
train_loader = data.loader(digits.train, 64, shuffle=True)
val_loader = data.loader(digits.val, 64, statistics=train_loader.statistics)
print(f"{len(digits.train)} to train on, {len(digits.val)} to validate, {len(digits.test)} to test")
print(f"{len(train_loader)} batches in an epoch; the last one has {len(digits.train) % 64} pictures")

# %% tags=["nbval-ignore-output"] claims=["C208"]
model = models.build("mlp", digits.train.image_shape, class_count=10)
optimizer = torch.optim.SGD(model.parameters(), lr=0.2)

for epoch in range(6):
    for inputs, targets in train_loader:
        outputs = model(inputs)
        loss = F.cross_entropy(outputs, targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch + 1}: loss {loss.item():.3f}")

assert loss.item() < 1.0

# %% [markdown]
# It learns. But the printed number is the loss of the *last batch* of an epoch: a handful of pictures, so it jumps
# about. You do not know how good the network is on pictures that it has not seen, nor would you notice if a line were
# in the wrong place. That is the list to work through:
#
# | part | what it adds |
# |---|---|
# | 2, 3 | the beat: what must come before what; one device |
# | 4, 5 | the right loss for the targets; an optimizer and its rate |
# | 6, 7 | numbers you can trust: sums over samples, evaluation mode, validation |
# | 8, 9 | gradients: accumulated, clipped |
# | 10, 11 | a schedule; stopping at the best |
# | 12 | the whole loop |
#
# ## 2 · The beat
#
# You will read that *the order cannot be swapped*, and that `zero_grad` belongs right before `backward`. Is it so?
# The function below does the three calls in the order you name, always after the forward pass.
#
# **Predict** for three orders, *zero backward step*, *backward zero step* and *backward step zero*: which two give the
# same losses, to the last digit? Which one learns nothing? And what does a loop do that never zeroes?


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
assert losses["backward step"][10] < losses["zero backward step"][10]  # never zeroed: ahead at first …
assert max(losses["backward step"]) > 5  # … and then blown up
show.comparison(losses, title="The same beat in another order", x_label="update", y_label="loss", log_y=True)

# %% [markdown]
# The line without `zero` is the treacherous one. Gradients pile up, so it runs *ahead* for a while, like a ball that
# no friction stops; then it overshoots further and further. A loop that looks fine for twenty updates may lack
# `zero_grad`.
#
# **Rule:** zero … backward … step, with `zero_grad` anywhere except between `backward` and `step`.
#
# One order is left: stepping before `backward`.

# %% claims=["C211"]
print(error_of(lambda: losses_when("step zero backward")))

# %% [markdown]
# `step` changed the weights *in place*, and `backward` needs the weights that the forward pass used. PyTorch notices.
# (A network of a single layer needs no old weights for its gradient: there the swap passes in silence, and each
# update comes one step late.)
#
# ### What `backward` fills, and what stays attached
#
# The *graph* is PyTorch's note of how a number was computed; `backward` walks it from the loss to the weights. You will
# read that after `backward` the loss is *already detached from the graph*. Is it so?
#
# **Predict:** of four parameters, one is frozen and two belong to a layer that the forward pass does not use. Which
# get a gradient? And how many graphs does a running sum of a hundred losses hold?

# %% claims=["C212", "C213"]
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

# %% [markdown]
# The graph hangs on the loss; `backward` walks it and fills `.grad` of each parameter that it meets and that wants
# one. A parameter whose `.grad` is `None` afterwards is frozen or was never used.
#
# The *number* from `item()` is free of the graph; the tensor is not. `total += loss` keeps the graph of every batch
# alive until memory ends. Add `loss.item()`, or `loss.detach()` where waiting for a GPU in each step would be slow.
#
# ## 3 · One device
#
# People move the model to the GPU and forget the batch. The two `.to` differ, and that is the trap. Here stands the
# device `meta` (shapes without numbers) for the GPU, so that it fails the same way on every machine.
#
# Which device? You will read `torch.device("cuda" if torch.cuda.is_available() else "cpu")`. It works, and misses
# Apple and other accelerators. PyTorch now has one question for all of them.

# %% claims=["C214", "C216"]
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

# %% [markdown] claims=["C215"]
# **Rule:** `inputs, targets = inputs.to(device), targets.to(device)` at the top of every step, with the assignment.
#
# Ask for the device once, at the top of the program, and *pass it as an argument*, as `fit` does through its config.
# A global `device` is read by code that a test or a second model wants to run elsewhere.
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
# ln K. **Predict** that number for K = 10.

# %% claims=["C198"]
scores, labels = torch.randn(5, 10, generator=torch.Generator().manual_seed(0)), torch.tensor([3, 1, 4, 1, 5])
in_two_steps = F.nll_loss(scores.log_softmax(1), labels)
print("is log-softmax and nll in one:", torch.allclose(F.cross_entropy(scores, labels), in_two_steps))
print(f"equal scores: {F.cross_entropy(torch.zeros(1, 10), torch.tensor([3])).item():.4f}   ln 10 = {math.log(10):.4f}")

untrained = training.evaluate(models.build("mlp", digits.train.image_shape, 10), train_loader)
assert abs(untrained.loss - math.log(10)) < 0.1
print("our untrained network is within 0.1 of it")

# %% [markdown]
# So look at the *first* loss of every training: far above ln K, and the scores start out wild; ln K for ever, and
# nothing is connected.
#
# You will read that a second softmax, in the model, *makes the numbers unstable*. Is it so?
#
# **Predict:** the best loss that a perfect answer can reach when softmax is applied twice.

# %% tags=["nbval-ignore-output"] claims=["C199"]
certain = torch.full((1, 10), -50.0)
certain[0, 3] = 50.0
right, wrong = torch.tensor([3]), torch.tensor([4])
print(f"logits         perfect answer {F.cross_entropy(certain, right).item():.3f}")
print(f"softmax twice  perfect answer {F.cross_entropy(certain.softmax(1), right).item():.3f}")
print(f"               worst answer   {F.cross_entropy(certain.softmax(1), wrong).item():.3f}")
floor = math.log(math.e + 9) - 1


def losses_of(forward, steps=100):
    """Train a fresh network on 512 pictures; forward(model, inputs) gives the scores for the loss."""
    inputs, targets = next(data.loader(digits.train, 512).at(epoch=0, batch=0))
    model = models.build("mlp", digits.train.image_shape, 10)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.002)
    losses = []
    for _ in range(steps):
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
assert lines["logits"][-1] < 0.1
assert floor < lines["softmax twice"][-1] < 1.6
assert abs(F.cross_entropy(certain.softmax(1), right).item() - floor) < 1e-4
show.comparison(lines, title="One softmax too many", x_label="update", y_label="loss", references={"floor": floor})

# %% [markdown]
# Nothing is unstable. The loss is squeezed between 1.461 and 2.461 and its gradients are flat, so it learns late and
# stops at the floor. **A loss that will not go below 1.46 on ten classes: look for a softmax in the model.**
#
# You will read that `BCEWithLogitsLoss` with class numbers as targets *gives a small loss and learns nothing*. Is it
# so?

# %% claims=["C200", "C201"]
logits, class_numbers = torch.randn(4, 10), torch.tensor([1, 2, 3, 9])
print("(4, 10) against (4,):     ", error_of(lambda: F.binary_cross_entropy_with_logits(logits, class_numbers)))
print("same shape, but int64:    ", error_of(lambda: F.binary_cross_entropy_with_logits(logits[:, 0], class_numbers)))

score = torch.zeros(4, requires_grad=True)
optimizer = torch.optim.SGD([score], lr=1.0)
for _ in range(50):
    loss = F.binary_cross_entropy_with_logits(score, class_numbers.float())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"one score each, float:     no error, and a loss of {loss.item():.0f} after 50 updates")

scores = torch.tensor([[2.0, -1.0, 0.5]], requires_grad=True)
several_labels = torch.tensor([[1.0, 0.0, 1.0]])
F.binary_cross_entropy_with_logits(scores, several_labels, reduction="sum").backward()
plain = scores.detach().sigmoid() - several_labels
print("several labels, float 0/1: gradient = sigmoid(scores) - targets:", torch.allclose(scores.grad, plain))

# %% [markdown]
# It raises, nearly always. The one silent form, a single score against a float class number, falls *below zero*
# without end. **A negative cross-entropy means targets outside 0 … 1.** For several labels at once the targets are
# float zeros and ones, in the shape of the scores.
#
# For numbers, `mse_loss` wants *equal shapes*. **Predict:** these four predictions are perfect. What is the loss?

# %% claims=["C197"]
perfect, truth = torch.tensor([[0.0], [1.0], [2.0], [3.0]]), torch.tensor([0.0, 1.0, 2.0, 3.0])
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    print("(4, 1) against (4,):", F.mse_loss(perfect, truth).item())
print("only a warning:", str(caught[0].message)[:90], "…")
print("equal shapes:", F.mse_loss(perfect.squeeze(1), truth).item())

# %% [markdown]
# A column against a row broadcasts to a 4 × 4 table of differences. Write `assert outputs.shape == targets.shape`.
#
# ## 5 · An optimizer and its rate
#
# You will read that *SGD is gradient descent with momentum*, and that AdamW is Adam, improved. Look at what they do
# by themselves: SGD's memory after one step, and one step of each Adam with a gradient of zero.

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

# %% [markdown] claims=["C204"]
# SGD has no momentum until you ask for it: pass `momentum=0.9`. Both Adams were asked for a decay of 0.01 at a rate of
# 0.1, so the weight 10 should lose 0.1 · 0.01 · 10 = 0.01. AdamW takes just that. Adam sends the decay through its
# adaptive step, which turns it into a whole step of 0.1. Use AdamW when you use decay.
#
# Which is better, AdamW or SGD with a cosine schedule? It depends on the model: convolutional networks often end a
# little better with SGD, transformers stay with AdamW. No general proof exists; measure.
#
# The rate matters more than the choice. **Predict** for rates from 0.0001 to 100: where does SGD learn, where AdamW?
# And does it take all the pictures to find out, or do 32 show the same?


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

# %% [markdown]
# Too small crawls; too large oscillates or blows up. You will read *start between 0.001 and 0.01*: true for AdamW,
# while SGD here wants far more. The first try depends on the optimizer: AdamW about 0.001, SGD with momentum about
# 0.1 in a network with normalisation, fine-tuning 0.00001 to 0.0001.
#
# Thirty-two pictures, overfitted, give the order of magnitude in a second. Then tune again on the real data: a few
# pictures forgive rates that the full set does not.
#
# ## 6 · Numbers you can trust
#
# You will read two templates for the loss of an epoch: `total += loss.item()` divided by `len(loader)`, and `total +=
# loss.item() * len(inputs)` divided by `len(loader.dataset)`. Take 130 samples in batches of 64, 64 and 2, where the
# last two are hard: loss 1 for each sample, 5 for the last two.
#
# **Predict** what each template reports. The true mean is (128 · 1 + 2 · 5) / 130.
#
# For accuracy you will read that the mean over batches *misleads when classes are imbalanced*. Is it so? Take one
# sick among a hundred, and a model that always says *healthy*.

# %% claims=["C209", "C210", "C217", "C221", "C222"]
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

# %% [markdown]
# The first template is wrong whenever batches differ in size; the second as soon as the loader drops samples. **Rule:
# sum over samples, divide by the samples counted.**
#
# Imbalance is another fault with another cure. With equal batches both ways agree on 0.99, and *accuracy itself*
# misleads: look at the recall of each class (`predictions.per_class()` in `labkit`).
#
# A third number to distrust: the accuracy summed *during* an epoch. **Predict:** with dropout on, is it higher or
# lower than the accuracy of the same pictures measured after the epoch?

# %% tags=["nbval-ignore-output"] claims=["C218"]
torch.manual_seed(0)
model = models.build("mlp", digits.train.image_shape, 10, dropout=0.5)
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
correct = count = 0
for inputs, targets in train_loader:
    outputs = model(inputs)
    loss = F.cross_entropy(outputs, targets)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    correct += (outputs.argmax(dim=1) == targets).sum().item()
    count += len(targets)
after = training.evaluate(model, train_loader).accuracy
print(f"running accuracy of the epoch {correct / count:.3f}, the same pictures afterwards {after:.3f}")
assert correct / count + 0.1 < after

# %% [markdown]
# It mixes many versions of the weights, and dropout was on. Call it *running* accuracy, as `labkit`'s table does. To
# judge the gap to validation fairly, evaluate the training pictures too.
#
# ## 7 · Validation
#
# Evaluation needs two switches, and they are independent: `model.eval()` changes what dropout and batch normalisation
# do; `inference_mode` (or `no_grad`) stops the recording of graphs. Here is what recording costs.


# %% claims=["C220"]
def bytes_kept(model, inputs, recording):
    """Return how many bytes a forward pass keeps for a backward pass."""
    kept = []

    def note(tensor):
        kept.append(tensor.numel() * tensor.element_size())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor), recording:
        model(inputs)
    return sum(kept)


model = models.build("cnn", digits.train.image_shape, 10).eval()
pictures = torch.zeros(64, 1, 8, 8)
print(f"eval() alone             {bytes_kept(model, pictures, torch.enable_grad()) / 1e6:.1f} MB for one batch")
print(f"eval() and no_grad       {bytes_kept(model, pictures, torch.no_grad()) / 1e6:.1f} MB")
print(f"eval() and inference_mode {bytes_kept(model, pictures, torch.inference_mode()) / 1e6:.1f} MB")

# %% [markdown]
# Each batch frees its graph when the outputs go out of scope; store the outputs, and all graphs stay. Now the whole
# listing. A right evaluation gives the same number for every batch size.


# %% claims=["C223"]
def accuracy_of(model, loader, device="cpu"):
    """Return the share of samples classified right."""
    model.eval()
    correct = count = 0
    with torch.inference_mode():
        for inputs, targets in loader:
            inputs, targets = inputs.to(device), targets.to(device)
            correct += (model(inputs).argmax(dim=1) == targets).sum().item()
            count += len(targets)
    model.train()
    return correct / count


model = models.build("cnn", digits.train.image_shape, 10)
sizes = (7, 64, 1000)
accuracies = [accuracy_of(model, data.loader(digits.val, size, statistics=train_loader.statistics)) for size in sizes]
print("equal for batches of 7, 64 and 1000:", len(set(accuracies)) == 1)
print("equal to labkit's evaluate:", accuracies[0] == training.evaluate(model, val_loader).accuracy)

# %% [markdown]
# Look at the line `model.train()` at its end, and at who calls it. Many programs call `model.train()` *once*, before
# the first epoch, and `eval()` in each validation. From the second epoch on they train without dropout.
#
# The next cell trains three times on 300 pictures, a fifth of them with a random label, so that there is something to
# learn by heart: without dropout, with dropout, and with dropout that validation switched off for good.
#
# **Predict:** how do the three training losses differ? And the validation losses? Which two runs will look alike?

# %% tags=["nbval-ignore-output"] claims=["C219", "C224", "C225"]
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
for place, title in enumerate(("Training loss", "Validation loss")):
    lines = {name: both[place] for name, both in runs.items()}
    display(show.comparison(lines, title=title, x_label="epoch", y_label="loss"))

# %% [markdown]
# Without dropout, the training loss falls towards 0 while the validation loss turns and *rises*: overfitting. The
# cures are augmentation, dropout, weight decay, fewer parameters, earlier stopping, and above all more data. The
# third run claims to use dropout and looks like the first. So before you read a gap as overfitting, check the mode.
#
# **Rule:** `model.train()` at the top of *every* epoch. And always a validation: the training loss praised the worst
# run.
#
# You will read programs that evaluate the *test set* after each epoch and report the best of these numbers. What is
# wrong with it? **Predict:** 200 models that merely guess among ten classes, 100 test pictures. What does the best
# score?

# %% claims=["C226"]
chance = torch.Generator().manual_seed(0)
test_labels = torch.randint(0, 10, (100,), generator=chance)
guesses = torch.randint(0, 10, (200, 100), generator=chance)
scores = (guesses == test_labels).float().mean(dim=1)
fresh_labels = torch.randint(0, 10, (100,), generator=chance)
best = scores.argmax()
print(f"mean of all guessers {scores.mean().item():.2f}, chosen by the test set {scores[best].item():.2f}")
print(f"the chosen one on fresh pictures {(guesses[best] == fresh_labels).float().mean().item():.2f}")

# %% [markdown]
# Choosing by a set makes its score too good. Choose by *validation* (epoch, rate, model), and use the test set once,
# at the end. `labkit` splits in three for that reason.
#
# ## 8 · A large batch in pieces
#
# Memory for 8 pictures, but a batch of 32 wanted: call `backward` for four small batches, then step once, since
# gradients add up. You will read that this *equals the batch of 32*. Is it so?
#
# **Predict** the ratio of the summed gradient to that of the large batch. And how often does batch normalisation
# update its statistics?

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
print(f"4 × 8, losses as they are:   {(gradient(even, lambda part: 1) / large).median().item():.2f} times the gradient")
print("4 × 8, each loss / 4:        equal:", torch.allclose(gradient(even, lambda part: 1 / 4), large))
print("20 + 12, each loss / 2:      equal:", torch.allclose(gradient(uneven, lambda part: 1 / 2), large))
print("20 + 12, by share of samples: equal:", torch.allclose(gradient(uneven, lambda part: len(part) / 32), large))

once, in_parts = nn.BatchNorm1d(64).double(), nn.BatchNorm1d(64).double()
large_output = once(pictures)
small_output = torch.cat([in_parts(pictures[part]) for part in even])
updates = [norm.num_batches_tracked.item() for norm in (once, in_parts)]
print("batch normalisation, updates of its statistics:", updates)
print(f"largest difference of its outputs: {(large_output - small_output).abs().max().item():.1f}")

# %% [markdown]
# **Rule:** weight each loss by its share of the samples of the *window* (the small batches of one step), and step
# after the last, possibly shorter, window too. Done so it is exact, and no emergency measure: it costs time, not
# accuracy. `labkit` collects the whole window first, because only then it knows the count. One thing it cannot mend:
# batch normalisation sees each small batch. (GroupNorm and LayerNorm do not care, since they never look across
# samples.)
#
# You will read accumulation written with a scaler: `scaler.scale(loss).backward()` and, every few batches,
# `optimizer.step()`. A scaler (needed for float16 only) multiplies the loss so that small gradients survive.
#
# **Predict** where a weight of 1 lands with gradient 2 and rate 0.001.


# %% claims=["C250", "C253"]
def scaled_backward():
    """Return scaler, optimizer and weight after the backward pass of a loss scaled by 65536."""
    weight = nn.Parameter(torch.tensor([1.0]))
    scaler = torch.amp.GradScaler("cpu", init_scale=65536.0)
    scaler.scale((2 * weight).sum()).backward()
    return scaler, torch.optim.SGD([weight], lr=0.001), weight


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

# %% [markdown]
# Accumulation needs no scaler. With one, `scaler.step` and `scaler.update` stand at the end of a window, and clipping
# comes after `scaler.unscale_`.
#
# ## 9 · Clipping
#
# `clip_grad_norm_` shortens the gradient to a largest length and keeps its direction. **Predict** how far the weight
# moves (rate 1, gradient of length 200) when clipping stands before the step, and after it.
#
# You will read that clipping *prevents NaN*. Is it so?


# %% claims=["C253", "C254"]
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


print(f"clipped before the step: moved by {distance(True):.1f}")
print(f"clipped after the step:  moved by {distance(False):.1f}")

weights = nn.Parameter(torch.ones(3))
weights.grad = torch.tensor([1.0, float("nan"), 2.0])
refused = error_of(lambda: nn.utils.clip_grad_norm_([weights], 1.0, error_if_nonfinite=True))
print("error_if_nonfinite:", refused[:64], "…")
nn.utils.clip_grad_norm_([weights], 1.0)
print("a gradient with one NaN, after clipping:", weights.grad.tolist())

# %% [markdown]
# **Rule:** backward, (unscale,) clip, step; and log the norm that it returns.
#
# Clipping bounds gradients that are large and finite. One NaN makes the norm NaN, and dividing by it spreads NaN to
# every weight. `labkit` looks at the norm, leaves the weights alone, and says in which batch it happened.
#
# ## 10 · Schedules
#
# You will read that `CosineAnnealingLR` *lowers the rate periodically*. **Predict** the rate over 20 steps with
# `T_max=10`.


# %% claims=["C255"]
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


shown = {
    "CosineAnnealingLR, T_max=10": rates_of(lambda optimizer: lr_scheduler.CosineAnnealingLR(optimizer, T_max=10)),
    "WarmRestarts, T_0=10": rates_of(lambda optimizer: lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=10)),
    "OneCycleLR, 20 steps": rates_of(lambda optimizer: lr_scheduler.OneCycleLR(optimizer, max_lr=0.1, total_steps=20)),
}
show.rates(shown)

# %% [markdown]
# It goes down *once*, in half a wave over `T_max` steps, and climbs back up if you go on. For cycles take
# `CosineAnnealingWarmRestarts`; to begin with a warm-up take `OneCycleLR`.
#
# `T_max` counts calls of `step()`. **Predict:** 10 epochs of 100 batches, `T_max=10` meant as epochs, but stepped per
# batch. How often does the rate swing down and up?
#
# And two schedules on one optimizer both write the same number: what do a tenth every four steps and a half every
# step make together?

# %% claims=["C258", "C259"]
per_batch = rates_of(lambda optimizer: lr_scheduler.CosineAnnealingLR(optimizer, T_max=10), steps=1000)
print("full swings:", sum(rate > 0.0999 for rate in per_batch))

with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.1)
    lr_scheduler.StepLR(optimizer, step_size=1).step()
print("schedule before optimizer:", str(caught[0].message)[:66], "…")


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

# %% [markdown]
# **Rule:** `T_max` is in the unit of `step()`, and the schedule steps after the optimizer. Of two schedules, say
# which you mean: `ChainedScheduler` multiplies them, `SequentialLR` lets one follow the other.
#
# The other schedule watches the validation loss: `ReduceLROnPlateau`. **Predict:** with `factor=0.5, patience=3` and
# a loss that never changes, at which call does the rate first fall?

# %% claims=["C256", "C257"]
optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.1)
schedule = lr_scheduler.ReduceLROnPlateau(optimizer, mode="min", factor=0.5, patience=3)
for call in range(1, 11):
    schedule.step(1.0)
    print(f"{call}: {schedule.get_last_lr()[0]:g}", end="   ")
fresh = lr_scheduler.ReduceLROnPlateau(optimizer)
print(f"\nif you say nothing: factor {fresh.factor}, patience {fresh.patience}")
print(error_of(lambda: schedule.step()))
print(error_of(lambda: lr_scheduler.ReduceLROnPlateau(optimizer, verbose=True)))

# %% [markdown]
# At the fifth: the first sets the best, then it waits for more than three without an improvement. It wants the loss,
# once an epoch, after validation. (`verbose` is gone; read `get_last_lr()`.) An article that says *cuts to a tenth*
# and writes `factor=0.5` states the default and uses another value; both are legal.
#
# `labkit` writes a schedule out as a table before training starts. Move the sliders: how does the batch size change
# the number of updates, and so the shape?

# %%
show.schedule_control(pictures=len(digits.train), learning_rate=0.002)

# %% [markdown]
# ## 11 · Stop at the best
#
# You will read: *no improvement for several epochs: save the current model and stop.* **Predict** which loss the
# saved model has for these validation losses and a patience of 3.

# %% claims=["C260"]
val_losses = [1.0, 0.8, 0.6, 0.5, 0.55, 0.6, 0.7, 0.9]
model = nn.Linear(1, 1)
best_loss, waited = math.inf, 0
for epoch, val_loss in enumerate(val_losses, start=1):
    nn.init.constant_(model.weight, val_loss)  # stands for an epoch of training
    if val_loss < best_loss:
        best_loss, waited = val_loss, 0
        reference, snapshot = model.state_dict(), copy.deepcopy(model.state_dict())
    else:
        waited += 1
    if waited == 3:
        print(f"stopped after epoch {epoch} with loss {val_loss}; the best was {best_loss}")
        break
print(f"kept with state_dict(): {reference['weight'].item():.2f}   kept with deepcopy: {snapshot['weight'].item():.2f}")

# %% [markdown]
# Keep the weights at *each improvement* and put the best ones back at the end. And copy them: a `state_dict` shows
# the living weights, so the "best" one went on training.
#
# ## 12 · The whole loop
#
# All of it together is `training.fit`: settings in, history out.

# %% tags=["nbval-ignore-output"]
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
model = models.build("mlp", digits.train.image_shape, 10, dropout=0.2)
run = training.fit(model, train_loader, val_loader, config)
assert run.best["val_accuracy"] > 0.93
show.curves(run.history)

# %% [markdown]
# Now read [labkit/training/step.py](../labkit/training/step.py), one update, and
# [labkit/training/fit.py](../labkit/training/fit.py), the loop around it, beside the eight lines:
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
# | `print(loss.item())` | `totals.add(outcome)`, read every `log_every` | the last batch taken for the epoch (6) |
# | | `evaluate(model, val_loader)` | judging by the training loss (7) |
# | | `_remember_best`, `restore_best` | the last weights taken for the best (11) |

# %% [markdown]
# ## What goes wrong here
#
# These are the real errors, made on purpose. Read the message, then the sentence under the cell.

# %%
inputs, targets = next(train_loader.at(epoch=0, batch=0))
model = models.build("mlp", digits.train.image_shape, 10)
outputs = model(inputs)
loss = F.cross_entropy(outputs, targets)
loss.backward()

print("1", error_of(lambda: F.cross_entropy(outputs, targets.float())))
print("2", error_of(lambda: F.cross_entropy(outputs, targets[:, None])))
print("3", error_of(lambda: F.cross_entropy(outputs, targets + 1)))
print("4", error_of(lambda: F.cross_entropy(outputs, targets.to("meta"))))
print("5", error_of(lambda: model(inputs.double())))
print("6", error_of(lambda: loss.backward())[:72], "…")
with torch.inference_mode():
    outputs = model(inputs)
print("7", error_of(lambda: F.cross_entropy(outputs, targets).backward()))

# %% [markdown]
# 1. Class numbers are int64 (`Long`). They became float, often on their way through NumPy or pandas:
#    `targets.long()`.
# 2. Targets came as a column `(N, 1)`; `cross_entropy` wants `(N,)`: `targets.squeeze(1)`.
# 3. Labels count from 1, but the network has outputs 0 … 9. On a GPU this arrives late, as a *device-side assert*.
# 4. The batch moved, the targets did not: part 3.
# 5. NumPy's default is float64, PyTorch's float32: `inputs.float()`.
# 6. `backward` twice through one graph, which the first call freed: compute the loss again in each step.
# 7. The outputs come from `inference_mode`: training and evaluation got mixed up.
#
# And three faults that raise *nothing*: a missing `zero_grad` (part 2), a second softmax (part 4), `train()` called
# once (part 7). For these you need the pictures, and the numbers to compare with: ln K at the start, 1.461 as a
# floor, validation beside training.
#
# ## Take away
#
# - zero … backward … step; `zero_grad` anywhere but between the last two.
# - `.to(device)` of a tensor needs the assignment; a module moves itself.
# - The first loss is ln K. A loss that stays above 1.46 hides a softmax; a negative one has targets outside 0 … 1.
# - The rate belongs to the optimizer: AdamW about 0.001, SGD with momentum about 0.1.
# - Sum over samples, divide by the samples counted. Running accuracy is not training accuracy.
# - `train()` at the top of every epoch, `eval()` *and* `inference_mode` for validation, the test set once.
# - Accumulation: weight by the share of samples. Clipping: after unscale, before step.
# - Know the unit of your schedule. Keep the best weights, as a copy.
#
# ## Read on
#
# - [labkit/training/schedule.py](../labkit/training/schedule.py) and [metrics.py](../labkit/training/metrics.py): the
#   schedules as functions, evaluation as sums.
# - Next: [chapter 09](09_cifar10.ipynb), the loop in a whole project. Planned: 06 (checkpoints) and 07 (when it does
#   not learn).
