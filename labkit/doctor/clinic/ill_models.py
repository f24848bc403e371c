"""Cases in which the model cannot learn: what it is made of, how it begins, what reaches its layers."""

from typing import Any

import torch

from labkit.doctor.clinic.case import Case
from labkit.doctor.clinic.scripts import BLOCKS, DIGITS, PICTURES, ROWS, TWO_HALVES

SECOND = "    nn.Linear(64, 64),\n    nn.ReLU(),\n    nn.Linear(64, 10),\n"
RATE = "lr=0.1, momentum=0.9)"
DEEP_TANH = (
    "    nn.Flatten(),\n    nn.Linear(64, 64),\n    nn.Tanh(),\n" + "    nn.Linear(64, 64),\n    nn.Tanh(),\n" * 5
)
LAYERS = "    nn.Flatten(),\n    nn.Linear(64, 64),\n    nn.ReLU(),\n" + SECOND
NETWORK = ("model = nn.Sequential(\n" + LAYERS + ")\n", "\n\n" + TWO_HALVES)
ADAM = ("torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)", "torch.optim.Adam(model.parameters(), lr=0.01)")


def independence(names: dict[str, Any]) -> float:
    """Return minus the change of the answers for some pictures with what is read before them, in their spread."""
    model, images = names["model"].eval(), names["images"][names["val"]]
    answers = []
    with torch.no_grad():
        for before in (images[:100], images[100:200]):
            model(before)
            answers.append(model(images[200:300]))
    return -((answers[0] - answers[1]).abs().mean() / answers[0].std()).item()


MODEL_CASES = [
    Case(
        name="swan",
        level=1,
        label="bad_init",
        chapter="04_models",
        script=DIGITS,
        setting=(
            (
                "loss_fn = nn.CrossEntropyLoss()\n",
                "for layer in (model[1], model[3], model[5]):\n    nn.init.kaiming_uniform_(layer.weight)\n"
                "loss_fn = nn.CrossEntropyLoss()\n",
            ),
        ),
        story="“I wanted a clean start for all units. The loss stays where a guess would be.”",
        explanation="All weights begin at 0, so every hidden unit gives 0, and no gradient can pass a weight of 0: "
        "only the last bias moves.",
        cure="Begin with random weights; torch's own, or kaiming_uniform_, will do.",
        fault=(("nn.init.kaiming_uniform_(layer.weight)", "nn.init.zeros_(layer.weight)"),),
        gap=0.4,
    ),
    Case(
        name="raven",
        level=2,
        label="vanishing_gradient",
        chapter="04_models",
        script=DIGITS,
        setting=(
            (
                SECOND,
                "    *(layer for _ in range(8) for layer in (nn.Linear(64, 64), nn.ReLU())),\n"
                + "    nn.Linear(64, 10),\n",
            ),
            (
                "torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)",
                "torch.optim.Adam(model.parameters(), lr=0.003)",
            ),
        ),
        story="“I made it deeper, and nothing is learned. With two layers the same settings work.”",
        explanation="The slope of a sigmoid is at most a quarter. Through eight of them hardly any of the gradient "
        "arrives at the first layers.",
        cure="Take ReLU between the layers, with a start that fits, or fewer layers.",
        fault=(("nn.ReLU())),", "nn.Sigmoid())),"),),
        gap=0.3,
    ),
    Case(
        name="dove",
        level=2,
        label="dead_units",
        chapter="04_models",
        script=DIGITS,
        setting=(
            (
                "loss_fn = nn.CrossEntropyLoss()\n",
                "nn.init.constant_(model[1].bias, 0.1)\nloss_fn = nn.CrossEntropyLoss()\n",
            ),
        ),
        story="“The activations of a layer look strange: there is one value only, and it does not learn.”",
        explanation="A bias of -10 makes what goes into ReLU negative for every picture. ReLU then gives 0, and its "
        "slope is 0: these units have no gradient that could bring them back.",
        cure="Begin with biases of 0, or slightly above.",
        fault=(("nn.init.constant_(model[1].bias, 0.1)", "nn.init.constant_(model[1].bias, -10.0)"),),
        gap=0.3,
        also=("bad_init",),
    ),
    Case(
        name="hare",
        level=1,
        label="dropout_too_high",
        chapter="04_models",
        script=DIGITS,
        setting=((SECOND, SECOND.replace("    nn.Linear(64, 10)", "    nn.Dropout(0.2),\n    nn.Linear(64, 10)")),),
        story="“I heard that dropout prevents overfitting, so I took a lot of it. Training looks like noise.”",
        explanation="Of 64 units about one is left in each forward pass, made 64 times larger. What one unit says "
        "in this moment is no base for an update.",
        cure="Take 0.1 to 0.5.",
        fault=(("nn.Dropout(0.2)", "nn.Dropout(0.985)"),),
        gap=0.1,
    ),
    Case(
        name="crab",
        level=1,
        label="model_too_weak",
        chapter="04_models",
        script=DIGITS,
        story="“All is smooth, and the score stays low, on the training data as well.”",
        explanation="Everything has to pass through a layer of two units: two numbers are not enough to keep ten "
        "digits apart. The network cannot even fit its training data.",
        cure="Make the narrow layer wider.",
        fault=(
            (
                "    nn.Linear(64, 64),\n    nn.ReLU(),\n    nn.Linear(64, 10)",
                "    nn.Linear(64, 2),\n    nn.ReLU(),\n    nn.Linear(2, 10)",
            ),
        ),
        gap=0.15,
    ),
    Case(
        name="gecko",
        level=2,
        label="graph_detached",
        chapter="02_autograd",
        script=DIGITS,
        setting=(NETWORK, ADAM),
        story="“It learns something, but the first layer looks just as at the beginning.”",
        explanation="The picture drawn from the hidden values was cut off from the graph, and the cut copy was used "
        "further on: no gradient reaches the layer before it.",
        cure="Go on with the values that have a graph; detach copies for looking only.",
        fault=(
            (
                "        hidden = torch.sigmoid(self.first(images.flatten(1)))\n",
                "        hidden = torch.sigmoid(self.first(images.flatten(1))).detach()\n",
            ),
        ),
        gap=0.3,
    ),
    Case(
        name="newt",
        level=3,
        label="inplace_autograd",
        chapter="02_autograd",
        script=DIGITS,
        setting=(
            NETWORK,
            ADAM,
            (
                "        hidden = torch.sigmoid(self.second(hidden))\n",
                "        hidden = torch.sigmoid(self.second(hidden))\n        hidden = hidden - 0.5\n",
            ),
        ),
        story="“I centre the hidden values, in place to save memory. No error, no warning, and it learns badly.”",
        explanation="The backward of sigmoid uses its output, y (1 - y). It was changed behind autograd's back, "
        "through .data: where y - 0.5 is negative, the gradient has the wrong sign.",
        cure="Make a new tensor; leave .data alone.",
        fault=(("        hidden = hidden - 0.5\n", "        hidden.data -= 0.5\n"),),
        gap=0.1,
    ),
    Case(
        name="shrew",
        level=2,
        label="param_not_registered",
        chapter="04_models",
        script=DIGITS,
        setting=(("model = nn.Sequential(\n" + LAYERS + ")\n", "\n\n" + BLOCKS), ADAM),
        story="“It has five layers with weights, and it is as weak as if it had one.”",
        explanation="Layers in a plain list are not registered: parameters() does not see them, so the optimizer never "
        "moves them, and state_dict() does not save them.",
        cure="Put them into an nn.ModuleList.",
        fault=(("nn.ModuleList(nn.Linear(64, 64) for _ in range(4))", "[nn.Linear(64, 64) for _ in range(4)]"),),
        gap=0.3,
    ),
    Case(
        name="bison",
        level=3,
        label="bn_statistics",
        chapter="04_models",
        script=PICTURES,
        setting=((RATE, "lr=0.02, momentum=0.9)"),),
        story="“Training is fine, and validation is far off, in the same pictures even.”",
        explanation="With momentum=0.001 the running statistics move by a thousandth at each batch. After 160 batches "
        "they are still near 0 and 1, where they began, and evaluation normalises with them.",
        cure="Leave the momentum of batch norm at 0.1.",
        fault=(
            ("nn.BatchNorm2d(16)", "nn.BatchNorm2d(16, momentum=0.001)"),
            ("nn.BatchNorm2d(32)", "nn.BatchNorm2d(32, momentum=0.001)"),
        ),
        gap=0.05,
    ),
    Case(
        name="quail",
        level=3,
        label="batch_too_small",
        chapter="04_models",
        script=PICTURES,
        setting=(
            ("train, val, test = order[:1000]", "train, val, test = order[:400]"),
            ("batch_size=50, shuffle", "batch_size=40, shuffle"),
            (RATE, "lr=0.05)"),
            ("    nn.Flatten(),\n", "    nn.Flatten(),\n    nn.BatchNorm1d(32 * 4 * 4),\n"),
            ("range(8)", "range(4)"),
        ),
        story="“My memory is small, so are my batches. The curves are rough and the score is poor.”",
        explanation="Batch norm takes mean and spread from two samples: after it, one is +1 and the other -1 in every "
        "feature, whatever they were. What is left is hardly a picture.",
        cure="Larger batches, or a norm that does not look at the batch, such as GroupNorm.",
        fault=(("batch_size=40, shuffle", "batch_size=2, shuffle"),),
        gap=0.08,
    ),
    Case(
        name="tapir",
        level=3,
        label="state_carried_over",
        chapter="04_models",
        script=ROWS,
        setting=(ADAM,),
        story="“Asked twice about the same pictures, it gives two answers. The score is fine, so what?”",
        explanation="A batch begins with the state that the batch before has left, if they are equally large. Its "
        "pictures have nothing to do with the ones before, and yet the answers depend on them.",
        cure="Begin each picture with a state of zeros: pass none.",
        fault=(
            (
                "        states, last = self.rows(images.squeeze(1))\n",
                "        fits = self.state is not None and self.state.shape[1] == len(images)\n"
                "        states, last = self.rows(images.squeeze(1), self.state if fits else None)\n"
                "        self.state = last.detach()\n",
            ),
            (
                "        self.output = nn.Linear(48, 10)\n",
                "        self.output = nn.Linear(48, 10)\n        self.state = None\n",
            ),
        ),
        gap=0.04,
        measure=independence,
        silent=True,
    ),
]
