"""Each rule of the model: a small program that triggers it, and its twin that does not."""

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader

from labkit.doctor.evidence import Evidence
from labkit.doctor.probe.data import DataEvidence
from labkit.doctor.probe.data_values import ValuesEvidence
from labkit.doctor.probe.model import ModelEvidence
from labkit.doctor.probe.model_layers import LayersEvidence
from labkit.doctor.probe.model_start import StartEvidence
from labkit.doctor.rules import model_answers, model_start
from tests.doctor.model_programs import With, found, mlp, program


def branches(container):
    parts = container([nn.Linear(6, 4), nn.Linear(6, 4)])
    return With(
        lambda self, x: self.out(torch.cat([p(x).relu() for p in self.parts], 1)), parts=parts, out=nn.Linear(8, 2)
    )


def cut_by(how):
    return With(lambda self, x: self.out(how(self.body(x))), body=mlp(6, 8, 8), out=nn.Linear(8, 2))


def without_graph(tensor):
    return torch.from_numpy(tensor.detach().numpy())


def hidden_weights(fill):
    model = mlp(6, 12, 12, 2)
    for layer in model:
        if isinstance(layer, nn.Linear):
            fill(layer)
    return model


def filled(layer):
    nn.init.constant_(layer.weight, 0.1)
    nn.init.zeros_(layer.bias)


def far_too_large(layer):
    nn.init.normal_(layer.weight, std=10.0)


def next_to_nothing(layer):
    nn.init.normal_(layer.weight, std=1e-3)


def usual(layer):
    layer.reset_parameters()


def low_rank():
    """Zeros beside a frozen layer, as adapters begin: their gradients differ from row to row."""
    model = mlp(6, 12, 2).requires_grad_(False)
    return With(
        lambda self, x: self.base(x) + x @ self.down @ self.up,
        base=model,
        down=nn.Parameter(torch.randn(6, 3)),
        up=nn.Parameter(torch.zeros(3, 2)),
    )


def rectified_below(shift):
    return With(
        lambda self, x: self.out((self.first(x).tanh() - shift).relu()), first=nn.Linear(6, 8), out=nn.Linear(8, 2)
    )


def dropping(always):
    def forward(self, x):
        return self.out(functional.dropout(self.first(x).relu(), 0.5, training=always or self.training))

    return With(forward, first=nn.Linear(6, 8), out=nn.Linear(8, 2))


def remembering(remembers):
    def forward(self, x):
        if remembers:
            self.seen.append(x.detach().mean(0))
        return self.net(x + sum(self.seen))

    return With(forward, net=mlp(6, 8, 2), seen=[])


def in_pieces(begins_afresh):
    """A series in pieces: the state goes on, and the model knows its first piece (or does not)."""

    def forward(self, x):
        if begins_afresh and (x[0, 0] == 9).item():
            self.state = 0.0
        out = self.net(x + self.state)
        self.state = out.detach().mean()
        return out

    return With(forward, net=mlp(6, 8, 2), state=0.0)


def weighed_over(dim):
    return With(
        lambda self, x: self.out(x * torch.softmax(self.score(x), dim)), score=nn.Linear(6, 6), out=nn.Linear(6, 2)
    )


def frozen_body(still):
    class Frozen(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8)).requires_grad_(False)
            self.out = nn.Linear(8, 2)

        def train(self, mode=True):
            super().train(mode)
            if still:
                self.body.eval()
            return self

        def forward(self, x):
            return self.out(self.body(x).relu())

    return Frozen()


def normalised(**options):
    return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8, **options), nn.ReLU(), nn.Linear(8, 2))


def dropped(p):
    return nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Dropout(p), nn.Linear(16, 2))


def clamped(by_data):
    def forward(self, x):
        inner = self.first(x).exp()
        if by_data:
            inner.data.clamp_(max=1.0)
            return self.out(inner)
        return self.out(inner.clamp(max=1.0))

    return With(forward, first=nn.Linear(6, 8), out=nn.Linear(8, 2))


PAIRS = {
    "layers in a list": ("param_not_registered", lambda: branches(list), lambda: branches(nn.ModuleList)),
    "NumPy in the middle": ("graph_detached", lambda: cut_by(without_graph), lambda: cut_by(lambda tensor: tensor)),
    "rounded in the middle": ("graph_detached", lambda: cut_by(torch.round), lambda: cut_by(torch.tanh)),
    "all weights equal": ("bad_init", lambda: hidden_weights(filled), lambda: hidden_weights(usual)),
    "weights too large": ("bad_init", lambda: hidden_weights(far_too_large), low_rank),
    "weights too small": ("bad_init", lambda: hidden_weights(next_to_nothing), lambda: hidden_weights(usual)),
    "always below zero": ("dead_units", lambda: rectified_below(2.0), lambda: rectified_below(0.0)),
    "sigmoids": ("vanishing_gradient", lambda: mlp(6, *[8] * 10, 2, activation=nn.Sigmoid), lambda: mlp(6, 8, 8, 2)),
    "dropout without end": ("train_eval_mode", lambda: dropping(True), lambda: dropping(False)),
    "a list that grows": ("state_carried_over", lambda: remembering(True), lambda: remembering(False)),
    "softmax over the batch": ("axis_mixup", lambda: weighed_over(0), lambda: weighed_over(1)),
    "no activation": ("model_too_weak", lambda: mlp(6, 8, 2, activation=nn.Identity), lambda: mlp(6, 8, 2)),
    "one unit": ("model_too_weak", lambda: mlp(6, 8, 1, 8, 2), lambda: mlp(6, 8, 8, 2)),
    "frozen and drifting": ("bn_statistics", lambda: frozen_body(False), lambda: frozen_body(True)),
    "statistics that stay": ("bn_statistics", lambda: normalised(momentum=0.0), normalised),
    "the last batch only": ("bn_statistics", lambda: normalised(momentum=0.99), lambda: normalised(momentum=None)),
    "share to keep": ("dropout_too_high", lambda: dropped(0.9), lambda: dropped(0.2)),
    "changed by data": ("inplace_autograd", lambda: clamped(True), lambda: clamped(False)),
}  # fmt: skip


@pytest.mark.parametrize("name", PAIRS)
def test_a_fault_is_found_and_its_twin_left_alone(name):
    label, faulty, healthy = PAIRS[name]
    torch.manual_seed(0)
    findings = found(program(faulty()))
    assert label in findings
    assert all((finding.what, finding.why, finding.fix, finding.verify) for finding in findings.values())
    torch.manual_seed(0)
    assert found(program(healthy())) == {}


@pytest.mark.parametrize("begins_afresh", [True, False])
def test_a_state_that_goes_on_through_the_pieces_of_a_series(begins_afresh):
    x = torch.randn(320, 6, generator=torch.Generator().manual_seed(2))
    x[0, 0] = 9
    pieces = program(in_pieces(begins_afresh), x)
    pieces.train_loader = DataLoader(pieces.train_loader.dataset, 32)
    assert ("state_carried_over" in found(pieces)) is not begins_afresh


def test_hidden_layers_are_named_with_their_fix():
    finding = found(program(branches(list)))["param_not_registered"]
    assert "model.parts[0] (Linear with 28 parameters, and 1 more)" in finding.what
    assert finding.fix == "Write `self.parts = nn.ModuleList(self.parts)`."


def test_every_cut_parameter_is_counted():
    finding = found(program(cut_by(without_graph)))["graph_detached"]
    assert finding.what.startswith(
        "4 parameters never get a gradient (body.0.weight, body.0.bias, body.2.weight and 1 more)"
    )


def test_equal_rows_are_counted():
    assert "All 12 rows of" in found(program(hidden_weights(filled)))["bad_init"].what


def test_copies_of_one_branch_are_found():
    branch = nn.Linear(6, 2)
    model = With(lambda self, x: self.a(x).tanh() + self.b(x).tanh(), a=branch, b=copy.deepcopy(branch))
    assert "a.weight and b.weight" in found(program(model))["bad_init"].what
    model.b.reset_parameters()
    assert found(program(model)) == {}


def test_features_without_gradients_that_no_optimizer_has_are_left_alone():
    def forward(self, x):
        with torch.no_grad():
            features = self.body(x)
        return self.out(features.relu())

    model = With(forward, body=nn.Linear(6, 8), out=nn.Linear(8, 2))
    assert found(program(model, optimizer=torch.optim.Adam(model.out.parameters(), lr=0.01))) == {}
    assert "The output of body has no graph" in found(program(model))["graph_detached"].what


def test_a_layer_that_nobody_uses_is_no_cut():
    model = mlp(6, 8, 2)
    unused = With(lambda self, x: self.net(x), net=model, spare=nn.Linear(3, 3))
    assert found(program(unused)) == {}


def test_dropout_on_purpose_is_left_alone_when_passes_are_averaged():
    def evaluate(model, loader):
        model.eval()
        with torch.no_grad():
            return sum(sum(model(x) for _ in range(5)).argmax(1).eq(y).sum().item() for x, y in loader)

    assert found(program(dropping(True), evaluate=evaluate)) == {}


def test_a_loss_of_hard_decisions_has_no_gradient():
    def hard(outputs, targets):
        right = (outputs[:, 1] > outputs[:, 0]).float() == targets
        return 1 - right.float().mean() + 1e-4 * outputs.square().mean()

    finding = found(program(mlp(6, 8, 2), loss_fn=hard))["graph_detached"]
    assert "loss_fn uses `gt` of the outputs" in finding.what


def test_an_evaluation_that_freezes_for_good():
    def evaluate(model, loader):
        model.requires_grad_(False)
        return sum(model(x).argmax(1).eq(y).sum().item() for x, y in loader)

    finding = found(program(mlp(6, 8, 2), evaluate=evaluate))["graph_detached"]
    assert finding.what.startswith("After `evaluate`, 4 parameters require no gradient any more")


def test_a_last_batch_of_one_is_refused_by_batch_norm():
    x = torch.randn(65, 6, generator=torch.Generator().manual_seed(0))
    assert "has 1 sample" in found(program(normalised(), x, 32))["batch_too_small"].what
    assert found(program(normalised(), x[:64], 32)) == {}


def test_time_first_is_read_as_batch_first():
    x = torch.randn(320, 9, 3, generator=torch.Generator().manual_seed(0))

    def forward(self, x):
        return self.out(self.rnn(x)[0][:, -1])

    def model(**options):
        return With(forward, rnn=nn.GRU(3, 8, **options), out=nn.Linear(8, 2))

    assert "axis_mixup" in found(program(model(), x))
    assert found(program(model(batch_first=True), x)) == {}


def test_axes_swapped_by_a_reshape():
    x = torch.randn(320, 5, 5, 3, generator=torch.Generator().manual_seed(0))

    def model(swap):
        head = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(36, 2))
        return With(lambda self, x: self.head(swap(x)), head=head)

    finding = found(program(model(lambda x: x.reshape(-1, 3, 5, 5)), x))["axis_mixup"]
    assert "(7, 3, 5, 5) out of (7, 5, 5, 3)" in finding.what
    assert finding.confirm
    assert found(program(model(lambda x: x.permute(0, 3, 1, 2)), x)) == {}


def test_healthy_starts_are_left_alone():
    zero_head = mlp(6, 8, 2)
    nn.init.zeros_(zero_head[-1].weight)
    for model in (zero_head, low_rank(), mlp(6, 8, 2)):
        assert found(program(model)) == {}


@pytest.mark.parametrize(("mean", "count"), [(None, 1), (77.0, 0)])
def test_inputs_are_judged_where_the_model_gets_them_if_the_samples_do_not_show_it(mean, count):
    seen = ModelEvidence(start=StartEvidence(inputs=(76.5, 95.2)))
    said = model_start.inputs_of_another_size(Evidence(DataEvidence(ValuesEvidence(mean=mean)), seen, None, None, None))
    assert (said is not None) == bool(count)
    assert said is None or "mean 76.5 and deviation 95.2" in said.what


def test_two_rectified_numbers_for_eight_classes_are_few():
    start = StartEvidence(outputs=(32, 8), class_targets=True)
    seen = ModelEvidence(start=start, layers=LayersEvidence(narrow=[("first", "second", 2)]))
    said = model_answers.too_narrow(Evidence(None, seen, None, None, None))
    assert "2 numbers of first, cut off at zero; from these it shall tell 8 classes apart" in said.what
    start.class_targets = False
    assert model_answers.too_narrow(Evidence(None, seen, None, None, None)) is None
