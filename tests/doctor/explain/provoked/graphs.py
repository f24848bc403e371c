"""Graphs: backward that has nothing to do, comes twice, or finds its values overwritten."""

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

from tests.doctor.explain.provoked.program import provokes

# A loss without a graph


@provokes("no-graph", names=["loss"], fix=("requires_grad",))
def a_loss_of_data_alone():
    x, y = torch.rand(4), torch.rand(4)
    loss = ((x - y) ** 2).mean()
    loss.backward()


@provokes("no-graph", names=["loss"], fix=("no_grad",))
def a_loss_under_no_grad():
    model = nn.Linear(3, 1)
    with torch.no_grad():
        loss = model(torch.rand(2, 3)).sum()
    loss.backward()


@provokes("no-graph", names=["objective"], fix=("requires_grad",))
def a_model_that_is_all_frozen():
    body = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))
    body.requires_grad_(False)
    objective = body(torch.rand(2, 3)).mean()
    objective.backward()


@provokes("no-graph", names=["wrong"], fix=("argmax", "cross_entropy", "CrossEntropyLoss"))
def a_loss_of_answers():
    classify = nn.Linear(5, 3)
    scores = classify(torch.rand(6, 5))
    wrong = (scores.argmax(1) != torch.zeros(6)).float().mean()
    wrong.backward()


@provokes("no-graph", names=["self.loss|loss"], fix=("detach", ".data", "torch.tensor"))
def a_loss_that_was_made_anew():
    class Learner:
        def __init__(self):
            self.net = nn.Linear(2, 1)

        def learn(self, batch):
            self.loss = torch.tensor(self.net(batch).mean().item())
            self.loss.backward()

    Learner().learn(torch.rand(3, 2))


@provokes("no-graph", names=["energy"], fix="requires_grad", never="no_grad")
def a_gradient_of_an_input():
    position = torch.rand(3)
    energy = (position**2).sum()
    torch.autograd.grad(energy, position)


# Backward again


@provokes("backward-twice", names=["loss"], fix=("retain_graph", "once"), never="first_loss")
def two_backwards_of_one_loss():
    weight = torch.rand(3, requires_grad=True)
    loss = (weight**2).sum()
    loss.backward()
    loss.backward()


@provokes("backward-twice", names=["state"], fix="state.detach()")
def a_state_that_is_carried_over():
    cell, state = nn.GRUCell(2, 3), torch.zeros(1, 3)
    for piece in torch.rand(3, 1, 2):
        state = cell(piece, state)
        loss = state.pow(2).mean()
        loss.backward()


@provokes("backward-twice", names=["first", "second"], fix="first + second")
def two_losses_of_one_body():
    body = nn.Sequential(nn.Linear(3, 4), nn.Sigmoid())
    features = body(torch.rand(2, 3))
    first, second = features.exp().sum(), features.pow(2).sum()
    first.backward()
    second.backward()


@provokes("backward-twice", names=["scale"], fix=("inside", "loop", "each"))
def a_part_of_the_graph_made_before_the_loop():
    raw = torch.zeros(1, requires_grad=True)
    scale = raw.exp()
    for value in torch.rand(3):
        (scale * value).sum().backward()


# In place


@provokes("in-place-changed", names=["gate"], fix=("gate = gate", "out of place", "clone()", "+"))
def a_sigmoid_changed_in_place():
    signal = torch.rand(3, requires_grad=True)
    gate = torch.sigmoid(signal)
    gate += 1
    gate.sum().backward()


class Overwriting(nn.Module):
    """Changes what its own activation gave."""

    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(3, 6), nn.Linear(6, 1)

    def forward(self, x):
        hidden = torch.tanh(self.up(x))
        hidden[:, 0] = 0
        return self.down(hidden)


@provokes("in-place-changed", names=["hidden|loss"], fix=("clone()", "mask", "torch.where", "* "))
def a_column_set_to_zero():
    loss = Overwriting()(torch.rand(4, 3)).mean()
    loss.backward()


@provokes("in-place-changed", names=["critic|loss"], fix=("forward", "again", "before", "after"))
def a_step_between_forward_and_backward():
    critic = nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 1))
    optimizer = torch.optim.SGD(critic.parameters(), lr=0.1)
    values = critic(torch.rand(5, 2))
    values.mean().backward(retain_graph=True)
    optimizer.step()
    loss = values.pow(2).mean()
    loss.backward()


@provokes("in-place-changed", names=["root|loss"], fix=("clone()", "out of place", "mul(", "* "))
def a_root_multiplied_in_place():
    area = torch.rand(4, requires_grad=True)
    root = area.sqrt()
    (lambda length: length.mul_(2))(root)
    root.sum().backward()


@provokes("in-place-leaf", names=["weight"], fix=("torch.no_grad()", "no_grad"))
def a_step_by_hand():
    weight = torch.rand(3, requires_grad=True)
    (weight**2).sum().backward()
    weight -= 0.1 * weight.grad


@provokes("in-place-leaf", names=["self.weight"], fix="no_grad")
def weights_set_to_zero_by_hand():
    class Mine(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(2, 2))

        def reset(self):
            self.weight.zero_()

    Mine().reset()


@provokes("in-place-leaf", names=["layer.weight|layer"], fix="no_grad")
def one_row_of_a_layer():
    layer = nn.Linear(3, 2)
    layer.weight[0] = 1.0


@provokes("in-place-leaf", names=["theta"], fix="no_grad")
def an_update_in_a_loop():
    def descend(theta, rate):
        for _ in range(3):
            theta.sub_(rate)

    descend(torch.zeros(2, requires_grad=True), 0.5)


# Several values, and NumPy


@provokes("backward-not-scalar", names=["losses"], fix=("losses.mean()", "losses.sum()"))
def a_loss_for_each_sample():
    scores = nn.Linear(4, 3)(torch.rand(5, 4))
    losses = F.cross_entropy(scores, torch.zeros(5, dtype=torch.long), reduction="none")
    losses.backward()


@provokes("backward-not-scalar", names=["outputs"], fix=("mean()", "sum()"))
def outputs_without_a_loss():
    net = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
    outputs = net(torch.rand(4, 2))
    outputs.backward()


@provokes("backward-not-scalar", names=["y"], fix=("y.sum()", "sum()", "ones_like"))
def a_derivative_at_several_points():
    x = torch.linspace(0, 1, 5, requires_grad=True)
    y = x**3
    return torch.autograd.grad(y, x)


@provokes("numpy-of-grad", names=["curve"], fix="curve.detach()")
def a_curve_to_plot():
    curve = nn.Linear(1, 1)(torch.linspace(0, 1, 5)[:, None])
    return curve.numpy()


@provokes("numpy-of-grad", names=["weights"], fix="detach()")
def weights_into_an_array():
    model = nn.Linear(3, 2)
    weights = model.weight
    return np.asarray(weights).mean()


@provokes("numpy-of-grad", names=["losses"], fix=("item()", "detach()"))
def losses_kept_as_tensors():
    net, losses = nn.Linear(2, 1), []
    for batch in torch.rand(3, 4, 2):
        losses.append(net(batch).mean())
    np.array(losses)


@provokes("numpy-of-grad", names=["scores"], fix="detach()")
def a_figure_of_scores():
    from matplotlib.figure import Figure

    scores = nn.Linear(2, 1)(torch.rand(6, 2)).squeeze(1)
    axes = Figure().subplots()
    axes.plot(scores)


@provokes("integer-grad", names=["start"], fix=("1.0", "float"))
def a_parameter_of_whole_numbers():
    start = [1, 2, 3]
    torch.tensor(start, requires_grad=True)


@provokes("integer-grad", names=["counts"], fix=("counts.float()", "float"))
def counts_as_a_parameter():
    class Counter(nn.Module):
        def __init__(self, counts):
            super().__init__()
            self.scale = nn.Parameter(counts)

    Counter(torch.arange(4))


@provokes("integer-grad", names=["image"], fix=("float()", "float"))
def a_gradient_of_bytes():
    image = torch.zeros(2, 2, dtype=torch.uint8)
    image.requires_grad_()


# NaN


@provokes("nan-in-backward", names=["distance|loss"], fix=("eps", "1e-", "clamp"))
def a_distance_of_zero():
    with torch.autograd.detect_anomaly(check_nan=True):
        point = torch.zeros(2, requires_grad=True)
        distance, mask = (point**2).sum().sqrt(), 0
        loss = distance * mask
        loss.backward()


@provokes("nan-in-backward", names=["chance|entropy"], fix=("eps", "1e-", "clamp", "log_softmax", "xlogy"))
def a_logarithm_of_zero():
    chance = torch.tensor([0.0, 1.0], requires_grad=True)
    with torch.autograd.set_detect_anomaly(True):
        entropy = (chance * chance.log()).nansum()
        entropy.backward()


@provokes("nan-in-backward", names=["spread|total"], fix=("eps", "1e-", "clamp"))
def a_division_by_zero():
    class Normalise(nn.Module):
        def forward(self, x):
            spread = (x - x.mean()).norm()
            return (x - x.mean()) / spread

    x = torch.ones(3, requires_grad=True)
    with torch.autograd.set_detect_anomaly(True):
        total = Normalise()(x).nan_to_num().sum()
        total.backward()
