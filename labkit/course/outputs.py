"""Make executed outputs storable: equal from build to build, and with nothing of the machine that made them."""

import re
import sys
from pathlib import Path

from nbformat import NotebookNode

WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
COURSE, PYTHON, HOME = PLACEHOLDERS = ("[course]", "[python]", "[home]")
ADDRESS = re.compile(r"\bat 0x[0-9a-fA-F]+")
CELL_FILE = re.compile(r"[^\s\"'<>]*ipykernel_\d+[/\\]\d+\.py")
LAST_ON_THE_LINE = re.compile(r"[^\n]+")


def clean(outputs: list[NotebookNode], root: Path) -> list[NotebookNode]:
    """Return the outputs of one cell as they are stored.

    Neighbouring pieces of one stream become one; lines that rewrote themselves keep what a terminal would show at the
    end; addresses and absolute paths are replaced; views of widgets go, because without a kernel they are dead.
    """
    kept = []
    for output in merge_streams(outputs):
        if output.output_type == "stream":
            output.text = without_machine(as_shown(output.text), root)
        elif "data" in output:
            output.data.pop(WIDGET_VIEW, None)
            for kind, content in output.data.items():
                if isinstance(content, str) and not kind.startswith("image/png"):
                    output.data[kind] = without_machine(content, root)
        if output.output_type == "stream" or output.get("data") or output.output_type == "error":
            kept.append(output)
    return kept


def merge_streams(outputs: list[NotebookNode]) -> list[NotebookNode]:
    """Join neighbouring outputs of the same stream: where a kernel cuts a long print is chance."""
    merged: list[NotebookNode] = []
    for output in outputs:
        previous = merged[-1] if merged else None
        if previous and output.output_type == previous.output_type == "stream" and output.name == previous.name:
            previous.text += output.text
        else:
            merged.append(output)
    return merged


def as_shown(text: str) -> str:
    """Return what a terminal shows in the end: a carriage return goes back, and what follows overwrites."""
    return LAST_ON_THE_LINE.sub(lambda line: _overwritten(line.group()), text)


def _overwritten(line: str) -> str:
    if "\r" not in line:
        return line
    shown = ""
    for part in line.split("\r"):
        shown = part + shown[len(part) :]
    return shown.rstrip(" ")  # blanks that erased something


def without_machine(text: str, root: Path) -> str:
    """Replace memory addresses and the paths of this machine by fixed words."""
    text = ADDRESS.sub("at 0x...", text)
    text = CELL_FILE.sub("cell.py", text)
    for path, word in _places(root):
        text = text.replace(path, word)
    return text


def _places(root: Path) -> list[tuple[str, str]]:
    places = {str(root): COURSE, str(Path.home()): HOME}
    if sys.prefix != sys.base_prefix:  # a virtual environment; a system Python has a prefix as short as /usr
        places[sys.prefix] = PYTHON
    longest_first = sorted(places.items(), key=lambda place: -len(place[0]))
    return [(path, word) for path, word in longest_first if len(Path(path).parts) > 1]
