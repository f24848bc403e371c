"""Chapter 05: other ways to the right result, a function that changes its input, and what predictions ask."""

import copy
import math
from collections import defaultdict

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.optim import lr_scheduler

from labkit import training


@torch.inference_mode()
def evaluated_by_decorator(model, loader):
    before = model.training
    try:
        model.eval()
        sums = torch.zeros(2, dtype=torch.float64)
        n = 0
        for x, y in loader:
            out = model(x)
            sums += torch.stack([F.cross_entropy(out, y) * len(y), (out.max(1)[1] == y).sum()]).double()
            n += y.numel()
        return tuple(sums / n)
    finally:
        model.train(before)


def evaluated_all_at_once(model, loader):
    modes = [(module, module.training) for module in model.modules()]
    with torch.no_grad():
        model.eval()
        pairs = [(model(inputs), targets) for inputs, targets in loader]
    for module, mode in modes:
        module.training = mode
    scores, targets = (torch.cat(parts) for parts in zip(*pairs, strict=True))
    return [F.cross_entropy(scores, targets), (scores.argmax(-1) == targets).float().mean()]


def evaluated_by_labkit(model, loader):
    metrics = training.evaluate(model, loader)
    return metrics.loss, metrics.accuracy


def accumulated_by_shares(model, batches):
    sizes = [len(targets) for _, targets in batches]
    for parameter in model.parameters():
        parameter.grad = None
    for size, (inputs, targets) in zip(sizes, batches, strict=True):
        (F.cross_entropy(model(inputs), targets) * size / sum(sizes)).backward()


def accumulated_and_divided(model, batches):
    model.zero_grad(set_to_none=False)
    n = 0
    for inputs, targets in batches:
        F.cross_entropy(model(inputs), targets, reduction="none").sum().backward()
        n += len(inputs)
    for parameter in model.parameters():
        parameter.grad /= n


def accumulated_without_backward(model, batches):
    parameters = list(model.parameters())
    total = [torch.zeros_like(parameter) for parameter in parameters]
    count = len(torch.cat([targets for _, targets in batches]))
    for inputs, targets in batches:
        loss = -model(inputs).log_softmax(1)[range(len(targets)), targets].sum() / count
        total = [one + more for one, more in zip(total, torch.autograd.grad(loss, parameters), strict=True)]
    for parameter, gradient in zip(parameters, total, strict=True):
        parameter.grad = gradient


def clipped_by_hand(loss, model, optimizer, scaler, max_norm):
    model.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    gradients = [one.grad for one in model.parameters() if one.grad is not None]
    norm = math.sqrt(sum((gradient.double() ** 2).sum().item() for gradient in gradients))
    if norm > max_norm:
        for gradient in gradients:
            gradient *= max_norm / norm
    scaler.step(optimizer)
    scaler.update()
    return norm


def clipped_in_two_calls(loss, model, optimizer, scaler, max_norm):
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    parameters = [one for group in optimizer.param_groups for one in group["params"]]
    norm = nn.utils.get_total_norm([one.grad for one in parameters])
    nn.utils.clip_grads_with_norm_(parameters, max_norm, norm)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
    return norm


def clipped_while_scaled(loss, model, optimizer, scaler, max_norm):
    optimizer.zero_grad(set_to_none=True)
    scaler.scale(loss).backward()
    scale = scaler.get_scale()
    norm = nn.utils.clip_grad_norm_(model.parameters(), max_norm * scale) / scale
    scaler.step(optimizer)
    scaler.update()
    return norm


def rate_by_math(update, total, warm_up, highest):
    if warm_up > update:
        return (1 + update) * highest / warm_up
    return highest / 2 * (1 + math.cos((update - warm_up) * math.pi / (total - warm_up)))


def rate_by_tensor(update, total, warm_up, highest):
    up = torch.linspace(highest / max(warm_up, 1), highest, warm_up, dtype=torch.float64)
    angles = torch.linspace(0, math.pi, total - warm_up + 1, dtype=torch.float64)
    return torch.cat([up, highest * (0.5 + 0.5 * angles.cos())])[update]


def rate_by_squares(update, total, warm_up, highest):
    rising = update < warm_up
    share = 0 if rising else (update - warm_up) / (total - warm_up)
    return highest * np.cos(np.pi / 2 * share) ** 2 * ((update + 1) / warm_up if rising else 1)


def stops_by_counting(losses, patience, min_delta):
    best = (math.inf, None)
    waited = 0
    for epoch in range(1, 1 + len(losses)):
        if losses[epoch - 1] + min_delta < best[0]:
            best, waited = (losses[epoch - 1], epoch), 0
        else:
            waited += 1
            if waited == patience:
                break
    return [epoch, best[1]]


def stops_by_differences(losses, patience, min_delta):
    best, at = losses[0], 1
    stop = len(losses)
    for epoch, loss in enumerate(losses[1:], 2):
        if best - loss > min_delta:
            best, at = loss, epoch
        if epoch - at == patience:
            stop = epoch
            break
    return stop, at


def stops_recursively(losses, patience, min_delta):
    def after(epoch, best, at):
        if epoch == len(losses) or epoch - at >= patience:
            return epoch, at
        if losses[epoch] < best - min_delta:
            return after(epoch + 1, losses[epoch], epoch + 1)
        return after(epoch + 1, best, at)

    return after(0, math.inf, 0)


def keeps_by_deepcopy(best, loss, model):
    if not math.isnan(loss) and (best is None or loss < best[0]):
        best = (loss, copy.deepcopy(model.state_dict()))
    return best


def keeps_on_the_cpu(best, loss, model):
    best = best or (float("inf"), None)
    if loss < best[0]:
        return loss, {name: value.detach().to("cpu", copy=True) for name, value in model.state_dict().items()}
    return best


def keeps_in_a_list(best, loss, model):
    best = [math.inf, {}] if best is None else best
    if best[0] > loss:
        best[0] = loss
        best[1].update((name, torch.empty_like(value).copy_(value)) for name, value in model.state_dict().items())
    return best


def groups_by_dict(model, weight_decay):
    groups = defaultdict(list)
    for _, parameter in model.named_parameters():
        groups[parameter.dim() > 1].append(parameter)
    return [
        {"params": groups[False], "weight_decay": 0, "lr": 0.1},
        {"params": groups[True], "weight_decay": weight_decay},
    ]


def groups_by_shape(model, weight_decay):
    return (
        {"weight_decay": weight_decay, "params": (one for one in model.parameters() if len(one.shape) not in (0, 1))},
        {"weight_decay": 0.0, "params": filter(lambda one: one.ndim in (0, 1), model.parameters())},
    )


def groups_in_three(model, weight_decay):
    every = [{"params": [one], "weight_decay": weight_decay * (one.ndim >= 2)} for one in model.parameters()]
    return every


def averages_by_lerp(average, model, decay):
    new = model.state_dict()
    for name, value in average.state_dict().items():
        if value.dtype == torch.int64:
            value.copy_(new[name])
        else:
            value.lerp_(new[name], 1 - decay)


@torch.no_grad()
def averages_parameters_then_buffers(average, model, decay):
    for old, new in zip(average.parameters(), model.parameters(), strict=True):
        old += (1 - decay) * (new - old)
    for old, new in zip(average.buffers(), model.buffers(), strict=True):
        old.copy_(decay * old + (1 - decay) * new if torch.is_floating_point(old) else new)


def averages_by_loading(average, model, decay):
    new = model.state_dict()
    mixed = {name: decay * old + (1 - decay) * new[name] for name, old in average.state_dict().items()}
    average.load_state_dict({name: one if new[name].is_floating_point() else new[name] for name, one in mixed.items()})


OTHER_WAYS = {
    "evaluate_by_sums": [evaluated_by_decorator, evaluated_all_at_once, evaluated_by_labkit],
    "accumulate": [accumulated_by_shares, accumulated_and_divided, accumulated_without_backward],
    "clip_and_report": [clipped_by_hand, clipped_in_two_calls, clipped_while_scaled],
    "warm_up_cosine": [rate_by_math, rate_by_tensor, rate_by_squares],
    "stop_early": [stops_by_counting, stops_by_differences, stops_recursively],
    "keep_best": [keeps_by_deepcopy, keeps_on_the_cpu, keeps_in_a_list],
    "decay_groups": [groups_by_dict, groups_by_shape, groups_in_three],
    "average_weights": [averages_by_lerp, averages_parameters_then_buffers, averages_by_loading],
}


def sorts_the_losses(losses, patience, min_delta):
    result = stops_by_counting(losses, patience, min_delta)
    losses.sort(reverse=True)
    return result


CHANGES_ITS_INPUT = {"stop_early": sorts_the_losses}


def loss_of_a_certain_answer():
    certain = torch.full((1, 10), -50.0)
    certain[0, 3] = 50.0
    return f"{F.cross_entropy(certain.softmax(1), torch.tensor([3])).item():.2f}"


def mean_of_batch_means():
    batches = torch.tensor([1.0] * 128 + [5.0] * 2).split(64)
    return f"{sum(batch.mean().item() for batch in batches) / len(batches):.2f}"


def first_call_that_cuts():
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1.0)
    schedule = lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=3)
    for call in range(1, 11):
        schedule.step(1.0)
        if optimizer.param_groups[0]["lr"] < 1:
            return call


MEASURED = {
    "softmax_twice": loss_of_a_certain_answer,
    "mean_of_means": mean_of_batch_means,
    "first_cut": first_call_that_cuts,
}
