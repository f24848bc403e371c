"""Pictures and controls: every figure function returns the figure, its data and one sentence that says it."""

from labkit.show.accumulation import accumulation, accumulation_picture
from labkit.show.broadcasting import broadcasting
from labkit.show.clinic import Clinic, clinic_control
from labkit.show.clinic_figure import clinic_figure
from labkit.show.controls import Control, answers_control
from labkit.show.convolution import convolution, convolution_control
from labkit.show.figures import comparison, confusion, curves, gradient_norms, rates
from labkit.show.graph import graph, graph_control, graph_steps
from labkit.show.grids import answer, augmented, mistakes, samples
from labkit.show.initialisation import initialisation, initialisation_control
from labkit.show.live import LiveTraining, live_picture, live_training
from labkit.show.loading import loading_profile
from labkit.show.loss_surface import loss_surface, loss_surface_picture
from labkit.show.picture import Picture
from labkit.show.progress_map import progress_control, progress_map
from labkit.show.quiz import Quiz, quiz
from labkit.show.resuming import resume_ladder, resuming, resuming_picture
from labkit.show.runs import runs_curves
from labkit.show.schedules import schedule_explorer, schedule_picture
from labkit.show.speed import beside, calls, timelines, workers_control, workers_picture
from labkit.show.storage import storage_strip
from labkit.show.switches import switches, switches_control
from labkit.show.tensor_controls import broadcasting_control, storage_control
from labkit.show.trials import learning_rate_trial, memory_estimate, overfit_trial, step_profile
from labkit.show.underflow import underflow, underflow_picture

__all__ = [
    "Clinic",
    "Control",
    "LiveTraining",
    "Picture",
    "Quiz",
    "accumulation",
    "accumulation_picture",
    "answer",
    "answers_control",
    "augmented",
    "beside",
    "broadcasting",
    "broadcasting_control",
    "calls",
    "clinic_control",
    "clinic_figure",
    "comparison",
    "confusion",
    "convolution",
    "convolution_control",
    "curves",
    "gradient_norms",
    "graph",
    "graph_control",
    "graph_steps",
    "initialisation",
    "initialisation_control",
    "learning_rate_trial",
    "live_picture",
    "live_training",
    "loading_profile",
    "loss_surface",
    "loss_surface_picture",
    "memory_estimate",
    "mistakes",
    "overfit_trial",
    "progress_control",
    "progress_map",
    "quiz",
    "rates",
    "resume_ladder",
    "resuming",
    "resuming_picture",
    "runs_curves",
    "samples",
    "schedule_explorer",
    "schedule_picture",
    "step_profile",
    "storage_control",
    "storage_strip",
    "switches",
    "switches_control",
    "timelines",
    "underflow",
    "underflow_picture",
    "workers_control",
    "workers_picture",
]
