"""Losses that get targets of another dtype, shape or range than they take."""

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

from tests.doctor.explain.provoked.program import provokes

# Class numbers


@provokes("target-dtype", names=["labels"], fix="labels.long()")
def class_numbers_as_floats():
    scores, labels = torch.rand(4, 3), torch.tensor([0.0, 2.0, 1.0, 1.0])
    loss_fn = nn.CrossEntropyLoss()
    loss_fn(scores, labels)


@provokes("target-dtype", names=["targets"], fix="long()")
def class_numbers_as_int32():
    targets = torch.from_numpy(np.array([0, 1, 1, 0], dtype=np.int32))
    return F.cross_entropy(torch.rand(4, 2, requires_grad=True), targets)


class Trainer:
    """A class with a step, as many people write it."""

    def __init__(self, net, criterion):
        self.net, self.criterion = net, criterion

    def step(self, batch):
        inputs, wanted = batch
        predicted = self.net(inputs)
        loss = self.criterion(predicted, wanted)
        loss.backward()


@provokes("target-dtype", names=["wanted"], fix="wanted.long()", never="in_features")
def class_numbers_in_a_trainer():
    trainer = Trainer(nn.Sequential(nn.Linear(5, 3), nn.LogSoftmax(dim=1)), nn.NLLLoss())
    trainer.step((torch.rand(6, 5), torch.zeros(6)))


@provokes("target-dtype", names=["masks"], fix="long()")
def a_segmentation_with_masks_of_floats():
    masks = torch.zeros(2, 8, 8)
    maps = nn.Conv2d(3, 5, 1)(torch.rand(2, 3, 8, 8))
    F.cross_entropy(maps, masks)


@provokes("target-one-hot", names=["one_hot"], fix=("argmax(1)", "argmax(dim=1)", "float()"))
def rows_of_ones_and_zeros():
    one_hot = F.one_hot(torch.tensor([0, 2, 1]), 3)
    nn.CrossEntropyLoss()(torch.rand(3, 3), one_hot)


@provokes("target-one-hot", names=["truth"], fix=("argmax(1)", "argmax(dim=1)", "float()"))
def one_hot_rows_in_a_helper():
    def loss_of(logits, truth):
        return F.cross_entropy(logits, truth, label_smoothing=0.1)

    loss_of(torch.rand(2, 4), torch.tensor([[0, 1, 0, 0], [1, 0, 0, 0]]))


@provokes("target-one-hot", names=["wanted"], fix=("argmax(1)", "argmax(dim=1)", "float()"))
def one_hot_rows_in_a_trainer():
    Trainer(nn.Linear(2, 2), nn.CrossEntropyLoss()).step((torch.rand(4, 2), torch.eye(2).long().repeat(2, 1)))


@provokes("target-dimensions", names=["labels"], fix=("squeeze(1)", "flatten()"))
def a_column_of_labels():
    labels = torch.randint(0, 3, (5, 1))
    outputs = torch.rand(5, 3)
    F.cross_entropy(outputs, labels)


@provokes("target-dimensions", names=["wanted"], fix=("squeeze(1)", "flatten()", "long()"))
def a_column_out_of_a_table():
    Trainer(nn.Linear(4, 2), nn.CrossEntropyLoss()).step((torch.rand(6, 4), torch.zeros(6, 1)))


@provokes("target-dimensions", names=["y"], fix=("squeeze(1)", "flatten()"))
def a_negative_log_likelihood_of_a_column():
    loss = lambda out, y: F.nll_loss(out.log_softmax(1), y)  # noqa: E731
    loss(torch.rand(3, 4), torch.tensor([[1], [0], [3]]))


@provokes("target-shape", names=["logits", "tags"], fix=("transpose(1, 2)", "permute(0, 2, 1)", "mT", "flatten(0, 1)"))
def a_tag_for_every_word():
    logits, tags = torch.rand(4, 7, 10), torch.randint(0, 10, (4, 7))
    return nn.CrossEntropyLoss()(logits, tags)


@provokes("target-shape|target-dimensions", names=["mask"], fix="squeeze(1)")
def a_mask_with_a_channel():
    class Segmenter(nn.Module):
        def __init__(self):
            super().__init__()
            self.classes = nn.Conv2d(3, 4, 1)

        def training_step(self, image, mask):
            return F.cross_entropy(self.classes(image), mask)

    Segmenter().training_step(torch.rand(2, 3, 6, 6), torch.zeros(2, 1, 6, 6, dtype=torch.long))


@provokes("target-shape", names=["next_letters"], fix=("transpose(1, 2)", "permute(0, 2, 1)", "mT", "flatten(0, 1)"))
def the_next_letter_of_a_text():
    model, loss_fn = nn.LSTM(5, 8, batch_first=True), nn.CrossEntropyLoss()
    states, _ = model(torch.rand(2, 6, 5))
    next_letters = torch.randint(0, 8, (2, 6))
    loss_fn(states, next_letters).backward()


@provokes("target-shape", names=["areas"], fix="interpolate")
def a_mask_of_another_size():
    areas = torch.zeros(2, 12, 12, dtype=torch.long)
    F.cross_entropy(torch.rand(2, 4, 6, 6), areas)


@provokes("target-out-of-range", names=["grades"], fix=("- 1", "4"))
def grades_from_one():
    grades = torch.tensor([1, 2, 3, 1])
    scores = nn.Linear(6, 3)(torch.rand(4, 6))
    F.cross_entropy(scores, grades)


@provokes("target-out-of-range", names=["wanted"], fix=("out_features=7", "7"))
def more_classes_than_outputs():
    Trainer(nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 5)), nn.CrossEntropyLoss()).step(
        (torch.rand(7, 3), torch.arange(7))
    )


@provokes("target-out-of-range", names=["species"], fix=("ignore_index=-1", "ignore_index"))
def unknown_species_as_minus_one():
    species = torch.tensor([0, 1, -1])
    criterion = nn.CrossEntropyLoss()
    return criterion(torch.rand(3, 2), species)


@provokes("target-out-of-range", names=["outlines"], fix=("ignore_index=255", "ignore_index"))
def borders_of_objects_as_255():
    outlines = torch.zeros(1, 4, 4, dtype=torch.long)
    outlines[:, 0] = 255
    F.cross_entropy(torch.rand(1, 21, 4, 4), outlines)


@provokes("batch-size-mismatch", names=["outputs", "labels"], fix=("flatten(1)", "view", "reshape"))
def a_view_that_folds_the_batch():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(32, 3)

        def forward(self, x):
            return self.fc(x.view(-1, 32))

    labels = torch.randint(0, 3, (4,))
    outputs = Net()(torch.rand(4, 64))
    F.cross_entropy(outputs, labels)


@provokes(
    "batch-size-mismatch",
    names=["logits", "truth"],
    fix=("len(logits) == len(truth)", "same batch", "different batches"),
)
def labels_of_another_batch():
    logits, truth = torch.rand(4, 3), torch.tensor([0, 2, 1])
    nn.CrossEntropyLoss(reduction="sum")(logits, truth)


@provokes("batch-size-mismatch", names=["wanted"], fix=("flatten", "6", "12"))
def words_folded_but_not_their_tags():
    class Tagger(nn.Module):
        def __init__(self):
            super().__init__()
            self.tag = nn.Linear(4, 5)

        def forward(self, words):
            return self.tag(words).flatten(0, 1)

    Trainer(Tagger(), nn.CrossEntropyLoss()).step((torch.rand(2, 6, 4), torch.zeros(6, dtype=torch.long)))


# Yes or no


@provokes("bce-target-dtype", names=["spam"], fix="spam.float()")
def yes_and_no_as_whole_numbers():
    spam = torch.tensor([1, 0, 1])
    nn.BCELoss()(torch.rand(3), spam)


@provokes("bce-target-dtype", names=["wanted"], fix="wanted.float()")
def yes_and_no_in_a_trainer():
    Trainer(nn.Sequential(nn.Linear(2, 1), nn.Flatten(0)), nn.BCEWithLogitsLoss()).step(
        (torch.rand(4, 2), torch.tensor([1, 0, 0, 1]))
    )


@provokes("bce-target-dtype", names=["tags"], fix="float()")
def many_labels_at_once():
    def objective(scores, tags):
        return F.binary_cross_entropy_with_logits(scores, tags, reduction="none").sum()

    objective(torch.rand(3, 4), torch.eye(4, dtype=torch.long)[:3])


@provokes("bce-target-shape", names=["sick", "chances"], fix=("unsqueeze(1)", "squeeze(1)"))
def a_column_against_a_row():
    chances, sick = torch.rand(4, 1), torch.ones(4)
    F.binary_cross_entropy(chances, sick)


@provokes("bce-target-shape", names=["wanted", "predicted"], fix=("unsqueeze(1)", "squeeze(1)"))
def a_column_in_a_trainer():
    Trainer(nn.Linear(3, 1), nn.BCEWithLogitsLoss()).step((torch.rand(8, 3), torch.zeros(8)))


@provokes(
    "bce-target-shape", names=["label"], fix=("one_hot", "expand", "Linear(", "CrossEntropyLoss"), never="reshape"
)
def two_outputs_for_one_answer():
    label = torch.ones(6, 1)
    criterion = nn.BCEWithLogitsLoss()
    criterion(torch.rand(6, 2), label)


@provokes("bce-range", names=["raw"], fix=("BCEWithLogitsLoss", "with_logits"))
def raw_outputs_as_probabilities():
    raw = torch.tensor([-2.0, 3.0, 0.5])
    nn.BCELoss()(raw, torch.ones(3))


@provokes("bce-range", names=["predicted"], fix=("BCEWithLogitsLoss", "with_logits", "sigmoid"))
def a_model_without_a_sigmoid():
    torch.manual_seed(0)
    Trainer(nn.Linear(3, 1), nn.BCELoss()).step((torch.randn(20, 3) * 9, torch.ones(20, 1)))


@provokes("bce-range", names=["pixels"], fix=("/ 255", "255", "between 0 and 1"), never="BCEWithLogits")
def pixels_from_0_to_255_as_targets():
    reconstruction = torch.rand(2, 9).sigmoid()
    pixels = torch.randint(2, 256, (2, 9)).float()
    F.binary_cross_entropy(reconstruction, pixels)


@provokes("bce-range", names=["chance"], fix=("nan", "NaN"), never="BCEWithLogits")
def a_probability_that_is_nan():
    chance = torch.tensor([0.5, 0.2]) * float("nan")
    return (lambda: F.binary_cross_entropy(chance, torch.ones(2)))()
