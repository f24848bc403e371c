"""Worker processes of a DataLoader: what cannot be sent to them, and where their errors come from."""

import re

from labkit.doctor.explain.causes.loading import loader_name
from labkit.doctor.explain.causes.rule import explains
from labkit.doctor.explain.causes.wording import named
from labkit.doctor.explain.explanation import Cause, Reason
from labkit.doctor.explain.history import names_in
from labkit.doctor.explain.situation import Situation


@explains(
    "worker-pickle",
    "AttributeError TypeError PicklingError",
    r"(?:Can't|cannot) (?:pickle|get) (?:local object )?(.*?)(?:: .*)?$",
)
def not_picklable(match: re.Match, situation: Situation) -> Reason | None:
    """Explain a lambda or an open file that shall go to a worker process."""
    places = [place.file for place in situation.raised.library_places]
    if not any("multiprocessing" in file for file in places) or not any("dataloader" in file for file in places):
        return None
    what = match[1].strip("'")
    loader = loader_name(situation)
    function = re.search(r"(\w+)\.<locals>\.(<lambda>|\w+)", what)
    is_lambda = "lambda" in what
    if is_lambda or function:
        name = "collate" if is_lambda else function[2]
        head = f"class {name}:" if name[0].isupper() else f"def {name}(batch):"
        why = "What is made inside a function has no name by which another process finds it."
        causes = [Cause(why, f"{head}  # at the top of the file, outside of every function\n    …")]
    else:
        causes = [
            Cause(
                "Open files, locks and generators belong to one process.",
                "open it in __getitem__, at the first use, not in __init__",
            )
        ]
    causes.append(Cause("Or load in this process.", "DataLoader(…, num_workers=0)"))
    return Reason(
        f"A worker process needs a copy of {what}, and it cannot be sent there.",
        "Data set, transforms and collate_fn are sent to every worker: what they are made of has a name in a module.",
        tuple(causes),
        named(function[2] if function and not is_lambda else "", loader),
    )


@explains("worker-error", "*", r"")
def in_worker(match: re.Match, situation: Situation) -> Reason | None:
    """Explain where an error of another process came from, whatever it is."""
    where = situation.raised.where
    if not where or where == "a compiled module":
        return None
    place = situation.place
    loader = loader_name(situation)
    text = situation.raised.text.splitlines()[0] if situation.raised.text else ""
    here = f"{place.function}, line {place.line}" if place else "a library"
    used = names_in(situation.source.expression) if situation.source.expression is not None else []
    return Reason(
        f"{situation.raised.type}{f': {text}' if text else ''}: raised in {here}, in {where}.",
        "A worker's error comes back as text: its last lines, not the first, say what happened.",
        (
            Cause(
                "It is an error of the data set's own code; without workers a debugger can stop there.",
                f"{loader or 'DataLoader'}(…, num_workers=0)"
                if not loader
                else f"{loader} = DataLoader(…, num_workers=0)",
            ),
            Cause(
                "Or one sample is to blame: find its number.", "for number in range(len(dataset)):\n    dataset[number]"
            ),
        ),
        named(*used, loader),
    )
