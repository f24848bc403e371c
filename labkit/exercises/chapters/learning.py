"""Chapter 07: what the learner is asked about networks that do not learn."""

from labkit.exercises.chapters import (
    learning_baseline,
    learning_by_heart,
    learning_dead,
    learning_finite,
    learning_gradients,
    learning_labels,
    learning_mixing,
    learning_parameters,
    learning_updates,
    learning_waiting,
)
from labkit.exercises.exercise import Chapter, Prediction

PREDICTIONS = [
    Prediction(
        "first_loss",
        "A fresh network with ten outputs, its loss `F.cross_entropy`. What is the loss of the first batch, before any "
        "update, to one digit?",
        "2.3",
        {
            "0.1": "A tenth is the *probability* of the right class. The loss is minus its logarithm.",
            "0.9": "Nine tenths is the share of wrong answers. The loss is minus the logarithm of a probability.",
            "2.3": "Who knows nothing gives each class a tenth: log(10) = 2.30. It is known before the first update.",
            "10.0": "That would be a network that is sure, and wrong. Fresh ones are sure of nothing.",
        },
    ),
    Prediction(
        "by_heart_without_head",
        "A network with two layers. Its last layer is replaced *after* the optimizer was made, so nobody trains the "
        "new one. Does the network still learn 32 pictures by heart?",
        "yes",
        {
            "yes": "The layer before learns to feed a last layer that stays random. The loss falls nicely, and a part "
            "of the network never moves: compare parameters, and not curves.",
            "no": "One would think so. But the first layer has parameters enough to serve a random last one.",
        },
    ),
    Prediction(
        "zeros_that_move",
        "A hidden layer with ReLU and an output layer; all weights and biases begin at 0. After 100 updates: which "
        "parameters have moved?",
        "the last bias",
        {
            "all": "To move, a parameter needs a gradient. Count what arrives when the weights in front are 0.",
            "the output layer": "The gradient of a weight is what comes in times what comes back. What comes in is the "
            "hidden layer, and it is all 0.",
            "the last bias": "Its gradient needs no input. The output weights get one times the hidden 0, the hidden "
            "layer gets one times the output weights, 0 as well. It learns how frequent the classes are, and stops.",
            "none": "One parameter needs neither an input nor a weight for its gradient: the bias of the output.",
        },
    ),
    Prediction(
        "root_at_zero",
        "`torch.where(x > 0, x.sqrt(), 0 * x).sum()` at x = 0. The value is 0. What is the gradient?",
        "nan",
        {
            "0.0": "The chosen branch has the slope 0. But the other is computed, too, and its gradient is multiplied "
            "by 0, not left out.",
            "inf": "That is the slope of the root at 0. `where` multiplies it by 0, since the branch was not chosen.",
            "nan": "The root that was *not* chosen has the slope infinity there, and 0 · ∞ is NaN. Protect what goes "
            "in: `x.clamp(min=1e-8).sqrt()`.",
        },
    ),
    Prediction(
        "healthy_program",
        "Three programs train the same network. Their training losses fall as you saw. In which one does the doctor "
        "find *nothing*?",
        "C",
        {
            "A": "Its loss falls, slowly: two softmaxes, one in the model, one in the loss.",
            "B": "Its loss falls as that of C does. But it trains on the pictures of the validation, too, so its "
            "validation says nothing.",
            "C": "Nothing was planted there, and the doctor is silent.",
        },
    ),
]

CHAPTER = Chapter(
    "07_when_it_does_not_learn",
    [
        learning_baseline.BASELINE_LOSSES,
        learning_labels.MISLABELLED_SOURCE,
        learning_by_heart.LOSS_BY_HEART,
        learning_parameters.NOT_IN_OPTIMIZER,
        learning_gradients.GRADIENT_ENDS_AT,
        learning_dead.DEAD_SHARE,
        learning_updates.UPDATE_SIZES,
        learning_finite.FIRST_NON_FINITE,
        learning_mixing.MIXES_SAMPLES,
        learning_waiting.WAITING_AND_COMPUTING,
    ],
    PREDICTIONS,
)
