"""Other right ways to write each part, as a learner might."""

import torch
import torch.nn.functional as F
from torch import nn


class LinearOtherNames(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.b = nn.Parameter(torch.zeros(outputs))
        self.w = nn.Parameter(torch.empty(outputs, inputs))
        nn.init.xavier_uniform_(self.w)

    def forward(self, x):
        return F.linear(x, self.w, self.b)


class LinearTransposed(nn.Module):
    def __init__(self, n_in, n_out):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(n_in, n_out) * 0.1)
        self.bias = nn.Parameter(torch.zeros(n_out))

    def forward(self, x):
        return torch.einsum("bi,io->bo", x, self.weight).add(self.bias)


class ConvByPosition(nn.Module):
    """A loop over all positions."""

    def __init__(self, inputs, outputs, kernel_size, padding=0):
        super().__init__()
        self.k, self.padding = kernel_size, padding
        self.weight = nn.Parameter(torch.randn(outputs, inputs, kernel_size, kernel_size) / kernel_size / inputs**0.5)
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, x):
        p = self.padding
        batch, channels, height, width = x.shape
        padded = torch.zeros(batch, channels, height + 2 * p, width + 2 * p)
        padded[:, :, p : p + height, p : p + width] = x
        rows = []
        for i in range(padded.shape[2] - self.k + 1):
            row = []
            for j in range(padded.shape[3] - self.k + 1):
                window = padded[:, None, :, i : i + self.k, j : j + self.k]
                row.append((window * self.weight).sum((2, 3, 4)) + self.bias)
            rows.append(torch.stack(row, dim=-1))
        return torch.stack(rows, dim=-2)


class ConvByMatrix(nn.Module):
    """One matrix product, with the kernels stored as its rows."""

    def __init__(self, inputs, outputs, kernel_size, padding=0):
        super().__init__()
        self.k, self.padding = kernel_size, padding
        self.kernels = nn.Parameter(torch.randn(outputs, inputs * kernel_size**2) * 0.1)
        self.shift = nn.Parameter(torch.zeros(outputs, 1))

    def forward(self, x):
        height, width = (side + 2 * self.padding - self.k + 1 for side in x.shape[2:])
        columns = F.unfold(x, self.k, padding=self.padding)
        return (self.kernels @ columns + self.shift).reshape(len(x), -1, height, width)


class NormWithShapes(nn.Module):
    """gamma and beta in the shape in which they are used, statistics replaced and not changed in place."""

    def __init__(self, features, eps=1e-5, momentum=0.1):
        super().__init__()
        self.eps, self.momentum = eps, momentum
        self.gamma = nn.Parameter(torch.ones(1, features, 1, 1))
        self.beta = nn.Parameter(torch.zeros(1, features, 1, 1))
        self.register_buffer("mean", torch.zeros(1, features, 1, 1))
        self.register_buffer("var", torch.ones(1, features, 1, 1))
        self.register_buffer("batches", torch.tensor(0))

    def forward(self, x):
        if not self.training:
            return self.gamma * (x - self.mean) * torch.rsqrt(self.var + self.eps) + self.beta
        mean = x.mean(dim=(0, 2, 3), keepdim=True)
        var = ((x - mean) ** 2).mean(dim=(0, 2, 3), keepdim=True)
        count = x.numel() / x.shape[1]
        self.mean = (1 - self.momentum) * self.mean + self.momentum * mean.detach()
        self.var = (1 - self.momentum) * self.var + self.momentum * var.detach() * count / (count - 1)
        self.batches += 1
        return self.gamma * (x - mean) * torch.rsqrt(var + self.eps) + self.beta


class DropoutByBernoulli(nn.Module):
    def __init__(self, probability=0.5):
        super().__init__()
        self.probability = probability

    def forward(self, x):
        if self.training:
            return torch.empty_like(x).bernoulli_(1 - self.probability).div_(1 - self.probability) * x
        return x.clone()


class DropoutByWhere(nn.Module):
    def __init__(self, p=0.5):
        super().__init__()
        self.p = p

    def forward(self, x):
        if not self.training:
            return x
        return torch.where(torch.rand(x.shape) < self.p, torch.zeros(()), x / (1 - self.p))


def loss_by_library(logits, targets):
    return F.nll_loss(F.log_softmax(logits, dim=-1), targets)


def loss_by_one_hot(logits, targets):
    shifted = logits - logits.max(dim=1, keepdim=True).values
    logs = shifted - shifted.exp().sum(dim=1, keepdim=True).log()
    return -(F.one_hot(targets, logits.shape[1]) * logs).sum() / len(targets)


class SGDWithRateInside:
    """The rate stands in the velocity, data are changed behind the back of autograd, gradients are set to zero."""

    def __init__(self, parameters, lr, momentum=0.0):
        self.parameters, self.lr, self.momentum, self.moves = [*parameters], lr, momentum, {}

    def zero_grad(self):
        for parameter in self.parameters:
            if parameter.grad is not None:
                parameter.grad.zero_()

    def step(self):
        for parameter in filter(lambda one: one.grad is not None, self.parameters):
            before = self.moves.get(parameter, torch.zeros_like(parameter))
            self.moves[parameter] = self.momentum * before - self.lr * parameter.grad.data
            parameter.data = parameter.data + self.moves[parameter]


class SGDFromTorch(torch.optim.SGD):
    """A subclass is as good."""


def list_of_batches(inputs, targets, order, batch_size):
    inputs, targets = inputs[order], targets[order]
    starts = range(0, len(inputs), batch_size)
    return [(inputs[start : start + batch_size], targets[start : start + batch_size]) for start in starts]


def step_that_returns_a_number(model, loss_fn, optimizer, inputs, targets):
    model.train(True)
    outputs = model(inputs)
    loss = loss_fn(outputs, targets)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss.item()


def step_that_returns_the_graph(model, loss_fn, optimizer, inputs, targets):
    model.train()
    loss = loss_fn(model(inputs), targets)
    for parameter in model.parameters():
        parameter.grad = None
    loss.backward()
    optimizer.step()
    return loss


RIGHT = {
    "linear": [LinearOtherNames, LinearTransposed],
    "conv2d": [ConvByPosition, ConvByMatrix],
    "batch_norm": [NormWithShapes],
    "dropout": [DropoutByBernoulli, DropoutByWhere],
    "loss": [loss_by_library, loss_by_one_hot, F.cross_entropy],
    "optimizer": [SGDWithRateInside, SGDFromTorch],
    "batches": [list_of_batches],
    "training_step": [step_that_returns_a_number, step_that_returns_the_graph],
}
