"""Chapter 08: other ways to the right result, functions that change their input, and what predictions ask."""

import statistics
from itertools import accumulate

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

from labkit.models.memory import kept_for_backward
from labkit.speed import Waits, graphs_after


def median_by_statistics(action, clock, synchronize, repeats):
    taken = []
    for number in range(3 + repeats):
        synchronize()
        begin = clock()
        action()
        synchronize()
        if number >= 3:
            taken.append(clock() - begin)
    return statistics.median(taken)


def median_by_slice(action, clock, synchronize, repeats):
    def once():
        synchronize()
        start = clock()
        action()
        synchronize()
        return clock() - start

    return statistics.median([once() for _ in range(repeats + 3)][3:])


def median_by_torch(action, clock, synchronize, repeats):
    for _ in range(3):
        action()
    synchronize()
    marks = [clock()]
    for _ in range(repeats):
        action()
        synchronize()
        marks.append(clock())
    return torch.tensor(marks, dtype=torch.float64).diff().median().item()


def fast_by_rounds(seconds_of, ways, rounds):
    taken = [[seconds_of(way) for way in ways] for _ in range(rounds)]
    ratios = [[row[0] / one for one in row] for row in taken]
    return {way: statistics.median(column) for way, column in zip(ways, zip(*ratios, strict=True), strict=True)}


def fast_by_tensor(seconds_of, ways, rounds):
    taken = torch.tensor([[seconds_of(way) for way in ways] for _ in range(rounds)], dtype=torch.float64)
    return dict(zip(ways, (taken[:, :1] / taken).median(dim=0).values.tolist(), strict=True))


def fast_by_division(seconds_of, ways, rounds):
    first, *others = ways
    found = {way: [] for way in ways}
    for _ in range(rounds):
        base = seconds_of(first)
        found[first].append(1.0)
        for way in others:
            found[way].append(base / seconds_of(way))
    return {way: statistics.median(values) for way, values in found.items()}


def own_by_recursion(spans):
    own = {}

    def run(place):
        name, begin, end = spans[place]
        left, following = end - begin, place + 1
        while following < len(spans) and spans[following][1] < end:
            left -= spans[following][2] - spans[following][1]
            following = run(following)
        own[name] = own.get(name, 0) + left
        return following

    place = 0
    while place < len(spans):
        place = run(place)
    return own


def own_by_parents(spans):
    own = dict.fromkeys((name for name, *_ in spans), 0.0)
    for place, (name, begin, end) in enumerate(spans):
        own[name] += end - begin
        callers = [one for one in spans[:place] if one[1] <= begin and end <= one[2]]
        if callers:
            own[max(callers, key=lambda one: one[1])[0]] -= end - begin
    return own


def own_by_marks(spans):
    own, running, before = {}, [], 0.0
    marks = [(begin, 1, name) for name, begin, _ in spans] + [(end, 0, name) for name, _, end in spans]
    for now, begins, name in sorted(marks, key=lambda mark: mark[:2]):
        if running:
            own[running[-1]] = own.get(running[-1], 0.0) + now - before
        before = now
        if begins:
            running.append(name)
        else:
            running.pop()
    return own


def batch_by_branches(load, compute, workers):
    if not workers:
        return compute + load
    share = load / workers
    return share if share > compute else compute


def batch_by_sorting(load, compute, workers):
    return sorted([load / workers, compute])[1] if workers else sum([load, compute])


def batch_by_simulation(load, compute, workers):
    if workers == 0:
        return load + compute
    ready = [load * (1 + number // workers) for number in range(400 * workers)]
    done = list(accumulate(ready, lambda free, one: max(free, one) + compute, initial=0.0))
    return (done[-1] - done[200 * workers]) / (200 * workers)


def windows_by_unfold(images, top, left, size):
    every = images.unfold(2, size, 1).unfold(3, size, 1)
    return every[torch.arange(len(images)), :, top, left]


def windows_by_gather(images, top, left, size):
    steps = torch.arange(size)
    rows = (top[:, None] + steps)[:, None, :, None].expand(-1, images.shape[1], -1, images.shape[3])
    columns = (left[:, None] + steps)[:, None, None, :].expand(-1, images.shape[1], size, -1)
    return images.gather(2, rows).gather(3, columns)


def windows_by_flat_places(images, top, left, size):
    batch, channels, _, width = images.shape
    steps = torch.arange(size)
    places = (top[:, None, None] + steps[:, None]) * width + left[:, None, None] + steps
    places = places.view(batch, 1, -1).expand(-1, channels, -1)
    return images.reshape(batch, channels, -1).gather(2, places).view(batch, channels, size, size)


def half_by_device_of(model, loss_fn, optimizer, inputs, targets):
    model.zero_grad()
    with torch.amp.autocast(inputs.device.type, torch.bfloat16):
        outputs = model(inputs)
        loss = loss_fn(outputs, targets)
    loss.backward()
    optimizer.step()
    return loss.detach()


def half_by_decorator(model, loss_fn, optimizer, inputs, targets):
    @torch.autocast("cpu", dtype=torch.bfloat16)
    def forward():
        return loss_fn(model(inputs), targets)

    loss = forward()
    optimizer.zero_grad(set_to_none=False)
    loss.backward()
    optimizer.step()
    return loss.detach().clone()


def half_with_disabled_scaler(model, loss_fn, optimizer, inputs, targets):
    scaler = torch.amp.GradScaler("cpu", enabled=False)
    optimizer.zero_grad()
    with torch.autocast(device_type="cpu", dtype=torch.bfloat16):
        loss = loss_fn(model(inputs), targets)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    return loss.detach()


def mean_by_stack(update, batches):
    return torch.stack([update(batch) for batch in batches]).mean().item()


def mean_by_float(update, batches):
    total = torch.zeros((), dtype=torch.float64)
    for batch in batches:
        total += update(batch)
    return float(total) / len(batches)


def mean_by_tolist(update, batches):
    losses = torch.stack([update(batch) for batch in batches]).tolist()
    return sum(losses) / len(losses)


def short_by_minimum(gradient, limit):
    norm = gradient.square().sum().sqrt()
    return gradient * torch.minimum(limit / norm, torch.ones(()))


def short_by_where(gradient, limit):
    norm = gradient.norm()
    return torch.where(norm > limit, gradient * (limit / norm), gradient)


def short_by_renorm(gradient, limit):
    return gradient / (gradient.norm() / limit).clamp(min=1.0)


def largest_by_three(bytes_of, limit):
    one, two = bytes_of(1), bytes_of(2)
    return 1 + (limit - one) // (two - one)


def largest_by_search(bytes_of, limit):
    few, more = bytes_of(2), bytes_of(6)
    slope, size = (more - few) / 4, 0
    while few + slope * (size + 1 - 2) <= limit:
        size += 1
    return size


def largest_by_floats(bytes_of, limit):
    slope = (bytes_of(8) - bytes_of(4)) / 4
    return int((limit - (bytes_of(4) - 4 * slope)) / slope)


def again_by_lambda(blocks, inputs):
    for block in blocks:
        inputs = checkpoint(lambda x, block=block: block(x), inputs, use_reentrant=False)
    return inputs


def again_by_segments(blocks, inputs):
    # the last segment of `checkpoint_sequential` is not checkpointed, so an empty one comes last
    return checkpoint_sequential([*blocks, nn.Identity()], len(blocks) + 1, inputs, use_reentrant=False)


def again_by_recursion(blocks, inputs):
    if not blocks:
        return inputs
    first, *others = blocks
    return again_by_recursion(others, checkpoint(first, inputs, use_reentrant=False))


OTHER_WAYS = {
    "median_seconds": [median_by_statistics, median_by_slice, median_by_torch],
    "times_as_fast": [fast_by_rounds, fast_by_tensor, fast_by_division],
    "own_seconds": [own_by_recursion, own_by_parents, own_by_marks],
    "seconds_a_batch": [batch_by_branches, batch_by_sorting, batch_by_simulation],
    "windows": [windows_by_unfold, windows_by_gather, windows_by_flat_places],
    "half_precision_step": [half_by_device_of, half_by_decorator, half_with_disabled_scaler],
    "mean_loss": [mean_by_stack, mean_by_float, mean_by_tolist],
    "shortened": [short_by_minimum, short_by_where, short_by_renorm],
    "largest_batch": [largest_by_three, largest_by_search, largest_by_floats],
    "computed_again": [again_by_lambda, again_by_segments, again_by_recursion],
}


def windows_in_place(images, top, left, size):
    images += 0 * images
    top += 1
    return windows_by_gather(images, top - 1, left, size)


def shortened_in_place(gradients, limit):
    return gradients.mul_((limit / gradients.norm()).clamp(max=1))


CHANGES_ITS_INPUT = {"windows": windows_in_place, "shortened": shortened_in_place}


def kept_for_one_sample():
    layer, sample = nn.Linear(512, 512), torch.ones(1, 512)

    def kept(half):
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=half):
            sample.requires_grad_()
            return kept_for_backward(lambda: layer(sample), layer.parameters())

    return "more" if kept(True) > kept(False) else "less"


def graphs_of_branches():
    def branch(x):
        if x.sum() > 0:
            return x * 2
        return x - 1

    up, down = (torch.ones(3),), (-torch.ones(3),)
    return graphs_after(branch, [up, down, up])[-1]


def graphs_of_sizes():
    return graphs_after(lambda x: x * 2 + 1, [(torch.ones(size),) for size in (3, 4, 5, 6)])[-1]


def lines_that_wait():
    loss, best, total = torch.tensor(0.3), torch.tensor(0.5), torch.tensor(0.0)
    values, mask = torch.ones(3), torch.tensor([True, False, True])
    lines = [
        lambda: loss.item(),
        lambda: total.add_(loss),
        lambda: "better" if loss < best else "worse",
        lambda: str(loss),
        lambda: values[mask],
        lambda: torch.where(mask, values, -values),
    ]
    waiting = 0
    for line in lines:
        with Waits() as waits:
            line()
        waiting += waits.total > 0
    return waiting


MEASURED = {
    "half_for_one": kept_for_one_sample,
    "shape_of_channels_last": lambda: torch.ones(2, 3, 4, 5).to(memory_format=torch.channels_last).shape,
    "branch_graphs": graphs_of_branches,
    "new_sizes": graphs_of_sizes,
    "waiting_lines": lines_that_wait,
}
