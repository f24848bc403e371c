"""How a rule is written down: the words by which it knows its error, and a function that finds the reason."""

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from labkit.doctor.explain.explanation import Reason
from labkit.doctor.explain.situation import Situation

Find = Callable[[re.Match, Situation], Reason | None]


class Rule(NamedTuple):
    """row: the kind of error it explains. types: the names of the errors. patterns: what their text contains."""

    row: str
    types: tuple[str, ...]
    patterns: tuple[re.Pattern, ...]
    find: Find

    def reason(self, situation: Situation) -> Reason | None:
        """Return the reason, None if this is another kind of error or the rule cannot tell."""
        if self.types != ("*",) and (situation.raised.type not in self.types or situation.raised.is_users_own):
            return None  # what the user raised is in the user's words
        matches = (pattern.search(situation.raised.text) for pattern in self.patterns)
        match = next(filter(None, matches), None)
        return self.find(match, situation) if match else None


_RULES: list[Rule] = []


def rules() -> Iterator[Rule]:
    """Yield the rules in the order in which they were written down."""
    yield from _RULES


def explains(row: str, types: str, *patterns: str) -> Callable[[Find], Find]:
    """Write a function down as the rule for a kind of error.

    types: names of error types, separated by spaces, "*" for all of them. patterns: regular expressions, one of which
    has to be found in the text of the error. The function gets the match and the situation.
    """

    def write_down(find: Find) -> Find:
        compiled = tuple(re.compile(pattern, re.DOTALL) for pattern in patterns)
        _RULES.append(Rule(row, tuple(types.split()), compiled, find))
        return find

    return write_down
