"""Measurements for the topic "Tensors": views, shapes and broadcasting."""

import itertools

import torch
from torch.nn import functional

from labkit.exercises.claims import claim
from labkit.exercises.ledger.measuring import error_of, warnings_of
from labkit.tensors import shares_storage


@claim(
    "C057",
    true="The first half is right. The second is the usual short form and too strict: the slice below is not "
    "contiguous, and `view` took it.",
    false="The first half is right: a view has a shape of its own and the memory of its base, so a write on one side "
    "shows on the other.",
    depends="Right. `view` needs strides that can express the new shape. A contiguous tensor always has them, others "
    "sometimes.",
)
def view_needs_fitting_strides() -> dict[str, bool]:
    """View a contiguous tensor, a slice that is not contiguous, and a transposed tensor."""
    base = torch.arange(24).reshape(2, 3, 4)
    piece = base[:, :, :2]
    return {
        "view keeps the memory": shares_storage(base.view(6, 4), base),
        "view changes only the shape": base.view(24).tolist() == base.flatten().tolist(),
        "a tensor that is not contiguous cannot be viewed": not piece.is_contiguous()
        and error_of(lambda: piece.view(6, 2)) != "",
    }


@claim(
    "C058",
    true="Yes: no copy for the contiguous tensor, one for the transposed. The values are right either way.",
    false="You may have seen only one of its two sides. It neither always copies nor always shares; compare the two "
    "tensors below.",
    depends="What it does depends on the tensor, and the sentence says just that. Therefore never write through a "
    "`reshape`: you cannot see whether the base will change.",
)
def reshape_copies_only_when_it_must() -> dict[str, bool]:
    """Reshape a contiguous and a transposed tensor, and compare memory and values."""
    base = torch.arange(6).reshape(2, 3)
    return {
        "it shares when it can": shares_storage(base.reshape(6), base),
        "it copies when it must": not shares_storage(base.T.reshape(6), base),
        "the values are right after a copy": base.T.reshape(6).tolist() == [0, 3, 1, 4, 2, 5],
    }


@claim(
    "C059",
    true="Yes. The transposed tensor jumps back and forth in its storage, and no strides can describe that as one row; "
    "`reshape` makes a copy in the new order.",
    false="Perhaps you viewed a shape that still fitted the strides, or transposed an axis of length 1. In the general "
    "case below `view` refuses, with these words.",
    depends="There are exceptions, such as an axis of length 1, but they are exceptions. Expect the error, and use "
    "`reshape` or `flatten`.",
)
def view_refuses_after_a_transpose() -> dict[str, bool]:
    """View and reshape a transposed tensor."""
    transposed = torch.arange(6).reshape(2, 3).T
    return {
        'view raises "view size is not compatible"': "view size is not compatible"
        in error_of(lambda: transposed.view(6)),
        "reshape works": error_of(lambda: transposed.reshape(6)) == "",
    }


@claim(
    "C060",
    true="Yes, all three. And remember that `squeeze()` without a dim takes away every axis of length 1, a batch of "
    "one included.",
    false="Axes count from 0, so `transpose(0, 2)` swaps the first and the third; the middle one stays. The shapes "
    "below are as stated.",
    depends="Only `squeeze(0)` has a condition: where axis 0 is longer than 1 it does nothing, without an error. For "
    "an axis that `unsqueeze(0)` added it always holds.",
)
def axes_swap_come_and_go() -> dict[str, bool]:
    """Look at shapes after transpose, unsqueeze and squeeze."""
    values = torch.zeros(2, 3, 4)
    return {
        "transpose(0, 2) gives (4, 3, 2)": values.transpose(0, 2).shape == (4, 3, 2),
        "unsqueeze(0) adds an axis": values.unsqueeze(0).shape == (1, 2, 3, 4),
        "squeeze(0) takes it away": values.unsqueeze(0).squeeze(0).shape == (2, 3, 4),
    }


@claim(
    "C061",
    true="The shapes fit in both cases, and that deceives. `reshape` never moves a number: it cut the rows of the "
    "picture below at other places and mixed its colours.",
    false="`reshape` is right for one of the two jobs: after `permute` it flattens, where `view` refuses.",
    depends="Right: `permute` to bring the axes into another order, `reshape` to flatten afterwards. One is no "
    "substitute for the other.",
)
def reshape_flattens_but_never_reorders() -> dict[str, bool]:
    """Bring a picture of height 2, width 2 and 3 colours to (3, 2, 2) in two ways, and flatten it."""
    picture = torch.arange(12).reshape(2, 2, 3)
    colours_first = picture.permute(2, 0, 1)
    return {
        "reshape flattens a picture whose axes were reordered": colours_first.reshape(-1)[:4].tolist() == [0, 3, 6, 9],
        "reshape reorders axes as permute does": torch.equal(picture.reshape(3, 2, 2), colours_first),
    }


@claim(
    "C063",
    true="Yes. The rule foretold for every pair of 40 shapes whether they fit, and nothing else is needed.",
    false="The usual doubt is about the side: shapes are aligned at their *last* axis, so (3,) fits (2, 3) and not "
    "(3, 2).",
    depends="No pair of shapes below escaped the rule. It knows no exceptions for particular operations: what is "
    "element-wise broadcasts like this.",
)
def the_rule_of_broadcasting() -> dict[str, bool]:
    """Foretell by the rule whether two shapes fit, for every pair of shapes with up to three axes of 1, 2 or 3."""
    shapes = [shape for axes in range(4) for shape in itertools.product((1, 2, 3), repeat=axes)]

    def fits(first: tuple[int, ...], second: tuple[int, ...]) -> bool:
        from_the_right = zip(reversed(first), reversed(second), strict=False)  # further axes lack a partner
        return all(one == other or 1 in (one, other) for one, other in from_the_right)

    pairs = list(itertools.product(shapes, repeat=2))
    foretold = [fits(*pair) for pair in pairs]
    happened = [
        error_of(lambda first=first, second=second: torch.zeros(first) + torch.zeros(second)) == ""
        for first, second in pairs
    ]
    return {
        f"the rule foretells all {len(pairs)} pairs of shapes": foretold == happened,
        "(3, 1) and (4,) give (3, 4)": (torch.zeros(3, 1) + torch.zeros(4)).shape == (3, 4),
        "(3, 2) and (3,) are refused": error_of(lambda: torch.zeros(3, 2) + torch.zeros(3)) != "",
    }


@claim(
    "C064",
    true="It runs, and that is the trap: (batch, 1) is one number for each *sample*. A bias is one number for each "
    "*feature*, and the two sums below differ.",
    false="The addition itself is allowed, the 1 is stretched over the features. It only is no bias.",
    depends="Right: as an offset for each sample, yes; as the bias of a layer, no. That has the shape (features,), and "
    "does not know how large a batch is.",
)
def a_bias_has_one_number_a_feature() -> dict[str, bool]:
    """Add an offset of shape (batch, 1) to zeros, compare with a layer's bias, and change the batch size."""
    layer = torch.nn.Linear(4, 3)
    offset = torch.tensor([[1.0], [2.0]])
    added = torch.zeros(2, 3) + offset
    return {
        "(batch, 1) can be added to (batch, features)": added.shape == (2, 3),
        "it adds to each feature a number of its own": not torch.equal(added[:, 0], added[:, 1]),
        "a layer's bias has the shape (batch, 1)": layer.bias.shape == offset.shape,
        "it serves for another batch size": error_of(lambda: torch.zeros(5, 3) + offset) == "",
    }


@claim(
    "C065",
    true="The first half is right. The assert lets (1, 8) against (8, 8) pass, where the last axes agree and the loss "
    "is wrong all the same.",
    false="It does hide them: (8, 1) against (8,) gave a loss, over 64 differences in place of 8, and nothing but a "
    "warning.",
    depends="Right. The assert that catches them all is `assert prediction.shape == target.shape`.",
)
def the_last_axis_is_not_enough() -> dict[str, bool]:
    """Compute a loss of shapes that do not belong together, and try the assert on two such pairs."""
    column, row = torch.zeros(8, 1), torch.zeros(8)
    return {
        "a wrong shape is broadcast, with a warning instead of an error": (column - row).shape == (8, 8)
        and any("target size" in text for text in warnings_of(lambda: functional.mse_loss(column, row))),
        "the assert on last axes catches (8, 1) against (8,)": column.shape[-1] != row.shape[-1],
        "the assert on last axes catches (1, 8) against (8, 8)": torch.zeros(1, 8).shape[-1]
        != torch.zeros(8, 8).shape[-1],
    }
