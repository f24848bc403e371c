"""What the probes of the model measure, in numbers that can be computed, and that they change nothing."""

import math

import pytest
import torch
from torch import nn

from labkit.doctor.copying import copied
from labkit.doctor.probe.model import look
from labkit.doctor.probe.model_runs import answer, difference, same, samples
from labkit.doctor.probe.model_slopes import hard_operations, slopes_along_the_gradient
from labkit.doctor.probe.model_trace import traced
from labkit.doctor.program import usual_step
from labkit.doctor.recording import record
from labkit.doctor.rules import model_mends as mends
from labkit.doctor.trial import train
from labkit.doctor.undisturbed import undisturbed
from tests.doctor.model_programs import With, examined, mlp, program


def test_the_program_is_as_it_was():
    one = program(nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 2)))
    before, state = copied({"state": one.model.state_dict()})["state"], torch.get_rng_state()
    with undisturbed(one):
        look(one, record(one.copy(), updates=4))
    assert all(torch.equal(before[name], value) for name, value in one.model.state_dict().items())
    assert torch.equal(state, torch.get_rng_state())
    assert one.model.training
    assert all(parameter.grad is None for parameter in one.model.parameters())


def test_a_model_that_takes_more_than_its_inputs_is_not_examined():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = mlp(6, 8, 2)

        def forward(self, x, *, scale):
            return self.net(x) * scale

    def train_step(model, batch, loss_fn, optimizer):
        optimizer.zero_grad()
        loss = loss_fn(model(batch[0], scale=2.0), batch[1])
        loss.backward()
        optimizer.step()
        return loss.item()

    seen = examined(program(Two(), train_step=train_step, val_loader=None)).model
    assert seen.answers.by_chance is None
    assert seen.graph.cut == []


def test_the_gain_of_a_matrix():
    model = mlp(6, 64, 2)
    with torch.no_grad():
        model[0].weight.fill_(2.0)
    assert examined(program(model)).model.start.gains["0.weight"] == pytest.approx(2 * math.sqrt(6))


def test_dead_units_are_counted_as_a_share():
    model = mlp(6, 8, 2)
    with torch.no_grad():
        model[0].bias[:6] = -100.0
    start = examined(program(model)).model.start
    assert start.dead == {"1": (0.75, "relu")}
    assert start.samples == 256


def test_affine_models_and_others():
    assert examined(program(mlp(6, 8, 2, activation=nn.Identity))).model.answers.affine < 1e-12
    assert examined(program(mlp(6, 8, 2))).model.answers.affine > 1e-3
    constant = mlp(6, 8, 2)
    nn.init.zeros_(constant[2].weight)
    assert examined(program(constant)).model.answers.affine is None


def test_last_batch_and_values_of_normalisation():
    x = torch.randn(65, 6)
    layers = examined(program(nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8), nn.Linear(8, 2)), x)).model.layers
    assert (layers.last_batch, layers.batch, layers.batches, layers.values) == (1, 32, 3, None)
    pictures = torch.randn(64, 1, 4, 4)
    norm = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Flatten(), nn.Linear(8, 2))
    layers = examined(program(norm, pictures)).model.layers
    assert (layers.values, layers.refuses_one) == (32 * 4, "")


def test_slopes_agree_unless_something_is_hidden():
    healthy = program(mlp(6, 8, 2))
    autograd, measured = slopes_along_the_gradient(healthy, record(healthy.copy(), updates=1))
    assert measured == pytest.approx(autograd, rel=1e-4)


def test_share_of_the_loss_without_gradient():
    def half(outputs, targets):
        return (outputs > 0).float().mean() + 0.0 * outputs.sum()

    one = program(mlp(6, 8, 2), loss_fn=half)
    assert hard_operations(one, record(one.copy(), updates=1)) == (1.0, ["gt"])
    hinge = program(mlp(6, 8, 2), loss_fn=lambda outputs, targets: ((outputs > 0) * outputs).mean())
    share, names = hard_operations(hinge, record(hinge.copy(), updates=1))
    assert share < 0.05
    assert names == ["gt"]


def test_operations_are_traced_with_their_layer():
    model = nn.Sequential(nn.Linear(6, 4), nn.ReLU(), nn.Linear(4, 2))
    with traced(model, {"relu"}) as trace:
        outputs = model(torch.randn(3, 6))
    assert outputs.shape == (3, 2)
    assert [(operation.name, operation.layer) for operation in trace.operations] == [("relu", "1")]
    assert trace.behind == []
    with traced(model, set()) as trace:
        model[0](torch.randn(3, 6)).data.zero_()
    assert trace.behind == [("zero_", "")]


def test_differences_are_in_units_of_the_spread():
    first = [torch.tensor([0.0, 2.0])]
    assert difference(first, [torch.tensor([0.0, 3.0])]) == 1.0
    assert difference(first, [torch.zeros(3)]) == math.inf
    assert same(first, [first[0].clone()])
    assert samples((torch.zeros(5, 2), {"length": torch.zeros(5)})) == 5
    assert samples((torch.zeros(5, 2), torch.zeros(4))) is None


@pytest.mark.parametrize(
    "mend",
    [
        mends.leaky, mends.quarter_of_dropout, mends.without_chance, mends.he_weights, mends.unit_signals,
        mends.rectified_signals, mends.rectified, mends.widened("4", "6"), mends.batches_of(64), mends.usual_momentum,
    ],
)  # fmt: skip
def test_a_mended_program_can_be_trained(mend):
    model = nn.Sequential(
        nn.Linear(6, 8), nn.BatchNorm1d(8, momentum=0.9), nn.ReLU(), nn.Dropout(0.8), nn.Linear(8, 1), nn.Tanh(),
        nn.Linear(1, 2),
    )  # fmt: skip
    one = program(model)
    trial = one.copy()
    mend(trial)
    train(trial, 3)
    assert answer(trial.model.eval(), (torch.randn(4, 6),))[0].shape == (4, 2)
    assert one.model[4].out_features == 1


def test_words_are_read_in_order():
    words = torch.randint(0, 9, (320, 5), generator=torch.Generator().manual_seed(0))
    bag = With(lambda self, x: self.out(self.words(x).mean(1)), words=nn.Embedding(9, 4), out=nn.Linear(4, 2))
    one = program(bag, words)
    assert examined(one).model.answers.orderless < 1e-5
    trial = one.copy()
    mends.read_in_order(trial)
    train(trial, 2)
    assert trial.model(words[:3]).shape == (3, 2)


def narrowed(past: bool) -> nn.Module:
    return With(
        lambda self, x: self.out(self.second(self.first(x).relu()).relu() + past * self.beside(x)),
        first=nn.Linear(20, 2),
        second=nn.Linear(2, 16),
        beside=nn.Linear(20, 16),
        out=nn.Linear(16, 8),
    )


@pytest.mark.parametrize(("past", "narrow"), [(False, [("first", "second", 2)]), (True, [])])
def test_a_narrow_place_counts_only_if_nothing_gets_past_it(past, narrow):
    torch.manual_seed(0)
    x = torch.randn(64, 20)
    assert examined(program(narrowed(past), x)).model.layers.narrow == narrow


def test_the_size_of_what_the_model_is_given_is_seen_behind_the_step():
    x = torch.tensor([[0.0, 200.0]]).repeat(32, 3)

    def divided(model, batch, loss_fn, optimizer):
        return usual_step(model, (batch[0] / 200, batch[1]), loss_fn, optimizer)

    assert examined(program(mlp(6, 8, 2), x)).model.start.inputs == pytest.approx((100.0, 100.0), rel=1e-2)
    assert examined(program(mlp(6, 8, 2), x, train_step=divided)).model.start.inputs == pytest.approx((0.5, 0.5), 1e-2)
