"""Chapter 05: what the learner is asked about the training loop."""

from labkit.exercises.chapters import (
    loop_average,
    loop_best,
    loop_clipping,
    loop_evaluation,
    loop_gradients,
    loop_schedule,
    loop_stopping,
    loop_weights,
)
from labkit.exercises.exercise import Chapter, Prediction
from labkit.exercises.parts import PARTS

PREDICTIONS = [
    Prediction(
        "never_zeroed",
        "A loop forgets `zero_grad`. How is its loss after ten updates, beside that of the right loop?",
        "lower",
        {
            "lower": "Gradients pile up, and point the same way at first: the steps grow, and it runs ahead. Only "
            "later does it overshoot. A loop that looks fine for a while may lack `zero_grad`.",
            "the same": "Each step repeats all gradients before it, not only the last. After ten updates a step is "
            "several times as long as it should be.",
            "higher": "Later, yes. At first all gradients point the same way, so their sum is only a longer step in a "
            "good direction: it runs ahead, which is why nobody looks for a fault.",
        },
    ),
    Prediction(
        "softmax_twice",
        "A network with ten classes ends in a softmax, and the loss is `F.cross_entropy`. It gives class 3 the "
        "probability 1, and 3 is right. What is the loss?",
        "1.46",
        {
            "0.00": "It would be with logits. `cross_entropy` takes its own softmax of the numbers 0 and 1, and finds "
            "only e / (e + 9) = 0.23 for class 3: -ln 0.23 is 1.46.",
            "1.46": "-ln(e / (e + 9)). No answer can be better: a loss that stays above 1.46 with ten classes has a "
            "softmax too many.",
            "2.30": "That is ln 10, the loss of ten equal scores. These are not equal: 1 for class 3 and 0 for the "
            "others, which gives 1.46.",
        },
    ),
    Prediction(
        "mean_of_means",
        "130 samples in batches of 64, 64 and 2. Each sample has loss 1, the last two have 5. The mean is 1.06. What "
        "does `total += loss.item()`, divided by `len(loader)`, report?",
        "2.33",
        {
            "1.06": "That would be so if the batches were equally large. The two hard samples are a batch of their "
            "own, and it counts as much as 64 easy ones: (1 + 1 + 5) / 3.",
            "2.33": "(1 + 1 + 5) / 3: the last two samples count as much as 64 others.",
            "3.50": "That would be the mean of the two kinds. There are three batches: (1 + 1 + 5) / 3.",
        },
    ),
    Prediction(
        "four_backwards",
        "`backward` is called for four batches of 8, each with its mean loss, before one step. How large is the "
        "gradient beside that of one batch of 32?",
        "4 times",
        {
            "as large": "`backward` adds. Four means of 8 have a sum four times as large as the mean of 32: each loss "
            "has to be divided by 4 first.",
            "4 times": "`backward` adds: the sum of four means is four times their mean.",
            "a quarter": "Nobody divided yet. `backward` adds, so four means make four times as much.",
        },
    ),
    Prediction(
        "first_cut",
        "`ReduceLROnPlateau(factor=0.5, patience=3)` is given a loss that never changes. At which call is the rate "
        "halved for the first time?",
        "5",
        {
            "3": "`patience` says how many bad epochs are *forgiven*. The first call sets the best, three are "
            "forgiven, and the fifth is too much.",
            "4": "Three bad ones after the first: that is what most people expect, and what early stopping often does. "
            "Here it must be *more* than three.",
            "5": "The first call sets the best; three bad ones are forgiven; the next is too much.",
            "10": "Ten is the patience that you get when you say nothing. Here it is 3.",
        },
    ),
]

CHAPTER = Chapter(
    "05_training_loop",
    [
        PARTS["training_step"],
        PARTS["loss"],
        PARTS["optimizer"],
        loop_weights.DECAY_GROUPS,
        loop_evaluation.EVALUATE_BY_SUMS,
        loop_gradients.ACCUMULATE,
        loop_clipping.CLIP_AND_REPORT,
        loop_schedule.WARM_UP_COSINE,
        loop_stopping.STOP_EARLY,
        loop_best.KEEP_BEST,
        loop_average.AVERAGE_WEIGHTS,
    ],
    PREDICTIONS,
)
