"""Examine a training program before, or instead of, training it."""

import time
from collections.abc import Callable, Iterable
from typing import Any

import torch

from labkit.doctor.cure import Cure, cure
from labkit.doctor.evidence import Evidence
from labkit.doctor.finding import Finding, Report, ordered
from labkit.doctor.loading import in_this_process
from labkit.doctor.probe import data, evaluation, objective, updates
from labkit.doctor.probe import model as network
from labkit.doctor.program import Program
from labkit.doctor.recording import record, record_evaluation
from labkit.doctor.rules import data as data_rules
from labkit.doctor.rules import evaluation as evaluation_rules
from labkit.doctor.rules import model as model_rules
from labkit.doctor.rules import objective as objective_rules
from labkit.doctor.rules import raised as raised_rules
from labkit.doctor.rules import updates as updates_rules
from labkit.doctor.trial import Trials
from labkit.doctor.undisturbed import undisturbed

RULES = [
    *raised_rules.RULES,
    *updates_rules.RULES,
    *model_rules.RULES,
    *objective_rules.RULES,
    *data_rules.RULES,
    *evaluation_rules.RULES,
]


def examine(
    model: torch.nn.Module,
    loss_fn: Callable[[Any, Any], torch.Tensor],
    optimizer: torch.optim.Optimizer,
    train_loader: Iterable,
    val_loader: Iterable | None = None,
    scheduler: Any = None,
    train_step: Callable | None = None,
    evaluate: Callable | None = None,
    **context: Any,
) -> Report:
    """Run the pieces of a training program on copies for a few steps and say what is wrong with it, if anything.

    train_step: `train_step(model, batch, loss_fn, optimizer)`; evaluate: `evaluate(model, loader)`, higher is better.
    context: whatever else the steps use (a scaler, a second optimizer). Nothing of the caller's changes: weights,
    optimizer, gradients, modes, random numbers and loaders are as before. Raises LabkitError if a piece cannot be what
    its name says; what the pieces raise themselves becomes the first finding.
    """
    begin = time.perf_counter()
    program = Program(model, loss_fn, optimizer, train_loader, val_loader, scheduler, train_step, evaluate, context)
    with undisturbed(program):
        untouched = in_this_process(program.copy())  # the original is not even read while the pieces run
        evidence = gather(untouched)
        findings = confirmed(untouched, diagnose(evidence))
    return Report(ordered(findings), program, evidence.notes, time.perf_counter() - begin, _cured)


def _cured(report: Report) -> Cure:
    return cure(report, examine)


def gather(program: Program) -> Evidence:
    """Run all probes and return what they saw."""
    recording = record(program.copy())
    if recording.error is None and program.val_loader is not None:
        record_evaluation(recording, recording.program.val_loader)
    probes = (data, network, objective, updates, evaluation)
    return Evidence(*(probe.look(program, recording) for probe in probes), error=recording.error)


def diagnose(evidence: Evidence) -> list[Finding]:
    """Return what every rule finds, before anything is confirmed."""
    return [finding for rule in RULES if (finding := rule(evidence)) is not None]


def confirmed(program: Program, findings: list[Finding]) -> list[Finding]:
    """Drop the findings that a paired trial does not confirm.

    Where something is proven already, trials wait: first mend that, then examine again. And what a confirmed finding
    explains is not tried by itself.
    """
    proven = [finding for finding in findings if not finding.confirm]
    if any(finding.severity == "fail" for finding in proven):
        return proven
    trials = Trials(program)
    sure: list[Finding] = []
    for finding in sorted(findings, key=lambda finding: -finding.weight):
        explained = any(finding.fault in cause.explains for cause in sure)
        if finding.confirm and not explained and _confirm(trials, finding):
            sure.append(finding)
    return proven + sure


def _confirm(trials: Trials, finding: Finding) -> bool:
    """Try the fixes of a finding until one helps; that one stays its `mend`."""
    for mend, code in ((finding.mend, finding.fix), *finding.instead):
        comparison = trials.compare(mend, finding.judge, finding.updates)
        if comparison.helps:
            finding.mend, finding.fix = mend, code or finding.fix
            finding.what += f" A trial of the fix: {comparison}."
            return True
    return False
