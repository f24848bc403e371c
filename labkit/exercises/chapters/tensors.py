"""Chapter 01: what the learner is asked about tensors."""

from labkit.exercises.chapters import tensors_broadcasting as broadcasting
from labkit.exercises.chapters import tensors_making as making
from labkit.exercises.chapters import tensors_shape as shape
from labkit.exercises.exercise import Chapter, Prediction

PREDICTIONS = [
    Prediction(
        "promotion",
        "A tensor of whole numbers plus 0.5: `torch.tensor([1, 2]) + 0.5`. Which dtype has the result?",
        "float32",
        {
            "int64": "Then the half would be cut off. Element-wise operations *promote*: they choose a dtype that can "
            "hold both.",
            "float32": "Whole numbers and a Python float meet in the default float dtype.",
            "float64": "So it is in NumPy. In PyTorch a Python number has no dtype of its own; it takes the default "
            "float dtype, float32.",
            "error": "Element-wise operations never refuse for their dtypes; they promote. Matrix products do refuse.",
        },
    ),
    Prediction(
        "matrix_product",
        "A float64 matrix times a float32 matrix: `a @ b`. Which dtype has the result?",
        "error",
        {
            "float32": "For `a * b` something would be converted, for `a @ b` nothing is.",
            "float64": "That would be right for `a * b`: element-wise operations promote. A matrix product converts "
            "nothing.",
            "error": "Matrix products, linear layers and convolutions demand one dtype. This is the error that a "
            "float64 array of NumPy causes in the first layer.",
        },
    ),
    Prediction(
        "transposed_memory",
        "`y = x.t()`, then `y[0, 1] = 100`. Has `x` changed: `True` or `False`?",
        "True",
        {
            "True": "A transposed tensor is a view: other strides on the same storage.",
            "False": "`t()` copies nothing. It returns a tensor with swapped strides that stands on the same storage.",
        },
    ),
    Prediction(
        "column_and_row",
        "A column of shape (8, 1) minus a vector of shape (8,): which shape has the difference?",
        "(8, 8)",
        {
            "(8, 1)": "That would need the vector to be a column. Alignment begins at the *last* axis: 1 against 8.",
            "(8,)": "The axis of size 1 does not go away. Alignment begins at the *last* axis: 1 is stretched to 8.",
            "(8, 8)": "Aligned from the right, the 1 is stretched to 8, and the missing axis too.",
            "error": "It fits, alas: a size of 1 is stretched, and a missing axis too. Nothing complains.",
        },
    ),
    Prediction(
        "moved",
        "`x.to(torch.float64)`, and nothing else on that line. Which dtype has `x` afterwards, if it was float32?",
        "float32",
        {
            "float32": "`to` returned a new tensor, and nobody kept it.",
            "float64": "`Tensor.to` never changes its tensor; it returns another one: `x = x.to(…)`. (`Module.to` does "
            "change its module.)",
        },
    ),
]

#: In the order of the notebook.
EXERCISES = [
    making.CLASS_LABELS,
    shape.CHANNELS_FIRST,
    shape.FLATTEN,
    broadcasting.SQUARED_ERROR,
    broadcasting.DISTANCES,
    broadcasting.SCORE_OF_LABEL,
    making.CHANNEL_MEANS,
    shape.CLIP,
    making.TO_TENSOR,
]

CHAPTER = Chapter("01_tensors", EXERCISES, PREDICTIONS)
