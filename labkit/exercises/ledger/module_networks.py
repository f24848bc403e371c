"""Measurements for the topic "nn.Module": small networks that people show, and what they can take."""

import torch
from torch import Tensor, nn

from labkit.exercises.claims import claim
from labkit.exercises.ledger.measuring import error_of, graph_nodes
from labkit.models.inspect import parameter_count


class Doubling(nn.Module):
    """A model in the usual pattern: a layer made in `__init__`, used in `forward`."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 2)

    def forward(self, inputs: Tensor) -> Tensor:
        """Map (batch, 3) to (batch, 2)."""
        return 2 * self.layer(inputs)


@claim(
    "C117",
    true="Yes. The three lines of this pattern are enough: the model below ran, its layer was found, and gradients "
    "reached it. Call `model(x)` and not `model.forward(x)`, so that hooks run as well.",
    false="You may know `nn.Sequential`, which needs no class. It is one more module of this pattern, made in advance; "
    "as soon as the way through the network is not a straight line, you write the class yourself.",
    depends="Networks differ in what stands in the two methods, not in the pattern. It carried all that a model needs: "
    "the forward pass, the list of parameters and the gradients.",
)
def the_usual_pattern_works() -> dict[str, bool]:
    """Write a model in the pattern, call it, and see whether gradients reach its layer."""
    model, heard = Doubling(), []
    model.register_forward_hook(lambda module, inputs, output: heard.append(output))
    outputs = model(torch.ones(5, 3))
    outputs.sum().backward()
    return {
        "calling the model runs its `forward`": torch.equal(outputs, 2 * model.layer(torch.ones(5, 3))),
        "the layer from `__init__` is found": list(dict(model.named_children())) == ["layer"],
        "its parameters get gradients": all(one.grad is not None for one in model.parameters()),
        "the call runs the hooks of the model": len(heard) == 1,
    }


@claim(
    "C120",
    true="Yes. It takes pictures of 28×28, gives ten numbers for each, and a few updates brought the loss down. The "
    "101,770 parameters are 784·128 + 128 and 128·10 + 10.",
    false="It lacks a softmax, you may say. None is missing: `nn.CrossEntropyLoss` computes it from the ten numbers. "
    "What there is learned, as the falling loss shows.",
    depends="For better accuracy convolutions help, but the sentence only calls it working. It took the pictures, gave "
    "ten scores, and learned.",
)
def four_layers_classify() -> dict[str, bool]:
    """Build the network, look at its shapes, and train it for a few steps on sixteen random pictures."""
    model = nn.Sequential(nn.Flatten(), nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))
    pictures, labels = torch.randn(16, 1, 28, 28), torch.arange(16) % 10
    optimizer, losses = torch.optim.SGD(model.parameters(), lr=0.1), []
    for _ in range(20):
        loss = nn.functional.cross_entropy(model(pictures), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return {
        "pictures of 28×28 give ten numbers each": model(pictures).shape == (16, 10),
        "it has 101,770 parameters": parameter_count(model) == 101_770,
        "twenty updates halve the loss on the pictures it sees": losses[-1] < losses[0] / 2,
        "the pictures it was trained on are named rightly": torch.equal(model(pictures).argmax(1), labels),
    }


@claim(
    "C125",
    true="Yes: two weights and a bias, and the result is their weighted sum, computed by hand below as well. Nothing "
    "else belongs to a linear model.",
    false="You may miss an activation or a second layer. A linear model has neither: it is the weighted sum of the "
    "features and one constant, and that is what came out.",
    depends="A sigmoid on top would make it logistic regression, another model. The linear one is complete with this "
    "single layer, whatever the two features are.",
)
def one_layer_is_a_linear_model() -> dict[str, bool]:
    """Compare the layer with the weighted sum, written out for each row."""
    layer, features = nn.Linear(2, 1), torch.randn(5, 2)
    (first, second), bias = layer.weight[0], layer.bias
    by_hand = first * features[:, :1] + second * features[:, 1:] + bias
    return {
        "it maps (5, 2) to (5, 1)": layer(features).shape == (5, 1),
        "it has three parameters: two weights and a bias": parameter_count(layer) == 3,
        "its result is the weighted sum of the two features, plus the bias": torch.allclose(layer(features), by_hand),
    }


def two_convolutions() -> nn.Sequential:
    """Return the network of the claim: two 3×3 convolutions with pooling, and two linear layers."""
    return nn.Sequential(
        *(nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(64 * 7 * 7, 128), nn.ReLU(), nn.Linear(128, 10)),
    )


def lenet() -> nn.Sequential:
    """Return LeNet-5 as it was published for pictures of 28×28, but for its special output layer."""
    return nn.Sequential(
        *(nn.Conv2d(1, 6, 5, padding=2), nn.Tanh(), nn.AvgPool2d(2)),
        *(nn.Conv2d(6, 16, 5), nn.Tanh(), nn.AvgPool2d(2)),
        *(nn.Flatten(), nn.Linear(16 * 5 * 5, 120), nn.Tanh(), nn.Linear(120, 84), nn.Tanh(), nn.Linear(84, 10)),
    )


@claim(
    "C126",
    true="It does run on pictures of 28×28, and is a good start. But LeNet has 5×5 kernels with 6 and 16 maps, and a "
    "seventh of its parameters; and the 7·7 ties the network to one size.",
    false="The network itself is sound: it takes pictures of 28×28 and gives ten numbers. Wrong are the name and the "
    "praise.",
    depends="Right. It is a baseline for small grey pictures, and not LeNet. With an adaptive pooling before the "
    "linear layers it would take other sizes as well.",
)
def neither_lenet_nor_for_every_size() -> dict[str, bool]:
    """Send pictures of two sizes through it, and compare its first layers with those of LeNet."""
    model, original = two_convolutions(), lenet()
    kernels, published = (
        [(layer.kernel_size, layer.out_channels) for layer in one.modules() if isinstance(layer, nn.Conv2d)]
        for one in (model, original)
    )
    return {
        "pictures of 28×28 give ten numbers each": model(torch.zeros(2, 1, 28, 28)).shape == (2, 10),
        "before the linear layers there are 64 maps of 7×7": model[:6](torch.zeros(2, 1, 28, 28)).shape[1:]
        == (64, 7, 7),
        "its kernels and maps are those of LeNet": kernels == published,
        "it is about as large as LeNet": parameter_count(model) < 2 * parameter_count(original),
        "it takes pictures of 32×32 as well": not error_of(lambda: model(torch.zeros(2, 1, 32, 32))),
    }


@claim(
    "C128",
    true="Yes. `forward` is ordinary Python. The model below loops, branches, uses one layer twice and returns two "
    "things, and gradients reached every layer it used.",
    false="`nn.Sequential` does prescribe a straight line, and you may think of that. It is one module among many; in "
    "a class of your own any Python is allowed.",
    depends="`torch.compile` and export are stricter, but they come later and on request. The library lets you write "
    "what you like, and recorded it below.",
)
def any_wiring_is_allowed() -> dict[str, bool]:
    """Write a forward pass with a loop, a branch, a shared layer, a shortcut and two results."""

    class Unusual(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.shared, self.head = nn.Linear(3, 3), nn.Linear(3, 1)

        def forward(self, inputs: Tensor, rounds: int) -> tuple[Tensor, Tensor]:
            hidden = inputs
            for _ in range(rounds):
                hidden = hidden + self.shared(hidden)
            if rounds > 1:
                hidden = hidden.tanh()
            return self.head(hidden), hidden

    model = Unusual()
    (short, _), (long, hidden) = (model(torch.ones(2, 3), rounds) for rounds in (1, 2))
    (long.sum() + hidden.sum()).backward()
    return {
        "a branch is taken or not, from call to call": [
            "TanhBackward0" in graph_nodes(result) for result in (short, long)
        ]
        == [False, True],
        "a layer is used as often as a loop says": len(graph_nodes(long)) > len(graph_nodes(short)) + 1,
        "there may be two results": hidden.shape == (2, 3),
        "gradients reach the shared layer and the head": all(one.grad is not None for one in model.parameters()),
    }
