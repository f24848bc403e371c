"""Measurements for the topic "Autograd": losses of single samples, clipping, reversing and weighting gradients."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from labkit.autograd.recipes import ReverseGradient
from labkit.exercises.claims import claim


@claim(
    "C096",
    true="The shape is as stated. Count what is in it: six losses for two samples. Each label of each sample has one "
    "of its own.",
    false="The shape is right: without reduction there is one loss for each logit. Only *one a sample* is wrong.",
    depends="Right. It holds one loss for each label of each sample; `.mean(1)` of it is one loss a sample.",
)
def one_loss_for_each_label() -> dict[str, bool]:
    """Compute the losses of two samples with three labels each."""
    loss = nn.BCEWithLogitsLoss(reduction="none")(torch.randn(2, 3), torch.ones(2, 3))
    return {
        "the shape is (2, 3)": loss.shape == (2, 3),
        "there are as many losses as samples": loss.numel() == 2,
    }


@claim(
    "C099",
    true="For the logits, yes: each row of the gradient was that of one sample. The weights are shared by all samples; "
    "for them a single gradient came back, the sum over all.",
    false="For the logits they do stay apart, since the logits of one sample have no part in the loss of another.",
    depends="Right: it hangs on *with respect to what*. For one gradient of the weights a sample, use "
    "`torch.func.vmap` over `torch.func.grad`.",
)
def logits_apart_and_weights_mixed() -> dict[str, bool]:
    """Compare the gradient of a sum over five samples with the gradients of each sample alone."""
    layer, inputs, targets = nn.Linear(4, 3), torch.randn(5, 4), torch.tensor([0, 1, 2, 0, 1])

    def gradients(chosen: slice) -> tuple[Tensor, Tensor]:
        logits = layer(inputs[chosen])
        loss = functional.cross_entropy(logits, targets[chosen], reduction="sum")
        return torch.autograd.grad(loss, (logits, layer.weight))

    by_logits, by_weight = gradients(slice(None))
    alone = [gradients(slice(sample, sample + 1)) for sample in range(5)]
    sum_of_all = torch.stack([weight for _, weight in alone]).sum(0)
    return {
        "by the logits, each row is the gradient of one sample": torch.allclose(
            by_logits, torch.cat([logits for logits, _ in alone]), atol=1e-6
        ),
        "by the weights, there is one gradient for each sample": len(by_weight) == len(inputs),
        "by the weights, it is something else than the sum over all samples": not torch.allclose(
            by_weight, sum_of_all, atol=1e-5
        ),
    }


def steep_loss() -> tuple[nn.Linear, Tensor]:
    """Return a layer and a loss whose gradient is longer than 1."""
    layer = nn.Linear(2, 1)
    return layer, 100 * (layer(torch.ones(1, 2)) - 5).square().sum()


@claim(
    "C101",
    true="Both calls run without an error, and nothing is clipped: `clip_grad_norm_` reads `.grad`, where "
    "`autograd.grad` writes nothing. It found a norm of 0, and your gradients stayed as long as they were.",
    false="Right. Call `loss.backward()` first. Or store each returned gradient in `parameter.grad`, and then clip.",
    depends="It works after `backward()`, but the sentence says `autograd.grad`. With that it never does, as the two "
    "calls do not look at the same place.",
)
def clipping_reads_another_place() -> dict[str, bool]:
    """Clip to a norm of 1 after autograd.grad, and look at the norm it reports and at the gradients."""
    layer, loss = steep_loss()
    gradients = torch.autograd.grad(loss, layer.parameters())
    before = torch.cat([one.flatten() for one in gradients]).norm()
    reported = nn.utils.clip_grad_norm_(layer.parameters(), max_norm=1.0)
    after = torch.cat([one.flatten() for one in gradients]).norm()
    return {
        "it sees how long the gradients are": torch.allclose(reported, before),
        "afterwards the gradients are no longer than 1": bool(after <= 1 < before),
    }


def domain_gradients(turn_round: nn.Module) -> tuple[Tensor, Tensor]:
    """Return the gradients of a loss about domains, by features and classifier, with a module between the two."""
    features, classifier = nn.Linear(3, 4), nn.Linear(4, 2)
    for weight in [*features.parameters(), *classifier.parameters()]:
        nn.init.constant_(weight, 0.1)
    nn.init.constant_(classifier.weight[0], 0.5)
    logits = classifier(turn_round(features(torch.ones(2, 3))))
    return torch.autograd.grad(
        functional.cross_entropy(logits, torch.tensor([0, 0])), (features.weight, classifier.weight)
    )


@claim(
    "C102",
    true="It does turn the gradient of the features round. But it turns *every* gradient round, the classifier's too, "
    "and a classifier that learns to be wrong is no adversary.",
    false="For the features it does exactly what a reversal layer does. What it spoils is the classifier.",
    depends="Right. Put a reversal layer between the features and the classifier: forward it changes nothing, backward "
    "it changes the sign. Then only what lies before it is reversed.",
)
def negating_reverses_the_classifier_too() -> dict[str, bool]:
    """Compare negated gradients with those that a reversal layer between features and classifier gives."""
    features, classifier = (-one for one in domain_gradients(nn.Identity()))
    wanted_features, wanted_classifier = domain_gradients(ReverseGradient())
    return {
        "the features get the gradient that a reversal layer gives them": torch.equal(features, wanted_features)
        and bool(features.any()),
        "the classifier still gets the gradient it needs": torch.equal(classifier, wanted_classifier),
    }


@claim(
    "C103",
    true="Yes; it is the gradient of the weighted sum, to the last digit or nearly so. The first call needs "
    "`retain_graph=True`, since the second goes through the same layers.",
    false="Perhaps your second call was refused: without `retain_graph=True` in the first it is. With it, the sum of "
    "the two was the gradient of the weighted loss.",
    depends="Derivatives add up like that for any two losses. What does depend is whether it pays: for weights fixed "
    "in advance, weighting the losses is simpler and needs one pass.",
)
def gradients_can_be_weighted() -> dict[str, bool]:
    """Weight the gradients of two losses, and compare with the gradient of the weighted loss."""
    layer = nn.Linear(3, 2)
    outputs = torch.tanh(layer(torch.randn(4, 3)))
    losses = outputs[:, 0].square().mean(), (outputs[:, 1] - 1).abs().mean()
    first = torch.autograd.grad(losses[0], layer.weight, retain_graph=True)[0]
    second = torch.autograd.grad(losses[1], layer.weight, retain_graph=True)[0]
    (0.7 * losses[0] + 0.3 * losses[1]).backward()
    return {
        "0.7 and 0.3 times the two gradients is the gradient of the weighted loss": torch.allclose(
            0.7 * first + 0.3 * second, layer.weight.grad, atol=1e-6
        ),
        "each of the two has a part in it": bool(first.any()) and bool(second.any()),
    }
