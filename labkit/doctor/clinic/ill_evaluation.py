"""Cases in which the reported score, or what it is measured on, is wrong: training may be fine."""

from typing import Any

import torch

from labkit.doctor.clinic.case import Case
from labkit.doctor.clinic.scripts import DIGITS, PICTURES, held_out_accuracy

RATE = "lr=0.1, momentum=0.9)"
EVAL = "    model.eval()\n"
MODE = "    model.train()\n"
TENTH = ("train, val, test = order[:1000]", "train, val, test = order[:200]")


def honesty(names: dict[str, Any]) -> float:
    """Return minus the distance between the reported score and that on pictures that were kept away."""
    return -abs(names["evaluate"](names["model"], names["val_loader"]) - held_out_accuracy(names))


def of_what_was_kept(names: dict[str, Any]) -> float:
    """Return minus the distance between the score of the weights that were kept and the best score that was seen."""
    names["model"].load_state_dict(names["best"])
    return -abs(names["best_score"] - names["evaluate"](names["model"], names["val_loader"]))


def repeats_itself(names: dict[str, Any]) -> float:
    """Return the share of validation samples that are validation samples when the script runs again."""
    import numpy

    count = len(names["labels"])
    state = numpy.random.get_state()
    numpy.random.seed(20_000_229)  # a fresh start: no run of the clinic has this seed
    again = torch.as_tensor(names["draw"](count))[1000:1400]
    numpy.random.set_state(state)
    return torch.isin(names["val"], again).double().mean().item()


EVALUATION_CASES = [
    Case(
        name="mouse",
        level=2,
        label="train_eval_mode",
        chapter="04_models",
        script=DIGITS,
        setting=(("    nn.Linear(64, 10),\n", "    nn.Dropout(0.5),\n    nn.Linear(64, 10),\n"),),
        story="“Each time I evaluate the same weights I get another score, and it is lower than I thought.”",
        explanation="Nobody calls eval(): dropout goes on removing units while the score is measured, other ones each "
        "time.",
        cure="Call model.eval() before an evaluation, and model.train() after it.",
        fault=((EVAL, ""),),
        gap=0.01,
        measure=lambda names: names["evaluate"](names["model"], names["val_loader"]),
    ),
    Case(
        name="skunk",
        level=3,
        label="data_leakage",
        chapter="03_data",
        script=DIGITS,
        setting=(TENTH, ("range(8)", "range(25)")),
        story="“Only 200 pictures, and 100 % on validation! On new pictures it is a disappointment.”",
        explanation="Most of the validation pictures are training pictures: the score tells how well they were learned "
        "by heart.",
        cure="Split first, so that no sample is in both parts.",
        fault=(("order[1000:1400]", "order[:220]"),),
        gap=0.03,
        measure=honesty,
        silent=True,
    ),
    Case(
        name="magpie",
        level=2,
        label="metric_wrong",
        chapter="05_training_loop",
        script=DIGITS,
        story="“An accuracy of 1.9 looks odd, but the curve rises, so it must learn.”",
        explanation="The right answers of all batches are added, but only the last batch is counted: the quotient is "
        "too large, and may exceed 1.",
        cure="Add up the counts as well.",
        fault=(("            count += len(labels)\n", "            count = len(labels)\n"),),
        gap=0.3,
        measure=honesty,
        silent=True,
    ),
    Case(
        name="weasel",
        level=3,
        label="metric_wrong",
        chapter="05_training_loop",
        script=DIGITS,
        setting=((TENTH[0], "train, val, test = order[:60]"),),
        story="“Accuracy is splendid, with 60 pictures. I did not expect that.”",
        explanation="topk(3) counts an answer as right if the class is among the three best. That is a fair score, but "
        "its name is top-3 accuracy.",
        cure="Compare the class of the largest score, argmax.",
        fault=(
            (
                "(model(images).argmax(dim=1) == labels).sum()",
                "(model(images).topk(3, dim=1).indices == labels[:, None]).sum()",
            ),
        ),
        gap=0.05,
        measure=honesty,
        silent=True,
    ),
    Case(
        name="jackal",
        level=3,
        label="checkpoint_state",
        chapter="06_checkpoints",
        script=DIGITS,
        setting=(
            (RATE, "lr=0.1, momentum=0.9)\nbest, best_score = None, -1.0"),
            (
                "    report(sum(losses) / len(losses), evaluate(model, train_loader), evaluate(model, val_loader))\n",
                "    score = evaluate(model, val_loader)\n    if epoch < 2 and score > best_score:\n"
                "        best_score = score\n"
                "        best = {name: values.clone() for name, values in model.state_dict().items()}\n"
                "    report(sum(losses) / len(losses), evaluate(model, train_loader), score)\n",
            ),
        ),
        story="“I keep the weights of the best of the first two epochs. Loaded again, they have another score.”",
        explanation="state_dict() holds the very tensors that are trained, not copies: what was kept went on learning.",
        cure="Clone the tensors, or use copy.deepcopy.",
        fault=(("{name: values.clone() for name, values in model.state_dict().items()}", "model.state_dict()"),),
        gap=0.01,
        measure=of_what_was_kept,
        silent=True,
    ),
    Case(
        name="lemur",
        level=3,
        label="unseeded_split",
        chapter="03_data",
        script=DIGITS,
        setting=(
            (
                "order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))\n",
                "\n\ndef draw(count):\n    return torch.as_tensor(numpy.random.default_rng(0).permutation(count))\n\n\n"
                "order = draw(len(labels))\n",
            ),
            ("import torch\n", "import numpy\nimport torch\n"),
        ),
        story="“On Monday I stopped, on Tuesday I went on with the saved weights. Validation jumped up overnight!”",
        explanation="Each run draws another split. After a restart most validation pictures were trained on "
        "before, so the score is a fairy tale.",
        cure="Draw the split with a generator that has a fixed seed.",
        fault=(("numpy.random.default_rng(0).permutation(count)", "numpy.random.permutation(count)"),),
        gap=0.5,
        measure=repeats_itself,
        silent=True,
    ),
    Case(
        name="yak",
        level=3,
        label="train_eval_mode",
        chapter="04_models",
        script=PICTURES,
        setting=(
            (RATE, "lr=0.02)"),
            ("    nn.Flatten(),\n", "    nn.Flatten(),\n    nn.BatchNorm1d(32 * 4 * 4),\n"),
            ("batch_size=200)", "batch_size=2)"),
            ("range(8)", "range(4)"),
        ),
        story="“One by one, or in pairs, pictures are judged badly. In large batches they are fine.”",
        explanation="evaluate() leaves batch norm in training mode, so each picture is normalised with the one beside "
        "it. The answer to a picture depends on its neighbours.",
        cure="Call model.eval() before evaluating.",
        fault=((EVAL, MODE),),
        gap=0.05,
        measure=lambda names: names["evaluate"](names["model"], names["val_loader"]),
    ),
]
