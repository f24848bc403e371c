"""What a check says: the outcome, and its text as Markdown for a notebook and plain for a terminal."""

import re
from dataclasses import dataclass
from typing import Any

from IPython import get_ipython
from IPython.display import display

from labkit.exercises.differences import FEW, Difference, shown

NOT_ATTEMPTED, WRONG, RAISED, RIGHT = "not attempted", "wrong", "raised", "right"

_WHY = {  # what a function gives that was not meant to
    "None": "A function without `return` gives `None`.",
    "a generator": "A function with `yield` gives a generator; `return` gives the result.",
    "a coroutine": "A function with `async` gives a coroutine; write `def` alone.",
}
_LONGEST = 500  # letters of an error that are shown
_TINY = 4  # elements of a tensor that are printed even where its shape says enough

_BOLD = re.compile(r"\*\*(?=\S)(.+?)(?<=\S)\*\*")  # and not the stars of x ** 2


@dataclass(frozen=True)
class Result:
    """The outcome of one check.

    outcome: "not attempted", "wrong", "raised" or "right". misconception: the name of the wrong idea that gives the
    learner's result, where one does. markdown: what to tell the learner.
    """

    exercise: str
    outcome: str
    markdown: str
    misconception: str | None = None

    @property
    def is_right(self) -> bool:
        """Whether the answer is right in all that counts."""
        return self.outcome == RIGHT

    @property
    def plain(self) -> str:
        """The text without Markdown's signs for bold."""
        return plain(self.markdown)

    def __repr__(self) -> str:
        return self.plain


def plain(markdown: str) -> str:
    """Return Markdown as text for a terminal: bold loses its asterisks, the rest reads well as it is."""
    return _BOLD.sub(r"\1", markdown)


def say(markdown: str) -> None:
    """Show Markdown in a notebook, or print it plainly where there is none."""
    if get_ipython() is None:
        print(plain(markdown))
    else:
        display({"text/markdown": markdown, "text/plain": plain(markdown)}, raw=True)


def given(inputs: dict[str, Any], numbers: bool = True) -> str:
    """Return the inputs of a case as Markdown, such as "With `x = tensor([1., 2.])`:"; no inputs, no text.

    Without `numbers`, all but tiny tensors are shown by dtype and shape: errors and wrong shapes come from those.
    """
    few = FEW if numbers else _TINY
    listed = ", ".join(f"`{name} = {shown(value, few)}`" for name, value in inputs.items())
    return f"With {listed}:" if listed else ""


def case_text(inputs: str, found: list[Difference]) -> str:
    """Return the first differing case as Markdown: the inputs, and for each difference what was expected and got."""
    lines = [inputs, ""]
    lines += [f"- {_place(one)}expected `{one.expected}`, got `{one.got}`" for one in found]
    for one in found:
        if one.what == "kind" and one.got in _WHY:
            lines += ["", _WHY[one.got]]
    return "\n".join(lines).strip()


def _place(difference: Difference) -> str:
    words = [word for word in (difference.where, difference.what) if word]
    return f"{', '.join(words)}: "


def indented(source: str, language: str = "python") -> str:
    """Return source text as a Markdown block; what is no Python is `text`, and gets no colours of it."""
    return f"```{language}\n{source.strip()}\n```"


def error_line(error: BaseException) -> str:
    """Return an error as one line: its type and the first line of its text, cut where it is very long."""
    try:
        first = str(error).strip().split("\n", 1)[0].replace("```", "'''")  # it stands in a block of Markdown
    except Exception:  # an error of the learner's own, with a __str__ that fails
        first = ""
    first = first if len(first) <= _LONGEST else f"{first[: _LONGEST - 1]}…"
    return f"{type(error).__name__}: {first}" if first else type(error).__name__
