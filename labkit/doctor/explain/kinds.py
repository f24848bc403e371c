"""The kinds of error that can be explained: a stable name, what goes wrong in a few words, and its chapter.

The `row` of an `Explanation` is the name of its kind here. The rules that recognise a kind, and say what caused it in
a program, are in `labkit.doctor.explain.causes`, one module for each family.
"""

from typing import NamedTuple


class Kind(NamedTuple):
    """What there is to know of a kind of error before it happens.

    title: what goes wrong. chapter: the chapter of the course that teaches it, such as "04_models".
    """

    title: str
    chapter: str


KINDS: dict[str, Kind] = {
    # Shapes
    "matmul-shapes": Kind("the sizes of a matrix product do not fit", "04_models"),
    "conv-channels": Kind("a convolution gets another number of channels", "04_models"),
    "conv-dimensions": Kind("a layer gets too few or too many dimensions", "04_models"),
    "conv-too-small": Kind("the picture is smaller than the window of a layer", "04_models"),
    "broadcast-shapes": Kind("two shapes cannot be broadcast", "01_tensors"),
    "batched-matmul-shapes": Kind("the sizes of a product of batches of matrices do not fit", "01_tensors"),
    "rnn-shapes": Kind("a recurrent layer gets another size", "04_models"),
    "reshape": Kind("a tensor cannot have the shape that was asked for", "01_tensors"),
    "cat-shapes": Kind("tensors that shall be joined do not fit together", "01_tensors"),
    "dimension-out-of-range": Kind("there is no such dimension", "01_tensors"),
    "norm-features": Kind("a normalisation was made for another number of features", "04_models"),
    "batchnorm-one-sample": Kind("batch normalisation cannot train on one value a channel", "04_models"),
    "attention-sizes": Kind("the sizes of an attention layer do not fit", "04_models"),
    # Dtypes and values
    "matmul-dtypes": Kind("the two sides of a matrix product have different dtypes", "01_tensors"),
    "conv-dtypes": Kind("a convolution gets another dtype than its weights have", "04_models"),
    "rnn-dtype": Kind("a recurrent layer gets another dtype than its weights have", "04_models"),
    "index-dtype": Kind("indices are no whole numbers", "04_models"),
    "index-out-of-range": Kind("an index is out of range", "04_models"),
    "integer-mean": Kind("a mean was asked of whole numbers", "01_tensors"),
    "not-one-value": Kind("a tensor of several values was to become one number", "01_tensors"),
    "ambiguous-truth": Kind("a tensor of several values was to be true or false", "01_tensors"),
    "array-conversion": Kind("these data cannot become a tensor", "01_tensors"),
    # Losses
    "target-dtype": Kind("class numbers have the wrong dtype", "05_training_loop"),
    "target-one-hot": Kind("targets are one-hot rows of whole numbers", "05_training_loop"),
    "target-dimensions": Kind("targets have a dimension too many", "05_training_loop"),
    "target-out-of-range": Kind("a target names a class that the model does not have", "05_training_loop"),
    "target-shape": Kind("outputs and targets of a loss have other shapes", "05_training_loop"),
    "batch-size-mismatch": Kind("the model returned another number of rows than there are targets", "05_training_loop"),
    "bce-target-dtype": Kind("targets of a binary loss are whole numbers", "05_training_loop"),
    "bce-target-shape": Kind("targets of a binary loss have another shape than the outputs", "05_training_loop"),
    "bce-range": Kind("a binary loss got what is no probability", "05_training_loop"),
    # Autograd
    "no-graph": Kind("the loss does not depend on anything that is trained", "02_autograd"),
    "backward-twice": Kind("the same graph was used for a second backward", "02_autograd"),
    "in-place-changed": Kind("a value that backward needs was overwritten", "02_autograd"),
    "in-place-leaf": Kind("a parameter was changed while the changes are recorded", "02_autograd"),
    "backward-not-scalar": Kind("backward started from more than one value", "02_autograd"),
    "numpy-of-grad": Kind("NumPy cannot have a tensor that is part of a graph", "02_autograd"),
    "integer-grad": Kind("whole numbers cannot have gradients", "02_autograd"),
    "nan-in-backward": Kind("a gradient became NaN in backward", "02_autograd"),
    # Modules, optimizers, files
    "optimizer-parameters": Kind("an optimizer got something other than parameters", "05_training_loop"),
    "missing-super-init": Kind("a module was not initialised before it got its layers", "04_models"),
    "missing-forward": Kind("a module has no forward", "04_models"),
    "not-a-tensor": Kind("something that is no tensor stands where a tensor belongs", "04_models"),
    "state-dict-mismatch": Kind("a state_dict does not fit the model", "06_checkpoints"),
    "weights-only": Kind("a file holds more than weights", "06_checkpoints"),
    # Loading
    "collate": Kind("the samples cannot be put together to a batch", "03_data"),
    "worker-error": Kind("a worker process of the DataLoader met an error", "03_data"),
    "worker-pickle": Kind("something cannot be sent to a worker process", "03_data"),
    "loader-use": Kind("a data set or a loader is used in a way that it does not allow", "03_data"),
    # Devices
    "devices": Kind("tensors are on different devices", "08_speed"),
    "out-of-memory": Kind("the memory does not suffice", "08_speed"),
    "device-assert": Kind("the GPU met a value that is not allowed", "08_speed"),
    "no-cuda": Kind("there is no GPU that PyTorch can use", "08_speed"),
    "numpy-of-device": Kind("NumPy cannot have a tensor that is on another device", "08_speed"),
    # Warnings that are silent traps: the program goes on, and what it computes is not what was meant
    "loss-broadcast": Kind("outputs and targets of a loss are broadcast against each other", "05_training_loop"),
    "scheduler-before-optimizer": Kind("the scheduler steps before the optimizer", "05_training_loop"),
    "softmax-dimension": Kind("softmax guesses its dimension", "05_training_loop"),
    "rnn-dropout": Kind("dropout between recurrent layers, and there is one layer", "04_models"),
    "grad-of-non-leaf": Kind("the gradient of a value in the middle of the graph is not kept", "02_autograd"),
}
