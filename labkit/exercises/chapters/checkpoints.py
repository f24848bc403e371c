"""Chapter 06: what the learner is asked about checkpoints, and about runs that can be repeated."""

from labkit.exercises.chapters import (
    checkpoints_bits,
    checkpoints_damage,
    checkpoints_fingerprint,
    checkpoints_generators,
    checkpoints_matching,
    checkpoints_names,
    checkpoints_plain,
    checkpoints_position,
    checkpoints_rewind,
    checkpoints_state,
    checkpoints_writing,
)
from labkit.exercises.exercise import Chapter, Prediction

PREDICTIONS = [
    Prediction(
        "first_exact",
        "A training with AdamW, dropout and a schedule is cut half way and goes on, each time with one part more of "
        "what it was. With which part is the difference to the uncut training *exactly* 0 for the first time?",
        "random numbers",
        {
            "weights": "They say where the training was. How fast it moved there, at which rate, and what it would see "
            "next is lost: the weights end somewhere else.",
            "optimizer": "The running means are back, so the loss does not jump. But the schedule begins its course "
            "anew, and other batches and dropouts are drawn.",
            "schedule": "The rates are right now. Batches and dropout are still drawn anew, so it is another training, "
            "as good and not the same.",
            "random numbers": "Only with the state of the generators come the same batches and the same dropout. Then "
            "nothing at all is left to differ.",
        },
    ),
    Prediction(
        "best_kept",
        "In epoch 2 a training is at its best, and `best = model.state_dict()` is kept. It goes on to epoch 6. Whose "
        "weights does `best` hold then?",
        "epoch 6",
        {
            "epoch 2": "It would with a copy. `state_dict()` is a view: its tensors *are* the weights of the model; "
            "training goes on in them.",
            "epoch 6": "The tensors in it are the model's own. Whoever keeps it keeps the last epoch, whatever it says "
            "on the label.",
            "an average of both": "Nothing is mixed: there is one set of numbers, seen under two names.",
        },
    ),
    Prediction(
        "killed_writing",
        "`torch.save(state, path)` writes over the checkpoint of the last epoch, and the process is killed in the "
        "middle of it. What can be loaded from `path`?",
        "nothing",
        {
            "the old state": "It was gone as soon as the file was opened for writing: that empties it.",
            "the new state": "Only a part of it had been written.",
            "nothing": "The old file was emptied when writing began, and the new one is not complete: both are lost.",
        },
    ),
    Prediction(
        "wrong_shape",
        "A file has a last layer for 10 classes, the model one for 3. What does "
        "`model.load_state_dict(file, strict=False)` do?",
        "an error at once",
        {
            "it skips that layer": "`strict=False` is about *names* only. A tensor of another shape is an error in "
            "either case.",
            "an error at once": "It passes over names that are missing, and never over shapes. To load the rest, leave "
            "the others out yourself.",
            "an error in the first forward pass": "By then it would be hard to find. It comes at once, and names the "
            "layer and both shapes.",
        },
    ),
    Prediction(
        "extra_draw",
        "A program seeds torch, builds a network, shuffles its samples, trains with dropout. Somebody adds one line, "
        "`torch.rand(1)`, after the network is built. What stays as it was, with the same seed?",
        "weights",
        {
            "weights, order and dropout": "Order and dropout are drawn after that line, from the same row of numbers: "
            "one draw shifts all that follow.",
            "weights and order": "The order is drawn after that line, from the same row of numbers, and is another.",
            "weights": "The first weights were drawn before. All later draws come from the same row of numbers, one "
            "place further on.",
            "nothing": "The first weights are drawn before that line, and stay.",
        },
    ),
]

CHAPTER = Chapter(
    "06_checkpoints",
    [
        checkpoints_state.FULL_STATE,
        checkpoints_position.BATCHES_TO_GO,
        checkpoints_rewind.REWIND,
        checkpoints_writing.SAVE_ATOMICALLY,
        checkpoints_damage.NEWEST_INTACT,
        checkpoints_plain.PLAIN,
        checkpoints_names.STRIP_PREFIX,
        checkpoints_matching.LOAD_MATCHING,
        checkpoints_fingerprint.FINGERPRINT,
        checkpoints_generators.GENERATOR_FOR,
        checkpoints_bits.DIFFERING,
    ],
    PREDICTIONS,
)
