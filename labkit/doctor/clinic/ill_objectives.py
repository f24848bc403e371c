"""Cases in which the loss does not say what is wanted, or says it in a way that numbers cannot bear."""

from typing import Any

import torch

from labkit.doctor.clinic.case import Case, Script
from labkit.doctor.clinic.scripts import DATA, DIGITS, IMPORTS, LAYERS, LOOP, STEP, TUNE

OWN = "\n\ndef loss_fn(outputs, labels):\n    {}\n\n\n"
CROSS = "loss_fn = nn.CrossEntropyLoss()\n"
LOSS = "    loss = loss_fn(model(images), labels)\n"
INK_EVALUATE = """\
def evaluate(model, loader):
    model.eval()
    wrong, spread = 0.0, 0.0
    with torch.no_grad():
        for images, amounts in loader:
            wrong += (model(images).flatten() - amounts).square().sum().item()
            spread += (amounts - amounts.mean()).square().sum().item()
    return 1 - wrong / spread


"""


def held_out_explained(names: dict[str, Any]) -> float:
    """Return the share of the variance that is explained among the samples that were kept away."""
    model, kept = names["model"].eval(), names["test"]
    with torch.no_grad():
        wrong = (model(names["images"][kept]).flatten() - names["amounts"][kept]).square().mean()
    return (1 - wrong / names["amounts"][kept].var(unbiased=False)).item()


INK = Script(
    "lower half",
    (IMPORTS + DATA + LAYERS + TUNE + STEP + INK_EVALUATE + LOOP)
    .replace(
        "images, labels = pictures.images.float() / 255, pictures.labels\n",
        "images, labels = pictures.images.float() / 255, pictures.labels\n"
        "amounts = images[:, :, 4:].mean(dim=(1, 2, 3))\n"
        "amounts = (amounts - amounts.mean()) / amounts.std()\n"
        "images = images[:, :, :4]\n",
    )
    .replace("labels[train]", "amounts[train]")
    .replace("labels[val]", "amounts[val]")
    .replace(
        "nn.Linear(64, 64),\n    nn.ReLU(),\n    nn.Linear(64, 64)",
        "nn.Linear(32, 64),\n    nn.ReLU(),\n    nn.Linear(64, 64)",
    )
    .replace("    nn.Linear(64, 10),\n", "    nn.Linear(64, 1),\n    nn.Flatten(0),\n")
    .replace("nn.CrossEntropyLoss()", "nn.MSELoss()")
    .replace("images, labels = batch", "images, amounts = batch")
    .replace("loss_fn(model(images), labels)", "loss_fn(model(images), amounts)")
    .replace("lr=0.1, momentum=0.9", "lr=0.02, momentum=0.9"),
    held_out_explained,
    "share explained",
    0.0,
)

LOG_SOFTMAX = (
    CROSS,
    "\n\ndef loss_fn(outputs, labels):\n    log_shares = outputs.log_softmax(dim=1)\n"
    "    return -log_shares[torch.arange(len(labels)), labels].mean()\n\n\n",
)


OBJECTIVE_CASES = [
    Case(
        name="viper",
        level=1,
        label="loss_scaling",
        chapter="05_training_loop",
        script=DIGITS,
        setting=(LOG_SOFTMAX, ("lr=0.1, momentum=0.9", "lr=0.01, momentum=0.9")),
        story="“I wrote the loss myself. It falls and falls, below zero, and the score falls as well.”",
        explanation="The sign is missing: the mean of the log shares is pushed down, so the right class gets less and "
        "less. A loss that is minus a logarithm of a share cannot be negative.",
        cure="Put the minus in front of the mean.",
        fault=(("    return -log_shares", "    return log_shares"),),
        gap=0.4,
    ),
    Case(
        name="moth",
        level=2,
        label="output_activation_mismatch",
        chapter="05_training_loop",
        script=DIGITS,
        story="“The outputs are nice shares that add up to 1. The loss never comes below 1.46.”",
        explanation="CrossEntropyLoss takes raw scores and applies softmax itself. After a softmax in the model all "
        "scores lie between 0 and 1, so the loss can neither become small nor give a strong gradient.",
        cure="End the model with the linear layer; take softmax for looking only.",
        fault=(("    nn.Linear(64, 10),\n", "    nn.Linear(64, 10),\n    nn.Softmax(dim=1),\n"),),
        gap=0.1,
    ),
    Case(
        name="perch",
        level=2,
        label="shape_broadcast",
        chapter="01_tensors",
        script=INK,
        story="“From the upper half of a digit it shall guess the ink in the lower half. It answers the mean, always.”",
        explanation="Outputs (50, 1) minus targets (50,) broadcast to (50, 50): every output is compared with every "
        "target, and the best answer to all targets at once is their mean.",
        cure="Flatten the outputs, so that both are (50,).",
        fault=(("    nn.Flatten(0),\n", ""),),
        gap=0.2,
    ),
    Case(
        name="carp",
        level=3,
        label="wrong_loss",
        chapter="05_training_loop",
        script=DIGITS,
        setting=((CROSS, OWN.format("return nn.functional.cross_entropy(outputs, labels)")),),
        story="“MSE works for everything, so I took it. The loss falls, the score does not rise.”",
        explanation="The numbers of the classes are compared as if 7 were nearly 8. And the scores are averaged into "
        "one number: the loss asks for their mean, and never for the score of the right class.",
        cure="Take cross-entropy of the scores and the numbers of the classes.",
        fault=(
            (
                "nn.functional.cross_entropy(outputs, labels)",
                "nn.functional.mse_loss(outputs.mean(dim=1), labels.float())",
            ),
        ),
        gap=0.4,
    ),
    Case(
        name="trout",
        level=2,
        label="numeric_instability",
        chapter="05_training_loop",
        script=DIGITS,
        setting=(
            (CROSS, "for layer in (model[1], model[3], model[5]):\n    nn.init.zeros_(layer.bias)\n" + CROSS),
            (
                LOSS,
                "    roots = [(weights.abs() + 1e-8).sqrt().sum() for weights in model.parameters()]\n"
                "    loss = loss_fn(model(images), labels) + 1e-5 * sum(roots)\n",
            ),
        ),
        story="“I punish the square roots of the weights, so that few of them are large. Then all numbers are gone.”",
        explanation="The slope of a root is infinite at 0, the slope of abs() there is 0, and infinity times 0 is NaN. "
        "The biases begin at 0: the first update makes them NaN, and then everything.",
        cure="Add a small number under the root.",
        fault=(("(weights.abs() + 1e-8).sqrt()", "weights.abs().sqrt()"),),
        gap=0.4,
    ),
    Case(
        name="gull",
        level=3,
        label="label_encoding",
        chapter="05_training_loop",
        script=DIGITS,
        setting=(
            (
                CROSS,
                OWN.format(
                    "targets = nn.functional.one_hot(labels, 10).float()\n"
                    "    return 10 * nn.functional.binary_cross_entropy_with_logits(outputs, targets)"
                ),
            ),
        ),
        story="“Ten yes-or-no questions, one for each digit. The loss falls nicely, and the score is nearly 0.”",
        explanation="one_hot was given labels minus 1, with 0 made 9 by the remainder: each digit is taught as its "
        "neighbour. The loss falls as it should, and every answer is wrong by one.",
        cure="Encode the labels as they are.",
        fault=(("one_hot(labels, 10)", "one_hot((labels - 1) % 10, 10)"),),
        gap=0.5,
        also=("label_misaligned", "target_shift"),
    ),
]
