"""How long `import labkit` and `labkit --help` take, each time in a fresh process.

    python -m benchmarks.imports [--rounds 9] [--json]

import_ms: milliseconds beyond Python's own start. help_seconds: the whole command. imports_torch: whether
`import labkit` loads torch, which would take seconds.
"""

import argparse
import json
import subprocess
import sys

from benchmarks.measuring import median_seconds
from labkit.table import Table

ROUNDS = 9
PROGRAMS = {
    "python": ["-c", "pass"],
    "import labkit": ["-c", "import labkit"],
    "labkit --help": ["-m", "labkit", "--help"],
}


def fresh(arguments: list[str]) -> str:
    """Run Python anew and return what it prints."""
    return subprocess.run([sys.executable, *arguments], check=True, capture_output=True, text=True).stdout


def imports_torch() -> bool:
    """Tell whether `import labkit` loads torch."""
    return fresh(["-c", "import sys, labkit; print('torch' in sys.modules)"]).strip() == "True"


def main() -> None:
    """Measure, print a table and, if asked, one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="how often each is started")
    parser.add_argument("--json", action="store_true", help="end with one JSON line")
    options = parser.parse_args()
    seconds = median_seconds(
        {name: lambda arguments=arguments: fresh(arguments) for name, arguments in PROGRAMS.items()}, options.rounds
    )
    loads = imports_torch()
    rows = [{"started": name, "milliseconds": round(1000 * value, 1)} for name, value in seconds.items()]
    print(Table(rows, f"Medians of {options.rounds} fresh processes; torch {'is' if loads else 'is not'} loaded."))
    if options.json:
        figures = {
            "import_ms": round(1000 * (seconds["import labkit"] - seconds["python"]), 1),
            "imports_torch": loads,
            "help_seconds": round(seconds["labkit --help"], 3),
        }
        print(json.dumps(figures))


if __name__ == "__main__":
    main()
