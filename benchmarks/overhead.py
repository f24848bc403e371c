"""What the training loop costs beside the work: time for one update of `fit` ÷ that of the same loop written inline.

    python -m benchmarks.overhead [--json] [--rounds N]

All contestants train the same network on the same batches with the same optimizer, clip the gradient, and keep loss,
accuracy and gradient norm. The clock runs from the request for the first batch of an epoch to that for its last, so
nobody's set-up counts.
Everybody takes a turn in each round; a ratio is the median over the rounds of (contestant ÷ inline) within a round.
Contestants that are not installed (`pip install -e .[bench]`) are left out, and said.
"""

import argparse
import contextlib
import io
import itertools
import statistics
import time
import warnings
from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks import peers
from benchmarks.measuring import report
from benchmarks.peers import CLIP_NORM, RATE
from labkit import data, models, training
from labkit.table import Table

PICTURES, BATCH, EPOCHS = 2_048, 64, 3  # the first epoch is not counted
NETWORKS = {"small MLP": "mlp", "small CNN": "lenet"}
Loss = Callable[[Tensor, Tensor], Tensor]


class Clocked:
    """A loader that notes the time for an update in each epoch: from the request for its first batch to its last."""

    def __init__(self, loader: data.Loader) -> None:
        self.loader, self.seconds = loader, []

    def __len__(self) -> int:
        return len(self.loader)

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        requests = [time.perf_counter()]
        for batch in self.loader:
            if len(requests) == len(self.loader):  # some never ask whether there is one more
                self.seconds.append((requests[-1] - requests[0]) / (len(requests) - 1))
            yield batch
            requests.append(time.perf_counter())


class Noted:
    """A cross-entropy that keeps all its values."""

    def __init__(self) -> None:
        self.values: list[Tensor] = []

    def __call__(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the mean loss of a batch."""
        loss = F.cross_entropy(outputs, targets)
        self.values.append(loss.detach())
        return loss


def by_labkit(model: nn.Module, batches: Clocked, loss_fn: Loss, epochs: int) -> None:
    """Train with `fit`."""
    config = training.Config(
        run_dir="",
        epochs=epochs,
        learning_rate=RATE,
        weight_decay=0.0,
        schedule="constant",
        clip_norm=CLIP_NORM,
        log_every=1_000_000,
        device="cpu",
    )
    training.fit(model, batches, None, config, loss_fn)


def inline(model: nn.Module, batches: Clocked, loss_fn: Loss, epochs: int) -> None:
    """Train with the lines that people write, and the same numbers kept."""
    optimizer = peers.optimizer_of(model)
    for _ in range(epochs):
        model.train()
        loss_sum, norm_sum = torch.zeros((), dtype=torch.float64), torch.zeros((), dtype=torch.float64)
        correct, count = torch.zeros((), dtype=torch.int64), 0
        for inputs, targets in batches:
            optimizer.zero_grad()
            outputs = model(inputs)
            loss = loss_fn(outputs, targets)
            loss.backward()
            norm_sum += nn.utils.clip_grad_norm_(model.parameters(), CLIP_NORM)
            optimizer.step()
            loss_sum += loss.detach() * len(targets)
            correct += (outputs.argmax(dim=1) == targets).sum()
            count += len(targets)
        print(loss_sum.item() / count, correct.item() / count, norm_sum.item() / len(batches))


CONTESTANTS = {"inline": inline, "labkit": by_labkit} | peers.INSTALLED


def run(name: str, network: str, pictures: data.ImageSet) -> tuple[float, Tensor]:
    """Let one contestant train a network; return its seconds for an update and all losses: float32 (updates,)."""
    model = models.build(network, pictures.image_shape, len(pictures.classes), seed=0)
    batches, loss_fn = Clocked(data.loader(pictures, BATCH, seed=0, shuffle=True)), Noted()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        CONTESTANTS[name](model, batches, loss_fn, EPOCHS)
    return statistics.median(batches.seconds[1:]), torch.stack(loss_fn.values)


def compare(network: str, pictures: data.ImageSet, rounds: int) -> tuple[dict[str, float], float]:
    """Return for each contestant its time as a multiple of the inline loop's, and that in seconds for an update.

    Raises AssertionError where the losses of `fit` are not those of the inline loop, bit for bit.
    """
    ratios: dict[str, list[float]] = {name: [] for name in CONTESTANTS}
    inline_seconds = []
    for number in range(rounds + 1):
        seconds, losses = {}, {}
        # Another order in every round: who comes after a heavy one finds a cold cache.
        for name in itertools.islice(itertools.cycle(CONTESTANTS), number, number + len(CONTESTANTS)):
            seconds[name], losses[name] = run(name, network, pictures)
        assert torch.equal(losses["labkit"], losses["inline"]), "fit does not do what the inline loop does"
        if number:  # the first round warms up
            inline_seconds.append(seconds["inline"])
            for name in CONTESTANTS:
                ratios[name].append(seconds[name] / seconds["inline"])
    return {name: statistics.median(values) for name, values in ratios.items()}, statistics.median(inline_seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print one JSON line last")
    parser.add_argument("--rounds", type=int, default=15, help="how often everybody takes a turn (default 15)")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # of the contestants, about what they would like to have
    noise = torch.randint(0, 256, (PICTURES, 1, 28, 28), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    pictures = data.ImageSet(noise, torch.arange(PICTURES) % 10, tuple("0123456789"), "noise")
    found, lines = {}, []
    for title, network in NETWORKS.items():
        found[title], seconds = compare(network, pictures, arguments.rounds)
        lines.append(f"{title}: {seconds * 1e6:,.0f} µs inline")
    rows = [{"loop": name} | {title: ratios[name] for title, ratios in found.items()} for name in CONTESTANTS]
    worst = {name: max(ratios[name] for ratios in found.values()) for name in CONTESTANTS}
    figures = {"fit_over_inline": worst.pop("labkit"), "peers_over_inline": worst}
    worst.pop("inline")
    missing = f" Not installed: {', '.join(peers.MISSING)}." if peers.MISSING else ""
    report(
        Table(rows, f"Time for one update, the inline loop = 1 ({'; '.join(lines)}).{missing}"), figures, arguments.json
    )


if __name__ == "__main__":
    main()
