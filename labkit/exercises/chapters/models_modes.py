"""Chapter 04, fourth part: scores as an evaluation wants them."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from labkit.exercises import families
from labkit.exercises.declaration import Misconception
from labkit.exercises.drawing import normal
from labkit.exercises.exercise import Exercise


def run_scores(answer: Any, model: nn.Module, inputs: Tensor) -> Any:
    """Call the answer: what it returns, whether that has a graph, and what became of the model."""
    before = model[1].running_mean.clone()
    result = families.call(answer, model, inputs)
    if not isinstance(result, Tensor):
        return result
    return {
        "scores": result.detach(),
        "the scores drag a graph along": result.requires_grad,
        "the running statistics stood still": bool(torch.equal(before, model[1].running_mean)),
        "mode of the model afterwards": "training" if model.training else "evaluation",
    }


def _scores(
    use: Callable[[nn.Module, Tensor], Tensor], leave: Callable[[nn.Module, bool], Any]
) -> Callable[[nn.Module, Tensor], Tensor]:
    """Return an answer that computes in one way and leaves the model in another."""

    def evaluation_scores(model: nn.Module, inputs: Tensor) -> Tensor:
        was_training = model.training
        result = use(model, inputs)
        leave(model, was_training)
        return result

    return evaluation_scores


def _evaluated(model: nn.Module, inputs: Tensor) -> Tensor:
    with torch.no_grad():
        return model.eval()(inputs)


def _only_without_graph(model: nn.Module, inputs: Tensor) -> Tensor:
    with torch.no_grad():
        return model(inputs)


def _model(is_training: bool) -> nn.Sequential:
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 3))
    model[1].running_mean.fill_(0.2)
    return model.train(is_training)


EVALUATION_SCORES = Exercise(
    name="evaluation_scores",
    prompt="Return the scores that a model gives in an evaluation: dropout does nothing, batch normalisation uses what "
    "it has collected and collects nothing, and no graph is recorded. Afterwards the model is in the mode in which it "
    "was before.",
    stub='''def evaluation_scores(model, inputs):
    """Return model(inputs) as in an evaluation, and leave the model in the mode in which it was."""
    return ...  # your turn''',
    solved='''def evaluation_scores(model, inputs):
    """Return model(inputs) as in an evaluation, and leave the model in the mode in which it was."""
    was_training = model.training
    model.eval()
    with torch.no_grad():
        scores = model(inputs)
    model.train(was_training)
    return scores''',
    hints=(
        "Two switches that know nothing of each other: one for the layers, one for the recording.",
        "`model.eval()` and `torch.no_grad()`. Which attribute says in which mode a model is?",
        "Read `model.training` first. `model.train(mode)` takes True or False.",
    ),
    cases=lambda generator: [
        (_model(True), normal(generator, 6, 4)),
        (_model(False), normal(generator, 3, 4)),
        (_model(True), normal(generator, 1, 4)),
    ],
    run=run_scores,
    praise="Both switches, and nobody notices that you were there.",
    misconceptions=(
        Misconception(
            "eval alone",
            _scores(lambda model, inputs: model.eval()(inputs), lambda model, was: model.train(was)),
            "The numbers are right, and each result drags its graph along: over a whole evaluation that is the memory "
            "of a training. `eval()` is a message to layers; recording is stopped by `torch.no_grad()`.",
        ),
        Misconception(
            "no_grad alone",
            _scores(_only_without_graph, lambda model, was: None),
            "Nothing is recorded, but dropout goes on throwing dice, and batch normalisation mixes this batch into its "
            "statistics. `no_grad()` tells the layers nothing.",
        ),
        Misconception(
            "left in evaluation mode",
            _scores(_evaluated, lambda model, was: None),
            "The scores are right. But whoever called you in the middle of a training goes on in evaluation mode: no "
            "dropout, statistics that stand still. No error will say so.",
        ),
        Misconception(
            "put into training mode, whatever it was",
            _scores(_evaluated, lambda model, was: model.train()),
            "`model.train()` at the end is right for a model in training. Yours may be in use, in evaluation mode: put "
            "back what was there.",
        ),
        Misconception(
            "probabilities instead of scores",
            _scores(lambda model, inputs: _evaluated(model, inputs).softmax(1), lambda model, was: model.train(was)),
            "The order stays, but these are no scores any more: a loss that gets them takes the softmax twice.",
        ),
    ),
)
