"""A table that reads well in a terminal and in a notebook: rows are dicts with the same keys."""

import html
from dataclasses import dataclass


@dataclass(frozen=True)
class Table:
    """Rows of plain values under a caption; numbers stand to the right, text to the left.

    rows: one dict a row, all with the keys of the first. caption: one sentence.
    """

    rows: list[dict]
    caption: str = ""

    @property
    def columns(self) -> list[str]:
        """The names of the columns, in order."""
        return list(self.rows[0]) if self.rows else []

    def __len__(self) -> int:
        return len(self.rows)

    def _numeric(self) -> list[bool]:
        """Tell for each column whether it holds numbers and nothing else."""
        return [all(_is_number(row[name]) for row in self.rows) for name in self.columns]

    def __str__(self) -> str:
        if not self.rows:
            return self.caption
        cells = [[str(name) for name in self.columns]]
        cells += [[_text(row[name]) for name in self.columns] for row in self.rows]
        widths = [max(len(line[column]) for line in cells) for column in range(len(self.columns))]
        numeric, lines = self._numeric(), []
        for line in cells:
            padded = [
                cell.rjust(width) if right else cell.ljust(width)
                for cell, width, right in zip(line, widths, numeric, strict=True)
            ]
            lines.append("  ".join(padded).rstrip())
        return "\n".join(([self.caption] if self.caption else []) + lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        align = ["right" if right else "left" for right in self._numeric()]
        head = "".join(
            f'<th style="text-align:{side}">{html.escape(str(name))}</th>'
            for name, side in zip(self.columns, align, strict=True)
        )
        body = "".join(
            "<tr>"
            + "".join(
                f'<td style="text-align:{side}">{html.escape(_text(row[name]))}</td>'
                for name, side in zip(self.columns, align, strict=True)
            )
            + "</tr>"
            for row in self.rows
        )
        caption = f"<caption>{html.escape(self.caption)}</caption>" if self.caption else ""
        return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _text(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    # One line, and nothing that steers the terminal: a cell may hold what somebody typed.
    return "".join(letter if letter.isprintable() else " " for letter in str(value))
