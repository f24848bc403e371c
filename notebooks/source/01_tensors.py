# %% [markdown]
# # 01 · Tensors
#
# **The question.** What is in a tensor, and which mistakes does it let through without a word?
#
# Most faults with tensors raise an error, and you mend them. The dangerous ones raise nothing: a network that gets
# scrambled pictures, or compares each prediction with every target, trains, and does not learn. At the end of this
# chapter you see both kinds coming.
#
# Write down a guess before each cell that says **Predict**: a wrong one is where you learn something. An exercise has
# a cell with `...` for your answer. Its check knows the wrong answers that people give, and `hint()` helps before
# `solution()` does.

# %% tags=["parameters"]
fast: bool = True  # True: a short training shows the treacherous loss; False: a longer one

# %%
# %load_ext labkit

import time

import numpy as np
import torch
from torch import nn

from labkit import data, exercises, show, tensors
from labkit.course import parameters

chosen = parameters(globals())
lab = exercises.load("01_tensors")

# %% [markdown]
# ## 1 · What a tensor is
#
# Numbers in one row of boxes, the *storage*, and a header that says how to read them: shape, dtype, device, strides,
# and whether operations on it are recorded. `describe` shows the header. A NumPy array has one as well; what a tensor
# adds is the device and the recording, and both are off until you ask: it is on the CPU, and nothing is recorded.

# %% claims=["C016", "C038", "C042", "C047"]
x = torch.arange(12, dtype=torch.float32).view(3, 4)
tensors.describe(x)

# %% [markdown]
# The ways to make one. Give `dtype=` and `device=` at once, so that nothing has to be converted later.

# %% claims=["C039", "C040"]
print(torch.tensor([[1, 2], [3, 4]]).dtype, torch.tensor([1.0, 2.0]).dtype, torch.tensor([True]).dtype)
print(torch.arange(0, 10, 2), torch.linspace(0, 1, 3))
print(torch.zeros(2, 3).shape, torch.full((2,), 7).dtype, torch.zeros_like(x, dtype=torch.int64).dtype)

random = torch.randn(10_000, generator=torch.Generator().manual_seed(0))
print("randn: mean near 0 and deviation near 1:", abs(random.mean()) < 0.05, abs(random.std() - 1) < 0.05)
print("bytes an element:", {str(kind): torch.empty(0, dtype=kind).itemsize for kind in (torch.float32, torch.float64)})

# %% [markdown]
# ## 2 · dtype: who is converted, and who refuses

# %% predict="promotion"

# %%
total = torch.tensor([1, 2]) + 0.5
lab.promotion.reveal(guess, total.dtype)

# %% predict="matrix_product"

# %% claims=["C022", "C041"]
wide, narrow = torch.ones(2, 2, dtype=torch.float64), torch.ones(2, 2)
try:
    product = (wide @ narrow).dtype
except RuntimeError as error:
    print("RuntimeError:", error)
    product = "error"
print("element by element:", (wide * narrow).dtype)
lab.matrix_product.reveal(guess, product)

# %% [markdown]
# **Rule:** operations on elements *promote*, matrix products, layers and convolutions *refuse*. The silent one is the
# first: one float64 tensor, often straight from NumPy, and everything it touches becomes float64 as well. It needs
# twice the memory, and more time. How much more, on your computer?

# %% tags=["nbval-ignore-output"] claims=["C043"]
for kind in (torch.float32, torch.float64):
    matrix = torch.ones(400, 400, dtype=kind)
    seconds = []
    for _ in range(20):
        begin = time.perf_counter()
        matrix @ matrix
        seconds.append(time.perf_counter() - begin)
    print(f"{kind}: {matrix.nbytes:,} bytes, a product in {1000 * sorted(seconds)[10]:.2f} ms")

# %% exercise="class_labels"

# %% exercise="channel_means"

# %% [markdown]
# ## 3 · Storage and strides: who copies, and who only looks
#
# Below is the storage of `x`, and what an operation makes of it. The *strides* say how many boxes further the next
# element is, one for each axis. Choose another operation with the arrow keys. Which ones leave the boxes alone? Which
# one reads a box several times, and which gets a storage of its own?

# %%
control = show.storage_control()
control.set(operation="x.t()")
control

# %% predict="transposed_memory"

# %% claims=["C057", "C058", "C059"]
x = torch.arange(12.0).view(3, 4)
y = x.t()
y[0, 1] = 100
print("contiguous:", x.is_contiguous(), y.is_contiguous(), "| strides:", x.stride(), y.stride())
lab.transposed_memory.reveal(guess, bool(x[1, 0] == 100))

# %% [markdown]
# **Rule:** `view`, `transpose`, `permute`, `expand` and slices only write a new header. `reshape` and `flatten` do so
# where they can, and copy where they must. `view` never copies: where one step cannot lead along all elements, it
# refuses. (You will read that it needs a contiguous tensor. A contiguous one is enough, but `x[:, ::2].view(-1)` works
# as well: every step is 2.)
#
# `squeeze` and `unsqueeze` take away and put in axes of size 1. Always give `squeeze` the axis: without one it also
# takes the batch, the day the batch has one picture. `permute` reorders axes, `reshape` only cuts the row of numbers
# anew. And `einsum` lets you write axes as letters: it reorders them, and sums over those missing on the right.

# %% claims=["C060", "C061"]
one_picture = torch.zeros(1, 1, 28, 28)
print("squeeze():", tuple(one_picture.squeeze().shape), "| squeeze(1):", tuple(one_picture.squeeze(1).shape))
print("transpose(0, 2):", tuple(torch.zeros(2, 3, 4).transpose(0, 2).shape))

picture = data.load("shapes", limit=50).train.images[:1].permute(0, 2, 3, 1)[0]  # (H, W, C), as from a file
print("equal shapes:", picture.permute(2, 0, 1).shape == picture.reshape(3, 32, 32).shape)
print("equal pixels:", picture.permute(2, 0, 1).equal(picture.reshape(3, 32, 32)))
print("einsum names the axes:", torch.einsum("hwc->chw", picture).equal(picture.permute(2, 0, 1)))

# %% exercise="channels_first"

# %% exercise="flatten_pictures"

# %% [markdown]
# ## 4 · Device, and what `.to` really does

# %% predict="moved"

# %% claims=["C045", "C046", "C051", "C056"]
x = torch.ones(3)
x.to(torch.float64)
print("to the dtype it has already:", x.to(torch.float32) is x)

layer = nn.Linear(2, 2)
print("a module changes itself:", layer.to(torch.float64) is layer, layer.weight.dtype)

weight = torch.ones(2, requires_grad=True)
print("a converted weight is no leaf:", weight.to(torch.float64).is_leaf)
lab.moved.reveal(guess, x.dtype)

# %% [markdown]
# **Rule:** a tensor is moved by `x = x.to(device)`, a module by `module.to(device)`. Make the tensors that learn where
# they shall stay: a moved one is no leaf, and an optimizer refuses it. Nothing is moved for you: tensors on two
# devices do not meet, they raise.
#
# ## 5 · Broadcasting, and the loss that lies
#
# Shapes are written right under right. On each axis the sizes must be equal, or one of them 1 or missing; that one is
# stretched. Choose shapes below.

# %% claims=["C063"]
show.broadcasting_control()

# %% predict="column_and_row"

# %% claims=["C065"]
predictions, targets = torch.arange(8.0).view(8, 1), torch.arange(8.0)
difference = predictions - targets
print("squared error of a perfect prediction:", (difference**2).mean().item())
lab.column_and_row.reveal(guess, difference.shape)

# %% [markdown]
# A perfect prediction with an error of 10.5. Now train with it: a line, `targets = 2 · inputs + 1`, that any network
# of one layer finds. **Predict:** what does the network learn when each prediction is compared with *every* target?

# %% tags=["nbval-ignore-output"] claims=["C064"]
inputs = torch.linspace(-1, 1, 32)[:, None]
targets = 2 * inputs[:, 0] + 1


def train(loss_of, steps=60 if fast else 300):
    """Train one layer and return the true squared error of every step, and the layer."""
    torch.manual_seed(0)
    layer = nn.Linear(1, 1)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.3)
    errors = []
    for _ in range(steps):
        predictions = layer(inputs)
        optimizer.zero_grad()
        loss_of(predictions, targets).backward()
        optimizer.step()
        errors.append(((predictions[:, 0] - targets) ** 2).mean().item())
    return errors, layer


wrong, wrong_layer = train(lambda predictions, targets: ((predictions - targets) ** 2).mean())
right, right_layer = train(lambda predictions, targets: ((predictions[:, 0] - targets) ** 2).mean())
assert right[-1] < 0.01 and abs(wrong[-1] - targets.var(correction=0)) < 0.05
assert abs(wrong_layer.weight.item()) < 0.05 and abs(wrong_layer.bias.item() - targets.mean()) < 0.05
show.comparison(
    {"(N, 1) against (N,)": wrong, "equal shapes": right},
    title="One line of code apart",
    x_label="step",
    y_label="squared error",
    log_y=True,
)

# %% [markdown]
# It learned the *mean* of the targets, and nothing of the inputs: weight 0. No error, no NaN, a loss that falls and
# then stands still. If a regression of yours predicts one value for everything, look here first.
#
# **Rule:** before a loss, `assert predictions.shape == targets.shape`. (To compare only the last axis, as some advise,
# lets (1, 8) against (8, 8) through. And `F.mse_loss` only warns.)

# %% [markdown] tags=["teaching-note"]
# Let the room guess what the wrong network learns before the picture appears. Then ask for the minimum of
# Σᵢⱼ (pᵢ - tⱼ)²: each pᵢ is best at the mean of all t. That is the whole story.

# %% exercise="squared_error"

# %% exercise="score_of_label"

# %% exercise="distances"

# %% [markdown]
# ## 6 · NumPy, and changing in place

# %% claims=["C007", "C066", "C067", "C068"]
array = np.arange(3.0)
shared, copied = torch.from_numpy(array), torch.tensor(array)
array[0] = 100
print("from_numpy:", shared[0].item(), "| tensor:", copied[0].item(), "| dtype:", shared.dtype)
print("as_tensor shares:", tensors.shares_storage(torch.as_tensor(array), array))
print("as float32 it is a copy:", not tensors.shares_storage(torch.as_tensor(array, dtype=torch.float32), array))
print("deviation of 1, 2, 3:", torch.tensor([1.0, 2, 3]).std().item(), "and in NumPy", round(np.std([1, 2, 3]), 3))

# %% exercise="to_tensor"

# %% exercise="clip_in_place"

# %% [markdown]
# ## 7 · What goes wrong here
#
# Six faults, on purpose. Five raise, one does not. **Predict:** which one?

# %% claims=["C063"]


def error_of(action):
    """Run something that should fail and return its error as one line."""
    try:
        action()
    except Exception as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0]}"
    return "no error"


grid = torch.arange(6.0).view(2, 3)
weight = torch.ones(3, requires_grad=True)
print("1", error_of(lambda: grid.t().view(-1)), "\n")
print("2", error_of(lambda: nn.Linear(3, 1)(torch.from_numpy(np.ones((2, 3))))), "\n")
print("3", error_of(lambda: torch.ones(8, 1) - torch.ones(8)), "\n")
print("4", error_of(lambda: weight.numpy()), "\n")
print("5", error_of(lambda: nn.Linear(3, 1)(torch.ones(2, 3, device="meta"))), "\n")
print("6", error_of(lambda: weight[:2].mul_(2)))

# %% [markdown]
# 1. A transposed tensor cannot be read with one step; `reshape` or `flatten` copies.
# 2. NumPy's floats are float64, the layer's weights float32. Convert at the source: `astype("float32")`.
# 3. **The silent one**, from part 5.
# 4. What is recorded cannot be handed to NumPy: `t.detach().cpu().numpy()` is the form that always works.
# 5. Two devices. (*meta* is a device without numbers: it lets you see this error without a GPU. It is also good for
#    trying shapes.)
# 6. A slice of a leaf that learns cannot be changed in place: the graph would lose the value it needs.
#
# ## 8 · You will read that … is it so?
#
# Sentences from tutorials. Choose for each: true, false, or it depends. *Measure it* runs the evidence on your
# computer.

# %% claims=["C040", "C042", "C043", "C049", "C050", "C052", "C053", "C054", "C055", "C056", "C060", "C064", "C068"]
show.quiz("C042", "C043", "C049", "C050", "C052", "C053", "C054", "C055", "C064")

# %% [markdown]
# ## Take away
#
# - A tensor is a storage and a header. Views write a new header; only `clone`, `contiguous` and what must, copy.
# - `permute` reorders axes, `reshape` cuts anew. Never use the second for the first.
# - Operations on elements promote, matrix products refuse. float32 for features, int64 for labels.
# - `x = x.to(…)`. Nothing moves by itself.
# - Equal shapes before a loss, by `assert`.
# - `describe(x)` when in doubt.
#
# To read: [labkit/tensors/places.py](../labkit/tensors/places.py), how an index becomes a box, and
# [labkit/tensors/alignment.py](../labkit/tensors/alignment.py), broadcasting in one page.
