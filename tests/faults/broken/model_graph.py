"""Models and losses whose autograd graph is cut, or overwritten while it is needed."""

import numpy
import torch
import torch.nn.functional as F
from torch import Tensor, nn, optim

from tests.faults.program import broken
from tests.faults.tasks_b import cells, colours, digits, loaders, ordered_words, symptoms, waves, yields


def negative_error(model: nn.Module, loader) -> float:
    model.eval()
    with torch.no_grad():
        return -torch.cat([(model(x) - y).abs() for x, y in loader]).mean().item()


def overlap(model: nn.Module, loader) -> float:
    model.eval()
    with torch.no_grad():
        pairs = [(model(x) > 0, y > 0.5) for x, y in loader]
    return sum((a & b).sum().item() for a, b in pairs) / sum((a | b).sum().item() for a, b in pairs)


# graph_detached


class Colourist(nn.Module):
    def __init__(self, cut: bool):
        super().__init__()
        self.eye = nn.Sequential(nn.Conv2d(3, 6, 3), nn.ReLU(), nn.Conv2d(6, 6, 3), nn.ReLU())
        self.mind = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 4))
        self.cut = cut

    def forward(self, x: Tensor) -> Tensor:
        seen = self.eye(x.permute(0, 3, 1, 2)).mean((2, 3))
        if self.cut:
            seen = seen.data
        return self.mind(seen)


@broken("graph_detached", effect="hurts", epochs=5, gap=0.1)
def features_taken_by_data(sound: bool) -> dict:
    model = Colourist(cut=not sound)
    optimizer = optim.Adam(model.parameters(), lr=5e-3)
    return {"model": model, "loss_fn": nn.CrossEntropyLoss(), "optimizer": optimizer, **loaders(colours())}


class SoundReader(nn.Module):
    """Learned filters, then the strength of the frequencies, then a linear classifier."""

    def __init__(self, by_numpy: bool):
        super().__init__()
        self.filters = nn.Conv1d(2, 2, 1, bias=False)
        self.norm = nn.LayerNorm(26)
        self.out = nn.Linear(26, 4)
        self.by_numpy = by_numpy

    def spectrum(self, x: Tensor) -> Tensor:
        if self.by_numpy:
            return torch.tensor(numpy.abs(numpy.fft.rfft(x.detach().numpy())), dtype=torch.float32)
        return torch.fft.rfft(x).abs()

    def forward(self, x: Tensor) -> Tensor:
        strengths = self.spectrum(self.filters(x.transpose(1, 2)))
        return self.out(self.norm(strengths.flatten(1)))


def movement_of(name: str):
    """Return a measure: how far the part of this name lies from the weights with which the program was built."""

    def measure(program: dict) -> float:
        start = program["start"]
        return sum(
            (now - start[key]).norm().item() for key, now in program["model"].state_dict().items() if name in key
        )

    return measure


def copy_of_weights(model: nn.Module) -> dict:
    return {name: value.clone() for name, value in model.state_dict().items()}


@broken("graph_detached", effect="silent", epochs=3, gap=0.05, measure=movement_of("filters"))
def spectrum_computed_by_numpy(sound: bool) -> dict:
    model = SoundReader(by_numpy=not sound)
    return {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optim.Adam(model.parameters(), lr=3e-2),
        "start": copy_of_weights(model),
        **loaders(waves()),
    }


class RelativeError:
    """Mean error in units of the spread; the parts are kept for the protocol."""

    def __init__(self, wrap: bool):
        self.wrap = wrap
        self.history: list[float] = []

    def __call__(self, outputs: Tensor, y: Tensor) -> Tensor:
        loss = (outputs - y).abs().mean() / y.std()
        self.history.append(loss.item())
        return torch.tensor(loss, requires_grad=True) if self.wrap else loss


@broken("graph_detached", effect="hurts", epochs=5, gap=0.2)
def loss_wrapped_in_a_new_tensor(sound: bool) -> dict:
    model = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 1), nn.Flatten(0))
    return {
        "model": model,
        "loss_fn": RelativeError(wrap=not sound),
        "optimizer": optim.Adam(model.parameters(), lr=1e-2),
        "evaluate": negative_error,
        **loaders(yields()),
    }


class OrderOfWords(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(20, 8)
        self.rnn = nn.GRU(8, 12, batch_first=True)
        self.out = nn.Linear(12, 2)

    def read(self, words: Tensor) -> Tensor:
        return self.rnn(self.table(words))[1].squeeze(0)

    def forward(self, words: Tensor) -> Tensor:
        return self.out(self.read(words))


class OrderOfWordsForServing(OrderOfWords):
    """As it came from the service that only predicts."""

    @torch.no_grad()
    def read(self, words: Tensor) -> Tensor:
        return super().read(words)


@broken("graph_detached", effect="hurts", epochs=8, gap=0.15)
def method_decorated_with_no_grad(sound: bool) -> dict:
    model = OrderOfWords() if sound else OrderOfWordsForServing()
    optimizer = optim.Adam(model.parameters(), lr=1e-2)
    return {"model": model, "loss_fn": nn.CrossEntropyLoss(), "optimizer": optimizer, **loaders(ordered_words())}


@broken("graph_detached", effect="raises", epochs=1, also=("wrong_loss",))
def loss_of_the_chosen_class(sound: bool) -> dict:
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))

    def loss_fn(logits: Tensor, labels: Tensor) -> Tensor:
        if sound:
            return F.cross_entropy(logits, labels)
        guesses = logits.argmax(dim=1)
        return (guesses != labels).float().mean()

    optimizer = optim.SGD(model.parameters(), lr=0.1)
    return {"model": model, "loss_fn": loss_fn, "optimizer": optimizer, **loaders(digits())}


@broken("graph_detached", effect="hurts", epochs=5, gap=0.3)
def mask_made_hard_before_the_loss(sound: bool) -> dict:
    """The decision is differentiable on paper only; the size of the picture keeps a gradient alive."""
    model = nn.Sequential(nn.Conv2d(1, 8, 5, padding=2), nn.ReLU(), nn.Conv2d(8, 1, 5, padding=2))

    def loss_fn(logits: Tensor, masks: Tensor) -> Tensor:
        share = torch.sigmoid(logits)
        chosen = share if sound else (share > 0.5).float()
        common = (chosen * masks).sum((1, 2, 3))
        dice = (2 * common + 1) / (chosen.sum((1, 2, 3)) + masks.sum((1, 2, 3)) + 1)
        return 1 - dice.mean() + 1e-3 * logits.square().mean()

    return {
        "model": model,
        "loss_fn": loss_fn,
        "optimizer": optim.Adam(model.parameters(), lr=1e-2),
        "evaluate": overlap,
        **loaders(cells()),
    }


class Diagnosis(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(nn.Linear(12, 6), nn.Tanh(), nn.Linear(6, 6), nn.Tanh())
        self.head = nn.Linear(6, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.backbone(x))


@broken("graph_detached", effect="hurts", epochs=8, gap=0.05, also=("param_not_optimised",))
def evaluation_leaves_the_backbone_frozen(sound: bool) -> dict:
    model = Diagnosis()

    def evaluate(model: Diagnosis, loader) -> float:
        model.eval()
        model.requires_grad_(False)  # no gradients, less memory
        right = torch.cat([(model(x) > 0) == (y > 0.5) for x, y in loader])
        (model if sound else model.head).requires_grad_(True)
        return right.float().mean().item()

    return {
        "model": model,
        "loss_fn": nn.BCEWithLogitsLoss(),
        "optimizer": optim.Adam(model.parameters(), lr=1e-2),
        "evaluate": evaluate,
        **loaders(symptoms(), batch_size=100),
    }
