"""Cases in which the data are not what the network should see: their values, their labels, their order."""

from typing import Any

import torch

from labkit.doctor.clinic.case import Case
from labkit.doctor.clinic.scripts import DIGITS, PICTURES, ROWS

SCALE = "images, labels = pictures.images.float() / 255, pictures.labels\n"
TRAIN = "DataLoader(TensorDataset(images[train], labels[train]), batch_size=50, shuffle=True)"
VAL = "DataLoader(TensorDataset(images[val], labels[val]), batch_size=200)"
SPLIT = "train, val, test = order[:1000], order[1000:1400], order[1400:]\n"
RATE = "lr=0.1, momentum=0.9)"
DATASET = (
    "train_loader = " + TRAIN,
    "\n\nclass Noisy(TensorDataset):\n    def __getitem__(self, index):\n"
    "        image, label = super().__getitem__(index)\n"
    "        return image + 0.1 * torch.randn_like(image), label\n\n\n"
    "train_loader = DataLoader(Noisy(images[train], labels[train]), batch_size=50, shuffle=True)",
)


def recall_of_the_rare(names: dict[str, Any]) -> float:
    """Return the share of the rare class that is found among the pictures that were kept away."""
    model, kept = names["model"].eval(), names["test"]
    rare = kept[names["labels"][kept] == 1]
    with torch.no_grad():
        return (model(names["images"][rare]).argmax(dim=1) == 1).double().mean().item()


DATA_CASES = [
    Case(
        name="robin",
        level=1,
        label="label_misaligned",
        chapter="03_data",
        script=DIGITS,
        story="“The loss falls a little, later on. What is learned is worth nothing on validation data.”",
        explanation="The pictures were put in a random order, the labels were not: each picture has the label of "
        "another one. There is nothing to learn, but to learn it by heart.",
        cure="Take pictures and labels with the same indices.",
        fault=(("labels[train])", "labels[:1000])"),),
        gap=0.5,
    ),
    Case(
        name="camel",
        level=1,
        label="input_scale",
        chapter="03_data",
        script=DIGITS,
        story="“Strange: the same network and rate as yesterday. I only left out a line that looked useless.”",
        explanation="Inputs up to 255 make outputs and gradients hundreds of times too large: the first updates throw "
        "the weights far away, and the units die.",
        cure="Divide by 255.",
        fault=(("pictures.images.float() / 255,", "pictures.images.float(),"),),
        gap=0.2,
    ),
    Case(
        name="adder",
        level=1,
        label="non_finite_data",
        chapter="03_data",
        script=DIGITS,
        setting=(
            (
                "order = torch.randperm",
                "images = (images - images.mean(dim=0)) / (images.std(dim=0) + 0.1)\norder = torch.randperm",
            ),
        ),
        story="“I standardise every pixel, as one should. The loss is NaN in the first update.”",
        explanation="Some pixels at the border are 0 in all pictures: their spread is 0, and 0 / 0 is NaN. One NaN in "
        "the input makes every output NaN, and every weight after one update.",
        cure="Add a small number to the spread, or leave out pixels that never change.",
        fault=(("(images.std(dim=0) + 0.1)", "images.std(dim=0)"),),
        gap=0.4,
        also=("numeric_instability",),
    ),
    Case(
        name="goose",
        level=2,
        label="not_shuffled",
        chapter="03_data",
        script=DIGITS,
        setting=((SPLIT, SPLIT + "train = train[labels[train].argsort()]\n"),),
        story="“The loss of the updates looks like a comb, and the score jumps from epoch to epoch.”",
        explanation="The samples are sorted by class and come in this order: each batch teaches one digit, and what "
        "was said before is forgotten. At the end of an epoch it says 9.",
        cure="shuffle=True for the training loader.",
        fault=(("batch_size=50, shuffle=True", "batch_size=50"),),
        gap=0.2,
    ),
    Case(
        name="hyena",
        level=2,
        label="duplicate_samples",
        chapter="03_data",
        script=DIGITS,
        story="“1,000 pictures for training, the training score is 100 %. Validation lags far behind.”",
        explanation="The list of training samples is the same 25 pictures forty times over: they are learned by heart, "
        "and say little about others.",
        cure="Use all training samples, each once an epoch.",
        fault=((SPLIT, SPLIT.replace("order[:1000]", "order[:25].repeat(40)")),),
        gap=0.1,
    ),
    Case(
        name="ibis",
        level=2,
        label="sampler_misuse",
        chapter="03_data",
        script=DIGITS,
        setting=(
            ("shuffle=True)", "sampler=sampler)"),
            (
                "train_loader =",
                "weights = 1 / labels[train].bincount().float()[labels[train]]\n"
                "sampler = torch.utils.data.WeightedRandomSampler(weights, len(train))\ntrain_loader =",
            ),
        ),
        story="“A sampler balances the classes for me. Some digits are never right, though.”",
        explanation="The sampler wants one weight for each sample; it was given one for each class, so it draws "
        "the first ten samples only, again and again.",
        cure="Give each sample the weight of its class.",
        fault=(("1 / labels[train].bincount().float()[labels[train]]", "1 / labels[train].bincount().float()"),),
        gap=0.15,
        also=("duplicate_samples",),
    ),
    Case(
        name="egret",
        level=2,
        label="train_val_mismatch",
        chapter="03_data",
        script=DIGITS,
        setting=(
            ("train_loader =", "\n\ndef prepared(part):\n    return (part - 0.3) / 0.38\n\n\ntrain_loader ="),
            ("TensorDataset(images[train]", "TensorDataset(prepared(images[train])"),
            ("TensorDataset(images[val]", "TensorDataset(prepared(images[val])"),
        ),
        story="“Training is nearly perfect. Validation is far below, and not even its loss falls.”",
        explanation="Training pictures are centred and scaled, validation pictures go in inverted: the network meets "
        "values that it was never trained for.",
        cure="Prepare both parts with the same function and the same numbers.",
        fault=(("TensorDataset(prepared(images[val])", "TensorDataset(1 - images[val]"),),
        gap=0.1,
        measure=lambda names: names["evaluate"](names["model"], names["val_loader"]),
    ),
    Case(
        name="panda",
        level=3,
        label="data_mutated",
        chapter="03_data",
        script=DIGITS,
        setting=(
            (
                DATASET[0],
                DATASET[1].replace(
                    "        return image + 0.1 * torch.randn_like(image), label\n",
                    "        image = image + 0.3 * torch.randn_like(image)\n        return image, label\n",
                ),
            ),
        ),
        story="“A little noise makes it robust, they say. In the first epoch that helps, later it gets worse.”",
        explanation="`image += …` writes into the data set itself: noise is added to noise, in every epoch and every "
        "evaluation. In the end the digits have drowned.",
        cure="Make a new tensor: image = image + noise.",
        fault=(
            (
                "        image = image + 0.3 * torch.randn_like(image)\n",
                "        image += 0.3 * torch.randn_like(image)\n",
            ),
        ),
        gap=0.02,
    ),
    Case(
        name="zebra",
        level=3,
        label="axis_mixup",
        chapter="01_tensors",
        script=ROWS,
        setting=(
            (
                "torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)",
                "torch.optim.Adam(model.parameters(), lr=0.01)",
            ),
            ("self.rows(images.squeeze(1))", "self.rows(images.squeeze(1).permute(0, 2, 1))"),
        ),
        story="“It shall read the columns, from left to right. It is much worse than on rows; are columns that hard?”",
        explanation="reshape does not turn axes: it cuts the same numbers into other pieces. Here pieces of the batch "
        "are mixed: what is read as one picture are lines of many.",
        cure="Turn axes with permute or transpose.",
        fault=(("images.squeeze(1).permute(0, 2, 1)", "images.transpose(0, 3).reshape(-1, 8, 8)"),),
        gap=0.1,
    ),
    Case(
        name="quoll",
        level=3,
        label="augmentation_misuse",
        chapter="03_data",
        script=PICTURES,
        setting=(
            (RATE, "lr=0.02)"),
            (
                "    images, labels = batch\n",
                "    images, labels = batch\n    images = images + 0.05 * torch.randn_like(images)\n",
            ),
        ),
        story="“Turned pictures are more pictures, I thought. The training score seems to have a ceiling.”",
        explanation="Four of five pictures are turned upside down. That is fine for cats; but a 6 upside down is a 9, "
        "and it keeps the label 6.",
        cure="Use changes only that leave the label true: a little noise, say.",
        fault=(
            (
                "    images = images + 0.05 * torch.randn_like(images)\n",
                "    turned = torch.rand(len(images)) < 0.8\n"
                "    images = torch.where(turned[:, None, None, None], images.flip(2, 3), images)\n",
            ),
        ),
        gap=0.05,
    ),
    Case(
        name="okapi",
        level=3,
        label="class_imbalance",
        chapter="03_data",
        script=DIGITS,
        setting=(
            (SCALE, SCALE + "labels = (labels == 8).long()\n"),
            ("nn.Linear(64, 10)", "nn.Linear(64, 2)"),
            ("nn.CrossEntropyLoss()", "nn.CrossEntropyLoss(weight=torch.tensor([1.0, 9.0]))"),
            (RATE, "lr=0.01)"),
            ("range(8)", "range(12)"),
        ),
        story="“Is it an 8? 90 % are right, from the first epoch on. My boss says it has never found one.”",
        explanation="Nine of ten pictures are no 8. Always to say no gives 90 %, and at this rate the network has not "
        "come further: the loss counts the rare class for a tenth.",
        cure="Give the rare class its weight in the loss, and look at the share of 8s that is found.",
        fault=(("nn.CrossEntropyLoss(weight=torch.tensor([1.0, 9.0]))", "nn.CrossEntropyLoss()"),),
        gap=0.3,
        measure=recall_of_the_rare,
        silent=True,
    ),
]
