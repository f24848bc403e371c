# %% [markdown]
# # 00 · Start here
#
# **"I typed what the tutorial says. Why does my model not learn?"** This course answers that question. You see what
# each line of a training does, what happens without it, and which measurement tells you so.
#
# In this chapter: is the computer ready; a first training from pictures to mistakes; and the one test to run before
# every longer training. It takes about twenty minutes.
#
# A notebook is run cell by cell: click into a cell, press Shift + Enter. *Run → Run All Cells* runs all of them. The
# results of an earlier run stand here already: *Edit → Clear Outputs of All Cells* takes them away, so that you can
# predict without peeking.
#
# The first cell of each chapter holds what you may change; `parameters`, in the second, checks it.

# %% tags=["parameters"]
fast: bool = True  # True: 6 epochs; False: 12, a little more accurate

# %%
# %load_ext labkit

import math

import torch
import torch.nn.functional as F

import labkit
from labkit import data, models, show, training
from labkit.course import parameters

chosen = parameters(globals())

# %% [markdown]
# ## Is the computer ready?
#
# Each line says *ok*, *note* or *problem*. A *note* works and could be better; a *problem* comes with the thing to
# do. A computer without a GPU is ok: every chapter runs on the CPU. (The same in a terminal: `labkit check`.)

# %% tags=["nbval-ignore-output"]
labkit.environment.check()

# %% [markdown]
# Three lines explain most trouble of beginners:
#
# - **build**: PyTorch comes in builds. One without CUDA never sees an NVIDIA GPU, whatever the driver.
# - **driver** and **GPU**: a GPU needs a build with CUDA, *and* a driver, *and* that nothing hides the device. The
#   lines say which of the three is missing.
# - **kernel**: the Python that runs this notebook. If it is not the one you installed into, `import` fails here and
#   works in the terminal.
#
# ## What do the pictures look like?
#
# Look at data before you train on them. These are digits written by people, 8 × 8 pixels, in ten classes. They come
# with scikit-learn: nothing is downloaded.

# %%
digits = data.load("digits")
show.samples(digits.train, per_class=10)

# %% [markdown]
# They are in three parts: *training* pictures to learn from, *validation* pictures to choose by, and *test* pictures,
# used once, to tell the truth at the end.

# %%
for name, part in (("training", digits.train), ("validation", digits.val), ("test", digits.test)):
    print(f"{name:10} {len(part):5} pictures, of each class {part.counts().min()} to {part.counts().max()}")

# %% [markdown]
# ## A first training
#
# A `Config` holds every setting of a run (an empty `run_dir`: keep no record on disk). `project` does the rest:
# loaders, network, training, test.
#
# **Predict** before you run it: guessing is right once in ten. How good will a small convolutional network be after
# the first epoch, that is, after it has seen each training picture once? And after six?

# %% tags=["nbval-ignore-output"]
config = training.Config(data="digits", model="lenet", epochs=6 if fast else 12, device="cpu", run_dir="")
result = training.project(config, digits)

print(f"\n{result.test.accuracy:.1%} of {len(digits.test)} test pictures right, in {result.seconds:.0f} seconds")
assert result.test.accuracy > 0.9
show.curves(result.run.history)

# %% [markdown]
# One row of the table is one epoch. *Loss* says how far the answers are from the truth; it is what training makes
# smaller. *Running accuracy* is counted while the network changes, *validation* after each epoch on pictures that it
# does not learn from; a star marks the lowest validation loss so far. *Rate* is the learning rate, the size of the
# steps. Validation is the one to watch: training can get better while validation gets worse. (In the early epochs,
# while the rate is high, it may jump.)
#
# ## What did it learn, and what not?
#
# The confusion matrix has a row for each true class and a column for each answer. The diagonal is right. **Predict:**
# which two digits will it mix up?

# %% tags=["nbval-ignore-output"]
show.confusion(result.test.confusion(), digits.test.classes)

# %% [markdown]
# The wrong answers themselves, those first that the network was surest of. Would *you* have known?

# %% tags=["nbval-ignore-output"]
show.mistakes(digits.test, result.test)

# %% [markdown]
# And one at a time, the hardest first: the network found their true class least likely. This is a *control*: move the
# slider with the mouse or the arrow keys. No hatched bar to be seen? Then the network gave the truth almost nothing.

# %% tags=["nbval-ignore-output"]
show.answers_control(digits.test, result.test)

# %% [markdown]
# **Try it:** write `model="cnn"` into the config above, a deeper network with normalisation, and run from there
# (*Run → Run Selected Cell and All Below*). How many mistakes are left?
#
# ## The first habit: overfit 32 pictures
#
# Before every longer training, take *32* pictures and train on nothing else. A network with thousands of parameters
# must learn 32 pictures by heart: loss near 0 within seconds. If it does not, something between data and update is
# not connected, and a night of training would not mend it.

# %% claims=["C287"]
few = next(data.loader(digits.train, 32, shuffle=True).at(epoch=0, batch=0))


def overfit(inputs, targets, learning_rate=0.002, steps=60, update=True):
    """Train a fresh network on these pictures alone and return its last loss."""
    model = models.build("cnn", digits.train.image_shape, class_count=10)
    optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate)
    for _ in range(steps):
        loss = F.cross_entropy(model(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        if update:
            optimizer.step()
    return loss.item()


inputs, targets = few
print("passed:", overfit(inputs, targets) < 0.05)

# %% [markdown]
# What does passing prove, and what not? **Predict** for each of these whether it passes: the labels dealt out at
# random; a loop without `optimizer.step()`; a learning rate of 0.000001; every picture twice, with two different
# labels.

# %% claims=["C287", "C288"]
wrong_labels = targets[torch.randperm(32, generator=torch.Generator().manual_seed(0))]
print("labels at random:      ", "passes" if overfit(inputs, wrong_labels) < 0.05 else "fails")
print("no optimizer.step():   ", "passes" if overfit(inputs, targets, update=False) < 0.05 else "fails")
print("a rate of 0.000001:    ", "passes" if overfit(inputs, targets, learning_rate=1e-6) < 0.05 else "fails")

twice, both_labels = inputs[:16].repeat(2, 1, 1, 1), torch.cat([targets[:16], (targets[:16] + 1) % 10])
loss = overfit(twice, both_labels)
print(f"two labels per picture: stops near ln 2 = {math.log(2):.2f}: {abs(loss - math.log(2)) < 0.1}")

# %% [markdown]
# **Passing** proves that data, network, loss, gradient and update are connected. It does *not* prove that the labels
# belong to the pictures: any labels can be learned by heart. For that you look at pictures with their labels, as
# above.
#
# **Failing** does not always mean broken code. Rule out first: the rate, contradictory labels (two labels for one
# picture leave a loss of ln 2), dropout and augmentation left on.
#
# ## How to use the chapters
#
# - **Predict** stands before cells whose result surprises many. Write your guess down, then run.
# - *You will read that … Is it so?* introduces a sentence from tutorials. Some are true, some half true, some false.
#   The cell under it measures.
# - **Controls** are pictures with sliders, like the one above. On paper and in a web page their picture stays.
# - Numbers that differ from computer to computer are checked by an `assert` in the cell: it says in which band they
#   must lie.
# - Break things. A cell that you changed can be put back with *Edit → Undo*; the whole notebook is made anew by
#   `labkit build 00` in a terminal (*File → New → Terminal*), in half a minute. Then open it again.
# - **Exercises** have a cell with `...` for your answer and a check below it. Run your cell, then the check: it judges
#   the answer that was run last. A wrong answer gets an explanation, not only a cross; `lab.NAME.hint()` gives one hint
#   after the other, `lab.NAME.solution()` shows one solution. `%reset_exercise NAME` puts the cell back.
# - After a restart of the kernel the names are gone: *Run → Run All Above Selected Cell*. Your progress stays.
#
# ## How far am I?
#
# The map has a box for each exercise of the course. Your progress is one file on this computer and is sent nowhere;
# the button reads it anew. In a terminal, `labkit progress` says the same.

# %%
show.progress_control()

# %% [markdown]
# ## Where to go next
#
# | chapter | question |
# |---|---|
# | [01 · Tensors](01_tensors.ipynb) | What is in a tensor, and which mistakes does it let through without a word? |
# | [02 · Autograd](02_autograd.ipynb) | Where does a gradient come from, and where does it get lost? |
# | [03 · Data](03_data.ipynb) | What reaches the model, and what is the number in my notebook worth? |
# | [04 · Models](04_models.ipynb) | What does a module know of itself, and which of its layers does nobody train? |
# | [05 · The training loop](05_training_loop.ipynb) | Why is a real loop longer than eight lines? |
# | [06 · Checkpoints](06_checkpoints.ipynb) | What must be kept so that a run can be cut, go on, and be made again? |
# | [07 · When it does not learn](07_when_it_does_not_learn.ipynb) | I typed it all: why does it not learn? |
# | [08 · Speed](08_speed.ipynb) | What makes my training faster here, and how do I know? |
# | [09 · A whole project](09_cifar10.ipynb) | From a folder of pictures to a tested network, yours included |
#
# Planned: 10 scale out.
#
# ## Take away
#
# - Look at the pictures and their labels before training, and at the mistakes after it.
# - Three parts: learn, choose, tell the truth.
# - Overfit 32 pictures first. It takes seconds and tells you whether everything is connected, not whether the labels
#   fit.
#
# To read: [labkit/training/projects.py](../labkit/training/projects.py), the project in one page.
