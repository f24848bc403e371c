"""How often the doctor is right: faulty programs whose fault it must name first, healthy ones that it must leave alone.

python -m benchmarks.doctor                    # the corpus of tests/faults
python -m benchmarks.doctor --cases FOLDER     # as well as case_*.py and ok_*.py files in a folder
python -m benchmarks.doctor --only clip --json
"""

import argparse
import importlib.util
import json
import random
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import numpy
import torch

from labkit.doctor import examine
from labkit.doctor.finding import Report


@dataclass
class Outcome:
    """What the doctor said of one program with one seed. expected: labels that are right, empty for a healthy one."""

    name: str
    expected: tuple[str, ...]
    seed: int
    findings: list[tuple[str, str]] = field(default_factory=list)
    seconds: float = 0.0
    crash: str = ""

    @property
    def first_right(self) -> bool:
        """Whether the first finding is the fault."""
        return bool(self.findings) and self.findings[0][0] in self.expected

    @property
    def any_right(self) -> bool:
        """Whether any finding is the fault."""
        return any(fault in self.expected for fault, _ in self.findings)

    def false(self, severity: str) -> bool:
        """Whether it is a healthy program with a finding of this severity."""
        return not self.expected and any(said == severity for _, said in self.findings)


def programs(folder: Path | None, only: str) -> Iterator[tuple[str, tuple[str, ...], Callable[[], dict]]]:
    """Yield (name, right labels, build) of every program: the faulty ones, their healthy twins, the healthy ones."""
    from tests.faults.program import corpus

    for program in corpus():
        if any(word in program.name or word == program.fault for word in only.split(",")):
            yield program.name, (program.fault, *program.also) if program.fault != "none" else (), program.build
            if program.healthy is not None and program.fault != "none":
                yield f"{program.name} (mended)", (), program.healthy
    for file in sorted(folder.glob("*.py")) if folder else ():
        if file.name.startswith(("case_", "ok_")) and any(word in file.name for word in only.split(",")):
            specification = importlib.util.spec_from_file_location(file.stem, file)
            module = importlib.util.module_from_spec(specification)
            sys.modules[file.stem] = module
            specification.loader.exec_module(module)
            yield file.stem, (module.FAULT,) if module.FAULT != "none" else (), module.build
            yield f"{file.stem} (mended)", (), module.healthy


def outcome(name: str, expected: tuple[str, ...], build: Callable[[], dict], seed: int) -> Outcome:
    """Build a program with a seed and let the doctor examine it."""
    random.seed(seed)
    numpy.random.seed(seed)
    torch.manual_seed(seed)
    result = Outcome(name, expected, seed)
    pieces = build()
    begin = time.perf_counter()
    try:
        report: Report = examine(**pieces)
        result.findings = [(finding.fault, finding.severity) for finding in report.findings]
    except Exception:  # a doctor that raises is counted, not hidden
        result.crash = traceback.format_exc(limit=-3)
    result.seconds = time.perf_counter() - begin
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=Path, help="a folder of case_*.py and ok_*.py files")
    parser.add_argument("--only", default="", help="words of names, or labels, with commas between")
    parser.add_argument("--seeds", type=int, default=3, help="seeds for healthy programs (faulty ones get the first)")
    parser.add_argument("--all", action="store_true", help="print every program, not only those it gets wrong")
    parser.add_argument("--json", action="store_true", help="end with one JSON line")
    options = parser.parse_args()

    faulty: list[Outcome] = []
    healthy: list[Outcome] = []
    for name, expected, build in programs(options.cases, options.only):
        for seed in range(1 if expected else options.seeds):
            result = outcome(name, expected, build, seed)
            (faulty if expected else healthy).append(result)
            wrong = not result.first_right if expected else bool(result.findings)
            if options.all or wrong or result.crash:
                said = ", ".join(f"{severity} {fault}" for fault, severity in result.findings) or "nothing"
                mark = "WRONG" if wrong else "right"
                print(
                    f"{mark} {name} [{' or '.join(expected) or 'healthy'}] {seed}: {said} ({result.seconds:.1f} s)",
                    flush=True,
                )
                if result.crash:
                    print(result.crash, flush=True)
    everything = faulty + healthy
    table = {
        "faulty": len(faulty),
        "first_finding_right": sum(result.first_right for result in faulty),
        "any_finding_right": sum(result.any_right for result in faulty),
        "healthy": len(healthy),
        "false_fail": sum(result.false("fail") for result in healthy),
        "false_warn": sum(result.false("warn") for result in healthy),
        "crashes": sum(bool(result.crash) for result in everything),
        "median_seconds": round(median(result.seconds for result in everything), 2) if everything else None,
        "longest_seconds": round(max(result.seconds for result in everything), 2) if everything else None,
    }
    for key, value in table.items():
        print(f"{key:22}{value}")
    if options.json:
        print(json.dumps(table))


if __name__ == "__main__":
    main()
