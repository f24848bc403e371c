"""The clinic: real small trainings with one planted fault each; who looks at curves and code can name it.

from labkit.doctor import clinic

clinic.CASES                          name -> Case, more than thirty; `clinic.find("wren")` takes one
clinic.cases(level=1)                 the cases of a level, 1 to 3; `clinic.with_label("lr_too_high")` those of a fault
case.story, case.code, case.diff()    what a colleague reports, the script that runs, the cure as code
clinic.run(case, seed=0)              an Observation: curves, gradients, movements, activations; `cured=True` without
                                      the fault
clinic.pieces(case)                   what `labkit.doctor.examine(**…)` takes
clinic.reply(case, seen, "lr_too_low")  the answer to a guess: right or wrong, and which measurement says so
clinic.daily_mix("2026-03-01")        three cases for a day
labkit.show.clinic_figure(seen)       the picture of an Observation; `labkit.show.clinic_control()` to play
"""

from labkit.doctor.clinic.answers import Reply, reply
from labkit.doctor.clinic.case import Case, Script
from labkit.doctor.clinic.cases import CASES, cases, daily_mix, find, with_label
from labkit.doctor.clinic.observation import Histogram, Observation
from labkit.doctor.clinic.observing import run
from labkit.doctor.clinic.running import pieces, report
from labkit.doctor.clinic.words import AREAS, WORDS, label_of

__all__ = [
    "AREAS",
    "CASES",
    "WORDS",
    "Case",
    "Histogram",
    "Observation",
    "Reply",
    "Script",
    "cases",
    "daily_mix",
    "find",
    "label_of",
    "pieces",
    "reply",
    "report",
    "run",
    "with_label",
]
