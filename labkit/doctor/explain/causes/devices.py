"""Devices and memory."""

import ast
import re

import torch
import torch.nn as nn
from torch import Tensor

from labkit.doctor.explain.causes.rule import explains
from labkit.doctor.explain.causes.wording import named, simple
from labkit.doctor.explain.explanation import Cause, Reason
from labkit.doctor.explain.operands import Operand
from labkit.doctor.explain.situation import Situation

_CHOOSE = 'device = "cuda" if torch.cuda.is_available() else "cpu"'


@explains(
    "devices",
    "RuntimeError NotImplementedError",
    r"Tensor on device (?P<one>[\w:]+) is not on the expected device (?P<other>[\w:]+)!",
    r"Expected all tensors to be on the same device, but found at least two devices, (?P<one>[\w:]+) and "
    r"(?P<other>[\w:]+)!",
    r"Expected all tensors to be on the same device, but got (?P<argument>\w+) is on (?P<one>[\w:]+), "
    r"different from other tensors on "
    r"(?P<other>[\w:]+)",
    r"Input and parameter tensors are not at the same device, found input tensor at (?P<one>[\w:]+) and "
    r"parameter tensor at (?P<other>[\w:]+)",
    r"Input type \(torch\.(?P<one>[\w.]*)Tensor\) and (?:bias|weight) type "
    r"\(torch\.(?P<other>[\w.]*)Tensor\) should be the same",
    r"Unhandled FakeTensor Device Propagation for [\w.]+, found two different devices (?P<one>[\w:]+), "
    r"(?P<other>[\w:]+)",
)
def two(match: re.Match, situation: Situation) -> Reason:
    """Explain tensors on two devices: data not moved, a layer made later, a tensor made in forward."""
    layer, x = situation.layer, situation.input
    weight = next(layer.parameters(), None) if layer is not None else None
    values = [one for one in situation.focus if isinstance(one.value, Tensor)]
    if weight is not None and x is not None and weight.device != x.device:
        name = situation.subject
        causes = [
            Cause(
                "The data were not moved to the device of the model.",
                f"{simple(name or 'x')}.to({_device(situation, weight.device)})",
            )
        ]
        if situation.place.function == "forward" and situation.layer_name.isidentifier():
            name, place = situation.layer_name, f"self.{situation.layer_name}"
            why = f"`{name}` is made in forward, on the CPU and anew in every call: it is never trained."
            causes = [Cause(why, f"{place} = …  # once, in __init__; forward only uses it")]
            what = f"`{name}` is on {weight.device}, and `{situation.subject or 'its input'}` on {x.device}."
            return Reason(what, _RULE, tuple(causes), named(situation.subject, name))
        holder = next((key for key, model in situation.models if layer in list(model.modules())), "")
        if holder and len({one.device for one in dict(situation.models)[holder].parameters()}) > 1:
            why = f"`{situation.layer_name}` was made, or set, after the model was moved."
            causes.insert(0, Cause(why, f"{holder}.to({_device(situation, x.device)})  # again, after the change"))
        elif holder:
            causes.append(Cause("Or the model was not moved.", f"{holder}.to({_device(situation, x.device)})"))
        else:
            causes.insert(
                0,
                Cause(
                    "The layer is not registered, so `.to(device)` does not move it.",
                    "self.layer = …  # in __init__, as an attribute or in an nn.ModuleList",
                ),
            )
        what = (
            f"`{situation.layer_name or 'The layer'}` is on {weight.device}, and `{name or 'its input'}` on {x.device}."
        )
        return Reason(what, _RULE, tuple(causes), named(name, situation.layer_name))
    devices = {str(one.value.device) for one in values}
    if len(devices) > 1:
        odd, other = _odd(values)
        what = ", ".join(f"`{one.name}` is on {one.value.device}" for one in values) + "."
        fix = f"{simple(odd.name)}.to({simple(other.name)}.device)"
        causes = [Cause(f"`{odd.name}` was made on another device, or not moved.", fix)]
        if odd.name.startswith("self."):
            attribute = odd.name.removeprefix("self.")
            why = f"`{odd.name}` is a plain tensor, which `.to(device)` does not move with the model."
            causes.insert(0, Cause(why, f'self.register_buffer("{attribute}", …)  # in __init__'))
        return Reason(what, _RULE, tuple(causes), named(odd.name, *(one.name for one in values)))
    data = next((one.name for one in values if one.name.isidentifier()), "x")
    return Reason(
        f"One tensor is on {match['one']}, another on {match['other']}.",
        _RULE,
        (
            Cause("The data were not moved to the device of the model.", f"{data} = {data}.to(device)"),
            Cause(
                "Or a layer or buffer is not registered, so that the model's `.to(device)` does not move it.",
                'self.register_buffer("name", tensor)',
            ),
        ),
        named(*(one.name for one in values)),
    )


_RULE = "An operation runs on one device: its tensors must all be there."


def _odd(values: list[Operand]) -> tuple[Operand, Operand]:
    """Return the tensor to move and one that stays: what is on the CPU goes where the others are."""
    odd = next((one for one in values if one.value.device.type == "cpu"), values[0])
    trained = next((one for one in values if one.value.requires_grad), None)
    if trained is not None and trained.value.device.type == "cpu":
        odd = next(one for one in values if one.value.device.type != "cpu")
    return odd, next(one for one in values if one.value.device != odd.value.device)


def _device(situation: Situation, device: torch.device) -> str:
    """Return how the user writes a device: the variable `device` if there is one."""
    place = situation.place
    known = place is not None and ("device" in place.variables or "device" in place.global_variables)
    return "device" if known else f'"{device}"'


@explains("devices", "NotImplementedError", r"Cannot copy out of meta tensor; no data!")
def meta(match: re.Match, situation: Situation) -> Reason:
    """Explain a tensor that has a shape and no values."""
    values = [
        one for one in situation.operands if getattr(one.value, "is_meta", False) or isinstance(one.value, nn.Module)
    ]
    name = values[0].name if values else ""
    is_model = bool(values) and isinstance(values[0].value, nn.Module)
    fix = (
        f'{name}.to_empty(device="cpu")  # then load or initialise the weights'
        if is_model
        else 'device="cpu"  # when it is made'
    )
    return Reason(
        f"`{name or 'The tensor'}` is on the device meta: it has a shape and no values.",
        "Meta tensors are for planning; there is nothing to copy.",
        (Cause('It was made under device="meta", and never filled.', fix),),
        named(name),
    )


@explains(
    "no-cuda",
    "RuntimeError AssertionError",
    r"Found no NVIDIA driver on your system",
    r"Torch not compiled with CUDA enabled",
    r"PyTorch is not linked with support for (\w+) devices",
    r"Attempting to deserialize object on a CUDA device but torch\.cuda\.is_available\(\) is False",
    r"The NVIDIA driver on your system is too old",
    r"No CUDA GPUs are available",
)
def no_gpu(match: re.Match, situation: Situation) -> Reason:
    """Explain a program that asks for a GPU where there is none."""
    name = next((one.name for one in situation.focus if isinstance(one.value, Tensor | nn.Module)), "")
    call = situation.source.call
    if "deserialize" in match[0]:
        file = situation.argument(0, "f")
        fix = f'torch.load({file or "path"}, map_location="cpu")'
        why = "The file was saved on a GPU, and its tensors want to go back there."
        return Reason(
            f"`{file or 'The file'}` holds tensors of a GPU.",
            "Saved tensors remember their device.",
            (Cause(why, fix),),
            named(file),
        )
    used = (
        f"{name}.to(device)"
        if name
        else f"{ast.unparse(call.func)}(…, device=device)"
        if call is not None
        else "x.to(device)"
    )
    if "device" in situation.source.text:
        name = name or "device"
    why = "This computer has no NVIDIA GPU, or its driver is missing."
    if "compiled" in match[0]:
        why = "This PyTorch was built without CUDA; `labkit check` says which build fits this computer."
    return Reason(
        f"`{situation.source.text.strip().splitlines()[0] if situation.source.text else 'The line'}` asks "
        f"for a device that is not there.",
        "A program chooses its device by what there is.",
        (Cause(why, f"{_CHOOSE}\n{used}"),),
        named(name),
    )


@explains("numpy-of-device", "TypeError", r"can't convert ([\w:]+) device type tensor to numpy\. Use Tensor\.cpu\(\)")
def numpy_of_device(match: re.Match, situation: Situation) -> Reason:
    """Explain a tensor on a GPU that goes to NumPy or Matplotlib."""
    given = situation.library_value("self")
    name = situation.name_of(given) if isinstance(given, Tensor) else ""
    tensors = [one for one in situation.focus if isinstance(one.value, Tensor) and one.value.device.type != "cpu"]
    name = name or (tensors[0].name if tensors else situation.argument(0))
    return Reason(
        f"`{name or 'The tensor'}` is on {match[1]}.",
        "NumPy, and all that is built on it, works in the memory of the CPU.",
        (Cause("Fetch it first.", f"{simple(name or 'x')}.detach().cpu().numpy()"),),
        named(name),
    )


@explains("device-assert", "AcceleratorError RuntimeError", r"device-side assert triggered")
def device_assert(match: re.Match, situation: Situation) -> Reason:
    """Explain an assertion on the GPU, which is reported later than it happened."""
    tensors = [one.name for one in situation.operands if isinstance(one.value, Tensor)]
    return Reason(
        "The GPU met a value that is not allowed, at this line or before it: the GPU works behind the program.",
        "Class numbers are 0 to classes - 1, and indices 0 to the size - 1; on a GPU this is checked "
        "without a message.",
        (
            Cause(
                "Most often a target names a class that the model does not have. On the CPU the same line says which.",
                'device = "cpu"  # after a restart of the kernel; or CUDA_LAUNCH_BLOCKING=1 before the start',
            ),
            Cause("Or a token has no row in an embedding.", "tokens.max() < embedding.num_embeddings"),
        ),
        named(*tensors),
    )
