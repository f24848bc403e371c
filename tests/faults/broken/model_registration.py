"""Models that hide parameters from the optimizer."""

import torch
from torch import Tensor, nn, optim

from tests.faults.program import broken
from tests.faults.tasks_b import colours, digits, loaders, ordered_words, topics, yields


def adam(model: nn.Module, lr: float = 5e-3) -> optim.Optimizer:
    return optim.Adam(model.parameters(), lr=lr)


# param_not_registered


class ManyFilters(nn.Module):
    """Filters of several widths over the words of a sentence."""

    def __init__(self, registered: bool):
        super().__init__()
        self.words = nn.Embedding(20, 4)
        branches = tuple(nn.Sequential(nn.Conv1d(4, 3, width), nn.ReLU()) for width in (2, 3, 5))
        self.branches = nn.ModuleList(branches) if registered else branches
        self.out = nn.Linear(9, 2)

    def forward(self, words: Tensor) -> Tensor:
        x = self.words(words).transpose(1, 2)
        return self.out(torch.cat([branch(x).amax(2) for branch in self.branches], 1))


def weights_that_move(reach):
    """Return a measure: how far the weights that `reach` finds in the model moved from where they were."""

    def measure(program: dict) -> float:
        return (reach(program["model"]).detach() - program["start"]).norm().item()

    return measure


def filter_weights(model: ManyFilters) -> Tensor:
    return torch.cat([branch[0].weight.flatten() for branch in model.branches])


@broken("param_not_registered", effect="silent", epochs=4, gap=0.1, measure=weights_that_move(filter_weights))
def branches_in_a_tuple(sound: bool) -> dict:
    model = ManyFilters(registered=sound)
    return {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": adam(model),
        "start": filter_weights(model).detach().clone(),
        **loaders(ordered_words()),
    }


class ExamplePictures(nn.Module):
    """Decides by the distance to one learned example of each class, after a fixed change of scale."""

    def __init__(self, registered: bool):
        super().__init__()
        examples = torch.randn(10, 64) * 0.2
        self.examples = nn.Parameter(examples) if registered else examples.requires_grad_()
        self.scale = nn.Parameter(torch.tensor(1.0))

    def forward(self, x: Tensor) -> Tensor:
        return -self.scale * torch.cdist(x.flatten(1), self.examples)


@broken("param_not_registered", effect="hurts", epochs=4, gap=0.3)
def examples_are_a_plain_tensor(sound: bool) -> dict:
    model = ExamplePictures(registered=sound)
    return {"model": model, "loss_fn": nn.CrossEntropyLoss(), "optimizer": adam(model, 2e-2), **loaders(digits())}


class ScaledTable(nn.Module):
    """Own embedding: the mean vector of a sentence is compared with the vectors of the topics."""

    def __init__(self, small: bool):
        super().__init__()
        if small:
            self.table = nn.Parameter(torch.randn(30, 4)) * 0.1
        else:
            self.table = nn.Parameter(torch.randn(30, 4) * 0.1)
        self.out = nn.Linear(4, 5)

    def forward(self, words: Tensor) -> Tensor:
        seen = (words > 0).float()[:, :, None]
        return self.out((self.table[words] * seen).sum(1))


@broken("param_not_registered", effect="raises", epochs=1)
def parameter_multiplied_when_made(sound: bool) -> dict:
    model = ScaledTable(small=not sound)
    optimizer = optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
    return {"model": model, "loss_fn": nn.CrossEntropyLoss(), "optimizer": optimizer, **loaders(topics())}


class Lazy(nn.Module):
    """The last layer is made when the number of features is known."""

    def __init__(self, keep: bool):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 8, 3, stride=2), nn.ReLU(), nn.Conv2d(8, 8, 3, stride=2), nn.ReLU())
        self.classify = nn.Linear(32, 4) if keep else None

    def forward(self, x: Tensor) -> Tensor:
        x = self.features(x.permute(0, 3, 1, 2)).flatten(1)
        classify = self.classify or nn.Linear(x.shape[1], 4)
        return classify(x)


@broken("param_not_registered", effect="hurts", epochs=4, gap=0.3)
def last_layer_made_in_forward(sound: bool) -> dict:
    model = Lazy(keep=sound)
    return {"model": model, "loss_fn": nn.CrossEntropyLoss(), "optimizer": adam(model), **loaders(colours())}


class Stations(nn.Module):
    """One small network for each of two stations; the sign of the first measurement tells the station."""

    def __init__(self, registered: bool):
        super().__init__()
        self.shared = nn.Linear(6, 3)
        north, south = (nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1)) for _ in range(2))
        if registered:
            self.north, self.south = north, south
            self.of_station = [self.north, self.south]
        else:
            self.of_station = [lambda x: north(x), lambda x: south(x)]

    def forward(self, x: Tensor) -> Tensor:
        north, south = (station(x).squeeze(1) for station in self.of_station)
        return self.shared(x).sum(1) + torch.where(x[:, 0] > 0, north, south)


@broken("param_not_registered", effect="hurts", epochs=8, gap=0.15)
def stations_hidden_in_closures(sound: bool) -> dict:
    model = Stations(registered=sound)

    def evaluate(model, loader):
        model.eval()
        with torch.no_grad():
            return -torch.cat([(model(x) - y).abs() for x, y in loader]).mean().item()

    return {
        "model": model,
        "loss_fn": nn.SmoothL1Loss(),
        "optimizer": adam(model, 1e-2),
        "evaluate": evaluate,
        **loaders(yields()),
    }
