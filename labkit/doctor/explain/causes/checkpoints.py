"""Files and state_dicts that do not fit."""

import ast
import re

from labkit.doctor.explain.causes.rule import explains
from labkit.doctor.explain.causes.wording import named, numbers, shape
from labkit.doctor.explain.explanation import Cause, Reason
from labkit.doctor.explain.situation import Situation

_RULE = (
    "The names and the shapes in a state_dict must be those of the model; strict=False leaves out names, never shapes."
)


@explains("state-dict-mismatch", "RuntimeError", r"Error\(s\) in loading state_dict for (\w+):(.*)")
def mismatch(match: re.Match, situation: Situation) -> Reason:
    """Explain other names (a prefix, a whole checkpoint, another model) and other shapes."""
    text = match[2]
    missing = _keys(re.search(r"Missing key\(s\) in state_dict: (.*?)\. *(?:\n|$)", text))
    unexpected = _keys(re.search(r"Unexpected key\(s\) in state_dict: (.*?)\. *(?:\n|$)", text))
    sizes = re.findall(
        r"size mismatch for ([\w.]+): copying a param with shape torch\.Size\(\[([\d, ]*)\]\) from "
        r"checkpoint, the shape in "
        r"current model is torch\.Size\(\[([\d, ]*)\]\)",
        text,
    )
    model, state = _names(situation)
    causes = []
    prefix = _prefix(unexpected, missing)
    if prefix:
        fix = f"{state} = {{key.removeprefix({prefix!r}): value for key, value in {state}.items()}}"
        causes.append(Cause(f"The names in the file begin with {prefix!r}: {_origin(prefix)}.", fix))
    elif _prefix(missing, unexpected):
        prefix = _prefix(missing, unexpected)
        fix = f"{state} = {{{prefix!r} + key: value for key, value in {state}.items()}}"
        causes.append(
            Cause(f"The names of the model begin with {prefix!r}, as it is wrapped or one layer deeper.", fix)
        )
    elif (
        unexpected
        and not any("." in key for key in unexpected if key not in missing)
        and (nested := _nested(unexpected))
    ):
        causes.append(
            Cause(
                "The file is a whole checkpoint, and the weights are one entry of it.",
                f"{model}.load_state_dict({state}[{nested!r}])",
            )
        )
    elif missing or unexpected:
        why = (
            f"The model was built otherwise than when it was saved: {_listed(unexpected) or 'nothing'} "
            f"is only in the file, "
        )
        why += f"{_listed(missing) or 'nothing'} only in the model."
        causes.append(Cause(why, f"build `{model}` with the settings that it was saved with"))
        if not missing or not unexpected:
            causes.append(Cause("Or a part is left out on purpose.", f"{model}.load_state_dict({state}, strict=False)"))
    if sizes:
        name, in_file, in_model = sizes[0]
        last = name.rpartition(".")[0]
        why = f"`{name}` is {shape(numbers(in_file))} in the file and {shape(numbers(in_model))} in the model"
        causes.append(
            Cause(
                f"{why}: another number of classes or a wider layer.",
                f"build `{model}` with {last or name} of the size in the file",
            )
        )
        start = f"{last}." if last else name
        fix = f"{state} = {{k: v for k, v in {state}.items() if not k.startswith({start!r})}}"
        fix += f"\n{model}.load_state_dict({state}, strict=False)"
        causes.append(Cause("For a new last layer, leave its weights out of the file.", fix))
    what = [
        f"{len(missing)} names are missing" if missing else "",
        f"{len(unexpected)} are not known" if unexpected else "",
        f"{len(sizes)} shapes differ" if sizes else "",
    ]
    return Reason(
        f"`{state}` does not fit `{model}` ({match[1]}): {', '.join(filter(None, what))}.",
        _RULE,
        tuple(causes),
        named(model, state if state.isidentifier() else "", *(one[0] for one in sizes[:1])),
    )


def _keys(match: re.Match | None) -> list[str]:
    return re.findall(r'"([^"]*)"', match[1]) if match else []


def _listed(keys: list[str]) -> str:
    return ", ".join(f"`{key}`" for key in keys[:2]) + (f" and {len(keys) - 2} more" if len(keys) > 2 else "")


def _prefix(longer: list[str], shorter: list[str]) -> str:
    """Return what stands before the names of the one list, where the rest of every name is in the other."""
    for key in shorter:
        for other in longer:
            if other != key and other.endswith(f".{key}"):
                prefix = other[: -len(key)]
                if all(one.startswith(prefix) for one in longer):
                    return prefix
    return ""


def _origin(prefix: str) -> str:
    return {
        "module.": "the model was saved inside DataParallel or DistributedDataParallel",
        "_orig_mod.": "the model was saved after torch.compile",
    }.get(prefix, "it was part of a larger model")


def _nested(keys: list[str]) -> str:
    known = ("model_state_dict", "state_dict", "model_state", "model", "net", "weights")
    return next((key for key in known if key in keys), "")


def _names(situation: Situation) -> tuple[str, str]:
    """Return how the user calls the model, and what is loaded into it."""
    call = situation.source.call
    model = situation.layer_name
    if call is not None and hasattr(call.func, "value"):
        model = ast.unparse(call.func.value)
    state = situation.argument(0, "state_dict")
    return model or "model", state if state.isidentifier() else "state"


@explains(
    "weights-only",
    "UnpicklingError",
    r"Weights only load failed.*?(?:Unsupported (?:global: GLOBAL|operand|class)) ([\w.]+)",
    r"Weights only load failed()",
)
def weights_only(match: re.Match, situation: Situation) -> Reason:
    """Explain a file with objects of classes."""
    name = match[1] or "an object"
    short = name.rpartition(".")[2]
    file = situation.argument(0, "f")
    if name.isdigit():  # an operation of pickle that torch.save does not use
        fix = f'pickle.load(open({file or "path"}, "rb"))  # if you trust the file; then save it by torch.save'
        what = f"`{file or 'The file'}` was not written by torch.save."
        return Reason(
            what, "torch.load reads what torch.save wrote.", (Cause("It was written by pickle.", fix),), named(file)
        )
    causes = []
    once = f"torch.load({file or 'path'}, weights_only=False)  # once, if the file is your own"
    if name.startswith("numpy"):
        why = "NumPy's numbers or arrays are in the file, such as an accuracy computed with it."
        causes.append(
            Cause(why, f'{once}\ntorch.save({{"accuracy": float(accuracy), …}}, path)  # plain numbers from now on')
        )
    elif name.startswith(("argparse", "pathlib", "collections", "omegaconf", "types", "datetime")):
        why = f"Settings are in the file as a {short}."
        causes.append(
            Cause(why, f'{once}\ntorch.save({{"config": vars(config), …}}, path)  # a plain dict from now on')
        )
    else:
        why = (
            "The whole model was saved, with its class; since PyTorch 2.6 only weights are loaded unless "
            "asked otherwise."
        )
        causes.append(
            Cause(
                why,
                f"torch.save(model.state_dict(), path)  # when "
                f"saving\nmodel.load_state_dict(torch.load({file or 'path'}))",
            )
        )
    causes.append(Cause(f"If you trust the class: allow {short}.", f"torch.serialization.add_safe_globals([{short}])"))
    causes.append(
        Cause(
            "If you made the file yourself: such a file can run any program when it is loaded.",
            f"torch.load({file or 'path'}, weights_only=False)",
        )
    )
    return Reason(
        f"`{file or 'The file'}` holds {name}, which is more than tensors and plain values.",
        "torch.load reads tensors, numbers, strings, lists and dicts; everything else could run code.",
        tuple(causes),
        named(file if file.isidentifier() else "", short),
    )
