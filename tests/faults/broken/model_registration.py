"""Models that hide parameters from the optimizer, and models whose frozen part is not frozen."""

import copy

import torch
import torch.nn.functional as F
from torch import Tensor, nn, optim

from tests.faults.program import broken
from tests.faults.tasks_b import colours, digits, loaders, ordered_words, rings, symptoms, topics, waves, yields


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


# freeze_ineffective


class Tuned(nn.Module):
    """A backbone that was trained elsewhere, and a new head."""

    def __init__(self, backbone: nn.Module, width: int, classes: int):
        super().__init__()
        self.backbone = backbone
        self.head = nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.backbone(x))


def picture_backbone() -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(1, 16, 3), nn.ReLU(), nn.Conv2d(16, 16, 3), nn.ReLU(), nn.Flatten())


def table_backbone(inputs: int, norm: bool = False) -> nn.Sequential:
    last = nn.BatchNorm1d(24) if norm else nn.Identity()
    return nn.Sequential(nn.Linear(inputs, 24), nn.ReLU(), nn.Linear(24, 24), last, nn.ReLU())


def drift(program: dict) -> float:
    """Return minus the distance of the backbone's parameters from where they were."""
    parameters = dict(program["model"].backbone.named_parameters())
    return -sum((parameters[name] - value).norm().item() for name, value in program["start"].items())


def with_start(program: dict) -> dict:
    named = program["model"].backbone.named_parameters()
    return program | {"start": {name: value.detach().clone() for name, value in named}}


@broken("freeze_ineffective", effect="silent", epochs=2, gap=0.1, measure=drift, mechanical=True)
def requires_grad_set_on_the_module(sound: bool) -> dict:
    model = Tuned(picture_backbone(), 256, 10)
    if sound:
        model.backbone.requires_grad_(False)
    else:
        model.backbone.requires_grad = False
    return with_start({"model": model, "loss_fn": nn.CrossEntropyLoss(), "optimizer": adam(model), **loaders(digits())})


class TunedInEval(Tuned):
    """Keeps the backbone in evaluation mode, so that it stays as it is."""

    def train(self, mode: bool = True) -> nn.Module:
        super().train(mode)
        self.backbone.eval()
        return self


@broken("freeze_ineffective", effect="silent", epochs=2, gap=0.1, measure=drift, mechanical=True)
def evaluation_mode_taken_for_freezing(sound: bool) -> dict:
    model = TunedInEval(table_backbone(8, norm=True), 24, 3)
    if sound:
        model.backbone.requires_grad_(False)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = optim.Adam(trained, lr=5e-3)
    return with_start({"model": model, "loss_fn": nn.CrossEntropyLoss(), "optimizer": optimizer, **loaders(rings())})


@broken("freeze_ineffective", effect="silent", epochs=4, gap=0.1, measure=drift, mechanical=True)
def frozen_by_zero_gradients_under_weight_decay(sound: bool) -> dict:
    model = Tuned(table_backbone(12), 24, 5)
    optimizer = optim.AdamW((model.head if sound else model).parameters(), lr=1e-2, weight_decay=0.05)

    def train_step(model, batch, loss_fn, optimizer):
        readings, ailments = batch
        model.zero_grad()
        loss = loss_fn(model(readings), ailments)
        loss.backward()
        for parameter in model.backbone.parameters():
            parameter.grad.zero_()  # the backbone stays as it is
        optimizer.step()
        return loss.item()

    def evaluate(model, loader):
        model.eval()
        with torch.no_grad():
            return torch.cat([(model(x) > 0) == (y > 0.5) for x, y in loader]).float().mean().item()

    return with_start(
        {
            "model": model,
            "loss_fn": nn.BCEWithLogitsLoss(),
            "optimizer": optimizer,
            "train_step": train_step,
            "evaluate": evaluate,
            **loaders(symptoms()),
        }
    )


@broken("freeze_ineffective", effect="silent", epochs=2, gap=0.1, measure=drift, mechanical=True)
def frozen_through_the_state_dict(sound: bool) -> dict:
    model = Tuned(nn.Sequential(nn.Flatten(), nn.Linear(48, 32), nn.Tanh()), 32, 4)
    if sound:
        frozen = [value for name, value in model.named_parameters() if name.startswith("backbone")]
    else:
        frozen = [value for name, value in model.state_dict().items() if name.startswith("backbone")]
    for value in frozen:
        value.requires_grad = False
    optimizer = optim.RMSprop(filter(lambda value: value.requires_grad, model.parameters()), lr=1e-3)
    return with_start({"model": model, "loss_fn": F.cross_entropy, "optimizer": optimizer, **loaders(waves())})


@broken("freeze_ineffective", effect="silent", epochs=2, gap=0.1, measure=drift, mechanical=True)
def a_copy_is_frozen(sound: bool) -> dict:
    """The list of the parts is made of copies, so that freezing them freezes nothing."""
    model = Tuned(nn.EmbeddingBag(30, 16, padding_idx=0), 16, 5)
    parts = [model.backbone] if sound else [copy.deepcopy(part) for part in model.children()][:1]
    for part in parts:
        for parameter in part.parameters():
            parameter.requires_grad_(False)
    return with_start(
        {"model": model, "loss_fn": nn.CrossEntropyLoss(), "optimizer": adam(model, 1e-2), **loaders(topics())}
    )
