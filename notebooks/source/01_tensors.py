# %% [markdown]
# # 01 · Tensors
#
# **The question.** Every line ran, no error appeared, and the model learned nothing. How can that be?
#
# Often the reason is not in the model. It is in a tensor: its shape, its dtype, its device, or its memory. This chapter
# begins with such a training and ends with your being able to say at a glance what is wrong with it.
#
# Before a run you are asked to **predict**: write your guess in place of the `...`. The exercises have a cell to answer
# in and a cell that checks; stuck, ask for `hint()`. You may run past what you have not answered. About ninety minutes.

# %% tags=["parameters"]
fast: bool = True  # True: time small matrices; False: larger ones, steadier numbers

# %%
# %load_ext labkit

import time
import warnings

import numpy as np
import torch
import torch.nn.functional as F
from IPython.display import display
from torch import nn

from labkit import exercises, show, tensors
from labkit.course import parameters
from labkit.errors import error_of
from labkit.table import Table

chosen = parameters(globals())
lab = exercises.load("01_tensors")
torch.set_num_threads(1)

# %% [markdown]
# ## A training that fails in silence
#
# 32 samples of one feature `x`, and targets that lie exactly on a line, 2x + 1. The model is a line as well: two
# weights. Nothing is easier to learn. The loop is the right one, and the loss is the mean of the squared differences.
#
# Look for the fault before you run the cell. The loss falls. Did it learn?

# %%
x = torch.linspace(-1, 1, 32)[:, None]
targets = 2 * x[:, 0] + 1


def learn(loss_of, updates=200):
    """Train a line on x and return its predictions."""
    torch.manual_seed(0)
    model = nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for _ in range(updates):
        loss = loss_of(model(x))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    print(f"loss: {losses[0]:.2f} at first, {losses[-1]:.2f} after {updates} updates")
    return model(x).detach()


predictions = learn(lambda outputs: ((outputs - targets) ** 2).mean())
lines = {"to be learned": targets.tolist(), "learned": predictions[:, 0].tolist()}
show.comparison(lines, x=x[:, 0].tolist(), title="A line, and what was learned", x_label="x", y_label="y")

# %% [markdown]
# It learned to say 1, whatever it is asked. Longer training does not help, nor does another rate, nor a larger network.
# No line of the loop is wrong. Keep the riddle; in part 4 you will solve it.
#
# ## 1 · What a tensor is
#
# Numbers in a grid, with a label on it. Three words of the label decide whether an operation works, and how:
#
# - **shape**: how many axes, and how long is each;
# - **dtype**: what kind of number. float32 for features and weights, int64 for class labels, bool for masks;
# - **device**: where the numbers are.
#
# You will read that what `torch.randn` returns is *trackable, differentiable and movable*. It can be. What is switched
# on if you say nothing?

# %% claims=["C016", "C038", "C039", "C047"]
made = {
    "torch.tensor([3, 1, 4])": torch.tensor([3, 1, 4]),
    "torch.tensor([2.0, 0.5])": torch.tensor([2.0, 0.5]),
    "torch.tensor([True, False])": torch.tensor([True, False]),
    "torch.zeros(2, 3)": torch.zeros(2, 3),
    "torch.arange(0, 10, 2)": torch.arange(0, 10, 2),
    "torch.rand(2, 3)": torch.rand(2, 3),
    "torch.randn(4, 3, 8, 8)": torch.randn(4, 3, 8, 8),
    "torch.ones_like(torch.arange(3))": torch.ones_like(torch.arange(3)),
}
display(
    Table(
        [
            {
                "made by": call,
                "shape": tuple(tensor.shape),
                "dtype": str(tensor.dtype).removeprefix("torch."),
                "device": tensor.device.type,
                "requires_grad": tensor.requires_grad,
            }
            for call, tensor in made.items()
        ]
    )
)
many = torch.randn(100_000)
print(f"randn: mean near 0, deviation near 1: {abs(many.mean()) < 0.02 and abs(many.std() - 1) < 0.02}")
print(f"rand:  all in [0, 1): {bool(((made['torch.rand(2, 3)'] >= 0) & (made['torch.rand(2, 3)'] < 1)).all())}")
large = torch.zeros(1000, 1000)
large[3, 5] = float("nan")
print("A large tensor is printed by its corners; can you see the NaN?", large, sep="\n")
print("Ask instead:", tuple(large.shape), "all finite:", bool(large.isfinite().all()))

# %% [markdown] tags=["teaching-note"]
# **For the teacher.** Let the room look for the fault of the first cell for two minutes, in pairs, and vote: model,
# loop, rate, data, loss? Do not solve it. The vote is worth repeating after part 4. Those who know PyTorch often say
# "the rate": let them try.

# %% exercise="class_labels"

# %% [markdown]
# So nothing is tracked, and everything is on the CPU, until you ask. Whole numbers become int64, numbers with a point
# float32. And a printed tensor hides its middle: ask it for shape, dtype, range and `isfinite().all()`.
#
# ## 2 · dtype and device: what fits together?
#
# Two tensors meet in an operation and their dtypes differ. There are two rules, and they are not the same one.

# %% predict="promotion"

# %% claims=["C041", "C007"]
whole, half, single = torch.tensor([1, 2]), 0.5, torch.tensor([0.5, 0.5])
lab.promotion.reveal(guess, (whole + half).dtype)

print("int64 + float32        ", (whole + single).dtype)
print("float32 + float64      ", (single + single.double()).dtype)
print("float32 * 2.0          ", (single * 2.0).dtype)
print("int64 / int64          ", (whole / whole).dtype)
print("sum of bool            ", torch.tensor([True, False]).sum().dtype)
print("mean of bool           ", error_of(torch.tensor([True, False]).mean)[:56], "…")

# %% predict="matrix_product"

# %% claims=["C022", "C041"]
matrix, vector = torch.ones(2, 3), torch.ones(3, 1)


def dtype_of(action):
    """Return the dtype of a result, or "error"."""
    try:
        return action().dtype
    except RuntimeError:
        return "error"


lab.matrix_product.reveal(guess, dtype_of(lambda: matrix.double() @ vector))

from_numpy = torch.from_numpy(np.ones((2, 3)))  # NumPy's floats are float64
print("matrix product ", error_of(lambda: from_numpy @ vector))
print("linear layer   ", error_of(lambda: nn.Linear(3, 1)(from_numpy)))
print("convolution    ", error_of(lambda: nn.Conv2d(1, 1, 1)(from_numpy[None, None])))
print("a loss          no error, and the loss is", F.mse_loss(vector, vector.double()).dtype)

# %% tags=["nbval-ignore-output"] claims=["C040", "C043"]
# What does float64 cost? The memory is exact, 8 bytes a number instead of 4. The time is for you to measure.
size = 512 if fast else 2048
seconds = {}
for dtype in (torch.float32, torch.float64):
    square = torch.rand(size, size, dtype=dtype)
    assert square.nbytes == size * size * dtype.itemsize
    square @ square  # the first call prepares
    times = []
    for _ in range(5):
        begin = time.perf_counter()
        square @ square
        times.append(time.perf_counter() - begin)
    seconds[dtype] = min(times)
    print(f"{dtype}: {square.nbytes / 1e6:.1f} MB, {1000 * seconds[dtype]:.1f} ms for a product of {size} × {size}")
print(f"float64 takes {seconds[torch.float64] / seconds[torch.float32]:.1f} times as long on this computer")

# %% [markdown]
# **Rule:** element by element, dtypes *promote*, in silence; matrix products, layers and convolutions *refuse*, and
# they do so in the forward pass. (An old tutorial quotes "expected scalar type Float but found Double"; today the
# messages read as above.)
#
# The silent half is the dangerous one: one float64 tensor of NumPy, and all that it touches becomes float64. That costs
# about twice the time on most CPUs and far more on GPUs for games, and nothing is gained: the noise in a gradient is
# larger than the rounding of float32 by far. So **convert once, where the data come in**, instead of putting `.float()`
# wherever an error appears.
#
# `.to` converts. You will read that it *rewrites the device field of the tensor*. Is it so?

# %% predict="moved"

# %% claims=["C051", "C045", "C046"]
x32 = torch.ones(3)
x32.to(torch.float64)
lab.moved.reveal(guess, x32.dtype)

layer = nn.Linear(3, 2)
layer.to("meta")  # a module moves itself; meta is a device of shapes without numbers, and stands here for a GPU
print("the layer is on:", layer.weight.device, "- and the batch that it is given:", x32.device)
print(error_of(lambda: layer(x32)))
print("nothing to do, so the same tensor:", x32.to("cpu") is x32)

weight = torch.ones(3, requires_grad=True)
moved = weight.to(torch.float64)
moved.sum().backward()
print("the moved one is a leaf:", moved.is_leaf, "- it came from:", moved.grad_fn.name())
print("the gradient arrived at the original:", weight.grad.tolist())

# %% [markdown]
# **Rule:** a tensor's `.to` returns another tensor, so write `x = x.to(device)`; a module's `.to` changes the module.
# What was moved is no leaf any more: an optimizer that holds the moved tensor waits for a gradient in vain. Make a
# weight where it shall live: `torch.ones(3, device=device, requires_grad=True)`.
#
# ## 3 · One row of boxes
#
# Memory has one dimension. So a tensor is two things: a **storage**, one row of boxes with numbers, and a rule that
# says which box to read. The rule is three facts of the label: the shape, the *strides* (how many boxes to go on for
# one step along each axis) and the offset (in which box to begin).

# %% [markdown] tags=["teaching-note"]
# **For the teacher.** If somebody has a GPU: `torch.ones(2, device="cuda", dtype=torch.float64)` works, against what is
# often written. It is Apple's `mps` that has no float64. The device `meta` gives the error of part 2 on every laptop.

# %% claims=["C038"]
x = torch.arange(12).view(3, 4)
display(tensors.describe(x))
show.storage_strip(x)

# %% predict="transposed_memory"

# %%
y = x.t()
y[0, 1] = 100
lab.transposed_memory.reveal(guess, bool(x[1, 0] == 100))
control = show.storage_control()  # before you choose another operation: which boxes does it read? a new strip?
control.set(operation="x.t()")
control

# %% [markdown]
# Not one number moved; the strides changed places. That is why transposing a gigabyte takes a microsecond, and why
# writing into the result reaches the original. Go through the operations with the arrow keys.
#
# You will read that *view needs a contiguous tensor*. Is it so? Here is who shares, who copies, and who refuses. The
# slice `x[:, :2]` is not contiguous.

# %% claims=["C057", "C058", "C059", "C060", "C061"]
x = torch.arange(12).view(3, 4)
asked = {
    "x.view(2, 6)": lambda: x.view(2, 6),
    "x.t().view(12)": lambda: x.t().view(12),
    "x.t().reshape(12)": lambda: x.t().reshape(12),
    "x.flatten()": lambda: x.flatten(),
    "x[:, :2]": lambda: x[:, :2],
    "x[:, :2].view(3, 2, 1)": lambda: x[:, :2].view(3, 2, 1),
    "x[::2]": lambda: x[::2],
    "x[[0, 2]]": lambda: x[[0, 2]],
    "x[x > 5]": lambda: x[x > 5],
    "x[:, :1].expand(3, 4)": lambda: x[:, :1].expand(3, 4),
    "x.t().contiguous()": lambda: x.t().contiguous(),
}
rows = []
for call, action in asked.items():
    refused = error_of(action) != "no error"
    found = None if refused else tensors.describe(action(), others={"x": x})
    rows.append(
        {
            "call": call,
            "shape": "refused" if refused else found.shape,
            "strides": "" if refused else found.strides,
            "contiguous": "" if refused else found.contiguous,
            "memory": "" if refused else "x's" if found.shares_with else "its own",
        }
    )
display(Table(rows))

planes = torch.arange(12).view(3, 2, 2)  # colours, height, width: red is 0, 1, 2, 3
print("permute(1, 2, 0), red:", planes.permute(1, 2, 0)[..., 0].tolist())
print("reshape(2, 2, 3), red:", planes.reshape(2, 2, 3)[..., 0].tolist())
print("squeeze() of (1, 1, 5):", tuple(torch.zeros(1, 1, 5).squeeze().shape), "- the batch of one is gone")
print("transpose(0, 2) of (2, 3, 4):", tuple(torch.zeros(2, 3, 4).transpose(0, 2).shape))
row = torch.zeros(1000, 1000)[0]
print(f"one row of a large matrix keeps {tensors.describe(row).storage_bytes:,} bytes alive, ", end="")
print(f"its clone {tensors.describe(row.clone()).storage_bytes:,}")

# %% [markdown]
# - `view` never copies. It needs strides that can express the new shape; contiguous is enough, but not necessary.
# - `reshape` and `flatten` share when they can and copy when they must: right for reading, never count on writing
#   through them.
# - Slices are views. A *list* of indices or a mask is a copy.
# - **`permute` reorders axes, `reshape` regroups the numbers in the order they have.** Their shapes may be equal and
#   their pictures are not: the second "red" above is a mixture. A network trains on it without a word.
# - Give `squeeze` its `dim`. And store `row.clone()`, not a row that drags the whole matrix along.

# %% exercise="channels_first"

# %% exercise="flatten_pictures"

# %% [markdown] tags=["teaching-note"]
# **For the teacher.** Those who are done early: for which inputs does `x.permute(0, 2, 3, 1).flatten(1)` copy, and how
# would one find out without reading the documentation? (`tensors.shares_storage`, and a batch of one channel.)

# %% [markdown]
# ## 4 · Broadcasting
#
# Shapes need not be equal. They are aligned from the *last* axis; each pair must be equal, or one of them 1, or
# missing. What is 1 or missing is stretched: read again and again with stride 0, not copied.

# %% claims=["C063"]
display(show.broadcasting((3, 1), (4,)))
print(error_of(lambda: torch.zeros(3, 2) + torch.zeros(3)))
show.broadcasting((3, 2), (3,))

# %% predict="column_and_row"

# %% claims=["C063", "C065"]
difference = torch.zeros(8, 1) - torch.zeros(8)
lab.column_and_row.reveal(guess, difference.shape)

# The training of the beginning once more. One thing is changed: the targets are a column, so both shapes are (32, 1).
x = torch.linspace(-1, 1, 32)[:, None]
column = targets[:, None]
repaired = learn(lambda outputs: ((outputs - column) ** 2).mean())
print(f"largest error of the line: below 0.01: {bool((repaired - column).abs().max() < 0.01)}")
print(f"the targets: mean {targets.mean():.2f}, variance {targets.var(correction=0):.2f}")
display(show.broadcasting((8, 1), (8,), names=["predictions", "targets"]))
lines = {"to be learned": targets.tolist(), "shapes differ": predictions[:, 0].tolist()}
lines["shapes agree"] = repaired[:, 0].tolist()
show.comparison(lines, x=x[:, 0].tolist(), title="The same training, twice", x_label="x", y_label="y")

# %% [markdown]
# The riddle is solved. (32, 1) against (32,) gave 32 × 32 differences: *each* prediction was compared with *every*
# target. The best single answer to all targets is their mean, so every prediction went there, and the loss stopped at
# the variance of the targets. It is the commonest silent fault in regression; `mse_loss` at least warns.
#
# **Rule:** `assert outputs.shape == targets.shape` before the loss. The whole shapes: an assert on the last axis alone
# lets (1, 8) pass against (8, 8).
#
# The same mechanism is behind a bias: (features,) is added to each sample. One of shape (batch, 1) fits too, and adds
# one number to all features of a sample; that is hardly ever meant. Try pairs of shapes, and guess first:

# %% claims=["C064", "C065"]
batch = torch.zeros(4, 3)
print("bias (3,):   ", (batch + torch.tensor([1.0, 2.0, 3.0]))[0].tolist(), "in each sample")
print("bias (4, 1): ", (batch + torch.tensor([[1.0], [2.0], [3.0], [4.0]]))[0].tolist(), "in the first sample")
show.broadcasting_control()

# %% exercise="squared_error"

# %% [markdown] tags=["teaching-note"]
# **For the teacher.** Vote again on the fault of the first cell, then ask for the minimum of Σᵢⱼ (pᵢ - tⱼ)²: each pᵢ is
# best at the mean of all t. Who has seen a model that predicts one value for everything?

# %% exercise="distances"

# %% [markdown]
# ## 5 · Picking out and summing up
#
# A slice keeps an axis, a number removes it, a list or mask picks. Two index lists side by side go *in pairs*: that is
# how one gets the score of the true class of each picture. A reduction such as `sum` takes `dim`, the axes that
# disappear. And `einsum` writes a product by naming the axes: a letter that is missing on the right is summed over.

# %% claims=["C007"]
scores = torch.arange(12.0).view(3, 4)
labels = torch.tensor([2, 0, 3])
print("scores[0]            ", tuple(scores[0].shape), "  scores[0:1]", tuple(scores[0:1].shape))
print("scores[:, labels]    ", tuple(scores[:, labels].shape), "these columns of every row")
print("scores[[0, 1], [2, 3]]", scores[[0, 1], [2, 3]].tolist(), "in pairs: row 0 column 2, row 1 column 3")
print("scores > 9           ", scores[scores > 9].tolist(), "always one axis")
print("gather               ", scores.gather(1, torch.tensor([[0, 1], [0, 1], [3, 3]])).tolist(), "as the index")

print("sum(dim=0)           ", scores.sum(dim=0).tolist(), "the rows disappear")

queries, keys = torch.rand(2, 5, 8), torch.rand(2, 7, 8)
products = torch.einsum("bqd,bkd->bqk", queries, keys)
print("einsum               ", tuple(products.shape), "each query with each key:", end=" ")
print(torch.allclose(products, queries @ keys.transpose(1, 2)))
right_shape = queries @ keys.reshape(2, 8, 7)
print("reshape, not transpose:", tuple(right_shape.shape), "the same numbers:", torch.allclose(products, right_shape))

# %% exercise="score_of_label"

# %% exercise="channel_means"

# %% [markdown]
# ## 6 · In place, and NumPy
#
# A method with an underscore at the end changes the tensor, and with it everyone who reads the same boxes. So does
# `+=`, and so does writing into a slice. NumPy arrays can be among the readers.
#
# You will read that `from_numpy` and `.numpy()` *sometimes* share memory. Is it so?

# %% claims=["C066", "C067", "C068", "C042", "C007", "C011"]
x = torch.zeros(2, 3)
first_row, copied = x[0], x[[0]]
first_row += 1
copied += 5
print("x after changing a slice and a picked row:", x.tolist())
name = x
x = x + 1  # a new tensor gets the name x
print("x = x + 1 leaves the old one alone:", name.tolist())

array = np.zeros(3)
ways = {
    "torch.from_numpy(array)": torch.from_numpy(array),
    "torch.as_tensor(array)": torch.as_tensor(array),
    "torch.as_tensor(array, dtype=torch.float32)": torch.as_tensor(array, dtype=torch.float32),
    "torch.from_numpy(array).clone()": torch.from_numpy(array).clone(),
    "torch.tensor(array)": torch.tensor(array),
}
array += 7
display(Table([{"way": way, "sees the change": bool((tensor == 7).all())} for way, tensor in ways.items()]))
trained = torch.ones(2, requires_grad=True)
print(error_of(trained.numpy))
print("detach().cpu().numpy():", trained.detach().cpu().numpy())
print("not as in NumPy:", error_of(lambda: torch.arange(3)[::-1]), end="; ")
print(f"std of 1, 2, 3: {torch.tensor([1.0, 2.0, 3.0]).std():.3f} and {np.std([1, 2, 3]):.3f}")
print("an array has a label too:", sorted(set(array.__array_interface__) & {"shape", "strides", "typestr"}))

# %% [markdown]
# Not sometimes: **`from_numpy` and `.numpy()` always share** on the CPU, `torch.tensor` always copies, `as_tensor`
# copies only to change the dtype or the device. A `clone()`, or `copy()` in NumPy, ends the sharing. The way out that
# always works is `x.detach().cpu().numpy()`.

# %% exercise="clip_in_place"

# %% exercise="to_tensor"

# %% claims=["C042", "C043", "C045", "C049", "C050", "C052", "C053", "C054", "C055", "C056"]
# You will read these sentences. For each: true, false, or it depends? "Measure it" runs the evidence.
show.quiz("C042", "C043", "C045", "C049", "C050", "C052", "C053", "C054", "C055", "C056")

# %% [markdown]
# ## What goes wrong here
#
# Six real faults, made on purpose. Four raise an error, and an error of the forward pass points at the line you wrote.
# Two raise nothing. **Read each message and say what it wants, before you read on.**

# %% claims=["C006", "C022", "C059", "C065", "C066"]
pictures = torch.rand(4, 8, 8, 3)
print("1", error_of(lambda: pictures.permute(0, 3, 1, 2).view(4, -1)))

print("2", error_of(lambda: nn.Linear(3, 1)(torch.from_numpy(np.ones((4, 3))))))

outputs, truth = torch.tensor([[0.0], [1.0], [2.0], [3.0]]), torch.tensor([0.0, 1.0, 2.0, 3.0])
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    loss = F.mse_loss(outputs, truth)
print(f"3 no error: perfect predictions, and a loss of {loss.item()}; {len(caught)} warning")

measured = np.array([1.0, 2.0, 3.0])
centred = torch.from_numpy(measured)
centred -= centred.mean()
print("4 no error: the measurements are now", measured.tolist())

print("5", error_of(lambda: nn.Linear(3, 1, device="meta")(torch.ones(4, 3))))

weights = torch.zeros(3, requires_grad=True)
print("6", error_of(lambda: weights[:2].fill_(1)))
print(" ", error_of(lambda: torch.zeros(1, 3).expand(2, 3).add_(1))[:112], "…")

# %% [markdown]
# 1. `permute` left strides that no view can express: use `flatten(1)` or `reshape`, as the message says.
# 2. NumPy's floats are float64, weights are float32. Convert where the data come in, with a `dtype=`.
# 3. (4, 1) against (4,): each with every one. Only a warning, and none at all if you write the formula yourself.
# 4. `from_numpy` shares the memory, and `-=` writes into it: the original data are gone. Take `torch.tensor`.
# 5. Model and batch are on two devices (`meta` stands for a GPU): `inputs = inputs.to(device)`, with the assignment.
# 6. Writing into a view of a weight changes what autograd relies on: do it under `torch.no_grad()`. And an expanded
#    tensor reads one box many times, so there is no room to write: `clone()` it first.
#
# ## Take away
#
# - Shape, dtype, device: print them first. Then range and `isfinite().all()`.
# - float32 for features, int64 for labels, bool for masks; convert once, at the border.
# - Element-wise operations promote, matrix products refuse.
# - `x = x.to(device)` for tensors; modules move themselves.
# - A tensor is a storage and a rule. Views share; lists and masks copy; `reshape` does either.
# - `permute` reorders, `reshape` regroups.
# - Broadcasting aligns from the right, and `assert outputs.shape == targets.shape` stands before the loss.
# - An underscore, `+=` and `from_numpy` reach everyone who reads the same boxes.
#
# ## Read on
#
# - [labkit/tensors/places.py](../labkit/tensors/places.py), how an index becomes a box, and
#   [alignment.py](../labkit/tensors/alignment.py), broadcasting in one page.
# - [labkit/training/step.py](../labkit/training/step.py): where `labkit` moves a batch.
# - Next: [chapter 02](02_autograd.ipynb), where gradients come from.
