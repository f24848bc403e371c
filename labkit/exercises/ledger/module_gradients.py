"""Measurements for the topic "nn.Module": modes and gradients are two different things."""

import torch
from torch import Tensor, nn

from labkit.exercises.claims import claim
from labkit.models.memory import kept_for_backward


def model_with_both() -> nn.Sequential:
    """Return a model with BatchNorm and dropout, and two linear layers around them."""
    return nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 1))


@claim(
    "C143",
    true="You may think that compiling makes of the mode a switch for gradients. It makes two versions of the code, "
    "one for each mode, and both record: all gradients arrived after `eval()`.",
    false="Right. Compiled or not, the mode changes dropout and BatchNorm. Whether the graph is recorded is the matter "
    "of `no_grad` and `inference_mode`.",
    depends="Neither the mode nor the compilation changed it; only `no_grad` did. It is easy to take one for the "
    "other, as evaluation uses both.",
)
def a_compiled_model_records_in_both_modes() -> dict[str, bool]:
    """Compile a model with a backend that runs the graph unchanged, and ask for gradients in both modes."""
    model = model_with_both()
    compiled = torch.compile(model, backend="eager")
    recorded, arrived = {}, {}
    for mode in (True, False):
        model.zero_grad()
        output = compiled.train(mode)(torch.ones(4, 3))
        recorded[mode] = output.requires_grad
        output.sum().backward()
        arrived[mode] = all(one.grad is not None for one in model.parameters())
    return {
        "the two modes differ in whether the output is tracked": recorded[True] != recorded[False],
        "after `eval()` the output is not tracked": not recorded[False],
        "after `eval()` gradients are missing": not arrived[False],
    }


@claim(
    "C144",
    true="The two are used side by side so often that they look like one. But after `eval()` each parameter still "
    "wanted a gradient and got one, and inside `no_grad()` the model was still in training mode.",
    false="Right. `eval()` speaks to dropout and BatchNorm, `no_grad()` to the recording of the graph. For evaluation "
    "use both.",
    depends="For no kind of layer does `eval()` touch the gradients: each parameter of the model below, which has "
    "three kinds of layer with parameters, got one.",
)
def eval_leaves_gradients_alone() -> dict[str, bool]:
    """Call `eval()` and run backward; then see whether `no_grad` changes the mode."""
    model = model_with_both().eval()
    output = model(torch.ones(4, 3))
    output.sum().backward()
    model.train()
    with torch.no_grad():
        in_training = [layer.training for layer in model.modules()]
    return {
        "after `eval()` the parameters do not require a gradient": not any(
            one.requires_grad for one in model.parameters()
        ),
        "after `eval()` no graph is recorded": output.grad_fn is None,
        "after `eval()` backward fills no `.grad`": all(one.grad is None for one in model.parameters()),
        "`no_grad()` puts the model into evaluation mode": not all(in_training),
    }


@claim(
    "C145",
    true="If memory grew during your evaluation, `no_grad()` was missing, or results with their graph were collected. "
    "With `eval()` alone the same model kept activations for backward all the same.",
    false="Right. What `eval()` prevents is wrong results. The memory is saved by `no_grad()` or `inference_mode()`, "
    "which kept nothing at all, in either mode.",
    depends="A dropout layer does keep its mask, and `eval()` saves that little. The graph with the activations of the "
    "other layers stays; and under `no_grad()` nothing was kept in training mode either.",
)
def no_grad_saves_the_memory() -> dict[str, bool]:
    """Count the bytes that are kept for backward, in both modes, with and without `no_grad`."""
    model, inputs = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.Tanh()), torch.ones(32, 64)

    def kept(mode: bool, records: bool) -> int:
        def run() -> Tensor:
            with torch.set_grad_enabled(records):
                return model.train(mode)(inputs)

        return kept_for_backward(run, model.parameters())

    return {
        "`eval()` alone keeps fewer bytes for backward": kept(False, True) < kept(True, True),
        "with `eval()` alone no graph is kept": kept(False, True) == 0,
        "without `eval()`, under `no_grad()`, bytes are kept": kept(True, False) > 0,
    }


@claim(
    "C146",
    true="It sounds as if evaluation mode meant *do not record*. A linear layer has nothing that a mode could switch: "
    "its output wanted a gradient in both, since its weights do.",
    false="Right: True both times. Only `no_grad()`, `inference_mode()`, or frozen weights with frozen input make it "
    "False.",
    depends="It depends on the weights and the input, and on `no_grad()`; on the mode it does not. With an input that "
    "wants a gradient and one that does not, both modes agreed.",
)
def a_linear_layer_ignores_the_mode() -> dict[str, bool]:
    """Ask the output of a linear layer in both modes, for two kinds of input."""
    layer, inputs = nn.Linear(3, 2), (torch.ones(1, 3), torch.ones(1, 3, requires_grad=True))
    in_training = [layer.train()(one).requires_grad for one in inputs]
    in_evaluation = [layer.eval()(one).requires_grad for one in inputs]
    return {
        "after `eval()` `requires_grad` of the output is False": not all(in_evaluation),
        "the two modes differ in it": in_training != in_evaluation,
    }


@claim(
    "C147",
    true="Yes. The mode is for those two layers, and the graph is the matter of `no_grad()`; evaluation wants both. "
    "`inference_mode()` is stricter: its tensors cannot take part in a backward pass later.",
    false="Perhaps you have evaluated with one of the two alone, and nothing went wrong. Without `eval()` the results "
    "were random below; without `no_grad()` they came with a graph.",
    depends="A model without dropout and BatchNorm gives the same results in both modes, that is true. The pair costs "
    "nothing there, and is right everywhere.",
)
def the_mode_and_the_graph_are_a_pair() -> dict[str, bool]:
    """Evaluate a model with the mode and `no_grad` in each combination that matters."""
    model, inputs = model_with_both(), torch.randn(16, 3)
    plain = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.LayerNorm(4))
    in_training, again = model(inputs), model(inputs)
    statistics = model[1].running_mean.clone()
    model.eval()
    evaluated = model(inputs)
    with torch.no_grad():
        paired = model(inputs)
    return {
        "`train()` makes dropout random": not torch.equal(in_training, again),
        "`eval()` makes the result the same each time": torch.equal(evaluated, paired),
        "`eval()` stops the running values of BatchNorm": torch.equal(model[1].running_mean, statistics),
        "other layers, such as linear ones, do the same in both modes": torch.equal(
            plain.train()(inputs), plain.eval()(inputs)
        ),
        "`eval()` with `no_grad()` builds no graph": paired.grad_fn is None,
        "`eval()` without it builds one": evaluated.grad_fn is not None,
    }


@claim(
    "C149",
    true="Yes, and each half shows it: under `no_grad()` alone dropout went on dropping, and after `eval()` alone "
    "backward ran through. Write both.",
    false="They stand side by side in every example, and one may seem to include the other. Each was tried alone "
    "below, and did none of the other's work.",
    depends="In a model without dropout and BatchNorm you would not notice that `eval()` is missing. `no_grad()` does "
    "not replace it there either; there is nothing to switch.",
)
def neither_replaces_the_other() -> dict[str, bool]:
    """Use each of the two alone, and look for the work of the other."""
    model, ones = nn.Sequential(nn.Linear(3, 200), nn.Dropout(0.5)), torch.ones(1, 3)
    with torch.no_grad():
        unrecorded = model(ones)
    evaluated = model.eval()(ones)
    evaluated.sum().backward()
    return {
        "`no_grad()` alone stops the recording": unrecorded.grad_fn is None,
        "`no_grad()` alone leaves dropout active": bool((unrecorded == 0).any()),
        "`eval()` alone switches dropout off": bool((evaluated != 0).all()),
        "`eval()` alone leaves gradients on": model[0].weight.grad is not None,
    }
