"""Chapter 08: what the learner is asked about speed and memory."""

from labkit.exercises.chapters import (
    speed_batches,
    speed_clock,
    speed_half,
    speed_memory,
    speed_profile,
    speed_turns,
    speed_waiting,
)
from labkit.exercises.exercise import Chapter, Prediction

PREDICTIONS = [
    Prediction(
        "half_for_one",
        "A layer of 512 × 512 and a batch of *one* sample. Under autocast to bfloat16, do the values that are kept for "
        "the way back need less memory than in float32?",
        "more",
        {
            "less": "That is so for large batches, where inputs and outputs fill the memory. With one sample they are "
            "next to nothing, and autocast keeps something new: the weights once more, in bfloat16.",
            "as much": "What grows with the batch is halved; here it is next to nothing. And what is new? The layer "
            "computes with a *copy* of its weights in bfloat16, and that copy is kept.",
            "more": "Autocast makes a copy of the weights in bfloat16 and keeps it for the way back. It halves what "
            "grows with the batch, and nothing that grows with the model.",
        },
    ),
    Prediction(
        "shape_of_channels_last",
        "`x` has shape (2, 3, 4, 5). What is the shape of `x.to(memory_format=torch.channels_last)`?",
        "(2, 3, 4, 5)",
        {
            "(2, 3, 4, 5)": "Shape and indexing stay: `x[n, c, h, w]` is the same pixel. What changes is where the "
            "numbers lie: the strides.",
            "(2, 4, 5, 3)": "That would be `permute`, and every layer would misread it. Only the order in memory "
            "changes, so the strides do, and not the shape.",
            "(2, 5, 4, 3)": "Nothing is turned around. Only the order in memory changes: the strides, and not the "
            "shape.",
        },
    ),
    Prediction(
        "branch_graphs",
        "A function says `if x.sum() > 0: return x * 2`, then `return x - 1`. It is compiled and called with a "
        "positive x, a negative one, and a positive one again. How many graphs are made?",
        "3",
        {
            "1": "A graph has no `if`: it is a list of operations. Python must decide between, so the graph ends "
            "there.",
            "2": "One up to the `if`, and one for each branch that is taken: you forgot one of these three.",
            "3": "`x.sum() > 0` is the first, and each branch that is taken one more. Between them Python decides, and "
            "on a GPU waits.",
            "6": "What was compiled is kept: the third call finds its graphs ready.",
        },
    ),
    Prediction(
        "new_sizes",
        "A compiled function without `if` is called with 3, 4, 5 and 6 numbers. How many graphs are made?",
        "2",
        {
            "1": "The first graph is made for exactly 3 numbers: known sizes make faster code. With 4 it does not fit.",
            "2": "One for 3 numbers, and at the second size torch notices that sizes change and makes one for any. A "
            "last, smaller batch costs one compilation, and not one each.",
            "4": "So it would be with `dynamic=False`. By default torch notices at the second size that sizes change, "
            "and makes a graph for any size.",
        },
    ),
    Prediction(
        "waiting_lines",
        "Six lines: `loss.item()` · `total += loss` · `if loss < best:` · `print(loss)` · `inputs[mask]` with a mask "
        "of bools · `torch.where(mask, a, b)`. How many of them make the program wait for a GPU?",
        "4",
        {
            "1": "`.item()` is the one that everybody knows. But whatever needs the *number* waits: `if` and `print` "
            "as well, and `inputs[mask]`, whose size depends on how many are True.",
            "2": "`.item()` and `print` show a number. `if` has to know it, too; and `inputs[mask]` must know how many "
            "are True, to make its result.",
            "3": "One is missing: the size of `inputs[mask]` is known only when all bools are. `torch.where(mask, a, "
            "b)` has the size of `a`, and waits for nobody.",
            "4": "`item`, `if` and `print` need a number, `inputs[mask]` a size. Adding and `where` only give orders.",
            "6": "`total += loss` and `torch.where` give orders, and the result is a tensor of known size: nobody has "
            "to wait.",
        },
    ),
]

CHAPTER = Chapter(
    "08_speed",
    [
        speed_clock.MEDIAN_SECONDS,
        speed_turns.TIMES_AS_FAST,
        speed_profile.OWN_SECONDS,
        speed_profile.SECONDS_A_BATCH,
        speed_batches.WINDOWS,
        speed_half.HALF_PRECISION_STEP,
        speed_waiting.SHORTENED,
        speed_waiting.MEAN_LOSS,
        speed_batches.LARGEST_BATCH,
        speed_memory.COMPUTED_AGAIN,
    ],
    PREDICTIONS,
)
