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
    """Call the answer: what it returns, whether a graph was recorded, and what became of the model."""
    before, modes = model[1].running_mean.clone(), _modes(model)
    recorded = []
    hook = model[-1].register_forward_hook(lambda *_: recorded.append(torch.is_grad_enabled()))
    try:
        result = families.call(answer, model, inputs)
    finally:
        hook.remove()
    if not isinstance(result, Tensor):
        return result
    return {
        "scores": result.detach(),
        "a graph was recorded": any(recorded),
        "the scores drag it along": result.requires_grad,
        "the running statistics stood still": bool(torch.equal(before, model[1].running_mean)),
        "layers that are in another mode than before": [
            name or "the model itself" for name, mode in _modes(model).items() if mode != modes[name]
        ],
    }


def _modes(model: nn.Module) -> dict[str, bool]:
    """Return for each module of a model whether it is in training mode."""
    return {name: module.training for name, module in model.named_modules()}


def _put_back(model: nn.Module, modes: dict[str, bool]) -> None:
    for name, module in model.named_modules():
        module.training = modes[name]


def _scores(
    use: Callable[[nn.Module, Tensor], Tensor], leave: Callable[[nn.Module, dict[str, bool]], Any] = _put_back
) -> Callable[[nn.Module, Tensor], Tensor]:
    """Return an answer that computes in one way and leaves the model in another."""

    def evaluation_scores(model: nn.Module, inputs: Tensor) -> Tensor:
        modes = _modes(model)
        result = use(model, inputs)
        leave(model, modes)
        return result

    return evaluation_scores


def _evaluated(model: nn.Module, inputs: Tensor) -> Tensor:
    with torch.no_grad():
        return model.eval()(inputs)


def _only_without_graph(model: nn.Module, inputs: Tensor) -> Tensor:
    with torch.no_grad():
        return model(inputs)


def _model(is_training: bool, *, is_frozen: bool = False) -> nn.Sequential:
    """Return a model in a mode; where its normalisation is frozen, that is in evaluation mode whatever the rest is."""
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 3))
    model[1].running_mean.fill_(0.2)
    model.train(is_training)[1].train(is_training and not is_frozen)
    return model


EVALUATION_SCORES = Exercise(
    name="evaluation_scores",
    prompt="Return the scores that a model gives in an evaluation: dropout does nothing, batch normalisation uses what "
    "it has collected and collects nothing, and no graph is recorded. Afterwards every layer is in the mode in which "
    "it was before: a layer whose statistics are frozen stays in evaluation mode while the model trains.",
    stub='''def evaluation_scores(model, inputs):
    """Return model(inputs) as in an evaluation, and leave every layer in the mode in which it was."""
    return ...  # your turn''',
    solved='''def evaluation_scores(model, inputs):
    """Return model(inputs) as in an evaluation, and leave every layer in the mode in which it was."""
    modes = {module: module.training for module in model.modules()}
    model.eval()
    with torch.no_grad():
        scores = model(inputs)
    for module, mode in modes.items():
        module.training = mode
    return scores''',
    hints=(
        "Two switches that know nothing of each other: one for the layers, one for the recording.",
        "`model.eval()` and `torch.no_grad()`. Which attribute says in which mode a layer is?",
        "`model.train(mode)` sets one mode for all layers; some may have had the other. `model.modules()` gives the "
        "model and all its layers: note the `training` of each first, and write it back.",
    ),
    cases=lambda generator: [
        (_model(True), normal(generator, 6, 4)),
        (_model(False), normal(generator, 3, 4)),
        (_model(True, is_frozen=True), normal(generator, 5, 4)),
        (_model(True), normal(generator, 1, 4)),
    ],
    run=run_scores,
    praise="Both switches, and nobody notices that you were there.",
    misconceptions=(
        Misconception(
            "eval alone",
            _scores(lambda model, inputs: model.eval()(inputs)),
            "The numbers are right, and each result drags its graph along: over a whole evaluation that is the memory "
            "of a training. `eval()` is a message to layers; recording is stopped by `torch.no_grad()`.",
        ),
        Misconception(
            "no_grad alone",
            _scores(_only_without_graph),
            "Nothing is recorded, but dropout goes on throwing dice, and batch normalisation mixes this batch into its "
            "statistics. `no_grad()` tells the layers nothing.",
        ),
        Misconception(
            "left in evaluation mode",
            _scores(_evaluated, lambda model, modes: None),
            "The scores are right. But whoever called you in the middle of a training goes on in evaluation mode: no "
            "dropout, statistics that stand still. No error will say so.",
        ),
        Misconception(
            "put into training mode, whatever it was",
            _scores(_evaluated, lambda model, modes: model.train()),
            "`model.train()` at the end is right for a model in training. Yours may be in use, in evaluation mode: put "
            "back what was there.",
        ),
        Misconception(
            "one mode for all layers",
            _scores(_evaluated, lambda model, modes: model.train(modes[""])),
            "`model.train(mode)` goes through all layers. One was in evaluation mode on purpose, its statistics "
            "frozen: after your evaluation they move again, and no error says so. Put back the mode of each.",
        ),
        Misconception(
            "a graph is recorded, and cut off from the result",
            _scores(lambda model, inputs: model.eval()(inputs).detach()),
            "`detach()` gives scores without a graph, but until then everything that a backward pass would need was "
            "kept: the memory of a training, batch by batch. `torch.no_grad()` records nothing in the first place.",
        ),
        Misconception(
            "probabilities instead of scores",
            _scores(lambda model, inputs: _evaluated(model, inputs).softmax(1)),
            "The order stays, but these are no scores any more: a loss that gets them takes the softmax twice.",
        ),
    ),
)
