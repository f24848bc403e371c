"""Chapter 02, second part: several losses, and who learns from which."""

from typing import Any

import torch
from torch import Tensor, nn

from labkit.exercises import families
from labkit.exercises.declaration import Misconception
from labkit.exercises.drawing import normal, with_drawn_weights
from labkit.exercises.exercise import Exercise
from labkit.exercises.families import WrongKind

Parameters = list[nn.Parameter]


def as_float(answer: Any, first: Tensor, second: Tensor, parameters: Parameters) -> Any:
    """Call the answer and return a tensor of one element as the number in it."""
    result = families.call(answer, first, second, parameters)
    return result.item() if isinstance(result, Tensor) and result.numel() == 1 else result


def two_losses(generator: torch.Generator, count: int, hidden: int) -> tuple[Tensor, Tensor, Parameters]:
    """Return two losses of one small network, for two tasks that share all its parameters."""
    model = with_drawn_weights(generator, nn.Sequential(nn.Linear(3, hidden), nn.Tanh(), nn.Linear(hidden, 2)))
    outputs, targets = model(normal(generator, count, 3)), normal(generator, count, 2)
    first, second = (outputs - targets).square().mean(dim=0)
    return first, second, list(model.parameters())


def _flat(first: Tensor, second: Tensor, parameters: Parameters) -> tuple[Tensor, Tensor]:
    """Return both gradients, each as one long vector."""
    both = [torch.autograd.grad(loss, parameters, retain_graph=True) for loss in (first, second)]
    return tuple(torch.cat([one.flatten() for one in gradients]) for gradients in both)


def _piled_up(first: Tensor, second: Tensor, parameters: Parameters) -> Tensor:
    one, other = _flat(first, second, parameters)
    return torch.cosine_similarity(one, one + other, dim=0)


def _freed(first: Tensor, second: Tensor, parameters: Parameters) -> Tensor:
    one = torch.autograd.grad(first, parameters)
    other = torch.autograd.grad(second, parameters)
    return torch.cosine_similarity(one[0].flatten(), other[0].flatten(), dim=0)


def _one_by_one(first: Tensor, second: Tensor, parameters: Parameters) -> Tensor:
    both = [torch.autograd.grad(loss, parameters, retain_graph=True) for loss in (first, second)]
    pairs = zip(*both, strict=True)
    return torch.stack([torch.cosine_similarity(a.flatten(), b.flatten(), dim=0) for a, b in pairs]).mean()


def _product(first: Tensor, second: Tensor, parameters: Parameters) -> Tensor:
    one, other = _flat(first, second, parameters)
    return one @ other


GRADIENT_ANGLE = Exercise(
    name="gradient_angle",
    prompt="Two tasks share one network; `first` and `second` are their losses, out of one forward pass. Do they pull "
    "in the same direction? Return the cosine of the angle between their gradients, all parameters taken "
    "together as one long vector: 1 is the same direction, -1 the opposite one.",
    stub='''def gradient_angle(first, second, parameters):
    """Return the cosine between the gradients of two losses by a list of parameters."""
    return ...  # your turn''',
    solved='''def gradient_angle(first, second, parameters):
    """Return the cosine between the gradients of two losses by a list of parameters."""
    one = torch.autograd.grad(first, parameters, retain_graph=True)
    other = torch.autograd.grad(second, parameters)
    one, other = (torch.cat([gradient.flatten() for gradient in each]) for each in (one, other))
    return torch.cosine_similarity(one, other, dim=0)''',
    hints=(
        "`torch.autograd.grad(loss, parameters)` returns the gradients, and adds nothing to `.grad`.",
        "Both losses hang on one graph. What must the first call do so that there is still a graph for the second?",
        "`torch.cat` of the flattened gradients is the long vector; `torch.cosine_similarity(…, dim=0)` does the rest.",
    ),
    cases=lambda generator: [two_losses(generator, 4, 5), two_losses(generator, 1, 3), two_losses(generator, 6, 2)],
    run=as_float,
    praise="Below 0 the tasks are in conflict: what helps one hurts the other.",
    misconceptions=(
        Misconception(
            "the second contains the first",
            _piled_up,
            "Your second gradient is the *sum* of both: `backward` adds to `.grad`. Clear in between, or use "
            "`torch.autograd.grad`, which adds nowhere.",
        ),
        Misconception(
            "the graph is gone",
            _freed,
            "The first call freed the graph that both losses share. It has to keep it: `retain_graph=True`.",
        ),
        Misconception(
            "the mean of many angles",
            _one_by_one,
            "You took the cosine of each parameter and averaged: a small bias counts as much as a large weight. One "
            "step moves them all together, so they are one vector.",
        ),
        Misconception(
            "not divided by the lengths",
            _product,
            "That is the product of the two vectors, which grows with the losses. Divided by both lengths it is the "
            "cosine.",
        ),
    ),
)


def who_learns(answer: Any, generator: nn.Module, critic: nn.Module, real: Tensor, noise: Tensor) -> Any:
    """Compute both losses and return them, and what each does to the parameters of both networks."""
    families.need_function(answer)
    losses = answer(generator, critic, real, noise)
    if losses is ... or (isinstance(losses, tuple) and any(one is ... for one in losses)):
        return ...
    if not isinstance(losses, tuple | list) or len(losses) != 2:
        raise WrongKind("Return two losses, first the critic's and then the generator's: `return one, other`.")
    critic_loss, generator_loss = losses

    def gradients(loss: Tensor, network: nn.Module) -> tuple:
        return torch.autograd.grad(loss, list(network.parameters()), retain_graph=True, allow_unused=True)

    return {
        "loss of the critic": critic_loss.detach(),
        "loss of the generator": generator_loss.detach(),
        "gradients of the critic, from its loss": gradients(critic_loss, critic),
        "gradients of the generator, from the critic's loss": gradients(critic_loss, generator),
        "gradients of the generator, from its own loss": gradients(generator_loss, generator),
    }


def _adversaries(generator: torch.Generator, count: int) -> tuple[nn.Module, nn.Module, Tensor, Tensor]:
    maker = with_drawn_weights(generator, nn.Linear(2, 3))
    critic = with_drawn_weights(generator, nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)))
    return maker, critic, normal(generator, count, 3), normal(generator, count, 2)


def _losses(for_critic: Tensor, for_generator: Tensor, critic: nn.Module, real: Tensor) -> tuple[Tensor, Tensor]:
    return critic(for_critic).mean() - critic(real).mean(), -critic(for_generator).mean()


def _nothing_detached(generator: nn.Module, critic: nn.Module, real: Tensor, noise: Tensor) -> tuple:
    fake = generator(noise)
    return _losses(fake, fake, critic, real)


def _all_detached(generator: nn.Module, critic: nn.Module, real: Tensor, noise: Tensor) -> tuple:
    fake = generator(noise).detach()
    return _losses(fake, fake, critic, real)


def _wrong_side(generator: nn.Module, critic: nn.Module, real: Tensor, noise: Tensor) -> tuple:
    fake = generator(noise)
    return _losses(fake, fake.detach(), critic, real)


def _score_detached(generator: nn.Module, critic: nn.Module, real: Tensor, noise: Tensor) -> tuple:
    fake = generator(noise)
    scores = critic(fake)
    return scores.detach().mean() - critic(real).mean(), -scores.mean()


def _signs(generator: nn.Module, critic: nn.Module, real: Tensor, noise: Tensor) -> tuple:
    fake = generator(noise)
    one, other = _losses(fake.detach(), fake, critic, real)
    return -one, -other


CRITIC_LOSSES = Exercise(
    name="critic_losses",
    prompt="*Freezing* stops the gradient of a parameter, *cutting* stops the way through. Two networks that work "
    "against each other need the second: `generator(noise)` makes fakes, `critic(…)` gives high scores to what it "
    "holds for real.\n\nThe critic's loss is *mean score of the fakes minus mean score of the real ones*, the "
    "generator's is *minus the mean score of the fakes*. Return both. The critic's loss must not reach the generator; "
    "the generator's own must, and it gets there through the critic.",
    stub='''def critic_losses(generator, critic, real, noise):
    """Return the loss of the critic and the loss of the generator."""
    return ..., ...  # your turn''',
    solved='''def critic_losses(generator, critic, real, noise):
    """Return the loss of the critic and the loss of the generator."""
    fake = generator(noise)
    critic_loss = critic(fake.detach()).mean() - critic(real).mean()
    return critic_loss, -critic(fake).mean()''',
    hints=(
        "Draw the way back from each loss: critic, fake, generator. For which of the two must it end at the fake?",
        "Make the fake once. One of the two losses scores it as it is, the other scores it detached.",
    ),
    cases=lambda generator: [_adversaries(generator, 4), _adversaries(generator, 1), _adversaries(generator, 7)],
    run=who_learns,
    praise="The critic's loss ends at the fake; the generator's goes through the critic.",
    misconceptions=(
        Misconception(
            "the critic's loss reaches the generator",
            _nothing_detached,
            "Without `detach`, the critic's loss also says how the generator should change: so that the critic has it "
            "*easy*. One works against the other.",
        ),
        Misconception(
            "the generator is cut off",
            _all_detached,
            "The fake is detached for both, or made under `no_grad`. The critic learns; the generator gets no gradient "
            "at all, and its pictures stay noise.",
        ),
        Misconception(
            "detached on the wrong side",
            _wrong_side,
            "The other way round: your generator learns from the critic's loss, and not from its own. Detach while "
            "the *critic* learns.",
        ),
        Misconception(
            "the score is detached",
            _score_detached,
            "You detached what the critic *says* of the fake. So it does not learn from fakes at all. Detach what goes "
            "*into* the critic.",
        ),
        Misconception(
            "both signs turned",
            _signs,
            "The ways are right, the signs are not: this critic praises fakes, and this generator avoids praise.",
        ),
    ),
)
