# %% [markdown]
# # 04 · Models
#
# **The question.** The loss falls, a little. The network has five layers, the optimizer was given
# `model.parameters()`, and no error appeared. Why does it learn so badly?
#
# The fault is one word in `__init__`. This chapter is about what a module knows of itself: its layers, its numbers, its
# mode. Each is a place where a network that runs is not the network you meant. In part 1 `nn.Module`
# is built from nothing, in part 7 you train with layers of your own in the place of torch's.
#
# As before: predict before you run, answer in the cells with `...`, ask for a `hint()`. About two hours. We begin
# with handwritten digits of 8×8. Four hidden layers of the same size invite a list and a loop, and that is what people
# write.

# %% tags=["parameters"]
fast: bool = True  # True: short trainings that show each effect; False: longer ones

# %%
# %load_ext labkit

import warnings

import torch
import torch.nn.functional as F
from IPython.display import display
from torch import nn

from labkit import data, exercises, models, show
from labkit.course import parameters
from labkit.errors import error_of
from labkit.exercises import swap_in
from labkit.table import Table

chosen = parameters(globals())
lab = exercises.load("04_models")
torch.set_num_threads(1)  # networks as small as these are faster on one thread

# %% predict="layers_that_moved"

# %% tags=["nbval-ignore-output"] claims=["C119", "C124"]
digits = data.load("digits")
pixels, labels = digits.train.images.flatten(1) / 255, digits.train.labels
test_pixels, test_labels = digits.test.images.flatten(1) / 255, digits.test.labels


class InAList(nn.Module):
    """Four hidden layers in a list, and an output layer: float (B, 64) -> scores (B, 10)."""

    def __init__(self):
        super().__init__()
        self.hidden = [nn.Linear(64, 64) for _ in range(4)]
        self.output = nn.Linear(64, 10)

    def forward(self, inputs):
        for layer in self.hidden:
            inputs = layer(inputs).relu()
        return self.output(inputs)


class Registered(InAList):
    """The same, with the one word changed."""

    def __init__(self):
        super().__init__()
        self.hidden = nn.ModuleList(self.hidden)


def train(model, updates=100 if fast else 400):
    """Train a model on all digits at once and return its losses and its accuracy on the test digits."""
    optimizer = torch.optim.Adam(model.parameters(), lr=0.005)
    losses = []
    for _ in range(updates):
        loss = F.cross_entropy(model(pixels), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    with torch.no_grad():
        return losses, (model(test_pixels).argmax(1) == test_labels).float().mean().item()


losses, moved = {}, {}
for kind in (InAList, Registered):
    torch.manual_seed(0)
    model = kind()
    layers = [*model.hidden, model.output]
    before = [layer.weight.detach().clone() for layer in layers]
    losses[kind.__name__], accuracy = train(model)
    moved[kind.__name__] = sum(not layer.weight.equal(old) for layer, old in zip(layers, before, strict=True))
    print(f"{kind.__name__:10} loss {losses[kind.__name__][-1]:.3f}, test {accuracy:.0%}, {moved[kind.__name__]} moved")
assert moved["Registered"] == 5
lab.layers_that_moved.reveal(guess, moved["InAList"])
show.comparison(losses, title="One word apart", x_label="update", y_label="loss")

# %% [markdown]
# It is worse than not learning: it learns *something*, so nobody looks for a fault. The last layer reads what it can
# from four layers of noise. You would change the rate, add layers, wait longer.
#
# ## 1 · How a module knows
#
# Python has one door through which each `self.name = value` goes: `__setattr__`. A module stands in that door and looks
# at the *type* of the value. A parameter? Noted. A module? Noted as a child. Anything else is let through, unseen. That
# is the whole secret, and it is short enough to write down. Then write a layer yourself, for torch's `nn.Module`.


# %% claims=["C117", "C118", "C132", "C134"]
class Module:
    """What knows its parameters and children."""

    def __init__(self):
        self.__dict__["parts"] = {}  # not through the door: it needs `parts`

    def __setattr__(self, name, value):
        if isinstance(value, nn.Parameter | Module):
            self.parts[name] = value
        object.__setattr__(self, name, value)

    def parameters(self):
        for part in self.parts.values():
            yield from part.parameters() if isinstance(part, Module) else [part]

    def state_dict(self, prefix=""):
        state = {}
        for name, part in self.parts.items():
            state |= part.state_dict(f"{prefix}{name}.") if isinstance(part, Module) else {prefix + name: part.data}
        return state

    def __call__(self, inputs):
        return self.forward(inputs)


class Layer(Module):
    """A linear layer."""

    def __init__(self, size_in, size_out):
        super().__init__()
        self.matrix = nn.Parameter(torch.randn(size_out, size_in) * (2 / size_in) ** 0.5)
        self.offset = nn.Parameter(torch.zeros(size_out))

    def forward(self, inputs):
        return F.linear(inputs, self.matrix, self.offset)


class Network(Module):
    """Two layers, and one in a list."""

    def __init__(self):
        super().__init__()
        self.first = Layer(64, 32)
        self.second = Layer(32, 10)
        self.unseen = [Layer(32, 32)]

    def forward(self, inputs):
        return self.second(self.unseen[0](self.first(inputs).relu()).relu())


torch.manual_seed(0)
network = Network()
print("known:", {name: tuple(value.shape) for name, value in network.state_dict().items()})
print("parameters:", len(list(network.parameters())))
_, accuracy = train(network)
print("it learned, in thirty lines:", accuracy > 0.8)
print("a parameter by itself knows no module:", [name for name in dir(nn.Parameter) if "register" in name])

# %% exercise="Linear" claims=["C117", "C125"]

# %% [markdown]
# A parameter by itself can register hooks, and no more: it is a tensor with a mark on it, *train me*. The module does
# the rest, at the door, whenever that is: an attribute assigned after `__init__` is seen as well.
# [labkit.models.scratch](../labkit/models/scratch.py) has buffers, modes and `to` besides.
#
# ### Parameter, buffer, plain tensor
#
# Three ways to keep a tensor in a module. **Predict** the four columns before you run: trained, saved, moved, and what
# `load_state_dict` says if it is missing.


# %% claims=["C133", "C134", "C135", "C136"]
class Kept(nn.Module):
    """A module that keeps a tensor in each way."""

    def __init__(self):
        super().__init__()
        self.parameter = nn.Parameter(torch.ones(2))
        self.register_parameter("by_name", nn.Parameter(torch.ones(2)))
        self.register_buffer("buffer", torch.ones(2))
        self.register_buffer("mask", torch.ones(2), persistent=False)
        self.plain = torch.ones(2)
        self.in_a_list = [nn.Parameter(torch.ones(2))]


kept = Kept().to("meta")  # a device without memory: it shows who moves, on any computer
trained, saved = dict(kept.named_parameters()), kept.state_dict()
tensors = {name: getattr(kept, name) for name in ("parameter", "by_name", "buffer", "mask", "plain")}
tensors["in_a_list[0]"] = kept.in_a_list[0]


def loads_without(name):
    """Load a state in which one tensor is missing; return whether that was noticed."""
    state = {other: value for other, value in Kept().state_dict().items() if other != name}
    return "error" if error_of(lambda: Kept().load_state_dict(state)) != "no error" else "not noticed"


Table(
    [
        {
            "kept as": name,
            "trained": name in trained,
            "saved": name in saved,
            "moved": tensor.device.type == "meta",
            "missing in a file": loads_without(name),
        }
        for name, tensor in tensors.items()
    ]
)

# %% exercise="Standardise" claims=["C135", "C136"]

# %% [markdown]
# **Rule:** what is learned is a parameter; what belongs to the model and is not learned is a buffer; a plain tensor is
# nobody's.
#
# ### Where layers hide
#
# A list is the usual hiding place, and not the only one. `models.registration` follows everything that is reachable
# from a model, and says what the model does not know, and the fix. With an example batch it also looks at what
# `forward` makes; with an optimizer, at what that one has.
#
# What goes where? `__init__` makes what lasts: layers, parameters, buffers. `forward` says how they are used, in
# ordinary Python: `if`, `for`, a layer used twice, two results. A layer made in `forward` is new in each call. And
# `super().__init__()` comes first, for it makes the drawers into which all else is put.
#
# Faults that people make, and what each of them is told. **Predict** which of the first five networks get an optimizer
# without an error: those are the ones that train, and nobody notices.


# %% claims=["C118", "C119", "C121", "C122", "C123", "C124", "C128", "C133"]
class InADict(nn.Module):
    """Layers by name, in a dict of Python."""

    def __init__(self):
        super().__init__()
        self.branches = {"left": nn.Linear(8, 8), "right": nn.Linear(8, 8)}

    def forward(self, x):
        return sum(branch(x) for branch in self.branches.values())


class NestedLists(nn.Module):
    """ModuleLists in a plain list: half a repair."""

    def __init__(self):
        super().__init__()
        self.rows = [nn.ModuleList([nn.Linear(8, 8)]), nn.ModuleList([nn.Linear(8, 8)])]

    def forward(self, x):
        return sum(layer(x) for row in self.rows for layer in row)


class PlainScale(nn.Module):
    """A tensor that asks for gradients, and is no parameter."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)
        self.scale = torch.ones(8, requires_grad=True)

    def forward(self, x):
        return self.layer(x) * self.scale


class MadeInForward(nn.Module):
    """The size of the input is known in forward, so the layer is made there."""

    def forward(self, x):
        return nn.Linear(x.shape[1], 2)(x)


example = torch.ones(2, 8)
for kind in (InAList, InADict, NestedLists, PlainScale, MadeInForward):
    print(kind.__name__, "| its optimizer:", error_of(lambda kind=kind: torch.optim.SGD(kind().parameters(), lr=0.1)))
    for sentence in models.registration(kind(), None if kind is InAList else example).advice:
        print("   ", sentence)

print("a layer exchanged after the optimizer was made")
model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model[1] = nn.Linear(8, 3)
for sentence in models.registration(model, optimizer=optimizer).advice:
    print("   ", sentence)


class LayerTooEarly(nn.Module):
    """A layer before the drawers are there."""

    def __init__(self):
        self.layer = nn.Linear(2, 1)


class NoDrawers(nn.Module):
    """Only a number, so that nothing is noticed at first."""

    def __init__(self):
        self.width = 3


class Wandering(nn.Module):
    """Goes through one layer as often as the input says, and returns two results."""

    def __init__(self):
        super().__init__()
        self.step = nn.Linear(4, 4)

    def forward(self, x, times):
        for _ in range(times):
            x = self.step(x).tanh()
        return x, x.norm(dim=1)


print("a layer before super():", error_of(LayerTooEarly))
print(
    "no super(), and no layer:", error_of(NoDrawers), "at first; then", error_of(lambda: list(NoDrawers().parameters()))
)
values, norms = Wandering()(torch.ones(2, 4), times=3)
values.sum().backward()
print("one layer, three times:", tuple(values.shape), tuple(norms.shape))

# %% exercise="Stack"

# %% [markdown]
# ## 2 · Shapes, and what they cost
#
# The first run of a new network fails, and the error speaks of `mat1` and `mat2`. A dry run says it in words: which
# layer, what came in, what to change. Below, a network for pictures of 28×28 gets pictures of 32×32.
#
# Some layers find their size themselves, and then nobody has to count:
#
# - `nn.Flatten()` or `x.flatten(1)`: all but the batch. `x.view(x.size(0), -1)` does the same, unless the memory lies
#   in another order.
# - `nn.AdaptiveAvgPool2d(1)`: whatever the size, one number a channel comes out.
# - `nn.LazyLinear(10)`: takes its input size from the first batch. Until then it has no weights: send a batch through
#   *before* you count parameters, make the optimizer, or load a file.

# %% claims=["C120", "C126"]
two_convolutions = nn.Sequential(
    nn.Conv2d(1, 32, 3, padding=1),
    nn.ReLU(),
    nn.MaxPool2d(2),
    nn.Conv2d(32, 64, 3, padding=1),
    nn.ReLU(),
    nn.MaxPool2d(2),
    nn.Flatten(),
    nn.Linear(64 * 7 * 7, 128),
    nn.ReLU(),
    nn.Linear(128, 10),
)
display(models.shape_trace(two_convolutions, (1, 28, 28)))
plain = nn.Sequential(nn.Flatten(), nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))
print(f"without convolutions: {models.parameter_count(plain):,} parameters")
try:
    models.shape_trace(two_convolutions, (1, 32, 32))
except models.ShapeError as error:
    print(error, "\n")

adaptive = nn.Sequential(*two_convolutions[:6], nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))
print("adaptive:", [tuple(adaptive(torch.zeros(1, 1, side, side)).shape) for side in (28, 32, 57)])
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # torch calls lazy layers new
    lazy = nn.Sequential(*two_convolutions[:7], nn.LazyLinear(10))
print("lazy, before:", error_of(lambda: models.parameter_count(lazy)))
lazy(torch.zeros(1, 1, 32, 32))
print("lazy, after the first batch:", lazy[7], "\n")

pictures = torch.ones(2, 3, 4, 4)
print("view:", tuple(pictures.view(pictures.size(0), -1).shape))
last = pictures.to(memory_format=torch.channels_last)  # an order that makes convolutions faster on GPUs
print("view, channels last:", error_of(lambda: last.view(last.size(0), -1)))
print("flatten, channels last:", tuple(last.flatten(1).shape))

# %% [markdown]
# Where does the 7 · 7 in `nn.Linear(64 * 7 * 7, 128)` come from? It is what is left of 28 · 28 after it was halved
# twice. Count once, by hand: a window as long as the kernel (`kernel_size`) slides over a side, which `padding` made
# longer by some zeros at each end, in steps of `stride`. The output has as many cells as the window has places: the
# first one, and one for each step for which there is room. **Predict** the output size of a side of 28: kernel 3,
# padding 1; kernel 3, stride 2; kernel 5, padding 1. Which setting never looks at the last cell? (The control draws
# a fourth one; move it to yours.)
#
# A pooling is such a window, too: of each place it keeps the largest value. And how much of the picture does one cell
# of the *last* layer see, its *receptive field*? It sees a window of the layer before, and each cell in that window
# sees one of its own. A pooling doubles the step of all that comes after it, so what is seen grows fastest behind
# poolings. A network whose receptive field is smaller than the thing to be seen cannot see it.
#
# And what does it cost? Two bills. Parameters: paid once, whatever comes in. (With Adam three times more: gradients and
# two averages.) What is kept for the backward pass: paid for every picture of the batch; a layer behind which nothing
# needs its input again keeps nothing of its own. **Predict:** which of the two
# is larger for a LeNet with 32 pictures, and which *layer* has most of each? Then you know why a smaller batch helps
# where memory is short, and fewer linear units do not.

# %% claims=["C126", "C127"]
for window in (models.Window(3, padding=1), models.Window(3, stride=2), models.Window(5, padding=1)):
    unseen = 28 - 1 - window.touched(window.output_size(28) - 1)[-1]
    print(window, "| from 28:", window.output_size(28), "| cells at the end that it never sees:", max(0, unseen))
three = models.receptive_field([models.Window(3)] * 3)
one = models.receptive_field([models.Window(7)])
print(f"three windows of 3 see {three.size} cells, one of 7 sees {one.size}; weights a channel: {3 * 3**2} and {7**2}")
print("padding that keeps the size, for a kernel of 5:", models.same_padding(5))
display(models.window_table(models.windows_of(models.LeNet((1, 28, 28), 10)), 28))
display(models.memory_table(models.LeNet((3, 32, 32), 10), (3, 32, 32), batch_size=32))
control = show.convolution_control()
control.set(kernel_size=3, stride=2, padding=1, cell=3)
control

# %% exercise="Conv2d"

# %% predict="whole_numbers"

# %% claims=["C137", "C138", "C139"]
layer = nn.Linear(3, 2)
whole = torch.tensor([[1, 2, 3]])
try:
    measured = layer(whole).dtype
except RuntimeError as error:
    measured = "error"
    print("int64:", error)
print("another device:", error_of(lambda: nn.Linear(3, 2, device="meta")(torch.ones(1, 3))))


class MovesItsInput(nn.Module):
    """Robust, as some recommend: takes anything."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 2)

    def forward(self, x):
        return self.layer(x.to(self.layer.weight))  # device and dtype


with torch.autocast("cpu", dtype=torch.bfloat16):  # "mixed precision": layers compute in 16 bits, to be faster
    hidden = nn.Linear(3, 3)(torch.ones(1, 3))
    print(f"under autocast: {hidden.dtype} came, and became {hidden.to(layer.weight).dtype}")
print("it takes whole numbers now:", MovesItsInput()(whole).dtype)
lab.whole_numbers.reveal(guess, measured)

# %% [markdown]
# A layer wants its input as its weights are: of the same dtype, on the same device. A `forward` that converts is kind
# to a mistake: data on the wrong device are now copied in every step, in silence, and mixed precision is undone. Move
# and convert once, where the batch comes from.
#
# ## 3 · First values
#
# Weights begin random, so that units differ. But how large? Each layer multiplies the size of the signal by some
# factor, and twenty layers take it to the power of twenty. *Xavier's* rule draws weights of deviation √(2 / (inputs +
# outputs)), *Kaiming's* of √(2 / inputs), where *fan-in* is the name for the number of inputs of one unit; *orthogonal*
# weights turn the signal without stretching it. Predict for one rule, then compare all of them. The control below the
# table has histograms, and the gradients on their way back. Look for: Xavier with tanh; "normal 1" with tanh (the
# values sit at -1 and 1, and what happens to the gradient?); torch's own with ReLU, twenty layers and five; zeros.

# %% predict="through_twenty_layers"

# %% claims=["C129", "C131"]
torch.manual_seed(0)
batch = torch.randn(256, 256)
rows = []
for name in models.INITS:
    signals = models.signal_table(models.initialise(models.deep(20, 256, "relu"), name), batch).rows
    first, last = signals[0]["deviation"], signals[-1]["deviation"]
    rows.append({"weights by": name, "last beside first": f"{last / first if first else 0:.0e}"})
display(Table(rows, "A signal through twenty layers with ReLU"))

sizes = {1: "as large", 0.1: "about a tenth", 0.001: "about a thousandth", 1000: "a thousand times"}
ratio = float(rows[list(models.INITS).index("xavier")]["last beside first"])
nearest = min(sizes, key=lambda size: abs(torch.tensor(ratio / size).log()))
lab.through_twenty_layers.reveal(guess, sizes[nearest])

weight = nn.Linear(100, 200).weight
print(f"torch's own: the largest weight is {weight.abs().max() * 100**0.5:.2f} / root of the number of inputs")
control = show.initialisation_control()
control.set(init="xavier", activation="relu", depth=20)
control

# %% exercise="start_weights" claims=["C129", "C130", "C131"]

# %% [markdown]
# **Rule:** ReLU, Kaiming; tanh, Xavier; with normalisation layers between it matters less.
#
# ## 4 · Two modes
#
# A module has one switch, `training`. Two kinds of layers look at it, and nothing else does, autograd least of all.
#
# **Dropout** sets some of its values to 0 in training. **Batch normalisation** has two sets of statistics. In training
# it uses those of the *batch*, and keeps a running average of them; in evaluation it uses the average. So a picture's
# score in training depends on its neighbours.

# %% predict="what_survives"

# %% claims=["C140", "C141", "C142"]
torch.manual_seed(0)
dropout, ones = nn.Dropout(0.25), torch.ones(10_000)
in_training = dropout(ones)
print("values in training:", [round(value, 2) for value in in_training.unique().tolist()])
print("mean in training near 1:", abs(in_training.mean().item() - 1) < 0.03)
print("values in evaluation:", dropout.eval()(ones).unique().tolist())
lab.what_survives.reveal(guess, round(in_training.max().item(), 2))

print("\nbatch normalisation")
norm = nn.BatchNorm1d(1, momentum=1.0)  # momentum 1: the running value is that of the last batch
values = torch.tensor([[1.0], [2.0], [6.0]])
out = norm(values)
print(f"in training: mean {out.mean():.2f}, deviation with divisor n {out.std(correction=0):.2f}")
print(f"variance of the batch: {values.var(correction=0):.2f} with divisor n, {values.var():.2f} with n - 1")
print(f"running variance: {norm.running_var.item():.2f}")
print("the same sample among others:", norm(torch.tensor([[1.0], [9.0]]))[0].item() != out[0].item())
norm.eval()
before = norm.running_mean.clone()
alone = norm(torch.tensor([[1.0]]))
print("in evaluation alone and among others:", torch.equal(alone, norm(torch.tensor([[1.0], [9.0]]))[:1]))
print("and the statistics stand still:", before.equal(norm.running_mean))
across = nn.SyncBatchNorm.convert_sync_batchnorm(nn.Sequential(nn.Linear(1, 1), nn.BatchNorm1d(1)))
print("for several GPUs:", type(across[1]).__name__)

# %% exercise="Dropout"

# %% exercise="BatchNorm2d" claims=["C141"]

# %% [markdown]
# On several GPUs each has a batch of its own. `SyncBatchNorm` takes its statistics over all of them in training; with
# one GPU there is nothing to exchange, so here it can only be shown that it exists.
#
# ### `eval()` is not `no_grad()`
#
# The mode is one switch, what autograd records is another. **Predict** for each way to set them: do two calls agree, is
# a graph recorded, how much is kept for it? A compiled model is the same: `torch.compile(model)` returns a module
# that *wraps* yours, with the same parameters, and all switches work as before. Its names have a prefix, which is what
# breaks the loading of files: save `model.state_dict()`, that of the one inside. (Here the backend only follows the
# Python code, so that no compiler is needed. Chapter 08 is about speed.)
#
# ### Is the first `train()` in vain?
#
# A new model is in training mode, so `model.train()` is needed from the second epoch on, after the first evaluation.
# Without it, you will read, losses become oddly low and the validation absurdly good. The second cell measures it.

# %% claims=["C143", "C144", "C145", "C146", "C147", "C149"]
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Dropout(0.5), nn.Linear(256, 10))
rows = []
for mode in ("train()", "eval()"):
    for recording in (torch.enable_grad, torch.no_grad, torch.inference_mode):
        model.train(mode == "train()")
        with recording():
            first, second = model(pixels[:100]), model(pixels[:100])
        rows.append(
            {
                "mode": mode,
                "recording": recording.__name__,
                "two calls agree": first.equal(second),
                "requires_grad": first.requires_grad,
                "parameters still ask for gradients": all(parameter.requires_grad for parameter in model.parameters()),
            }
        )
display(Table(rows))

kept = {}
for mode in (True, False):
    model.train(mode)
    kept["train()" if mode else "eval()"] = models.kept_for_backward(lambda: model(pixels[:100]), model.parameters())
print("bytes kept for backward:", kept)

model = nn.Sequential(nn.Linear(64, 8), nn.Dropout(0.5), nn.Linear(8, 10))
compiled = torch.compile(model, backend="eager")
print("names:", list(compiled.state_dict())[:2])
print("into a plain one:", error_of(lambda: model.load_state_dict(compiled.state_dict())))
for mode in (True, False):
    compiled.train(mode)
    recorded = compiled(pixels[:4]).requires_grad
    with torch.no_grad():
        print(f"training {mode!s:5}: tracked {recorded}, under no_grad {compiled(pixels[:4]).requires_grad}")
print("the same parameters:", compiled._orig_mod is model)


# %% tags=["nbval-ignore-output"] claims=["C148", "C150"]
def trained_with(calls_train, epochs=12 if fast else 40):
    """Train on 200 digits with dropout, evaluate after each epoch; return the losses in training and validation."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Dropout(0.5), nn.Linear(256, 10))
    assert model.training  # nobody had to call train()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    losses = {"training": [], "validation": []}
    for _ in range(epochs):
        if calls_train:
            model.train()
        epoch = []
        for part in torch.randperm(200).split(20):
            loss = F.cross_entropy(model(pixels[part]), labels[part])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            epoch.append(loss.item())
        losses["training"].append(sum(epoch) / len(epoch))
        model.eval()
        with torch.no_grad():
            scores = model(test_pixels)
        losses["validation"].append(F.cross_entropy(scores, test_labels).item())
    return losses, (scores.argmax(1) == test_labels).float().mean().item()


right, with_train = trained_with(calls_train=True)
wrong, without = trained_with(calls_train=False)
print(f"validation accuracy: {with_train:.1%} with train(), {without:.1%} without")
assert abs(with_train - without) < 0.1 and wrong["training"][-1] < right["training"][-1]
show.comparison(
    {"training, with train()": right["training"], "training, without": wrong["training"]},
    title="train() forgotten after an evaluation",
    x_label="epoch",
    y_label="loss",
)

# %% exercise="evaluation_scores"

# %% [markdown]
# `eval()` saves what dropout would have kept, and nothing else: the graph is recorded as before. An evaluation wants
# *both*: `eval()` for right numbers, `no_grad()` for the memory. And where `train()` was forgotten after it, the
# training loss is lower, since dropout is off, while the validation is about the same: nothing absurd, and that is why
# nobody notices. What you have lost is the regularisation that you believe you have.
#
# ## 5 · A body that stays as it is
#
# A network that has learned on many pictures is given a new head for a few. Its body is frozen:
# `requires_grad_(False)`.

# %% predict="frozen_statistics"

# %%
torch.manual_seed(0)
body = nn.Sequential(nn.Linear(64, 32), nn.BatchNorm1d(32), nn.ReLU())
model = nn.Sequential(body, nn.Linear(32, 10))
body.requires_grad_(False)


def drift(model):
    """Send a batch through in training mode; return whether the statistics changed."""
    before = model[0][1].running_mean.clone()
    model.train()
    model(pixels[:100])
    return not before.equal(model[0][1].running_mean)


has_drifted = drift(model)
models.freeze(model, "0.")
print("with models.freeze:", drift(model))
print("left to train:", [name for name, one in model.named_parameters() if one.requires_grad])
models.unfreeze(model, "0.")
print("and thawed:", len(models.trained_parameters(model)), "parameters")
lab.frozen_statistics.reveal(guess, has_drifted)

# %% exercise="new_head"

# %% [markdown] tags=["teaching-note"]
# Ask the room: what does Adam do with a parameter that was trained before, is frozen now, and was handed over with the
# others? Nothing, as long as its gradient is None. With weight decay and a gradient of zeros (set_to_none=False) it
# would move: that is why the list should say what is meant.

# %% [markdown]
# `models.freeze` stops gradients *and* keeps the layer in evaluation mode, also when `model.train()` is called on the
# whole. [It is a page](../labkit/models/freezing.py). And where learning rates are per group, hand the optimizer
# `models.trained_parameters(model)` only.
#
# ## 6 · Blocks
#
# A `forward` of one's own is worth its lines as soon as the way is not straight. Two forks that half of all networks
# have.
#
# **Residual:** a block's result is *added* to what came in. At worst a block does nothing, and the gradient has a way
# past it. Measure what arrives at the first of twenty layers, without and with the shortcut; the weights are torch's
# own.
#
# **Tying:** two layers that share one parameter. It is counted once, saved under each name that leads to it, and
# gets the sum of both gradients. A *copy* of the weight is not tied, and drifts away with the first step.


# %% claims=["C128"]
class Deep(nn.Module):
    """Twenty layers, each of which may be added to what came in."""

    def __init__(self, adds):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(64, 64) for _ in range(20))
        self.output, self.adds = nn.Linear(64, 10), adds

    def forward(self, x):
        for layer in self.layers:
            x = x + layer(x).relu() if self.adds else layer(x).relu()
        return self.output(x)


for adds in (False, True):
    torch.manual_seed(0)
    model = Deep(adds)
    F.cross_entropy(model(pixels), labels).backward()
    first, last = (layer.weight.grad.norm().item() for layer in (model.layers[0], model.layers[-1]))
    print(f"{'added' if adds else 'chain':6} gradient of the first layer beside the last: {first / last:.0e}")

block = models.ResidualBlock(8, 16, stride=2)  # the shape changes, so the shortcut is a convolution of 1×1
print("block:", tuple(block(torch.zeros(2, 8, 32, 32)).shape))
print("the wrong shortcut:", error_of(lambda: torch.zeros(2, 8, 32, 32) + block.body(torch.zeros(2, 8, 32, 32))))

torch.manual_seed(0)
tied = models.TiedAutoencoder(64, 8)
optimizer = torch.optim.Adam(tied.parameters(), lr=0.01)
for _ in range(100):
    loss = F.mse_loss(tied(pixels), pixels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"64 numbers in 8 and back, from {models.parameter_count(tied):,} parameters instead of {2 * 64 * 8 + 8 + 64:,}")
print("better than the mean picture:", loss.item() < pixels.var(0, correction=0).mean().item())

pair = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])
pair[1].weight = pair[0].weight
weights = [name for name in pair.state_dict() if "weight" in name]
print("tied: one object,", pair[1].weight is pair[0].weight, "| saved as", weights)
pair[1].weight = nn.Parameter(pair[0].weight.detach().clone())
print("copied: one object,", pair[1].weight is pair[0].weight)

# %% [markdown]
# ## 7 · Yours in the place of torch's
#
# A check compares outputs. A training is the harder proof: a small network learns digits, once with torch's parts, then
# with yours. Equal numbers to the end, and then time and memory side by side. Whatever you have skipped is torch's.
#
# First two losses, one right and one with a well-known fault, so that you see what the table says.


# %% tags=["nbval-ignore-output"]
def own_loss(scores, targets):
    """The mean of -log(probability of the true class)."""
    return -scores.log_softmax(1)[range(len(targets)), targets].mean()


def own_loss_twice(scores, targets):
    """The same, for probabilities instead of scores."""
    return own_loss(scores.softmax(1), targets)


caught = swap_in.side_by_side(loss=own_loss_twice, updates=10)
assert not caught.is_right
display(caught)
updates = 10 if fast else 20
swap_in.side_by_side(
    loss=own_loss, linear=Linear, conv2d=Conv2d, batch_norm=BatchNorm2d, dropout=Dropout, updates=updates
)

# %% [markdown]
# Equal numbers to the last update, with your parts beside torch's in time and in memory, where theirs take more care.
# The arithmetic is the same, and nothing in them is magic any more.
#
# ## 8 · What goes wrong here
#
# Seven errors, on purpose. **Predict** the reason of each from its text before you read on.


# %% claims=["C118", "C130", "C137"]
def init_weights(module):
    """First values, as tutorials write them; networks whose layers all have a bias do not complain."""
    if isinstance(module, nn.Linear | nn.Conv2d):
        nn.init.xavier_uniform_(module.weight)
        nn.init.zeros_(module.bias)


model = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3)).apply(init_weights)
print("1", error_of(lambda: model(torch.ones(1, 4))), "\n")
print("2", error_of(lambda: model(torch.ones(5, 3))), "\n")
print("3", error_of(lambda: setattr(model[0], "weight", torch.ones(3, 4))), "\n")
print("4", error_of(lambda: torch.optim.SGD(nn.Module().parameters(), lr=0.1)), "\n")
print("5", error_of(lambda: model.load_state_dict(nn.Sequential(nn.Linear(4, 3)).state_dict())), "\n")
print("6", error_of(lambda: nn.ModuleDict({1: nn.Linear(2, 2)})), "\n")
print("7", error_of(lambda: nn.Conv2d(1, 4, 3, bias=False).apply(init_weights)))

# %% [markdown]
# 1. One sample in training mode: it has no variance. In use, `eval()`; in training, `drop_last=True` in the loader.
# 2. The first layer takes 4. `models.shape_trace` says which layer, and what to change.
# 3. A drawer for parameters takes parameters. Write into the old one: `with torch.no_grad(): weight.copy_(…)`.
# 4. Nothing is registered: a list, a dict, a plain tensor. `models.registration` says where.
# 5. The names of file and model differ: another network, or the prefix of a wrapper. `strict=False` would hide it.
# 6. Names become attributes, so they are strings.
# 7. A layer without bias has None in its place. A function for `apply` asks first.
#
# ## 9 · You will read that … is it so?
#
# Sentences from tutorials. Choose for each: true, false, or it depends. *Measure it* runs the evidence on your
# computer.

# %% claims=["C119", "C122", "C126", "C130", "C134", "C136", "C138", "C139", "C140", "C144", "C148", "C150"]
show.quiz("C119", "C122", "C126", "C130", "C134", "C136", "C138", "C139", "C140", "C144", "C148", "C150")

# %% [markdown]
# ## Take away
#
# - A module sees what is assigned to an attribute, and of that only parameters and modules. Lists: `nn.ModuleList`.
# - Learned: parameter. Belongs to the model, not learned: buffer. All else is neither moved nor saved.
# - Before the first training: `models.registration(model, example)` and `models.shape_trace(model, shape)`.
# - Places of a window: the first, and the steps for which the padded side has room. Rounded down.
# - ReLU, Kaiming. A small factor a layer is a large one after twenty.
# - `eval()` speaks to dropout and batch normalisation, `no_grad()` to autograd. An evaluation needs both; `train()`
#   afterwards.
# - Frozen means two things: no gradient, and no new statistics.
# - Replace layers first, make the optimizer last.
#
# To read: [labkit/models/scratch.py](../labkit/models/scratch.py), a module in a page, then
# [registration.py](../labkit/models/registration.py), which finds what a module does not know.
