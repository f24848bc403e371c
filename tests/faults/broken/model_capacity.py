"""Models that cannot represent what they are asked for."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn, optim
from torch.utils.data import TensorDataset

from tests.faults.program import broken
from tests.faults.tasks_b import colours, digits, loaders, ordered_words, rings


def adam(model: nn.Module, lr: float = 5e-3) -> optim.Optimizer:
    return optim.Adam(model.parameters(), lr=lr)


class Deep(nn.Module):
    """Three layers; the activations lie in a list of their own."""

    def __init__(self, activation: type[nn.Module]):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(8, 64), nn.Linear(64, 64), nn.Linear(64, 3)])
        self.between = nn.ModuleList([activation(), activation(), nn.Identity()])

    def forward(self, x: Tensor) -> Tensor:
        for layer, activation in zip(self.layers, self.between, strict=True):
            x = activation(layer(x))
        return x


@broken("model_too_weak", effect="hurts", epochs=4, gap=0.25)
def three_layers_without_activation(sound: bool) -> dict:
    model = Deep(nn.ReLU if sound else nn.Identity)
    return {"model": model, "loss_fn": nn.CrossEntropyLoss(), "optimizer": adam(model), **loaders(rings())}


class LinearFilters(nn.Module):
    """Convolutions one after the other, then the mean over the picture."""

    def __init__(self, rectify: bool):
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3)
        self.second = nn.Conv2d(8, 8, 3)
        self.out = nn.Linear(8, 4)
        self.rectify = rectify

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x.permute(0, 3, 1, 2))
        if self.rectify:
            x = F.relu(x)
        x = self.second(x)
        if self.rectify:
            x = F.relu(x)
        return self.out(F.avg_pool2d(x, 8).flatten(1))


@broken("model_too_weak", effect="hurts", epochs=4, gap=0.25)
def linear_convolutions_and_their_mean(sound: bool) -> dict:
    model = LinearFilters(rectify=sound)
    return {"model": model, "loss_fn": F.cross_entropy, "optimizer": adam(model, 1e-2), **loaders(colours())}


class Squeezed(nn.Module):
    """Autoencoder of digits: a picture goes through a code of few numbers."""

    def __init__(self, code: int):
        super().__init__()
        self.encoder = nn.Sequential(nn.Flatten(), nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, code))
        self.decoder = nn.Sequential(nn.Linear(code, 48), nn.ReLU(), nn.Linear(48, 64), nn.Unflatten(1, (1, 8, 8)))

    def forward(self, x: Tensor) -> Tensor:
        return self.decoder(self.encoder(x))


@broken("model_too_weak", effect="hurts", epochs=8, gap=0.15)
def code_of_a_single_number(sound: bool) -> dict:
    """The score is the share of the variance that the reconstruction explains."""
    model = Squeezed(code=12 if sound else 1)
    pair = tuple(TensorDataset(part.tensors[0], part.tensors[0]) for part in digits())

    def evaluate(model, loader):
        model.eval()
        with torch.no_grad():
            pictures = torch.cat([x for x, _ in loader])
            left = (model(pictures) - pictures).square().sum()
        return 1 - (left / (pictures - pictures.mean(0)).square().sum()).item()

    return {"model": model, "loss_fn": nn.MSELoss(), "optimizer": adam(model), "evaluate": evaluate, **loaders(pair)}


class Sentence(nn.Module):
    """Tells which word came first: from the words in their order, or from the mean of their vectors."""

    def __init__(self, order: bool):
        super().__init__()
        self.words = nn.Embedding(20, 12)
        self.read = nn.GRU(12, 12, batch_first=True)
        self.out = nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 2))
        if not order:
            self.read = nn.Identity()

    def forward(self, words: Tensor) -> Tensor:
        x = self.read(self.words(words))
        return self.out((x[0] if isinstance(x, tuple) else x).mean(1))


@broken("model_too_weak", effect="hurts", epochs=5, gap=0.25)
def mean_of_words_where_order_counts(sound: bool) -> dict:
    model = Sentence(order=sound)
    return {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": adam(model, 1e-2),
        **loaders(ordered_words()),
    }


@broken("model_too_weak", effect="hurts", epochs=5, gap=0.15)
def one_unit_in_the_middle(sound: bool) -> dict:
    width = 16 if sound else 1
    model = nn.Sequential(
        nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, width), nn.Tanh(), nn.Linear(width, 10)
    )
    optimizer = optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    return {"model": model, "loss_fn": nn.CrossEntropyLoss(), "optimizer": optimizer, **loaders(digits())}
