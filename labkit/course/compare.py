"""Compare two notebooks: is the stored one what a fresh build gives?"""

import re

from nbformat import NotebookNode

IGNORED = "nbval-ignore-output"
NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e[+-]?\d+)?")


def difference(stored: NotebookNode, fresh: NotebookNode) -> str:
    """Return a sentence about the first cell that differs, or "" where none does.

    Not compared: pictures (their bytes differ between machines), what is printed to stderr, and the outputs of cells
    tagged `nbval-ignore-output`. Sources, ids and metadata are compared always.
    """
    if text := text_difference(stored, fresh):
        return text
    for number, (old, new) in enumerate(zip(stored.cells, fresh.cells, strict=True), start=1):
        if old.cell_type == "code" and not is_ignored(old):
            before, after = _compared(old), _compared(new)
            if before != after:
                return f"{_called(number, old)} gives another output.\n{_first_change(before, after)}"
    return ""


def text_difference(stored: NotebookNode, fresh: NotebookNode) -> str:
    """Return a sentence about the first difference in anything but outputs, or "" where none is."""
    if stored.metadata != fresh.metadata:
        return f"The metadata differs.\n{_first_change([str(stored.metadata)], [str(fresh.metadata)])}"
    for number, (old, new) in enumerate(zip(stored.cells, fresh.cells, strict=False), start=1):
        if (old.cell_type, old.source) != (new.cell_type, new.source):
            return f"{_called(number, old)} has another text.\n{_first_change([old.source], [new.source])}"
        if (old.get("id"), old.metadata) != (new.get("id"), new.metadata):
            changed = _first_change([f"{old.get('id')} {old.metadata}"], [f"{new.id} {new.metadata}"])
            return f"{_called(number, old)} has another id or other metadata.\n{changed}"
    if len(stored.cells) != len(fresh.cells):
        return f"The stored notebook has {len(stored.cells)} cells, a fresh build {len(fresh.cells)}."
    return ""


def is_unchanged(stored: NotebookNode, fresh: NotebookNode) -> bool:
    """Return whether storing `fresh` would be noise: all is equal, pictures too, but for numbers in ignored cells."""
    if text_difference(stored, fresh):
        return False
    return all(
        _without_numbers(old) == _without_numbers(new) if is_ignored(old) else old.get("outputs") == new.get("outputs")
        for old, new in zip(stored.cells, fresh.cells, strict=True)
    )


def is_ignored(cell: NotebookNode) -> bool:
    """Return whether the cell is tagged as one whose outputs depend on the machine."""
    return IGNORED in cell.metadata.get("tags", [])


def _compared(cell: NotebookNode) -> list[str]:
    """Return what is compared of a cell, in order: a text for each stream and each kind of data, as files sort them."""
    texts = []
    for output in cell.outputs:
        if output.output_type == "stream":
            if output.name != "stderr":
                texts.append(output.text)
        else:
            texts += [
                f"{kind}:\n{data}" for kind, data in sorted(output.get("data", {}).items()) if "image/" not in kind
            ]
    return texts


def _without_numbers(cell: NotebookNode) -> list[str]:
    pictures = [
        data for output in cell.outputs for kind, data in sorted(output.get("data", {}).items()) if "image/" in kind
    ]
    return [NUMBER.sub("0", text) for text in _compared(cell)] + pictures


def _called(number: int, cell: NotebookNode) -> str:
    first_line = cell.source.split("\n", 1)[0]
    return f"Cell {number} (`{first_line[:60]}`)"


def _first_change(before: list[str], after: list[str]) -> str:
    """Return the first lines that differ, one under the other."""
    old, new = "\n".join(before).splitlines(), "\n".join(after).splitlines()
    shared = min(len(old), len(new))
    line = next((index for index in range(shared) if old[index] != new[index]), shared)
    left = old[line] if line < len(old) else "(nothing more)"
    right = new[line] if line < len(new) else "(nothing more)"
    return f"  stored: {left}\n  fresh:  {right}"
