"""Chapter 02: other ways to the right result, functions that change their input, and what predictions ask."""

import numpy as np
import torch
from torch.nn import functional as F


def fills_a_new_leaf(x):
    leaf = torch.empty_like(x, requires_grad=True)
    with torch.no_grad():
        leaf.copy_(x)
    return leaf


def clears_at_the_end(model, optimizer, inputs, targets):
    loss = F.mse_loss(model(inputs), targets)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return float(loss)


def clears_the_model_first(model, optimizer, inputs, targets):
    model.zero_grad(set_to_none=False)
    loss = F.mse_loss(model(inputs), targets)
    loss.backward()
    optimizer.step()
    return loss.detach().numpy().item()


def hands_gradients_over(model, optimizer, inputs, targets):
    loss = ((model(inputs) - targets) ** 2).mean()
    parameters = list(model.parameters())
    for parameter, gradient in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
        parameter.grad = gradient
    optimizer.step()
    return loss.tolist()


def flags_by_loop(model):
    for parameter in model.body.parameters():
        parameter.requires_grad = False


def flags_by_name(model):
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name.startswith("head."))


def freezes_all_but_the_head(model):
    model.requires_grad_(False)
    model.head.requires_grad_(True)


def angle_by_backward(first, second, parameters):
    vectors = []
    for loss in (first, second):
        for parameter in parameters:
            parameter.grad = None
        loss.backward(retain_graph=True)
        vectors.append(torch.cat([parameter.grad.clone().flatten() for parameter in parameters]))
    return (vectors[0] @ vectors[1] / vectors[0].norm() / vectors[1].norm()).item()


def angle_by_sums(first, second, parameters):
    one = torch.autograd.grad(first, parameters, retain_graph=True)
    other = torch.autograd.grad(second, parameters, retain_graph=True)
    dot = sum((a * b).sum() for a, b in zip(one, other, strict=True))
    lengths = [sum((a * a).sum() for a in each).sqrt() for each in (one, other)]
    return dot / (lengths[0] * lengths[1])


def angle_by_vectors(first, second, parameters):
    one, other = (
        torch.nn.utils.parameters_to_vector(torch.autograd.grad(loss, parameters, retain_graph=True))
        for loss in (first, second)
    )
    return F.cosine_similarity(one[None], other[None])


def makes_the_fake_twice(generator, critic, real, noise):
    with torch.no_grad():
        fake = generator(noise)
    return critic(fake).mean() - critic(real).mean(), -critic(generator(noise)).mean()


def copies_the_fake(generator, critic, real, noise):
    fake = generator(noise)
    return [critic(fake.clone().detach()).mean() - critic(real).mean(), critic(fake).mean().neg()]


def scores_together(generator, critic, real, noise):
    fake = generator(noise)
    scores = critic(torch.cat([fake.detach(), real]))
    return scores[: len(fake)].mean() - scores[len(fake) :].mean(), -critic(fake).mean()


class SwishKeepingMore(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        sigmoid = 1 / (1 + (-x).exp())
        context.save_for_backward(x, sigmoid)
        return x * sigmoid

    @staticmethod
    def backward(context, upstream):
        x, sigmoid = context.saved_tensors
        return sigmoid * (1 + x * (1 - sigmoid)) * upstream


class SwishKeepingItsSlope(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        value = F.silu(x)
        context.slope = x.sigmoid() + value * (1 - x.sigmoid())
        return value

    @staticmethod
    def backward(context, upstream):
        return context.slope * upstream


class SwishByAutograd(torch.autograd.Function):
    @staticmethod
    def forward(x):
        return x * torch.sigmoid(x)

    @staticmethod
    def setup_context(context, inputs, output):
        context.save_for_backward(*inputs)

    @staticmethod
    def backward(context, upstream):
        with torch.enable_grad():
            x = context.saved_tensors[0].detach().requires_grad_()
            return torch.autograd.grad(F.silu(x), x, upstream)[0]


def undone_by_torch(gradient, shape):
    return torch.from_numpy(gradient).sum_to_size(shape).numpy()


def undone_axis_by_axis(gradient, shape):
    while gradient.ndim > len(shape):
        gradient = gradient.sum(axis=0)
    for axis, size in enumerate(shape):
        if size == 1:
            gradient = gradient.sum(axis=axis, keepdims=True)
    return gradient


def undone_by_comparing(gradient, shape):
    padded = (1,) * (gradient.ndim - len(shape)) + tuple(shape)
    axes = tuple(axis for axis in range(gradient.ndim) if padded[axis] != gradient.shape[axis])
    return gradient.sum(axis=axes, keepdims=True).reshape(shape)


OTHER_WAYS = {
    "leaf_copy": [
        lambda x: x.clone().detach().requires_grad_(True),
        lambda x: torch.tensor(x.tolist(), requires_grad=True),
        fills_a_new_leaf,
    ],
    "one_update": [clears_at_the_end, clears_the_model_first, hands_gradients_over],
    "freeze_body": [flags_by_loop, flags_by_name, freezes_all_but_the_head],
    "gradient_angle": [angle_by_backward, angle_by_sums, angle_by_vectors],
    "critic_losses": [makes_the_fake_twice, copies_the_fake, scores_together],
    "unit_rows": [
        lambda rows: F.normalize(rows, dim=1),
        lambda rows: rows * rows.square().sum(1, keepdim=True).rsqrt(),
        lambda rows: torch.stack([row / (row @ row).sqrt() for row in rows]),
        lambda rows: rows.clone().div_(rows.norm(dim=1)[:, None]),
    ],
    "Swish": [SwishKeepingMore, SwishKeepingItsSlope, SwishByAutograd],
    "undo_broadcasting": [undone_by_torch, undone_axis_by_axis, undone_by_comparing],
}


def turns_recording_off_for_the_caller(first, second, parameters):
    angle = angle_by_sums(first, second, parameters)
    for parameter in parameters:
        parameter.requires_grad_(False)
    return angle


def normalises_the_real_ones_itself(generator, critic, real, noise):
    real -= real.mean()
    return makes_the_fake_twice(generator, critic, real, noise)


def sums_into_its_input(gradient, shape):
    result = np.array(undone_by_torch(gradient, shape))
    gradient += 1
    return result


CHANGES_ITS_INPUT = {
    "gradient_angle": turns_recording_off_for_the_caller,
    "critic_losses": normalises_the_real_ones_itself,
    "undo_broadcasting": sums_into_its_input,
}


def edited():
    weight = torch.tensor(2.0, requires_grad=True)
    loss = weight**2
    weight.data.fill_(10)
    loss.backward()
    return weight.grad.item()


def three_times():
    weight = torch.tensor(1.0, requires_grad=True)
    for _ in range(3):
        (2 * weight).backward()
    return weight.grad.item()


MEASURED = {"silent_edit": edited, "three_times": three_times}
