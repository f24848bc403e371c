import copy

import pytest
import torch
from torch import nn
from torch.func import functional_call, jacrev
from torch.nn import functional as F

from labkit.autograd import recipes
from labkit.errors import LabkitError


@pytest.fixture
def model():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).double()


@pytest.fixture
def batch():
    generator = torch.Generator().manual_seed(2)
    return torch.randn(6, 3, generator=generator, dtype=torch.float64), torch.arange(6) % 2


def by_backward(model, loss):
    twin = copy.deepcopy(model)
    loss(twin).backward()
    return {name: parameter.grad for name, parameter in twin.named_parameters()}


def assert_same(mine, others):
    assert set(mine) == set(others)
    for name, gradient in mine.items():
        torch.testing.assert_close(gradient, others[name])


def test_gradients_equal_those_of_backward_and_leave_grad_and_graph_alone(model, batch):
    inputs, targets = batch
    loss = F.cross_entropy(model(inputs), targets)
    mine = recipes.gradients(loss, model)
    assert all(parameter.grad is None for parameter in model.parameters())
    assert_same(mine, by_backward(model, lambda twin: F.cross_entropy(twin(inputs), targets)))
    assert_same(mine, recipes.gradients(loss, model))


def test_a_part_of_the_parameters_and_those_that_the_loss_does_not_use(model, batch):
    loss = model[0](batch[0]).sum()
    assert set(recipes.gradients(loss, model, only="0.")) == {"0.weight", "0.bias"}
    assert recipes.gradients(loss, model, only="2.")["2.bias"].equal(torch.zeros(2).double())
    model[0].requires_grad_(False)
    assert set(recipes.gradients(model(batch[0]).sum(), model)) == {"2.weight", "2.bias"}
    with pytest.raises(LabkitError, match="No parameter that learns has a name beginning with '0.'"):
        recipes.gradients(loss, model, only="0.")


@pytest.mark.parametrize("largest", [0.01, 1e6])
def test_clipping_equals_torchs(model, batch, largest):
    inputs, targets = batch
    values, norm = recipes.clipped(recipes.gradients(F.cross_entropy(model(inputs), targets), model), largest)
    recipes.assign(model, values)
    twin = copy.deepcopy(model)
    twin.zero_grad()
    F.cross_entropy(twin(inputs), targets).backward()
    torch.testing.assert_close(norm, nn.utils.clip_grad_norm_(twin.parameters(), largest))
    assert_same(
        {name: one.grad for name, one in model.named_parameters()},
        {name: one.grad for name, one in twin.named_parameters()},
    )


def test_a_mask_keeps_weights_where_they_are(model, batch):
    inputs, targets = batch
    before = model[0].weight.detach().clone()
    mask = torch.arange(12).view(4, 3) % 2 == 0
    values = recipes.gradients(F.cross_entropy(model(inputs), targets), model)
    recipes.assign(model, recipes.masked(values, {"0.weight": mask}))
    torch.optim.SGD(model.parameters(), lr=0.1).step()
    assert model[0].weight[~mask].equal(before[~mask]) and not model[0].weight[mask].equal(before[mask])
    with pytest.raises(LabkitError, match=r"mask '0.weight' has shape \(2,\); for that name there is \(4, 3\)"):
        recipes.masked(values, {"0.weight": torch.ones(2, dtype=torch.bool)})
    with pytest.raises(LabkitError, match="there is no gradient"):
        recipes.masked(values, {"nowhere": mask})


def test_weighted_gradients_are_the_gradient_of_the_weighted_sum(model, batch):
    inputs, targets = batch
    outputs = model(inputs)
    mine = recipes.weighted([F.cross_entropy(outputs, targets), outputs.square().mean()], [0.7, 0.3], model)

    def joint(twin):
        outputs = twin(inputs)
        return 0.7 * F.cross_entropy(outputs, targets) + 0.3 * outputs.square().mean()

    assert_same(mine, by_backward(model, joint))


def test_reversal_turns_the_gradient_before_it_and_leaves_that_after_it(model, batch):
    inputs, targets = batch
    straight = by_backward(model, lambda twin: F.cross_entropy(twin(inputs), targets))
    turned = nn.Sequential(model[0], model[1], recipes.ReverseGradient(0.5), model[2])
    F.cross_entropy(turned(inputs), targets).backward()
    assert turned(inputs).equal(model(inputs))
    torch.testing.assert_close(model[0].weight.grad, -0.5 * straight["0.weight"])
    torch.testing.assert_close(model[2].weight.grad, straight["2.weight"])


def test_a_hessian_vector_product_equals_the_hessian_times_the_vector(batch):
    inputs, targets = batch
    torch.manual_seed(0)
    model = nn.Linear(3, 2, bias=False).double()
    vector = torch.randn(2, 3, dtype=torch.float64)
    loss = F.cross_entropy(model(inputs), targets)
    product = recipes.hessian_vector_product(loss, model, {"weight": vector})["weight"]
    hessian = torch.autograd.functional.hessian(
        lambda weight: F.cross_entropy(functional_call(model, {"weight": weight}, (inputs,)), targets),
        model.weight.detach(),
    )
    torch.testing.assert_close(product.flatten(), hessian.reshape(6, 6) @ vector.flatten())


def test_a_vector_jacobian_product_equals_the_product_with_the_jacobian():
    point, vector = torch.randn(4, dtype=torch.float64), torch.randn(3, dtype=torch.float64)
    matrix = torch.randn(3, 4, dtype=torch.float64)

    def function(x):
        return (matrix @ x).tanh()

    torch.testing.assert_close(
        recipes.vector_jacobian_product(function, point, vector), vector @ jacrev(function)(point)
    )
    with pytest.raises(LabkitError, match=r"The vector has shape \(2,\), the output \(3,\)"):
        recipes.vector_jacobian_product(function, point, torch.ones(2))


def test_per_sample_gradients_equal_those_of_a_loop_and_average_to_the_batchs(model, batch):
    inputs, targets = batch
    model[2].bias.requires_grad_(False)
    each = recipes.per_sample_gradients(model, F.cross_entropy, inputs, targets)
    assert each["0.weight"].shape == (6, 4, 3) and "2.bias" not in each
    for sample in range(6):
        one = recipes.gradients(
            F.cross_entropy(model(inputs[sample : sample + 1]), targets[sample : sample + 1]), model
        )
        assert_same({name: values[sample] for name, values in each.items()}, one)
    whole = recipes.gradients(F.cross_entropy(model(inputs), targets), model)
    assert_same({name: values.mean(dim=0) for name, values in each.items()}, whole)


def test_a_gradient_penalty_is_exact_for_a_linear_function_and_reaches_the_weights(batch):
    layer = nn.Linear(3, 1).double()
    penalty = recipes.gradient_penalty(layer, batch[0])
    torch.testing.assert_close(penalty, layer.weight.square().sum())
    penalty.backward()
    torch.testing.assert_close(layer.weight.grad, 2 * layer.weight.detach())


class WrongSquare(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        context.save_for_backward(x)
        return x**2

    @staticmethod
    def backward(context, upstream):
        (x,) = context.saved_tensors
        return x * upstream  # the 2 is missing


def test_a_gradient_check_finds_a_wrong_backward_and_passes_a_right_one():
    point = torch.randn(3, 2)
    right = recipes.gradient_check(lambda x, y: (x**2 * y).tanh(), point, torch.randn(3, 2))
    assert [row["input"] for row in right.rows] == [0, 1]
    assert all(row["largest difference"] < 1e-7 for row in right.rows)
    (wrong,) = recipes.gradient_check(WrongSquare.apply, point).rows
    assert wrong["largest difference"] == pytest.approx(point.abs().max().item(), rel=1e-5)


def test_gradients_for_unknown_names_or_of_another_shape_are_refused_and_nothing_is_written(model):
    model[0].weight.grad = torch.ones(4, 3).double()
    with pytest.raises(LabkitError, match="no parameter 'head' for this gradient"):
        recipes.assign(model, {"head": torch.ones(2)})
    with pytest.raises(LabkitError, match=r"\(2,\) is not \(4, 3\)"):
        recipes.assign(model, {"0.weight": torch.ones(2)})
    assert model[0].weight.grad.sum() == 12


def test_the_second_derivatives_of_a_linear_loss_are_zero(batch):
    line = nn.Linear(3, 1).double()
    vector = {"weight": torch.ones(1, 3), "bias": torch.ones(1)}
    product = recipes.hessian_vector_product(line(batch[0]).sum(), line, vector)
    assert product["weight"].tolist() == [[0, 0, 0]] and product["bias"].tolist() == [0]
    with pytest.raises(LabkitError, match="no part for 'bias'"):
        recipes.hessian_vector_product(line(batch[0]).sum(), line, {"weight": torch.ones(1, 3)})
    with pytest.raises(LabkitError, match=r"\(\) is not \(1, 3\)"):
        recipes.hessian_vector_product(line(batch[0]).sum(), line, {"weight": torch.tensor(1.0), "bias": torch.ones(1)})


def test_gradients_of_each_sample_go_through_the_reversal_layer(batch):
    inputs, targets = batch
    line = nn.Linear(3, 2).double()
    plain = recipes.per_sample_gradients(line, F.cross_entropy, inputs, targets)
    turned = recipes.per_sample_gradients(
        nn.Sequential(line, recipes.ReverseGradient(2.0)), F.cross_entropy, inputs, targets
    )
    torch.testing.assert_close(turned["0.weight"], -2 * plain["weight"])


def test_recipes_work_under_no_grad_and_for_any_layout():
    values = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    with torch.no_grad():
        product = recipes.vector_jacobian_product(torch.square, values, torch.ones(2, 3))
        assert product.tolist() == [[2, 4, 6], [8, 10, 12]]
        assert recipes.gradient_penalty(lambda points: points**2, torch.tensor([1.0, 3.0])) == (2**2 + 6**2) / 2
        (row,) = recipes.gradient_check(torch.square, values.t()).rows
    assert row["largest gradient"] == 12 and row["largest difference"] < 1e-6


def test_what_a_recipe_cannot_do_is_a_sentence(model, batch):
    inputs, targets = batch
    loss = F.cross_entropy(model(inputs), targets)
    normed = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2)).double()
    for match, misuse in {
        "cannot go back .* scalar": lambda: recipes.gradients(model(inputs), model),
        "does not require grad": lambda: recipes.gradients(loss.detach(), model),
        "this is a float": lambda: recipes.gradients(loss.item(), model),
        "1 losses and 2 weights": lambda: recipes.weighted([loss], [1.0, 2.0], model),
        "there must be gradients": lambda: recipes.clipped({}, 1.0),
        "True and False": lambda: recipes.masked({"bias": torch.ones(2)}, {"bias": torch.ones(2)}),
        "must return a tensor": lambda: recipes.vector_jacobian_product(lambda _: 1.0, inputs, inputs),
        "these are torch.int64": lambda: recipes.gradient_penalty(torch.square, targets),
        "6 samples and 5 targets": lambda: recipes.per_sample_gradients(model, F.cross_entropy, inputs, targets[:5]),
        "mixes the samples": lambda: recipes.per_sample_gradients(normed, F.cross_entropy, inputs, targets),
        "must return one number": lambda: recipes.per_sample_gradients(model, lambda out, _: out[0], inputs, targets),
        "nothing to check": lambda: recipes.gradient_check(torch.exp, inputs[:0]),
    }.items():
        with pytest.raises(LabkitError, match=match):
            misuse()
