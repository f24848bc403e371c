import pytest
import torch
import torch.nn.functional as F

from labkit.data.loading import loader
from labkit.errors import ConfigError
from labkit.measuring.losses import balanced_weights, cross_entropy
from tests.training.helpers import stripes


def logits_and_targets(count=12):
    source = torch.Generator().manual_seed(0)
    return torch.randn(count, 3, generator=source, dtype=torch.float64), torch.arange(count) % 3


@pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
def test_without_weights_it_is_that_of_torch(label_smoothing):
    outputs, targets = logits_and_targets()
    ours = cross_entropy(outputs, targets, label_smoothing)
    assert torch.equal(ours, F.cross_entropy(outputs, targets, label_smoothing=label_smoothing))


def test_a_weighted_loss_of_uneven_batches_adds_up_to_that_of_all():
    outputs, targets = logits_and_targets()
    weights = torch.tensor([0.5, 1.0, 3.0], dtype=torch.float64)
    whole = cross_entropy(outputs, targets, 0.1, weights)
    parts = [slice(0, 5), slice(5, 6), slice(6, 12)]
    sums = [cross_entropy(outputs[part], targets[part], 0.1, weights) * len(targets[part]) for part in parts]
    torch.testing.assert_close(sum(sums) / len(targets), whole, rtol=1e-14, atol=0)
    one_by_one = F.cross_entropy(outputs, targets, reduction="none") * weights[targets]
    torch.testing.assert_close(cross_entropy(outputs, targets, class_weights=weights), one_by_one.mean())


def test_balanced_weights_give_every_class_the_same_say():
    data = stripes().select(torch.tensor([0, 3, 6, 9, 12, 15, 1, 4]))  # six horizontal, two vertical, none of the third
    weights = balanced_weights(loader(data, 2))
    assert weights.tolist() == pytest.approx([8 / 12, 8 / 4, 0])
    assert float(weights[data.labels].mean()) == pytest.approx(1)


def test_labels_that_nobody_knows_beforehand_are_asked_for():
    with pytest.raises(ConfigError, match="must count the labels before"):
        balanced_weights([(torch.zeros(2, 3), torch.zeros(2))])
