"""From an exception to its explanation."""

import contextlib
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from labkit.doctor.explain.causes import rules
from labkit.doctor.explain.elsewhere import from_elsewhere
from labkit.doctor.explain.explanation import Explanation, Reason
from labkit.doctor.explain.frames import Place, Raised, chain_of
from labkit.doctor.explain.layers import layer_at
from labkit.doctor.explain.operands import value_in_words
from labkit.doctor.explain.situation import Situation
from labkit.errors import LabkitError


def explain_exception(error: BaseException) -> Explanation | None:
    """Return what an exception means, and what to do; None if it is not known, or not PyTorch's.

    The exception is left as it is. It never raises: where the explaining itself fails, nothing is said.
    """
    if not isinstance(error, Exception) or isinstance(error, LabkitError):
        return None
    return explain_raised(lambda: (from_elsewhere(one) or one for one in chain_of(error)))


def explain_raised(chain: Callable[[], Iterable[Raised]]) -> Explanation | None:
    """Return the explanation of the first error of a chain that has one; where the explaining fails, there is none."""
    with contextlib.suppress(Exception), _without_warnings():
        for raised in chain():
            if explanation := _explain(Situation(raised)):
                return explanation
    return None


@contextlib.contextmanager
def _without_warnings() -> Iterator[None]:
    """Show no warning of the block. warnings.catch_warnings would also forget which ones were shown before."""
    before = warnings.showwarning
    warnings.showwarning = lambda *_, **__: None
    try:
        yield
    finally:
        warnings.showwarning = before


def _explain(situation: Situation) -> Explanation | None:
    for rule in rules():
        with contextlib.suppress(Exception):  # a rule that stumbles over something unusual has found nothing
            if reason := rule.reason(situation):
                return explanation_of(rule.row, reason, situation)
    return None


def explanation_of(row: str, reason: Reason, situation: Situation) -> Explanation:
    """Return a reason together with the line, its values and the layer, as plain data."""
    return Explanation(
        row=row,
        error=situation.raised.type,
        where=_where(situation.place, situation.raised.where) if situation.place else situation.raised.where,
        code=situation.source.text,
        operands=tuple((operand.name, operand.in_words) for operand in situation.operands),
        layer=_layer(situation),
        **reason._asdict(),
    )


def _layer(situation: Situation) -> str:
    """Return "model.2 (Linear 784 -> 10)" of the layer that raised the error, or of the module whose code failed."""
    layer = situation.layer if situation.layer is not None else layer_at(situation.raised.places)
    if layer is None:
        return ""
    name = situation.name_in_model(layer)
    return f"{name} ({value_in_words(layer)})" if name else value_in_words(layer)


def _where(place: Place, process: str) -> str:
    """Return "train.py, line 12, in forward", and in which other process that was."""
    file = place.file if place.file.startswith("<") else Path(place.file).name
    function = "" if place.function.startswith("<") else f", in {place.function}"
    return f"{file}, line {place.line}{function}" + (f", in {process}" if process else "")
