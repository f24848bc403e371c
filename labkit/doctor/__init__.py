"""The doctor: why does a model not learn, and what does an error mean?

- `examine(model, loss_fn, optimizer, train_loader, ...)` looks at a training program and reports what is wrong with it.
- `explain` says under an error's traceback what happened, and how to mend it.
"""

from labkit.doctor.examine import examine
from labkit.doctor.finding import FaultError, Finding, Report
from labkit.doctor.program import Program

__all__ = ["FaultError", "Finding", "Program", "Report", "examine"]
