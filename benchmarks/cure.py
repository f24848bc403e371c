"""How often `report.apply()` cures: the finding is gone, and the mended program reaches what its healthy twin reaches.

python -m benchmarks.cure                  # all programs of tests/faults whose remedy is mechanical
python -m benchmarks.cure --only clip --json
"""

import argparse
import json
import math
import multiprocessing
import time
import traceback
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor

import torch

from labkit.doctor import examine
from labkit.errors import LabkitError
from tests.faults.program import Program, corpus, seed, train

SHARE = 0.75  # of the damage must be made good


def built(build: Callable[[], dict]) -> dict:
    """Build a program with the first seed."""
    seed(0)
    return build()


def reached(program: Program, pieces: dict) -> float:
    """Train the pieces, and return what the program measures; minus infinity for NaN or an exception."""
    try:
        _, score = train(pieces, program.epochs)
        value = score if program.measure is None else float(program.measure(pieces))
    except Exception:  # the fault of some programs is that they raise
        return -math.inf
    return -math.inf if math.isnan(value) else value


def outcome(program: Program) -> tuple[str, str]:
    """Return "cured", "not cured" or "not found", and the figures."""
    report = examine(**built(program.build))
    if not any(finding.fault in (program.fault, *program.also) for finding in report.findings):
        return "not found", ", ".join(finding.fault for finding in report.findings) or "no finding"
    try:
        cure = report.apply()
    except LabkitError:
        return "not cured", "no mechanical fix"
    if not cure.proven:
        left = ", ".join(finding.fault for finding in cure.left.findings) or "nothing"
        return "not cured", f"left: {left}; {cure.comparison}"
    ill, healthy = (reached(program, built(build)) for build in (program.build, program.healthy))
    mended = reached(program, cure.program.pieces())
    damage = healthy - ill if math.isfinite(ill) else abs(healthy)
    enough = healthy - mended <= (1 - SHARE) * damage
    return "cured" if enough else "not cured", f"ill {ill:.3f}, mended {mended:.3f}, twin {healthy:.3f}"


def told(program: Program) -> tuple[str, str, str, float]:
    """Return the name of a program, what became of it, the figures, and how many seconds that took."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    begin = time.perf_counter()
    try:
        result, figures = outcome(program)
    except Exception:  # an error of the doctor is counted, not hidden
        result, figures = "not cured", f"the doctor failed\n{traceback.format_exc(limit=-3)}"
    return program.name, result, f"[{program.fault}]: {figures}", time.perf_counter() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="words of names, or labels, with commas between")
    parser.add_argument("--workers", type=int, default=2, help="how many programs are mended at once")
    parser.add_argument("--json", action="store_true", help="end with one JSON line")
    options = parser.parse_args()
    words = options.only.split(",")
    chosen = [
        program
        for program in corpus()
        if program.mechanical and any(word in program.name or word == program.fault for word in words)
    ]
    counts = {"cured": 0, "not cured": 0, "not found": 0}
    with ProcessPoolExecutor(options.workers, multiprocessing.get_context("spawn")) as pool:
        results = pool.map(told, chosen) if options.workers > 1 else map(told, chosen)
        for number, (name, result, figures, seconds) in enumerate(results, 1):
            counts[result] += 1
            print(f"{number:3}/{len(chosen)} {result:10} {name} {figures} ({seconds:.1f} s)", flush=True)
    table = {"curable": sum(counts.values()), **{name.replace(" ", "_"): count for name, count in counts.items()}}
    print("\n".join(f"{name:12}{value}" for name, value in table.items()))
    if options.json:
        print(json.dumps(table))


if __name__ == "__main__":
    main()
