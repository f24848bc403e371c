"""Ask a Python process of its own: what breaks or hangs there does not break or hang here."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

MARK = "labkit-answer:"
REPOSITORY = Path(__file__).resolve().parents[2]


def ask(code: str, python: str = sys.executable, folder: Path | None = None, seconds: float = 120) -> dict:
    """Run `code`, which sets a dict `answer`, in another Python process, and return that dict.

    python: the interpreter; folder: where it runs, which is also the first place that it imports from.
    What goes wrong is an answer as well: {"error": one sentence}.
    """
    program = f"import json\n{code}\nprint({MARK!r} + json.dumps(answer))"
    try:
        finished = subprocess.run(
            [python, "-c", program],
            cwd=folder,
            capture_output=True,
            text=True,
            encoding="utf-8",
            errors="replace",
            timeout=seconds,
            stdin=subprocess.DEVNULL,
            env=os.environ | {"PYTHONIOENCODING": "utf-8"},
        )
    except subprocess.TimeoutExpired:
        return {"error": f"no answer within {seconds:.0f} seconds"}
    except OSError as error:
        return {"error": f"{python} cannot be started: {error.strerror}"}
    answers = [line for line in finished.stdout.splitlines() if line.startswith(MARK)]
    if answers:
        return json.loads(answers[-1].removeprefix(MARK))
    return {"error": _reason(finished)}


def _reason(finished: subprocess.CompletedProcess) -> str:
    """Return why there is no answer: the last line of the traceback, or how the process ended."""
    if finished.returncode < 0:
        return f"the process was ended by {signal.Signals(-finished.returncode).name}"
    lines = finished.stderr.strip().splitlines()
    return lines[-1].strip() if lines else f"the process ended with status {finished.returncode}"
