"""Training: the settings, the update, the loop, the checkpoint, the record. Chapters 05 and 06 read these modules."""

from labkit.measuring import Metrics, Predictions, evaluate, evaluation, predict
from labkit.training.config import Config
from labkit.training.fit import Run, fit, resume
from labkit.training.optimizers import make_optimizer
from labkit.training.projects import Project, loaders, prepared, project, rerun_project, resume_project
from labkit.training.schedule import Schedule, rate_at
from labkit.training.step import Outcome, update, windows

__all__ = [
    "Config",
    "Metrics",
    "Outcome",
    "Predictions",
    "Project",
    "Run",
    "Schedule",
    "evaluate",
    "evaluation",
    "fit",
    "loaders",
    "make_optimizer",
    "predict",
    "prepared",
    "project",
    "rate_at",
    "rerun_project",
    "resume",
    "resume_project",
    "update",
    "windows",
]
