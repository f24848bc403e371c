import pytest
import torch
from torch import nn
from torch.nn import functional as F

from labkit.autograd import steps, watch
from labkit.errors import LabkitError
from labkit.show.graph import GraphControl, graph, graph_control, graph_steps, in_words, number


@pytest.fixture
def neuron():
    weight, bias = torch.tensor(2.0, requires_grad=True), torch.tensor(1.0, requires_grad=True)
    with watch() as watched:
        loss = (weight * 3 + bias - 5) ** 2
    return loss, {"weight": weight, "bias": bias}, watched


def texts(picture):
    return [text.get_text() for text in picture.figure.axes[0].texts]


def test_the_graph_shows_each_node_once_with_its_shape(neuron):
    loss, names, _ = neuron
    picture = graph(loss, names)
    assert [text for text in texts(picture) if "(" not in text] == ["weight", "Mul", "bias", "Add", "Sub", "Pow"]
    assert picture.summary.startswith("A graph of 6 nodes") and len(picture.data) == 6


def test_the_walk_shows_what_is_reached_and_the_step_in_words(neuron):
    loss, names, watched = neuron
    walk = steps(loss, names, watched)
    early, late = graph_steps(walk, 2), graph_steps(walk, len(walk))
    assert "6" in texts(early) and "4" not in texts(early) and not any("grad" in text for text in texts(early))
    assert {"grad 12", "grad 4", "grad 1"} <= set(texts(late))
    assert early.summary == f"Step 2 of {len(walk)}. Forward: Mul gives 6."
    assert late.summary.endswith("Backward: 12 arrives at weight; its grad is now 12.")
    assert [row["step"] for row in late.data] == list(range(1, len(walk) + 1))


def test_sentences_give_the_numbers_of_a_step(neuron):
    walk = steps(*neuron)
    said = {step.node.leaf or step.node.operation: in_words(step) for step in walk if step.direction == "backward"}
    assert said["Mul"] == "Backward: 4 arrives at Mul. Its slope is 3. It hands on 12."
    torch.manual_seed(0)
    model = nn.Linear(3, 2)
    said = [in_words(step) for step in steps(model(torch.ones(4, 3)).tanh().sum(), model)]
    assert any("(4, 2) of length" in sentence for sentence in said)


def test_the_control_goes_by_slider_buttons_and_play(neuron):
    control = graph_control(*neuron)
    assert isinstance(control, GraphControl) and control.state == {"step": 1}
    control.next.click()
    control.next.click()
    assert control.state == {"step": 3} and "Step 3" in control.picture.summary
    control.back.click()
    control.back.click()
    control.back.click()
    assert control.state == {"step": 1}
    control.play.value = 5
    assert control.state == {"step": 6}
    last = len(control._sliders["step"].options)
    control.set(step=last)
    control.next.click()
    assert control.state == {"step": last} and control.play.value == last - 1


def test_a_real_network_is_drawn_from_left_to_right():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    loss = F.cross_entropy(model(torch.randn(5, 3)), torch.tensor([0, 1, 0, 1, 0]))
    positions = {text.get_text(): text.get_position() for text in graph(loss, model).figure.axes[0].texts}
    order = ["0.weight", "T", "Tanh", "LogSoftmax", "NllLoss"]
    assert sorted(order, key=lambda name: positions[name][0]) == order


def test_what_cannot_be_drawn_is_a_sentence(neuron):
    weight = torch.ones((), requires_grad=True)
    long = weight
    for _ in range(13):
        long = long * 2
    with pytest.raises(LabkitError, match="too long to draw: 14 nodes: 13 Mul, 1 leaf"):
        graph(long)
    with pytest.raises(LabkitError, match="too large to draw"):
        graph(sum(weight * k for k in range(20)))
    with pytest.raises(LabkitError, match="the steps 1 to 12; there is no step 0"):
        graph_steps(steps(*neuron), 0)


def test_numbers_without_values_and_complex_ones_are_said_too():
    assert number(torch.tensor([3 + 4j, 0])) == "(2,) of length 5"
    weight = torch.ones(3, device="meta", requires_grad=True)
    control = graph_control((weight * weight).sum())
    assert control.set(step=1).summary == "Step 1 of 6. Forward: leaf 0 is (3,) without values."


def test_what_is_no_walk_is_a_sentence(neuron):
    walk = steps(*neuron)
    for wrong in ([], neuron[0], "walk"):
        with pytest.raises(LabkitError, match="A walk is the list"):
            graph_steps(wrong, 1)
    with pytest.raises(LabkitError, match="there is no step 1.5"):
        graph_steps(walk, 1.5)
    weight = torch.ones((), requires_grad=True)
    with pytest.raises(LabkitError, match="too large to draw: 40 nodes: 20 Mul, 19 Add, 1 leaf"):
        graph_control(sum((weight * k for k in range(1, 20)), weight * 20))
