"""Chapter 07: other ways to the right result, functions that change their input, and what predictions ask."""

import contextlib
import copy
from collections import Counter
from functools import partial

import torch
import torch.nn.functional as F
from torch import nn

from labkit import doctor, trials


def baselines_by_counter(labels, classes):
    counts = Counter(labels.tolist())
    shares = [count / len(labels) for count in counts.values()]
    return torch.log(torch.tensor(float(classes))).item(), -sum(q * torch.tensor(q).log().item() for q in shares)


def baselines_by_losses(labels, classes):
    equal = F.cross_entropy(torch.zeros(len(labels), classes), labels)
    shares = torch.bincount(labels, minlength=classes) / len(labels)
    return [equal, F.nll_loss(shares.log().expand(len(labels), -1), labels)]


def baselines_by_distribution(labels, classes):
    _, counts = labels.unique(return_counts=True)
    equal = torch.distributions.Categorical(torch.ones(classes)).entropy()
    return equal, torch.distributions.Categorical(counts.float()).entropy()


def source_by_topk(images, labels, sources):
    rows = images.reshape(len(images), -1).double()
    nearest = torch.cdist(rows, rows).topk(2, largest=False).indices[:, 1]
    wrong = (labels[nearest] != labels).double()
    numbers = sources.unique()
    return numbers[torch.stack([wrong[sources == number].mean() for number in numbers]).argmax()]


def source_by_loop(images, labels, sources):
    shares = {}
    for number in set(sources.tolist()):
        right = []
        for place in (sources == number).nonzero().flatten().tolist():
            distances = (images - images[place]).flatten(1).norm(dim=1)
            distances[place] = 1e9
            right.append(float(labels[distances.argmin()] == labels[place]))
        shares[number] = sum(right) / len(right)
    return min(shares, key=shares.get)


def source_by_bincount(images, labels, sources):
    rows = images.flatten(1)
    squares = (rows[:, None] - rows[None]).square().sum(dim=2) + torch.eye(len(rows)) * 1e9
    wrong = labels[squares.argmin(1)].ne(labels)
    shares = torch.bincount(sources, wrong.float()) / torch.bincount(sources).clamp(min=1)
    return int(shares.argmax())


def heart_by_functional_call(model, loss_fn, inputs, targets, updates):
    state = {name: value.detach().clone() for name, value in model.state_dict().items()}
    weights = {name: state[name].requires_grad_() for name, _ in model.named_parameters()}
    optimizer = torch.optim.Adam(weights.values(), lr=0.01)
    mode = model.training
    model.train()
    for _ in range(updates):
        gradients = torch.autograd.grad(
            loss_fn(torch.func.functional_call(model, state, (inputs,)), targets), list(weights.values())
        )
        for weight, gradient in zip(weights.values(), gradients, strict=True):
            weight.grad = gradient
        optimizer.step()
    loss = loss_fn(torch.func.functional_call(model, state, (inputs,)), targets)
    model.train(mode)
    return loss.item()


def heart_by_untouched(model, loss_fn, inputs, targets, updates):
    with trials.untouched(model) as (learner,):
        learner.train()
        optimizer = torch.optim.Adam(learner.parameters(), lr=0.01)
        for _ in range(updates):
            optimizer.zero_grad()
            loss_fn(learner(inputs), targets).backward()
            optimizer.step()
        return loss_fn(learner(inputs), targets).item()


def heart_with_one_more_loss(model, loss_fn, inputs, targets, updates):
    learner = copy.deepcopy(model)
    learner.train()
    optimizer = torch.optim.Adam(list(learner.parameters()), 0.01)
    losses = []
    for _ in range(updates + 1):
        loss = loss_fn(learner(inputs), targets)
        losses.append(loss.item())
        learner.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
    return losses[-1]


def missing_by_is(model, optimizer):
    found = []
    for name, one in model.named_parameters():
        held = any(one is other for group in optimizer.param_groups for other in group["params"])
        if one.requires_grad and not held:
            found.append(name)
    return found


def missing_by_names(model, optimizer):
    names = {one: name for name, one in model.named_parameters() if one.requires_grad}
    for group in optimizer.param_groups:
        for one in group["params"]:
            names.pop(one, None)
    return tuple(names.values())


def missing_by_sets(model, optimizer):
    trained = {one for one in model.parameters() if one.requires_grad}
    left = trained.difference(*(group["params"] for group in optimizer.param_groups))
    return {name for name, one in model.named_parameters() if one in left}


def ends_by_list(model):
    names = [
        name
        for name, one in model.named_parameters()
        if one.requires_grad and (one.grad is None or torch.count_nonzero(one.grad) == 0)
    ]
    return names[-1] if names else None


def ends_by_norm(model):
    last = None
    for name, one in model.named_parameters():
        if one.requires_grad and (one.grad is None or one.grad.norm() == 0):
            last = name
    return last


def ends_by_next(model):
    backwards = list(model.named_parameters())[::-1]
    lost = (n for n, p in backwards if p.requires_grad and (p.grad is None or bool((p.grad == 0).all())))
    return next(lost, None)


def dead_by_maximum(batches):
    highest = torch.stack([one.amax(dim=0) for one in batches]).amax(dim=0)
    return (highest == 0).double().mean()


def dead_by_sum(batches):
    total = sum(one.sum(dim=0) for one in batches)
    return (total == 0).sum().item() / len(total)


def dead_by_loop(batches):
    units = batches[0].shape[1]
    return sum(all((one[:, unit] == 0).all() for one in batches) for unit in range(units)) / units


def sizes_by_deepcopy(model, update):
    before = copy.deepcopy(model)
    update()
    pairs = zip(before.named_parameters(), model.parameters(), strict=True)
    return {name: (now - was).norm() / was.norm() for (name, was), now in pairs if was.dim() > 1}


def sizes_by_state(model, update):
    before = {name: value.clone() for name, value in model.state_dict().items()}
    update()
    names = [name for name, one in model.named_parameters() if len(one.shape) >= 2]
    return {n: float(torch.dist(model.state_dict()[n], before[n]) / torch.linalg.norm(before[n])) for n in names}


def sizes_by_lists(model, update):
    before = {name: torch.tensor(one.tolist()) for name, one in model.named_parameters() if one.ndim >= 2}
    update()
    with torch.no_grad():
        return {n: ((model.get_parameter(n) - b) ** 2).sum().sqrt() / (b**2).sum().sqrt() for n, b in before.items()}


def finite_by_partial(model, inputs):
    found = []

    def note(name, layer, given, output):
        if torch.isnan(output).any() or torch.isinf(output).any():
            found.append(name)

    with contextlib.ExitStack() as hooks:
        for name, layer in model.named_modules():
            if next(layer.children(), None) is None:
                hooks.callback(layer.register_forward_hook(partial(note, name)).remove)
        model(inputs)
    return next(iter(found), None)


def finite_by_raising(model, inputs):
    class Found(Exception):
        pass

    def make(name):
        def note(layer, given, output):
            if not torch.isfinite(output).all():
                raise Found(name)

        return note

    leaves = [(name, layer) for name, layer in model.named_modules() if not len(list(layer.children()))]
    handles = [layer.register_forward_hook(make(name)) for name, layer in leaves]
    try:
        model(inputs)
    except Found as found:
        return found.args[0]
    finally:
        for handle in handles:
            handle.remove()


def finite_by_outputs(model, inputs):
    names = {layer: name for name, layer in model.named_modules() if not list(layer.children())}
    outputs, handles = [], []
    for layer in names:
        handles.append(layer.register_forward_hook(lambda layer, _, output: outputs.append((names[layer], output))))
    with torch.no_grad():
        model(inputs)
    [handle.remove() for handle in handles]
    return next((name for name, output in outputs if not output.abs().max() < float("inf")), None)


def mixes_by_halves(model, inputs):
    mode = model.training
    try:
        with torch.inference_mode():
            model.eval()
            whole = model(inputs)
            half = len(inputs) // 2
            return not all(
                torch.allclose(whole[part], model(inputs[part]), rtol=1e-4, atol=1e-5)
                for part in (slice(half), slice(half, None))
            )
    finally:
        model.train(mode)


@torch.no_grad()
def mixes_by_other_company(model, inputs):
    mode, found = model.training, False
    model.eval()
    whole = model(inputs)
    for place in range(len(inputs)):
        others = -3 * inputs.flip(0)
        others[place] = inputs[place]
        found |= not torch.allclose(model(others)[place], whole[place], atol=1e-4)
    model.train(mode)
    return found


def mixes_by_gradient(model, inputs):
    mode = model.training
    model.eval()
    inputs = inputs.clone().requires_grad_()
    found = False
    for place, answer in enumerate(model(inputs)):
        (slope,) = torch.autograd.grad((answer**2).sum(), inputs, retain_graph=True)
        slope[place] = 0
        found = found or slope.abs().max().item() > 1e-6
    model.train(mode)
    return found


def waiting_by_iterator(loader, step, clock):
    batches, waits, steps = iter(loader), [], []
    while True:
        first = clock()
        try:
            batch = next(batches)
        except StopIteration:
            return sum(waits), sum(steps)
        second = clock()
        step(batch)
        waits.append(second - first)
        steps.append(clock() - second)


def waiting_by_the_rest(loader, step, clock):
    begun, computing = clock(), 0
    for batch in loader:
        computing -= clock()
        step(batch)
        computing += clock()
    return [clock() - begun - computing, computing]


def waiting_by_moments(loader, step, clock):
    moments = [clock()]
    for batch in loader:
        moments.append(clock())
        step(batch)
        moments.append(clock())
    spans = torch.tensor(moments, dtype=torch.float64).diff()
    return tuple(spans.reshape(-1, 2).sum(dim=0).tolist())


OTHER_WAYS = {
    "baseline_losses": [baselines_by_counter, baselines_by_losses, baselines_by_distribution],
    "mislabelled_source": [source_by_topk, source_by_loop, source_by_bincount],
    "loss_by_heart": [heart_by_functional_call, heart_by_untouched, heart_with_one_more_loss],
    "not_in_optimizer": [missing_by_is, missing_by_names, missing_by_sets],
    "gradient_ends_at": [ends_by_list, ends_by_norm, ends_by_next],
    "dead_share": [dead_by_maximum, dead_by_sum, dead_by_loop],
    "update_sizes": [sizes_by_deepcopy, sizes_by_state, sizes_by_lists],
    "first_non_finite": [finite_by_partial, finite_by_raising, finite_by_outputs],
    "mixes_samples": [mixes_by_halves, mixes_by_other_company, mixes_by_gradient],
    "waiting_and_computing": [waiting_by_iterator, waiting_by_the_rest, waiting_by_moments],
}


def dead_by_adding_up(batches):
    total = batches[0]
    for one in batches[1:]:
        total[:2] += one[:2]
    return dead_by_sum(batches)


def source_by_flattening_in_place(images, labels, sources):
    found = source_by_topk(images, labels, sources)
    images -= images.mean()
    return found


CHANGES_ITS_INPUT = {"dead_share": dead_by_adding_up, "mislabelled_source": source_by_flattening_in_place}


def loss_of_a_fresh_network():
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    return f"{F.cross_entropy(network(torch.randn(100, 64)), torch.arange(100) % 10):.1f}"


def by_heart_with_a_new_head():
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
    network[2] = nn.Linear(64, 10)
    inputs, targets = torch.randn(32, 64), torch.arange(32) % 10
    for _ in range(100):
        optimizer.zero_grad()
        loss = F.cross_entropy(network(inputs), targets)
        loss.backward()
        optimizer.step()
    return "yes" if loss < 0.05 else "no"


def what_moves_from_zero():
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    for one in network.parameters():
        nn.init.zeros_(one)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    for _ in range(100):
        optimizer.zero_grad()
        F.cross_entropy(network(torch.randn(20, 4)), torch.zeros(20, dtype=torch.int64)).backward()
        optimizer.step()
    moved = [name for name, one in network.named_parameters() if one.any()]
    return "the last bias" if moved == ["2.bias"] else str(moved)


def slope_of_where():
    x = torch.zeros(1, requires_grad=True)
    torch.where(x > 0, x.sqrt(), 0 * x).sum().backward()
    return x.grad.item()


def without_a_finding():
    torch.manual_seed(0)
    kinds = 3 * torch.randn(3, 8)
    truth = torch.arange(96) % 3
    data = torch.utils.data.TensorDataset(kinds[truth] + 0.3 * torch.randn(96, 8), truth)
    network = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
    loader = torch.utils.data.DataLoader(data, batch_size=16, shuffle=True)
    optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
    found = [bool(doctor.examine(network, F.cross_entropy, optimizer, loader).findings)]
    softmaxed = nn.Sequential(network, nn.Softmax(dim=1))
    found.append(bool(doctor.examine(softmaxed, F.cross_entropy, optimizer, loader).findings))
    return "C" if found == [False, True] else str(found)


MEASURED = {
    "first_loss": loss_of_a_fresh_network,
    "by_heart_without_head": by_heart_with_a_new_head,
    "zeros_that_move": what_moves_from_zero,
    "root_at_zero": slope_of_where,
    "healthy_program": without_a_finding,
}
