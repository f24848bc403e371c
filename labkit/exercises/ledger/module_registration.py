"""Measurements for the topic "nn.Module": what a module knows about, and what it misses."""

import torch
from torch import nn

from labkit.exercises.claims import claim
from labkit.models.registration import registration


class OneLayer(nn.Module):
    """A module with a layer in an attribute, and nothing else."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 2)


@claim(
    "C118",
    true="Yes. The assignment is all it takes: the layer was listed, changed its dtype and its mode. It works outside "
    "`__init__` as well.",
    false="You may expect a line such as `self.add_module(…)`, or have met a layer that was missed. That one was in a "
    "plain list; the one in an attribute was found by all three calls.",
    depends="It depends on what is assigned, and the sentence says *a module*. A plain list of modules is none, and is "
    "missed; a module was found every time.",
)
def an_assigned_layer_is_found() -> dict[str, bool]:
    """Assign a layer to an attribute, and let `.to`, `.eval` and `.train` look for it."""
    model = OneLayer()
    model.to(torch.float64)
    model.eval()
    evaluating = model.layer.training is False
    model.train()
    return {
        "the layer is among the children of the module": model.layer in set(model.children()),
        "`.to(torch.float64)` converts it": model.layer.weight.dtype == torch.float64,
        "`.eval()` switches it": evaluating,
        "`.train()` switches it back": model.layer.training,
    }


@claim(
    "C119",
    true="Perhaps a layer of yours did stay behind, in a plain list or dict. One in an attribute does not: the "
    "assignment itself registers it, and each list below has it.",
    false="Right: `self.layer = nn.Linear(…)` is the registration. What is missed are layers in plain lists and dicts, "
    "and plain tensors.",
    depends="For a layer in an attribute it depends on nothing; it was found in all four places. The case you may mean "
    "is `self.layers = [nn.Linear(…)]`, and there `nn.ModuleList` helps.",
)
def an_attribute_is_not_missed() -> dict[str, bool]:
    """Look for a layer that was assigned to an attribute wherever a module keeps its lists."""
    model = OneLayer()
    hidden = registration(model).hidden
    model.to(torch.float64)
    return {
        "the layer is missing among the children": "layer" not in dict(model.named_children()),
        "its weight is missing in `parameters()`": "layer.weight" not in dict(model.named_parameters()),
        "its weight is missing in `state_dict()`": "layer.weight" not in model.state_dict(),
        "a search for what is hidden in the module finds it": any("layer" in one.where for one in hidden),
        "`.to(torch.float64)` misses it": model.layer.weight.dtype != torch.float64,
    }


@claim(
    "C124",
    true="Yes, of all layers that the module knows: in attributes, in a `ModuleList`, in a `ModuleDict`, and inside "
    "those. An optimizer took them as they came, and its step changed every one.",
    false="If an optimizer of yours missed a layer, look where that layer is kept. In a plain list it is unknown to "
    "the module, and then to the optimizer as well; all registered ones were collected.",
    depends="You may think of layers in a plain Python list, and those are missed indeed. The sentence is about the "
    "layers *of the module*, and a module owns what is registered in it.",
)
def all_registered_parameters_are_collected() -> dict[str, bool]:
    """Nest layers in three ways, and see which weights one optimizer step changes."""
    model = nn.Sequential(
        nn.Linear(2, 2),
        nn.ModuleList([nn.Linear(2, 2)]),
        nn.ModuleDict({"inner": nn.Sequential(nn.Linear(2, 2))}),
    )
    weights = model[0].weight, model[1][0].weight, model[2]["inner"][0].weight
    before = [weight.detach().clone() for weight in weights]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    sum(weight.sum() for weight in weights).backward()
    optimizer.step()
    moved = [not torch.equal(weight, old) for weight, old in zip(weights, before, strict=True)]
    places = "a layer in an attribute", "a layer in a ModuleList", "a layer inside a module in a ModuleDict"
    return {f"the optimizer trains {place}": changed for place, changed in zip(places, moved, strict=True)}


@claim(
    "C133",
    true="Yes. To the module it is an attribute like any number: no parameter, not saved, not moved. `nn.Parameter` "
    "makes it one; `register_buffer` keeps it beside the parameters without training it.",
    false="You may think that any tensor in a module is learned, or that `requires_grad=True` is enough. Neither "
    "helped: only an `nn.Parameter` is registered by the assignment.",
    depends="Not on `requires_grad`, as the second line shows. The only thing that counts is the type, and a plain "
    "tensor is no `nn.Parameter`.",
)
def a_plain_tensor_is_no_parameter() -> dict[str, bool]:
    """Assign plain tensors, one of which requires a gradient, and look for them."""
    model = nn.Module()
    model.plain, model.learning = torch.zeros(1), torch.zeros(1, requires_grad=True)
    model.weight = nn.Parameter(torch.zeros(1))
    listed = dict(model.named_parameters())
    return {
        "`parameters()` leaves a plain tensor out": "plain" not in listed,
        "it leaves out one with requires_grad=True, too": "learning" not in listed,
        "an nn.Parameter beside them is yielded": list(listed) == ["weight"],
    }


@claim(
    "C134",
    true="Reasonable, as the two always appear together. But a parameter cannot know where it will be kept; the module "
    "registers it, when it is assigned to one of its attributes.",
    false="Right. `nn.Parameter` only marks the tensor. `nn.Module` watches its own attributes and registers what "
    "carries that mark.",
    depends="Making one alone never registered it, neither by itself nor inside a module's list. What made the "
    "difference came later: the assignment to an attribute, which is the module's work.",
)
def making_a_parameter_registers_nothing() -> dict[str, bool]:
    """Watch `register_parameter` while a parameter is made, kept in a list, and assigned."""
    calls: list[str] = []

    class Watched(nn.Module):
        def register_parameter(self, name: str, parameter: nn.Parameter | None) -> None:
            calls.append(name)
            super().register_parameter(name, parameter)

    model = Watched()
    weight = nn.Parameter(torch.zeros(1))
    after_making = list(calls)
    model.kept = [weight]
    in_a_list = list(model.parameters())
    model.weight = weight
    return {
        "making the parameter calls `register_parameter`": after_making != [],
        "a parameter that a module keeps in a list is registered": in_a_list != [],
        "the assignment to an attribute has nothing left to register": calls != ["weight"],
    }
