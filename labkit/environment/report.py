"""What the examination of a computer says: lines that are words first, and colours nowhere."""

import html
import json
import textwrap
from dataclasses import asdict, dataclass, field
from typing import Literal

Mark = Literal["ok", "note", "problem"]
MEANING = "ok: nothing to do. note: it works, and could be better. problem: it would stop the course."
WIDTH = 100


@dataclass(frozen=True)
class Line:
    """One finding: the mark, the topic in a word or two, what was found, and what to do (empty for "ok")."""

    mark: Mark
    topic: str
    found: str
    action: str = ""


@dataclass(frozen=True, repr=False)
class Report:
    """All lines, and the evidence behind them as plain data. `print(report)` is text, a notebook shows a table."""

    lines: list[Line]
    evidence: dict = field(default_factory=dict)

    @property
    def is_ready(self) -> bool:
        """Whether nothing here would stop the course."""
        return all(line.mark != "problem" for line in self.lines)

    @property
    def verdict(self) -> str:
        """One sentence for all lines."""
        problems = sum(line.mark == "problem" for line in self.lines)
        notes = sum(line.mark == "note" for line in self.lines)
        if problems:
            return f"{_count(problems, 'problem')} to solve before the course can run here."
        return "Ready for the course." if not notes else f"Ready for the course, with {_count(notes, 'note')}."

    def __str__(self) -> str:
        topics = max((len(line.topic) for line in self.lines), default=0)
        blocks = []
        for line in self.lines:
            head = f"{line.mark:<7}  {line.topic:<{topics}}  "
            rest = " " * len(head)
            blocks.append(textwrap.fill(line.found, WIDTH, initial_indent=head, subsequent_indent=rest, **UNBROKEN))
            if line.action:
                first, rest = f"{rest}to do: ", rest + " " * len("to do: ")
                blocks.append(
                    textwrap.fill(line.action, WIDTH, initial_indent=first, subsequent_indent=rest, **UNBROKEN)
                )
        return "\n".join([*blocks, "", MEANING, self.verdict])

    __repr__ = __str__

    def as_json(self) -> str:
        """Return everything as one JSON object: ready, verdict, lines, evidence."""
        lines = [asdict(line) for line in self.lines]
        whole = {"ready": self.is_ready, "verdict": self.verdict, "lines": lines, "evidence": self.evidence}
        return json.dumps(whole, indent=2)

    def _repr_html_(self) -> str:
        rows = "".join(_row(line) for line in self.lines)
        head = "".join(f'<th style="text-align:left">{name}</th>' for name in ("", "what", "found", "what to do"))
        return (
            f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
            f"<p>{html.escape(MEANING)}</p><p><b>{html.escape(self.verdict)}</b></p>"
        )


# Paths and commands are to be copied: they are never broken in the middle.
UNBROKEN = {"break_long_words": False, "break_on_hyphens": False}


def _row(line: Line) -> str:
    mark = f"<b>{line.mark}</b>" if line.mark != "ok" else line.mark
    cells = (mark, *map(html.escape, (line.topic, line.found, line.action)))
    return "<tr>" + "".join(f'<td style="text-align:left">{cell}</td>' for cell in cells) + "</tr>"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
