"""Chapter 04: other ways to the right result, a function that changes its input, and what predictions ask."""

import copy
import math

import torch
from torch import nn

from labkit import models


class StackOfSequential(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        layers = []
        for _ in range(depth):
            layers += [nn.Linear(width, width), nn.ReLU()]
        self.net = nn.Sequential(*layers)

    def forward(self, x):
        return self.net(x)


class StackByNames(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.depth = depth
        for number in range(depth):
            setattr(self, f"layer_{number}", nn.Linear(width, width))

    def forward(self, x):
        for number in range(self.depth):
            x = getattr(self, f"layer_{number}")(x).clamp(min=0)
        return x


class StackOfParameters(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.weights = nn.ParameterList(torch.randn(width, width) for _ in range(depth))
        self.biases = nn.ParameterDict({str(number): torch.zeros(width) for number in range(depth)})

    def forward(self, x):
        for weight, bias in zip(self.weights, self.biases.values(), strict=True):
            x = torch.relu(x @ weight.T + bias)
        return x


class StandardiseInShape(nn.Module):
    def __init__(self, mean, deviation):
        super().__init__()
        self.register_buffer("mean", mean.view(1, -1, 1, 1))
        self.register_buffer("deviation", deviation.view(1, -1, 1, 1))

    def forward(self, x):
        return (x - self.mean) / self.deviation


class StandardiseByBuffer(nn.Module):
    def __init__(self, mean, deviation):
        super().__init__()
        self.numbers = nn.Buffer(torch.stack([mean, 1 / deviation]))

    def forward(self, x):
        return torch.einsum("bchw,c->bchw", x - self.numbers[0][:, None, None], self.numbers[1])


class StandardiseByFrozenParameters(nn.Module):
    def __init__(self, m, s):
        super().__init__()
        self.m = nn.Parameter(m, requires_grad=False)
        self.s = nn.Parameter(s, requires_grad=False)

    def forward(self, x):
        return (x.movedim(1, -1) - self.m).div(self.s).movedim(-1, 1)


@torch.no_grad()
def scores_by_decorator(model, inputs):
    trained = [module for module in model.modules() if module.training]
    try:
        return model.eval()(inputs)
    finally:
        for module in trained:
            module.training = True


def scores_in_inference_mode(model, inputs):
    modes = {module: module.training for module in model.modules()}
    with torch.inference_mode():
        result = model.eval()(inputs)
    for module, mode in modes.items():
        module.training = mode
    return result


def scores_of_a_copy(model, inputs):
    with torch.no_grad():
        return copy.deepcopy(model).eval()(inputs)


def head_by_names(model, classes):
    model.head = nn.Linear(model.body[0].out_features, classes)
    for name, parameter in model.named_parameters():
        parameter.requires_grad = name.startswith("head.")
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


def head_by_labkit(model, classes):
    models.freeze(model, "body.")
    model.head = nn.Linear(model.head.in_features, classes)
    return models.trained_parameters(model)


def head_as_attribute(model, classes):
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    model.add_module("head", nn.Linear(model.head.weight.shape[1], classes))
    return [model.head.bias, model.head.weight]


def starts_by_hand(layer):
    if type(layer) in (nn.Linear, nn.Conv2d):
        with torch.no_grad():
            layer.weight.normal_(0, math.sqrt(2 / layer.weight[0].numel()))
            if layer.bias is not None:
                layer.bias.fill_(0)


def starts_uniform(layer):
    match layer:
        case nn.Linear() | nn.Conv2d():
            nn.init.kaiming_uniform_(layer.weight, a=0)
            if layer.bias is not None:
                layer.bias.data.zero_()


def starts_by_labkit(layer):
    if not isinstance(layer, nn.BatchNorm2d):
        models.initialise(layer, "kaiming")


OTHER_WAYS = {
    "Stack": [StackOfSequential, StackByNames, StackOfParameters],
    "Standardise": [StandardiseInShape, StandardiseByBuffer, StandardiseByFrozenParameters],
    "start_weights": [starts_by_hand, starts_uniform, starts_by_labkit],
    "evaluation_scores": [scores_by_decorator, scores_in_inference_mode, scores_of_a_copy],
    "new_head": [head_by_names, head_by_labkit, head_as_attribute],
}


def clips_the_inputs_itself(model, inputs):
    return scores_by_decorator(model, inputs.clamp_(-0.1, 0.1))


CHANGES_ITS_INPUT = {"evaluation_scores": clips_the_inputs_itself}


def frozen_statistics():
    norm = nn.BatchNorm1d(3).requires_grad_(False)
    before = norm.running_mean.clone()
    norm(torch.ones(4, 3))
    return not before.equal(norm.running_mean)


def what_survives():
    return round(nn.Dropout(0.25)(torch.ones(100)).max().item(), 2)


MEASURED = {"frozen_statistics": frozen_statistics, "what_survives": what_survives}
