# %% [markdown]
# # 02 · Autograd
#
# **The question.** Where does a gradient come from, and where does it get lost?
#
# A model that does not learn mostly does not raise an error either. Below, a network is trained four times on the
# digits. Three of the trainings have one wrong line each: the hidden values are detached; `zero_grad` stands one line
# too late; the last layer was replaced after the optimizer was made. Nothing complains.
#
# **Predict:** which training does not move at all, and which ones *look* as if they learned, only slowly? In part 7
# you find each fault with one look at the gradients. Before that you open autograd up: the graph, the way back, and
# every place where the way is cut. In part 10 you build the whole thing in one page, and train with it.

# %% tags=["parameters"]
fast: bool = True  # True: short trainings that show each effect; False: longer ones

# %%
# %load_ext labkit

import math
import warnings

import numpy as np
import torch
import torch.nn.functional as F
from IPython.display import display
from torch import nn

from labkit import autograd, data, exercises, show
from labkit.autograd import recipes, scratch
from labkit.course import parameters
from labkit.errors import error_of
from labkit.table import Table

chosen = parameters(globals())
lab = exercises.load("02_autograd")
torch.set_num_threads(1)  # networks as small as these are faster on one thread

# %% tags=["nbval-ignore-output"]
digits = data.load("digits")
pixels, labels = digits.train.images.flatten(1) / 255, digits.train.labels


def train(fault="", updates=100 if fast else 400):
    """Train a body and a head on all digits at once, with one fault, and return the losses and both layers."""
    torch.manual_seed(0)
    body, head = nn.Linear(64, 32), nn.Linear(32, 10)
    optimizer = torch.optim.SGD([*body.parameters(), *head.parameters()], lr=0.5)
    if fault == "head replaced":
        head = nn.Linear(32, 10)
    losses = []
    for _ in range(updates):
        hidden = body(pixels).relu()
        if fault == "hidden detached":
            hidden = hidden.detach()
        loss = F.cross_entropy(head(hidden), labels)
        optimizer.zero_grad()
        loss.backward()
        if fault == "cleared too late":
            optimizer.zero_grad()
        optimizer.step()
        losses.append(loss.item())
    return losses, body, head


faults = ["hidden detached", "cleared too late", "head replaced"]
trainings = {fault: train(fault) for fault in ["", *faults]}
last = {fault: losses[-1] for fault, (losses, _, _) in trainings.items()}
assert all(last[fault] > 3 * last[""] for fault in faults) and last["cleared too late"] > 2.2
show.comparison(
    {fault or "as it should be": losses for fault, (losses, _, _) in trainings.items()},
    title="Three faults, and no error",
    x_label="update",
    y_label="loss",
)

# %% [markdown]
# Two of the three do learn: half of the network does. That is worse than an error. In a larger project you would
# change the learning rate for a week.
#
# ## 1 · What is recorded
#
# A tensor that you make is a *leaf*. Say `requires_grad=True`, and each operation on it leaves a node behind: its
# `grad_fn`, which knows the nodes before it and keeps the values that the slope will need. This graph is made while
# Python runs, anew in each forward pass. You set the flag on leaves; results inherit it from any input that has it.
#
# Below, `x`, `w` and `b` are leaves, and `b` does not ask for a gradient. `trace` writes the graph down as a table,
# `show.graph` draws it.

# %% claims=["C069", "C070", "C071", "C072", "C082", "C083", "C084", "C085", "C086"]
x = torch.tensor([3.0], requires_grad=True)
w = torch.tensor([2.0], requires_grad=True)
b = torch.tensor([1.0])
y = w * x + b
z = y * y
names = {"x": x, "w": w, "b": b}
display(autograd.trace(z, names).table())

print("grad_fn of x:", x.grad_fn, "| of y:", y.grad_fn.name())
print("before y stand:", [node and node.name() for node, _ in y.grad_fn.next_functions])
print("requires_grad, set and inherited:", x.requires_grad, b.requires_grad, y.requires_grad)

y.retain_grad()  # y is no leaf: without this line its .grad would stay None
z.backward()
print("gradients of x, w, b and y:", x.grad, w.grad, b.grad, y.grad)
show.graph(z, names)

# %% [markdown]
# Check one by hand: z = y², so the slope at y = 7 is 14. And y = w · x + b, so x gets 14 · w = 28 and w gets
# 14 · x = 42. `b` is not in the picture, and gets None: not zero, but *nobody asked*.
#
# **Rule:** gradients arrive in the `.grad` of leaves that ask for one, and that the way back reaches. All others have
# None, and None is the first thing to look for.

# %% exercise="leaf_copy"

# %% [markdown]
# ## 2 · `backward` is one walk back
#
# One neuron: `hidden = tanh(2 · weight)`, `loss = (readout · hidden - 1)²`. The control walks through it one node at
# a time: forward, each node computes its value; backward, each node takes the gradient that *arrives*, multiplies it
# by its own slope, and hands it on. That is the chain rule, and there is no more to it. (`watch` keeps each value, so
# that you can see it.)
#
# Go through all steps once. **Predict** before each step back what it hands on.
#
# A real `backward` frees the saved values when it is done (the control keeps them, to be able to repeat): the next
# forward pass makes its own graph. And a walk must begin with *one* number. If your result has several, sum or average
# them, or say how much arrives at each: `gradient=`. The second cell shows both.

# %% claims=["C069"]
weight = torch.tensor(0.5, requires_grad=True)
readout = torch.tensor(-1.0, requires_grad=True)
with autograd.watch() as watched:
    hidden = torch.tanh(weight * 2)
    loss = (readout * hidden - 1) ** 2

control = show.graph_control(loss, {"weight": weight, "readout": readout}, watched)
display(Table(control.set(step=14).data, "All steps, forward and back."))
control.set(step=13)
control

# %% claims=["C073", "C074", "C079", "C094", "C095", "C096"]
loss = (torch.tanh(weight * 2) * readout - 1) ** 2
loss.backward()
print("again:", error_of(loss.backward))

total = weight + readout  # the slope of a sum is 1: nothing had to be saved, so nothing was freed
total.backward()
print("again, for a sum:", error_of(total.backward), "\n")

point = torch.tensor([1.0, 2.0], requires_grad=True)
outputs = torch.stack([point[0] * point[1], point[0] + point[1] ** 3])
print("two numbers:", error_of(outputs.backward))
print("shape (1, 1):", error_of(lambda: point.sum().view(1, 1).backward()))
point.grad = None
outputs.backward(gradient=torch.tensor([1.0, 10.0]))
print("1 of the first, 10 of the second:", point.grad)
each = nn.BCEWithLogitsLoss(reduction="none")(torch.zeros(2, 3), torch.ones(2, 3))
print("one loss for each label:", tuple(each.shape), "| one for each sample:", tuple(each.mean(1).shape))

# %% [markdown]
# ## 3 · `.grad` adds up
#
# A loop clears the gradients before each update. `zero_grad()` sets `.grad` to None (until version 2.0 it wrote zeros),
# and an optimizer leaves a parameter with None alone. Why clear at all? And what does it cost to forget it, in the
# simplest training of all, that of a line?

# %% predict="three_times"

# %% claims=["C075"]
weight = torch.tensor(1.0, requires_grad=True)
for _ in range(3):
    (2 * weight).backward()
lab.three_times.reveal(guess, weight.grad.item())

# %% predict="forgotten"

# %% tags=["nbval-ignore-output"] claims=["C077", "C081", "C082"]
inputs = torch.linspace(-1, 1, 32)[:, None]
targets = 2 * inputs + 1


def line_losses(clears, updates=400):
    """Fit a line by hand, without an optimizer, and return the losses."""
    slope, offset = (torch.zeros(1, requires_grad=True) for _ in range(2))
    losses = []
    for _ in range(updates):
        loss = F.mse_loss(inputs * slope + offset, targets)
        loss.backward()
        for weight in (slope, offset):
            with torch.no_grad():  # an update is no part of the loss
                weight -= 0.01 * weight.grad
            if clears:
                weight.grad = None
        losses.append(loss.item())
    return losses


def behaviour(losses):
    """Say in a word what a loss does."""
    if max(losses) > 1.5 * losses[0]:
        return "grow"
    if min(losses) > 0.9 * losses[0]:
        return "stand still"
    return "fall" if max(losses[-100:]) < 0.1 * losses[0] else "swing"


cleared, forgotten = line_losses(clears=True), line_losses(clears=False)
assert behaviour(cleared) == "fall"
lab.forgotten.reveal(guess, behaviour(forgotten))
show.comparison(
    {"cleared": cleared, "never cleared": forgotten}, title="Forgetting to clear", x_label="update", y_label="loss"
)

# %% [markdown] tags=["teaching-note"]
# Old gradients never die: it is momentum without friction, a pendulum. Ask the room which momentum of SGD it equals
# (1.0). Then let them set the rate from 0.01 to 1.0: now the loss also rises above its start. Chapter 05 shows the same
# omission blowing up a network.

# %% exercise="one_update" claims=["C076", "C089"]

# %% [markdown]
# **Rule:** clear, backward, step. `zero_grad` may stand anywhere except between `backward` and `step`. Adding is right
# *within* one walk: a value that is used twice gets both gradients. Between two updates, clearing is up to you. A loss
# that swings and does not settle may be a loop that forgets.
#
# ## 4 · Several losses
#
# Two losses of one network share a graph. The first `backward` frees it for both. There are three ways out, best first:
# add the losses and go back once; keep the graph, `retain_graph=True`; compute it twice.
#
# And there are two calls. `backward()` *adds* to the `.grad` of all leaves. `torch.autograd.grad(loss, inputs)`
# *returns* the gradients for the inputs that you name, and leaves `.grad` alone. They are siblings over one engine.

# %% claims=["C078", "C092", "C093", "C103", "C104"]
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(64, 16), nn.Tanh(), nn.Linear(16, 11))
is_round = ((labels == 0) | (labels == 8)).float()


def two_losses():
    """Return the loss of the digits and the loss of "is it round?", from one forward pass."""
    outputs = model(pixels)
    return F.cross_entropy(outputs[:, :10], labels), F.binary_cross_entropy_with_logits(outputs[:, 10], is_round)


first, second = two_losses()
first.backward()
print("the second loss:", error_of(second.backward), "\n")

model.zero_grad()
first, second = two_losses()
(0.7 * first + 0.3 * second).backward()
summed = model[0].weight.grad

first, second = two_losses()
one = torch.autograd.grad(first, model[0].weight, retain_graph=True)[0]
other = torch.autograd.grad(second, model[0].weight)[0]
print("0.7 of one gradient and 0.3 of the other:", torch.allclose(summed, 0.7 * one + 0.3 * other, atol=1e-6))
print("`grad` left .grad as it was:", model[0].weight.grad is summed)

# %% exercise="gradient_angle" claims=["C103", "C110"]

# %% [markdown]
# ## 5 · Where recording stops
#
# Four tools end a graph, and one that many take for a fifth does not. The table says for each what comes out.
#
# - `detach()`: the same memory, cut off. Before you change it, `clone()`.
# - `item()`: a number of Python, for logs. A stored loss tensor would keep its whole graph alive.
# - `no_grad()`: nothing is recorded inside. For evaluation, and for updates by hand.
# - `inference_mode()`: the same, stricter and a little faster; a later graph refuses to keep what it made.

# %% claims=["C087", "C089", "C090"]
x = torch.ones(2, 2)
weight = torch.full((2, 2), 0.5, requires_grad=True)


def under(mode):
    """Multiply inside a mode."""
    with mode():
        return x * weight


results = {
    "as usual": x * weight,
    "detach()": (x * weight).detach(),
    "sum().item()": (x * weight).sum().item(),
    "no_grad()": under(torch.no_grad),
    "inference_mode()": under(torch.inference_mode),
}
rows = [
    {
        "how": how,
        "is": type(result).__name__,
        "requires grad": getattr(result, "requires_grad", "-"),
        "in a new loss": error_of(lambda result=result: (result * weight).sum().backward()).split(":")[0],
    }
    for how, result in results.items()
]
detached = weight.detach()
detached[0, 0] = 7
print("detach shares memory:", weight[0, 0].item(), "| item for four numbers:", error_of(weight.item))
running = sum(F.mse_loss(x * weight, x) for _ in range(5))
print("five added losses hold a graph of", len(autograd.trace(running).nodes), "nodes")
Table(rows)

# %% predict="eval_mode"

# %%
model = nn.Sequential(nn.Linear(2, 1), nn.Dropout(0.5))
model.eval()
outputs = model(x)
lab.eval_mode.reveal(guess, outputs.requires_grad)

# %% [markdown]
# Now break it. Below is the training of the neuron; each switch changes a line, and the picture says what the optimizer
# gets to read. Two switches raise errors of torch. Which two stop `weight` without a word? And which one takes an error
# away again, at the price of doubled gradients?

# %%
switches = show.switches_control()
switches.set(detach_hidden=True)
switches

# %% predict="frozen_middle"

# %% claims=["C072", "C108", "C109"]
layers = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 1))
layers[1].requires_grad_(False)
layers(torch.ones(3, 4)).sum().backward()
print("gradients:", {name: parameter.grad is not None for name, parameter in layers.named_parameters()})
lab.frozen_middle.reveal(guess, layers[0].weight.grad is not None)

normed = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.5)).train()
normed[1].eval()  # its statistics are buffers, not parameters: only the mode stops them
before = normed[1].running_mean.clone()
normed(torch.randn(8, 4) + 5)
print("statistics stood still:", normed[1].running_mean.equal(before), "| dropout goes on:", normed[2].training)

# %% exercise="freeze_body"

# %% exercise="critic_losses" claims=["C088", "C110"]

# %% [markdown]
# ## 6 · Changing values in place
#
# An operation may keep its inputs or its result for the backward pass. It keeps no copy, only the same memory. So what
# happens if you write into it? Each tensor counts its changes (`_version`), and `backward` compares.

# %% predict="silent_edit"

# %% claims=["C111", "C112", "C113", "C114", "C115", "C116"]
weight = torch.tensor(2.0, requires_grad=True)
loss = weight**2
weight.data.fill_(10.0)
loss.backward()


def backward_after(change, before):
    """Change the result of an operation in place, go backward, and return the error."""
    start = torch.tensor([[3.0, 4.0]], requires_grad=True)
    result = before(start)
    print(f"{change.__name__:8} after {before.__name__:8}", end=" ")
    change(result)
    return error_of(result.sum().backward)


def double(t):
    return 2 * t


def add_one(t):
    t += 1


print(f"{'add_one':8} on a leaf       ", error_of(lambda: add_one(weight)))
print(backward_after(add_one, double))
print(backward_after(torch.relu_, double))
print(backward_after(torch.relu_, torch.sigmoid))
print(backward_after(add_one, torch.exp))
lab.silent_edit.reveal(guess, weight.grad.item())

# %% [markdown]
# **Rule:** never on a leaf that learns; on a result, only if nobody kept the old value: `exp` and `sigmoid` keep their
# *result*, a product keeps its *factors*, a doubling and a sum keep nothing. You need not know the list, as the version
# counter does. A wrong gradient in silence comes only through what it cannot see: `.data`, or the same memory as an
# array of NumPy (`t.detach().numpy()`). So never write there; write under `no_grad()`.
#
# The underscore is not the sign to look for. `+=`, `/=` and `t[0] = …` are in place as well, and `relu_` after a
# convolution is fine: it is what `nn.ReLU(inplace=True)` does.

# %% exercise="unit_rows" claims=["C114"]

# %% [markdown]
# ## 7 · Looking in
#
# Back to the three trainings of the beginning. One look: is there a gradient, and did the weights move?
#
# - *None, not moved* in one part: the way to it is cut. *None, not moved* everywhere: cleared too late.
# - *A gradient, not moved*: the optimizer does not know this parameter. Nor does it clear it, so the gradient grows.


# %% tags=["nbval-ignore-output"] claims=["C072", "C080"]
def seen(layer, start):
    """Say in a few words what became of the weights of a layer."""
    gradient = "None" if layer.weight.grad is None else f"{layer.weight.grad.norm():.2g}"
    return f"grad {gradient}, moved {(layer.weight - start.weight).norm():.2g}"


rows = []
for fault, (_, body, head) in trainings.items():
    _, body_before, head_before = train(fault, updates=0)
    row = {"training": fault or "as it should be", "body": seen(body, body_before), "head": seen(head, head_before)}
    rows.append(row)
assert "grad None" in rows[1]["body"] and "moved 0" in rows[2]["body"] and rows[3]["head"].endswith("moved 0")
Table(rows)

# %% [markdown]
# ## 8 · An operation of your own
#
# A `torch.autograd.Function` says itself what goes forward and what goes back: for a formula that is cheaper or safer
# than the chain rule, or for a gradient that is *meant* to differ. You are then responsible for the slope, so check
# it against differences of the function itself, in float64. In float32 rounding drowns the difference.


# %% claims=["C105"]
class Cube(torch.autograd.Function):
    """x³, with the derivative written by hand."""

    @staticmethod
    def forward(context, x):
        context.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(context, upstream):
        return upstream * 3 * context.saved_tensors[0] ** 2


class WrongCube(Cube):
    """The same with a slip: 2 for 3."""

    @staticmethod
    def backward(context, upstream):
        return upstream * 2 * context.saved_tensors[0] ** 2


points = torch.tensor([0.5, -1.0, 2.0], dtype=torch.float64, requires_grad=True)
print("gradcheck:", torch.autograd.gradcheck(Cube.apply, points))
print("the slip:", error_of(lambda: torch.autograd.gradcheck(WrongCube.apply, points)))
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it warns that float32 is too coarse, and it is right
    narrow = points.detach().float().requires_grad_()
    print("the right one in float32:", error_of(lambda: torch.autograd.gradcheck(Cube.apply, narrow)))

# %% exercise="Swish"

# %% [markdown]
# ## 9 · Gradients as values
#
# Once a gradient is a value that you hold, you can clip it, mask it, weigh it, differentiate it. Many recipes in
# circulation fail, and each for a reason that you know by now. The forms that work are in `labkit.autograd.recipes`,
# a few lines each. (A *hook* on a tensor is called with the gradient that arrives there: to look at it, or to return
# another one.)
#
# | you want | what fails | what works |
# |---|---|---|
# | clipping | `grad`, then `clip_grad_norm_`: that reads `.grad`, where nothing is | `backward` first, or assign |
# | reversal | negating all gradients: the classifier unlearns too | a layer between features and classifier |
# | a part only | `grad` for all, then dropping | name only their parameters; `backward(inputs=…)` |
# | masking | `g[p.requires_grad == False] = 0`: this index is one `False` | a mask in the gradient's shape, or a hook |
# | second order | a second `grad` of a plain tensor | `create_graph=True` in the first call |
# | one gradient a sample | `grad` of the sum: it adds them up | `torch.func.vmap` over `torch.func.grad` |

# %% claims=["C097", "C099", "C100", "C101", "C102", "C104", "C106", "C107", "C108"]
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(64, 8), nn.Tanh(), nn.Linear(8, 10))
loss = F.cross_entropy(model(pixels), labels)
found = recipes.gradients(loss, model)
print("clip_grad_norm_ finds a norm of", nn.utils.clip_grad_norm_(model.parameters(), 1.0).item())
shorter, norm = recipes.clipped(found, largest=0.1)
recipes.assign(model, shorter)
print("assigned, it finds", round(nn.utils.clip_grad_norm_(model.parameters(), 1.0).item(), 4))

head_only = recipes.gradients(loss, model, only="2.")
print("of the head alone:", list(head_only))

features = pixels[:8].clone().requires_grad_()
recipes.ReverseGradient(strength=0.5)(features).sum().backward()
print("through the reversal layer 1 becomes", features.grad[0, 0].item())

masks = {"2.bias": torch.arange(10) < 3}
print("masked:", recipes.masked(found, masks)["2.bias"].ne(0).tolist())
kept = (model[2].bias * 1).sum()
hook = model[2].bias.register_hook(lambda gradient: gradient * masks["2.bias"])  # a hook may return another gradient
print("by a hook:", torch.autograd.grad(kept, model[2].bias)[0].tolist())
hook.remove()

point = torch.tensor([1.0, 2.0], requires_grad=True)
(plain,) = torch.autograd.grad((point**3).sum(), point)
print("once more:", error_of(lambda: torch.autograd.grad(plain.sum(), point)))
(slope,) = torch.autograd.grad((point**3).sum(), point, create_graph=True)
print("second derivatives 6 and 12, times 1 and 10:", torch.autograd.grad(slope, point, torch.tensor([1.0, 10.0]))[0])

each = recipes.per_sample_gradients(model, F.cross_entropy, pixels[:100], labels[:100])
mean = recipes.gradients(F.cross_entropy(model(pixels[:100]), labels[:100]), model)
same = torch.allclose(each["0.weight"].mean(0), mean["0.weight"], atol=1e-6)
print("one gradient a sample:", tuple(each["0.weight"].shape), "| their mean is the gradient of the mean loss:", same)

# %% [markdown]
# ## 10 · The engine from nothing
#
# You know all that autograd does; so write it. An operation computes its value and remembers two things: its parents,
# and how a gradient is handed on to them. `backward` walks from the loss to the leaves, each node only after all that
# use it. For numbers, that is the whole engine; you find it in the next cell.
#
# `labkit.autograd.scratch` is the same for arrays: each slope becomes a rule (for a matrix product,
# `upstream @ other.T`). In the cell after that, it trains a network on the digits, without torch.


# %%
class Number:
    """A number that remembers how it was made."""

    def __init__(self, value, parents=(), slopes=()):
        self.value, self.parents, self.slopes, self.grad = value, parents, slopes, 0.0

    def __add__(self, other):
        return Number(self.value + other.value, (self, other), (1.0, 1.0))

    def __mul__(self, other):
        return Number(self.value * other.value, (self, other), (other.value, self.value))

    def tanh(self):
        value = math.tanh(self.value)
        return Number(value, (self,), (1 - value**2,))

    def backward(self):
        """Add the derivative of this number by each number behind it to their `grad`."""
        order, seen = [], set()

        def visit(number):
            if number not in seen:
                seen.add(number)
                for parent in number.parents:
                    visit(parent)
                order.append(number)  # after its parents

        visit(self)
        self.grad = 1.0
        for number in reversed(order):
            for parent, slope in zip(number.parents, number.slopes, strict=True):
                parent.grad += number.grad * slope  # what arrives, times the slope; added where ways meet


a, c = Number(0.5), Number(-1.0)
loss = (a * c + a).tanh() * a
loss.backward()
t, u = (torch.tensor(number.value, dtype=torch.float64, requires_grad=True) for number in (a, c))
((t * u + t).tanh() * t).backward()
print("equal to torch:", math.isclose(a.grad, t.grad.item()), math.isclose(c.grad, u.grad.item()))

# %% tags=["nbval-ignore-output"]
image, label = digits.train.images.flatten(1).numpy() / 255, digits.train.labels.numpy()
random = np.random.default_rng(0)


def layer(inputs, outputs):
    """Return the weight and the bias of a layer."""
    weight = random.normal(size=(inputs, outputs)) * (2 / inputs) ** 0.5
    return scratch.Tensor(weight, requires_grad=True), scratch.Tensor(np.zeros(outputs), requires_grad=True)


(weight_1, bias_1), (weight_2, bias_2) = layer(64, 64), layer(64, 10)
learning = [weight_1, bias_1, weight_2, bias_2]


def network(images):
    """Return the score of each class: (N, 64) -> (N, 10)."""
    return (scratch.Tensor(images) @ weight_1 + bias_1).relu() @ weight_2 + bias_2


def cross_entropy(scores, labels):
    """Return the mean of -log(probability of the true class)."""
    scores = scores - scores.data.max(axis=1, keepdims=True)  # a constant, so that exp does not overflow
    log_probabilities = scores - scores.exp().sum(axis=1).log().reshape(len(labels), 1)
    return -(log_probabilities * np.eye(10)[labels]).sum() / len(labels)


def accuracy(part):
    """Return the share of right answers."""
    return (network(part.images.flatten(1).numpy() / 255).data.argmax(axis=1) == part.labels.numpy()).mean()


for epoch in range(20 if fast else 60):
    for batch in np.array_split(random.permutation(len(label)), 40):
        loss = cross_entropy(network(image[batch]), label[batch])
        for one in learning:
            one.zero_grad()
        loss.backward()
        for one in learning:
            one.data = one.data - 0.5 * one.grad
    if epoch % 5 == 4:
        print(f"epoch {epoch + 1:2}: loss {loss.data:.3f}, validation {accuracy(digits.val):.1%}")

assert accuracy(digits.test) > 0.95
print(f"test: {accuracy(digits.test):.1%}")

# %% exercise="undo_broadcasting"

# %% [markdown]
# An engine of a hundred lines reads digits. torch adds speed, GPUs and a thousand operations, and no further idea.
#
# ## 11 · What goes wrong here
#
# Six errors, on purpose. **Predict** the reason of each from its text before you read on.

# %% claims=["C097", "C098", "C113"]
weight = torch.ones(3, requires_grad=True)
loss = (weight**2).sum()

print("1", error_of(lambda: (torch.ones(3) ** 2).sum().backward()), "\n")
print("2", error_of(lambda: (weight**2).backward()), "\n")
loss.backward()
print("3", error_of(lambda: torch.autograd.grad(loss, weight, create_graph=True)), "\n")
print("4", error_of(lambda: weight.add_(1)), "\n")
print("5", error_of(lambda: torch.autograd.grad((weight**2).sum(), [weight, readout])), "\n")
with warnings.catch_warnings(), torch.autograd.set_detect_anomaly(True):
    warnings.simplefilter("ignore")  # anomaly mode warns of itself, and shows the line of the forward pass
    start = torch.zeros(1, requires_grad=True)
    loss = (start * start.log()).sum()  # 0 times minus infinity
    print("6", error_of(loss.backward))

# %% [markdown]
# 1. Nothing in this loss asked for a gradient: data instead of a model's output, a `detach`, a `no_grad`, an `item`.
# 2. Three numbers. Sum or average, or give `gradient=`.
# 3. The graph was freed by the `backward` before. Compute the loss again, or keep the graph in the *first* call.
# 4. A leaf that learns is changed under `no_grad()`, as an optimizer does.
# 5. The loss does not use the second input. Often the wrong tensor was named; if it may be so, `allow_unused=True`.
# 6. The loss is 0 · log 0, NaN. `set_detect_anomaly(True)` looks at *gradients*, not at values: it names the first
#    operation on the way back that hands on a NaN, with its line in the forward pass. It is slow, so turn it on only to
#    search.
#
# ## 12 · You will read that … is it so?
#
# Sentences from tutorials. Choose for each: true, false, or it depends. *Measure it* runs the evidence on your
# computer.

# %% claims=["C076", "C077", "C078", "C080", "C081", "C087", "C088", "C091", "C092", "C101", "C107", "C112"]
show.quiz("C076", "C077", "C078", "C080", "C081", "C087", "C088", "C091", "C092", "C101", "C107", "C112")

# %% [markdown]
# ## Take away
#
# - A graph is made while Python runs; `backward` walks it once, from one number to the leaves that ask.
# - What arrives, times the slope; added where ways meet. That is all.
# - None is not zero: the way is cut, or nobody asked. A gradient without movement: the optimizer does not know it.
# - Clear, backward, step; `.grad` adds up.
# - `detach` cuts, `requires_grad_(False)` freezes and lets through, `no_grad` records nothing, `item` is for logs.
#   `eval()` is none of these.
# - In place: never on a leaf that learns (except under `no_grad`), never through `.data` or NumPy. All else is caught.
# - A loss in several parts: add them.
#
# To read: [labkit/autograd/scratch.py](../labkit/autograd/scratch.py), the engine in a page, then
# [trace.py](../labkit/autograd/trace.py), which reads torch's own graph.
