"""`find_learning_rate` lets the rate grow, and its rule is right on losses whose answer is known."""

import math

import pytest
import torch
import torch.nn as nn

from labkit import data, models
from labkit.errors import ConfigError
from labkit.trials import find_learning_rate
from labkit.trials.learning_rate import smooth, suggest

RATES = [10.0**power for power in range(-6, 1)]


def test_the_rule_takes_a_tenth_of_the_rate_with_the_lowest_loss() -> None:
    rate, sentence = suggest(RATES, [2.0, 2.0, 1.9, 1.5, 1.0, 1.4, 9.0])
    assert rate == pytest.approx(1e-3)
    assert sentence == "Begin with 0.001: a tenth of 0.01, where the smoothed loss was lowest."
    assert suggest(RATES[:6], [2.0, 1.9, 1.8, 1.5, 1.0, math.nan])[0] == pytest.approx(1e-3)


def test_a_loss_that_gives_no_reason_gives_no_rate() -> None:
    rate, sentence = suggest(RATES, [2.0, 2.0, 1.99, 1.98, 2.0, 4.0, 7.0])
    assert rate is None and "never fell clearly below its start (2)" in sentence and "overfit_small_batch" in sentence
    rate, sentence = suggest(RATES[:1], [math.nan])
    assert rate is None and "not finite from the start" in sentence


def test_a_loss_that_never_turned_asks_for_a_higher_end() -> None:
    rate, sentence = suggest(RATES, [2.0, 2.0, 1.9, 1.5, 1.2, 1.0, 0.9])
    assert rate == pytest.approx(0.1) and "larger `highest`" in sentence


def test_a_smoothed_loss_is_a_weighted_mean() -> None:
    assert smooth([3.0]) == 3.0
    assert smooth([1.0, 2.0, 4.0]) == pytest.approx((0.81 * 1 + 0.9 * 2 + 4) / (0.81 + 0.9 + 1))


def test_on_a_parabola_the_losses_are_those_of_arithmetic() -> None:
    """With loss w² and SGD an update multiplies w by 1 - 2·rate: every loss follows, and so does the end."""
    model = nn.Linear(1, 1, bias=False)
    model.weight.data.fill_(3.0)
    batch = torch.ones(1, 1), torch.zeros(1, 1)
    result = find_learning_rate(model, batch, nn.MSELoss(), torch.optim.SGD, 0.01, 10.0, updates=50)
    weight = 3.0
    for place, (rate, loss) in enumerate(zip(result.rates, result.losses, strict=True)):
        assert rate == pytest.approx(0.01 * 1000 ** (place / 49)) and loss == pytest.approx(weight**2, rel=1e-3)
        weight *= 1 - 2 * rate
    assert len(result.rates) < 50 and result.smoothed[-1] > 3 * min(result.smoothed)
    assert 0.01 < result.suggestion < 1.0  # beyond 1 an update makes the weight longer


@pytest.mark.parametrize("kind", ["class", "own", "tensor rate", "torch loader"])
def test_it_suggests_a_rate_for_digits_that_learns(kind: str) -> None:
    digits = data.digits()
    source, model = data.loader(digits, 64, shuffle=True), models.build("mlp", digits.image_shape, 10)
    optimizer = torch.optim.AdamW
    if kind == "own":
        optimizer = torch.optim.AdamW(model.parameters())
    if kind == "tensor rate":
        optimizer = torch.optim.AdamW(model.parameters(), lr=torch.tensor(0.1))
    if kind == "torch loader":
        pairs = torch.utils.data.TensorDataset(digits.images / 16 - 0.5, digits.labels)
        source = torch.utils.data.DataLoader(pairs, 64, shuffle=True)
    result = find_learning_rate(model, source, optimizer=optimizer)
    assert 1e-4 < result.suggestion < 0.1 and f"Begin with {result.suggestion:.2g}" in repr(result)
    if isinstance(optimizer, torch.optim.Optimizer):
        rate = 0.001 if kind == "own" else torch.tensor(0.1)
        assert not optimizer.state and optimizer.param_groups[0]["lr"] == rate


def test_what_cannot_be_is_a_sentence() -> None:
    model, batch = nn.Linear(3, 2), (torch.ones(4, 3), torch.zeros(4).long())
    for settings, words in [
        ({"lowest": 0.1, "highest": 0.1}, "must be below highest"),
        ({"lowest": 0}, "lowest=0 must be a number above 0"),
        ({"highest": math.inf}, "highest=inf must be a number above 0"),
        ({"updates": 9}, "updates=9 must be a whole number of at least 10"),
        ({"optimizer": torch.optim.LBFGS}, "LBFGS calls the model several times"),
        ({"optimizer": torch.optim.SGD(nn.Linear(3, 2).parameters())}, "no parameter of this model"),
        ({"optimizer": list}, "must be a torch optimizer or its class, got list"),
        ({"optimizer": "adam"}, "must be a torch optimizer or its class, got str"),
    ]:
        with pytest.raises(ConfigError, match=words):
            find_learning_rate(model, batch, **settings)
    broken = find_learning_rate(model, (torch.full((4, 3), math.nan), batch[1]))
    assert broken.suggestion is None and len(broken.losses) == 1
