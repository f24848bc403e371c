"""Chapter 04: what the learner is asked about modules."""

from labkit.exercises.chapters import models_building, models_head, models_modes, models_state, models_weights
from labkit.exercises.exercise import Chapter, Prediction
from labkit.exercises.parts import PARTS

PREDICTIONS = [
    Prediction(
        "layers_that_moved",
        "The network below has four hidden layers, which it keeps in a list, and an output layer. After the training, "
        "how many of the *five* layers have other weights than before?",
        "1",
        {
            "0": "The loss fell, so something moved: the output layer is an attribute of its own, and is found.",
            "1": "Only the output layer is an attribute. It learned to read what four layers of noise gave it.",
            "4": "It is the other way round: the four in the list are those that nobody knows.",
            "5": "`forward` uses all five, and all five get gradients. But the optimizer was given "
            "`model.parameters()`, and a module does not look into a list.",
        },
    ),
    Prediction(
        "whole_numbers",
        "A batch of int64 goes into `nn.Linear`, whose weights are float32. Which dtype comes out, or is it an error?",
        "error",
        {
            "int64": "A matrix product of two dtypes does not exist: nothing is converted, in neither direction.",
            "float32": "In `a + b` torch would convert. A matrix product does not: it raises an error.",
            "error": "Sums convert, matrix products do not. Convert where the data are prepared, with `.float()`.",
        },
    ),
    Prediction(
        "through_twenty_layers",
        "Twenty linear layers with ReLU, their weights by Xavier's rule. How large is the signal after the last layer, "
        "beside that after the first?",
        "about a thousandth",
        {
            "as large": "That is what Xavier's rule promises for tanh. ReLU cuts off half of the signal in each layer, "
            "and half of the power, twenty times, leaves a thousandth of the size.",
            "about a tenth": "Each ReLU takes half of the power: a factor of 0.7 in size, and 0.7 to the power of 19 "
            "is near a thousandth.",
            "about a thousandth": "0.7 to the power of 19. Kaiming's rule puts the factor 2 back that ReLU takes.",
            "a thousand times": "So it goes with weights that are too large. Xavier's are a little too small for ReLU, "
            "and that multiplies up.",
        },
    ),
    Prediction(
        "what_survives",
        "`nn.Dropout(0.25)` in training mode, and a tensor of ones goes in. A quarter becomes 0. What do the others "
        "become?",
        "1.33",
        {
            "0.75": "Nothing is made smaller. Who multiplied by 0.75 *in evaluation* wrote the first paper; torch does "
            "its scaling in training, the other way round.",
            "1.0": "Then the sum would be a quarter smaller in training than in evaluation, and the next layer would "
            "see other numbers than it has learned from.",
            "1.33": "1 / (1 - p). The mean stays what it was, so that in evaluation there is nothing to do.",
            "4.0": "1 / p. What is left is a share of 1 - p, so it is 1 / (1 - p).",
        },
    ),
    Prediction(
        "frozen_statistics",
        "All parameters of a network with batch normalisation are frozen by `requires_grad_(False)`. It is in training "
        "mode, and a batch goes through. Do the running statistics change: `True` or `False`?",
        "True",
        {
            "True": "The statistics are buffers: no gradient moves them; in training mode the forward pass does.",
            "False": "`requires_grad` is about gradients, and statistics never had one. They are moved by the forward "
            "pass in training mode: a frozen body drifts, and its outputs with it. `eval()` stops them.",
        },
    ),
]

CHAPTER = Chapter(
    "04_models",
    [
        PARTS["linear"],
        models_state.STANDARDISE,
        models_building.STACK,
        PARTS["conv2d"],
        models_weights.START_WEIGHTS,
        PARTS["dropout"],
        PARTS["batch_norm"],
        models_modes.EVALUATION_SCORES,
        models_head.NEW_HEAD,
    ],
    PREDICTIONS,
)
