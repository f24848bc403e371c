"""Measurements for the topic "Tensors": where a tensor lies, and what moving it means.

No GPU is needed. Inside `FakeTensorMode` tensors have a device, a dtype and a shape, but no numbers: PyTorch decides
everything about the device as it would on a GPU, and computes nothing.
"""

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from labkit.exercises.claims import claim, judged
from labkit.exercises.ledger.measuring import Observer, error_of

judged(
    "C044",
    "The ratio is a property of a card, and a computer without that card can only repeat what its maker publishes.",
    true="You probably know the A100, for which the half is published. The thirty-second does not fit: the published "
    "figures of an RTX 4090 make it a sixty-fourth. One family of cards does not speak for the others.",
    false="Too hard on the sentence: that float64 costs little on data-centre cards and much on gaming cards is what "
    "the makers publish. Only the thirty-second is wrong; for an RTX 4090 it is a sixty-fourth.",
    depends="Right: the ratio differs from card to card, and by far. If you need float64, look it up for your own, or "
    "time a large matrix product in both types.",
)


@claim(
    "C045",
    true="It may be a memory of Apple's GPUs, which have no float64 indeed. CUDA has: the tensor below arrived there "
    "in double precision, and so did its square.",
    false="Right. CUDA computes in float64, only slower on most cards. And PyTorch never keeps a tensor behind in "
    "silence: a move happens or raises an error.",
    depends="It does not depend on the card: each CUDA device takes float64. How fast it is there does depend, and the "
    "device without it, Apple's MPS, says so in an error instead of keeping the tensor.",
)
def float64_goes_to_cuda() -> dict[str, bool]:
    """Move a float64 tensor to CUDA, as a tensor without numbers, and square it there."""
    with FakeTensorMode():
        moved = torch.ones(2, dtype=torch.float64).to("cuda")
        square = moved * moved
    return {
        "a float64 tensor that is moved to CUDA stays on the CPU": moved.device.type == "cpu",
        "what is computed from it falls back to the CPU": square.device.type == "cpu",
        "CUDA cannot hold the result in double precision": square.dtype != torch.float64,
    }


@claim(
    "C046",
    true="Then an error that you saw came from something else, such as a missing driver, which stops every dtype. "
    "Below, both moved.",
    false="Right. The error about dtypes that people do meet is another: a float64 input to float32 weights, on any "
    "device.",
    depends="On a computer without a GPU both moves fail, with the same message; with one both succeed. The dtype "
    "makes no difference.",
)
def both_dtypes_move_alike() -> dict[str, bool]:
    """Move a float32 and a float64 tensor to CUDA, as tensors without numbers."""

    def move(dtype: torch.dtype) -> Tensor:
        with FakeTensorMode():
            return torch.ones(2, dtype=dtype).to("cuda")

    errors = error_of(lambda: move(torch.float32)), error_of(lambda: move(torch.float64))
    return {
        "moving a float64 tensor to CUDA raises an error": errors[1] != "",
        "float32 and float64 fare differently on the way": errors[0] != errors[1],
    }


@claim(
    "C047",
    true="Yes, for each of the dtypes below. PyTorch uses a GPU only where you say so.",
    false="Perhaps you expect that a GPU is used wherever there is one. It is not: tensors are made on the CPU until "
    "`device=` or `.to()` says otherwise.",
    depends="Only one thing changes it, and you would have called it yourself: `torch.set_default_device`. The dtype "
    "has no influence, as the list of them shows.",
)
def tensors_are_made_on_the_cpu() -> dict[str, bool]:
    """Make tensors of six dtypes without saying where."""
    dtypes = torch.bool, torch.uint8, torch.int64, torch.float16, torch.float32, torch.float64
    return {f"{dtype}: made on the CPU": torch.ones(2, dtype=dtype).device.type == "cpu" for dtype in dtypes}


@claim(
    "C050",
    true="You may think of how GPUs compute: operations there do run beside the CPU. A copy is another matter: unless "
    "asked, `.to()` orders one that the program waits for, and ordinary memory is not pinned.",
    false="Right. A copy that runs beside the CPU's work must be asked for, with `non_blocking=True`, and wants a "
    "source in pinned memory.",
    depends="It depends on what you write, and the sentence says *by itself*. By itself nothing overlaps: neither the "
    "order for such a copy nor the memory for it was there.",
)
def a_copy_is_waited_for_unless_asked() -> dict[str, bool]:
    """Observe which copy `.to()` orders, with and without `non_blocking=True`, and where ordinary tensors lie."""
    values = torch.ones(2)
    with Observer() as silent:
        values.to("meta")
    with Observer() as asked:
        values.to("meta", non_blocking=True)
    orders = [observer.operations[0][1].get("non_blocking", False) for observer in (silent, asked)]
    return {
        "by itself, .to() orders a copy that is not waited for": bool(orders[0]),
        "it orders the same copy with and without non_blocking=True": orders[0] == orders[1],
        "an ordinary tensor lies in pinned memory": values.is_pinned(),
    }


@claim(
    "C051",
    true="`model.to(...)` taught you that, and modules do change in place. A tensor does not: `x` below kept its "
    "dtype, its device and its place as a leaf. Without `x = x.to(...)` the move is lost.",
    false="Right: write `x = x.to(...)`. The new tensor has a `grad_fn`, so it is no leaf, and gradients arrive at the "
    "old one.",
    depends="One case looks like it: when nothing has to change, `.to()` returns `x` itself. When something changes, "
    "it changes in a new tensor, every time.",
)
def to_returns_a_new_tensor() -> dict[str, bool]:
    """Convert and move a leaf that requires a gradient, and look at the leaf afterwards."""
    leaf = torch.ones(2, requires_grad=True)
    converted, moved = leaf.to(torch.float64), leaf.to("meta")
    converted.sum().backward()
    return {
        "x itself has the new dtype": leaf.dtype == torch.float64,
        "x itself is on the new device": leaf.device == moved.device,
        "x itself got a grad_fn, and is no leaf any more": leaf.grad_fn is not None or not leaf.is_leaf,
        "the gradient arrives at the result of .to() and not at x": leaf.grad is None,
    }


@claim(
    "C056",
    true="Yes. The same operations ran on the same amount of numbers; recording put one node on top. Half as many "
    "bytes, or another device, is what changes the time.",
    false="The two attributes are often set in one line, `device=..., requires_grad=True`, and look like a pair. They "
    "are independent: all four combinations below exist, and the work was the same.",
    depends="In one way it costs: what is recorded keeps values for the backward pass, and `no_grad` saves that. "
    "Setting it never makes anything faster.",
)
def requires_grad_changes_no_work() -> dict[str, bool]:
    """Observe the operations of a product with and without a gradient, and combine the flag with two devices."""
    operations, recorded = [], []
    for flag in (False, True):
        left = torch.ones(4, 4, requires_grad=flag)
        with Observer() as observer:
            result = left @ left
        operations.append([name for name, _ in observer.operations])
        recorded.append(result.grad_fn is not None)
    pairs = {
        (tensor.device.type, tensor.requires_grad)
        for device in ("cpu", "meta")
        for tensor in (torch.ones(2, device=device), torch.ones(2, device=device, requires_grad=True))
    }
    return {
        "with and without requires_grad the same operations run": operations[0] == operations[1] != [],
        "requires_grad adds a node to the graph, and so a little work": recorded == [False, True],
        "device and requires_grad are independent": len(pairs) == 4,
        "a shorter number format means fewer bytes to move": torch.ones(4).half().nbytes < torch.ones(4).nbytes,
    }
