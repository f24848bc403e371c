"""Measurements for the topic "Validation and metrics": how accuracy is counted, and how it is not."""

import torch
from torch import Tensor, nn

from labkit.exercises.claims import claim
from labkit.exercises.ledger.measuring import bytes_kept_for_backward


@claim(
    "C220",
    true="Yes. Each batch without it kept its activations for a backward pass that never came; inside the block "
    "nothing was kept. `torch.inference_mode()` does the same, and is stricter.",
    false="`model.eval()` may seem to do it. It changes dropout and BatchNorm, and nothing about recording: in "
    "evaluation mode as many bytes were kept.",
    depends="On a small model you may never feel it. The recording is made all the same, and grows with model and "
    "batch.",
)
def nothing_is_kept_inside_the_block() -> dict[str, bool]:
    """Count the bytes kept for backward in a validation pass, outside and inside of two blocks."""
    model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 2)).eval()

    def kept(samples: int) -> int:
        return bytes_kept_for_backward(model, torch.ones(samples, 8))

    outside, twice = kept(64), kept(128)
    with torch.no_grad():
        inside = kept(64)
    with torch.inference_mode():
        stricter = kept(64)
    return {
        "without `no_grad` a graph keeps activations, in `eval()` too": outside > 0,
        "more samples keep more": twice > 1.9 * outside,
        "inside `no_grad` nothing is kept": inside == 0,
        "inside `inference_mode` nothing is kept": stricter == 0,
    }


def mean_of_batches(correct: Tensor, size: int) -> float:
    """Return the mean of the accuracies of batches of this size."""
    return torch.stack([batch.double().mean() for batch in correct.split(size)]).mean().item()


@claim(
    "C221",
    true="Yes. Nine correct of ten are 0.9. The mean of the batches of four said otherwise, as the two samples of the "
    "last batch counted twice as much as the others.",
    false="With batches of one size both ways agree, so the mean looks right for long. The last batch is often "
    "smaller, and then it is wrong.",
    depends="Only where all batches are equal does the other way give the same. Counting is right always, and no "
    "longer to write.",
)
def count_and_divide_once() -> dict[str, bool]:
    """Score ten samples with one mistake, which sits in the small last batch, in both ways."""
    correct = torch.tensor([True] * 9 + [False])
    counted = sum(batch.sum().item() for batch in correct.split(4)) / len(correct)
    return {
        "correct predictions divided by samples are 0.9": counted == 0.9,
        "the mean of batches of 4, 4 and 2 is not": abs(mean_of_batches(correct, 4) - 0.9) > 0.05,
        "counting gives the same for every batch size": {
            sum(batch.sum().item() for batch in correct.split(size)) / len(correct) for size in range(1, 11)
        }
        == {counted},
    }


def always_the_frequent_class() -> tuple[Tensor, Tensor]:
    """Return the labels of 100 samples, of which one is rare, and the predictions of a model that never finds it."""
    return torch.tensor([0] * 99 + [1]), torch.zeros(100, dtype=torch.long)


@claim(
    "C222",
    true="The mean of batches is not what imbalance harms: with equal batches it was the accuracy exactly. It is "
    "*accuracy* that misleads, 0.99 for a model that never found the rare class.",
    false="A mean of batches does mislead, when the last one is smaller. And imbalance misleads as well. The two have "
    "only nothing to do with each other.",
    depends="Right: two faults, two cures. Uneven batches: count. Rare classes: look at the recall of each class, or "
    "at their mean, the balanced accuracy.",
)
def two_faults_not_one() -> dict[str, bool]:
    """Score a model that always says the frequent class, in equal and in uneven batches."""
    labels, predictions = always_the_frequent_class()
    correct = predictions == labels
    accuracy = correct.double().mean().item()
    recalls = [correct[labels == each].double().mean().item() for each in (0, 1)]
    balanced = sum(recalls) / 2
    return {
        "with equal batches the mean of batch accuracies differs from the accuracy": abs(
            mean_of_batches(correct, 20) - accuracy
        )
        > 1e-9,
        "with a smaller last batch it does": abs(mean_of_batches(correct, 33) - accuracy) > 0.1,
        "with imbalanced data even the right accuracy misleads: 0.99, though half the classes are never found": accuracy
        == 0.99
        and balanced == 0.5,
    }


def accuracy(model: nn.Module, inputs: Tensor, labels: Tensor, size: int, *, evaluates: bool = True) -> float:
    """Return the accuracy of a model over batches of this size, in evaluation mode or, wrongly, in training mode."""
    model.train(not evaluates)
    correct = total = 0
    with torch.no_grad():
        for few_inputs, few_labels in zip(inputs.split(size), labels.split(size), strict=True):
            correct += (model(few_inputs).argmax(dim=1) == few_labels).sum().item()
            total += len(few_labels)
    return correct / total


@claim(
    "C223",
    true="Yes. So counted, the result was the same for batches of 1, 7 and 60. In training mode it was not: BatchNorm "
    "then looks at the batch, and dropout throws values away.",
    false="If a part seems superfluous, leave it out and count again: without `eval()` the result changed with the "
    "size of the batch.",
    depends="For a model without BatchNorm and dropout `eval()` changes nothing. The recipe is right for those too; "
    "it is one for all models.",
)
def the_batch_size_does_not_matter() -> dict[str, bool]:
    """Score a model with BatchNorm and dropout over batches of three sizes, in both modes."""
    model = nn.Sequential(nn.Linear(4, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.5), nn.Linear(16, 3))
    inputs, labels = torch.randn(60, 4) + 1, torch.randint(0, 3, (60,))
    model(inputs)  # so that the running statistics are not those of the start
    before = {name: value.clone() for name, value in model.state_dict().items()}
    evaluated = {accuracy(model, inputs, labels, size) for size in (1, 7, 60)}
    unchanged = all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    in_training = {accuracy(model, inputs, labels, size, evaluates=False) for size in (2, 6, 60)}
    return {
        "the accuracy is the same for batches of 1, 7 and 60": len(evaluated) == 1,
        "evaluating changes nothing in the model": unchanged,
        "in training mode the accuracy changes with the batches": len(in_training) > 1,
    }
