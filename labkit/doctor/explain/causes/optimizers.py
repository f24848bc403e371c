"""What an optimizer is given instead of parameters."""

import ast
import re

import torch.nn as nn
from torch import Tensor

from labkit.doctor.explain.causes.rule import explains
from labkit.doctor.explain.causes.wording import named, simple
from labkit.doctor.explain.explanation import Cause, Reason
from labkit.doctor.explain.history import made_from
from labkit.doctor.explain.situation import Situation

_RULE = "An optimizer takes the parameters of a model, or a list of leaf tensors, or of groups of them."


def _given(situation: Situation) -> tuple[str, ast.AST | None]:
    call = situation.source.call
    text = situation.argument(0, "params")
    return text, ast.parse(text, mode="eval").body if call is not None and text else None


def _is_optimizer(situation: Situation) -> bool:
    return any(re.search(r"[/\\]torch[/\\]optim[/\\]", place.file) for place in situation.raised.library_places)


@explains("optimizer-parameters", "ValueError", r"optimizer got an empty parameter list")
def empty(match: re.Match, situation: Situation) -> Reason:
    """Explain no parameters: layers in a list, a generator that was used up, no layer with weights."""
    text, node = _given(situation)
    owner = node.func.value if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else None
    model = situation.value_of(owner) if owner is not None else None
    causes, names = [], [ast.unparse(owner)] if owner is not None else []
    if isinstance(model, nn.Module):
        for key, value in vars(model).items():
            holds = list(value.values()) if isinstance(value, dict) else value
            if (
                not key.startswith("_")
                and isinstance(holds, list | tuple)
                and any(isinstance(one, nn.Module) for one in holds)
            ):
                kind = "ModuleDict" if isinstance(value, dict) else "ModuleList"
                why = f"The layers of `self.{key}` are in a plain {type(value).__name__}, which hides them."
                causes.append(Cause(why, f"self.{key} = nn.{kind}({'…'})"))
                names.append(f"self.{key}")
        if not causes:
            causes.append(Cause(f"`{names[0]}` has no layer with weights.", f"list({names[0]}.children())"))
    elif isinstance(node, ast.Name):
        made = made_from(situation.place, node.id)
        names.append(node.id)
        if made and "filter" in ast.unparse(made[0].value):
            causes.append(
                Cause(
                    "No parameter passes the filter: all are frozen.",
                    "[name for name, p in model.named_parameters() if p.requires_grad]",
                )
            )
        again = f"list({ast.unparse(made[0].value)})" if made else f"list({node.id})"
        why = f"`{node.id}` is a generator that was gone through before, by a print, a sum or another optimizer."
        causes.append(Cause(why, f"{node.id} = {again}"))
    if text and re.search(r"requires_grad", text):
        causes.insert(
            0,
            Cause(
                "No parameter passes the filter: all are frozen.",
                "parameter.requires_grad_(True)  # of the layers to train",
            ),
        )
    if not causes:
        causes.append(Cause("The list is empty.", "model.parameters()"))
    return Reason(
        f"`{text or 'The list of parameters'}` is empty.",
        _RULE,
        tuple(causes),
        named(*names, text if text.isidentifier() else ""),
    )


@explains(
    "optimizer-parameters",
    "TypeError ValueError KeyError AttributeError",
    r"'(?P<type>\w+)' object is not iterable",
    r"optimizer can only optimize Tensors, but one of the params is (?P<type>[\w.]+)",
    r"can't optimize a (?P<leaf>non-leaf) Tensor",
    r"params argument given to the optimizer should be an iterable of Tensors or dicts, but got (?P<type>[\w.]+)",
    r"(?P<twice>some parameters appear in more than one parameter group)",
)
def not_parameters(match: re.Match, situation: Situation) -> Reason | None:
    """Explain a module, a method, a state_dict, a computed tensor in place of parameters."""
    if not _is_optimizer(situation):
        return None
    text, node = _given(situation)
    found = match.groupdict()
    kind = (found.get("type") or "").rpartition(".")[2]
    kind = "generator" if found.get("type") == "Module.parameters" else kind
    it = simple(text or "model")
    computed = [one.name for one in situation.focus if isinstance(one.value, Tensor) and not one.value.is_leaf]
    modules = [one.name for one in situation.focus if isinstance(one.value, nn.Module)]
    if found.get("twice"):
        cause = Cause("A layer is in two groups.", "{id(p) for p in first} & {id(p) for p in second}")
    elif kind in ("method", "function", "parameters"):
        cause = Cause(
            "The method itself was given: its brackets are missing.",
            text.replace(".parameters", ".parameters()") if text else "model.parameters()",
        )
    elif found.get("leaf"):
        name = computed[0] if computed else text
        cause = Cause(
            f"`{name}` was computed: it has a graph, and is no start of one.",
            f"{simple(name)}.detach().requires_grad_()",
        )
    elif kind in ("FloatTensor", "Tensor", "Parameter", "DoubleTensor"):
        cause = Cause("A single tensor goes into a list.", f"[{text}]")
    elif kind == "str":
        cause = Cause(
            "A dict gives its names; the parameters themselves are wanted.",
            re.sub(r"\.(state_dict|named_parameters)\(\)", ".parameters()", text)
            if re.search(r"\.(state_dict|named_parameters)\(\)", text)
            else f"{it}.values()",
        )
    elif kind == "generator":
        cause = Cause("Several models are joined to one list.", "[*first.parameters(), *second.parameters()]")
    elif modules:
        whole = isinstance(node, ast.Name | ast.Attribute)
        fix = f"{modules[0]}.parameters()" if whole else " + ".join(f"list({name}.parameters())" for name in modules)
        cause = Cause("The module itself was given.", fix)
    else:
        cause = Cause("Something other than parameters was given.", "model.parameters()")
    return Reason(
        f"`{text or 'What was given'}` holds no leaf tensors" + (f", but {kind}." if kind else "."),
        _RULE,
        (cause,),
        named(
            *(computed or modules),
            text if text.isidentifier() else "",
            *[name for name in re.findall(r"[A-Za-z_]\w*", text) if name in situation.place.variables][:1],
        ),
    )
