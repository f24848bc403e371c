"""Chapter 02: what the learner is asked about autograd."""

from labkit.exercises.chapters.autograd_freezing import FREEZE_BODY
from labkit.exercises.chapters.autograd_losses import CRITIC_LOSSES, GRADIENT_ANGLE
from labkit.exercises.chapters.autograd_operations import SWISH
from labkit.exercises.chapters.autograd_recording import LEAF_COPY, ONE_UPDATE
from labkit.exercises.chapters.autograd_values import UNDO_BROADCASTING, UNIT_ROWS
from labkit.exercises.exercise import Chapter, Prediction

# In the order of the notebook.
EXERCISES = [LEAF_COPY, ONE_UPDATE, GRADIENT_ANGLE, FREEZE_BODY, CRITIC_LOSSES, UNIT_ROWS, SWISH, UNDO_BROADCASTING]

PREDICTIONS = [
    Prediction(
        "three_times",
        "`(2 * weight).backward()`, three times, each time computed anew. The slope is 2. What is in `weight.grad`?",
        "6.0",
        {
            "2.0": "`backward` never overwrites. It adds to what is there, and there was a 2 already, then a 4.",
            "6.0": "2 + 2 + 2. `backward` adds; who wants to begin anew has to clear.",
            "8.0": "The slopes are added, not multiplied: 2 + 2 + 2.",
            "error": "The graph was made anew each time, so each `backward` has one to walk through.",
        },
    ),
    Prediction(
        "forgotten",
        "The same training without `zero_grad`, with a small learning rate, for 400 updates. What will the loss do?",
        "swing",
        {
            "fall": "It falls at first, which is what makes the fault hard to see. But each update also repeats all "
            "earlier ones, so it runs past the goal, comes back, and past it again.",
            "swing": "Old gradients keep pushing when the goal is reached. The loss swings up and down and does not "
            "settle.",
            "grow": "That is what most texts say, and with a large learning rate it is so. With a small one it "
            "hardly rises above its start: it swings.",
            "stand still": "The optimizer gets a gradient in each update, and a growing one: there is movement enough.",
        },
    ),
    Prediction(
        "eval_mode",
        "`model.eval()`, then `outputs = model(inputs)`. What is `outputs.requires_grad`?",
        "True",
        {
            "True": "`eval()` tells dropout and batch normalisation how to behave, and tells autograd nothing.",
            "False": "That would be `no_grad()` or `inference_mode()`. `eval()` changes dropout and batch "
            "normalisation; the graph is recorded as before, and costs memory as before.",
        },
    ),
    Prediction(
        "frozen_middle",
        "Three layers in a row; the parameters of the middle one are frozen with `requires_grad_(False)`. Does the "
        "*first* layer still get a gradient: `True` or `False`?",
        "True",
        {
            "True": "Frozen parameters get none themselves. The gradient passes through the layer all the same.",
            "False": "Freezing stops the gradient *of these parameters*, not the one that passes through to what lies "
            "before. Only `detach`, `no_grad` and `item` cut the way.",
        },
    ),
    Prediction(
        "silent_edit",
        "`loss = weight**2` at weight = 2, so the slope is 4. Before `backward`, `weight.data` is set to 10. What is "
        "in `weight.grad` afterwards?",
        "20.0",
        {
            "4.0": "The power needs the old weight for its slope, and kept no copy, only the same memory. There is a "
            "10 now.",
            "20.0": "2 · 10: the slope at a point at which the loss was never computed, and no error. `.data` is a "
            "door that nobody watches.",
            "error": "It would be one for `detach()` or under `no_grad()`: their changes are counted. Changes through "
            "`.data` are not.",
        },
    ),
]

CHAPTER = Chapter("02_autograd", EXERCISES, PREDICTIONS)
