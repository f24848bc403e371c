"""Hidden layers and tensors are found, wherever they hide, and healthy models have none."""

import functools
from collections.abc import Callable

import pytest
import torch
import torch.nn as nn
import torch.nn.utils.prune as prune
import torchvision
from torch import Tensor

from labkit.errors import ConfigError
from labkit.models import NETWORKS, build
from labkit.models.registration import registration


class Model(nn.Module):
    """A registered layer, and what a test puts beside it."""

    def __init__(self, **attributes: object) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)
        for name, value in attributes.items():
            setattr(self, name, value)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.layer(inputs)


class MadeInForward(Model):
    def forward(self, inputs: Tensor) -> Tensor:
        return nn.Linear(4, 2)(self.layer(inputs))


class DropoutInForward(Model):
    def forward(self, inputs: Tensor) -> Tensor:
        return nn.Dropout(0.5)(self.layer(inputs).relu())


class WeightInForward(Model):
    def forward(self, inputs: Tensor) -> Tensor:
        return self.layer(inputs) @ nn.Parameter(torch.ones(4, 2))


class OfTheClass(Model):
    blocks = [nn.Linear(4, 4)]  # noqa: RUF012


class Behind(Model):
    def __init__(self) -> None:
        super().__init__()
        self.__dict__["head"] = nn.Linear(4, 2)


class Reassigned(Model):
    """The old layer lives on in a list; the new one is registered and never used."""

    def __init__(self) -> None:
        super().__init__()
        self.order = [self.layer]
        self.layer = nn.Linear(4, 4)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.order[0](inputs)


def closure() -> Callable[[Tensor], Tensor]:
    hidden = nn.Linear(4, 4)
    return lambda inputs: hidden(inputs)


def call(layer: nn.Module, inputs: Tensor) -> Tensor:
    return layer(inputs)


PLANTED = {
    "list": (lambda: Model(blocks=[nn.Linear(4, 4)]), "model.blocks[0]", "self.blocks = nn.ModuleList(self.blocks)"),
    "dict": (lambda: Model(heads={"a": nn.Linear(4, 4)}), "model.heads['a']", "nn.ModuleDict(self.heads)"),
    "tuple": (lambda: Model(pair=(1, nn.Linear(4, 4))), "model.pair[1]", "nn.ModuleList(self.pair)"),
    "plain tensor": (
        lambda: Model(scale=torch.ones(3, requires_grad=True)),
        "model.scale",
        "self.scale = nn.Parameter(self.scale.detach())",
    ),
    "nested list": (
        lambda: Model(grid=[[nn.ReLU(), nn.Linear(4, 4)]]),
        "model.grid[0][1]",
        "nn.ModuleList(nn.ModuleList(row) for row in self.grid)",
    ),
    "closure": (
        lambda: Model(act=closure()),
        "model.act (its variable hidden)",
        "an attribute of its own for this mod",
    ),
    "partial": (lambda: Model(act=functools.partial(call, nn.Linear(4, 4))), "model.act.args[0]", "attribute of its"),
    "method": (lambda: Model(act=nn.Linear(4, 4).forward), "model.act.__self__", "attribute of its own"),
    "re-assigned child": (Reassigned, "model.order[0]", "nn.ModuleList(self.order)"),
    "layer made in forward": (MadeInForward, "forward", "once, in `__init__`"),
    "dropout made in forward": (DropoutInForward, "forward", "once, in `__init__`"),
    "parameter made in forward": (WeightInForward, "forward", "Make this nn.Parameter once"),
    "buffer as plain tensor": (lambda: Model(mean=torch.zeros(3)), "model.mean", 'self.register_buffer("mean", …)'),
    "tensors in a list": (lambda: Model(means=[torch.zeros(3)]), "model.means[0]", "self.register_buffer(f"),
    "weights in a dict": (
        lambda: Model(gains={"a": torch.ones(2, requires_grad=True)}),
        "model.gains['a']",
        "self.gains = nn.ParameterDict(self.gains)",
    ),
    "kept output": (
        lambda: Model(last=torch.ones(2, requires_grad=True) * 2),
        "model.last",
        "keep `self.last = ….detach()`",
    ),
    "class": (OfTheClass, "model.blocks[0]", "Move `blocks = …` into `__init__`"),
    "behind the back": (Behind, "model.head", "not through `__dict__`"),
}


@pytest.mark.parametrize("kind", PLANTED)
def test_what_hides_is_found(kind: str) -> None:
    make, where, fix = PLANTED[kind]
    report = registration(make(), torch.ones(2, 4))
    assert [one.where for one in report.hidden] == [where], repr(report)
    assert len(report.table) == 1 and not report.is_complete
    assert fix in report.advice[0] and fix in repr(report), repr(report)


def test_an_object_of_ones_own_is_entered() -> None:
    class Settings:
        def __init__(self) -> None:
            self.layers = [nn.Linear(4, 4)]

    report = registration(Model(settings=Settings()))
    assert [one.where for one in report.hidden] == ["model.settings.layers[0]"]


def test_a_module_deep_inside_is_named_by_its_path() -> None:
    model = nn.Sequential(nn.Sequential(Model(blocks=[nn.Linear(2, 2)])))
    assert registration(model).hidden[0].where == "model.0.0.blocks[0]"


def test_each_hidden_thing_is_told_once() -> None:
    shared = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
    report = registration(Model(a=[shared], b={"x": shared}, c=[shared[0]]))
    assert [one.what for one in report.hidden] == ["Sequential with 28 parameters"]


def test_layers_new_in_every_pass_are_told_from_those_of_somewhere_else() -> None:
    outside = nn.Linear(4, 2)

    class Borrowing(Model):
        def forward(self, inputs: Tensor) -> Tensor:
            return outside(self.layer(inputs))

    assert registration(MadeInForward(), torch.ones(2, 4)).hidden[0].why == "made anew in every forward pass"
    assert "no attribute leads to it" in registration(Borrowing(), torch.ones(2, 4)).hidden[0].why
    assert registration(MadeInForward()).is_complete, "without an example, forward is not run"


def test_an_optimizer_from_before_the_exchange_is_found() -> None:
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    assert registration(model, optimizer=optimizer).is_complete
    model.layer = nn.Linear(4, 2)
    report = registration(model, optimizer=optimizer)
    assert [one.where for one in report.hidden] == ["model.layer.weight", "model.layer.bias"]
    assert "not in the optimizer" in repr(report)


HEALTHY = {
    "module list": lambda: Model(blocks=nn.ModuleList([nn.Linear(2, 2)])),
    "functions and settings": lambda: Model(act=torch.relu, size=(3, 3), kind=nn.Linear, text="a", none=None),
    "stateless layers": lambda: Model(acts=[nn.ReLU(), nn.MaxPool2d(2)]),
    "a partial of a class": lambda: Model(norm=functools.partial(nn.BatchNorm2d, eps=1e-3)),
    "pruned": lambda: prune.l1_unstructured(nn.Linear(4, 4), "weight", 0.5),
    "parametrized": lambda: torch.nn.utils.parametrizations.weight_norm(nn.Linear(4, 4)),
    "recurrent": lambda: nn.LSTM(4, 4, num_layers=2),
    "transformer": lambda: nn.TransformerEncoderLayer(8, 2),
    "compiled": lambda: torch.compile(nn.Linear(2, 2)),
    "lazy": lambda: nn.LazyLinear(3),
    "averaged": lambda: torch.optim.swa_utils.AveragedModel(nn.Linear(2, 2)),
    **{name: lambda name=name: build(name, (1, 8, 8), 3) for name in NETWORKS},
}


@pytest.mark.parametrize("kind", HEALTHY)
def test_healthy_models_have_nothing_hidden(kind: str) -> None:
    report = registration(HEALTHY[kind]())
    assert report.is_complete and "nothing reachable" in repr(report), repr(report)


def test_a_list_that_repeats_registered_layers_is_no_error() -> None:
    model = Model()
    model.again, model.method = [model.layer, {"x": model.layer.weight}], model.forward
    assert registration(model, torch.ones(2, 4)).is_complete


def test_the_model_is_as_before() -> None:
    model = nn.Sequential(nn.BatchNorm1d(4), nn.Dropout(0.5))
    state = {name: one.clone() for name, one in model.state_dict().items()}
    registration(model, torch.randn(3, 4))
    assert all(torch.equal(one, state[name]) for name, one in model.state_dict().items()) and model.training
    assert not torch.nn.modules.module._global_forward_pre_hooks


def test_an_example_that_does_not_fit_is_a_sentence() -> None:
    with pytest.raises(ConfigError, match=r"Make it `nn\.Linear\(3, 4\)`"):
        registration(Model(), torch.ones(2, 3))


SIDES = {"inception_v3": 299, "googlenet": 96, "maxvit_t": 224}


def classification_models() -> list[str]:
    names = torchvision.models.list_models(module=torchvision.models)
    return [name for name in names if not name.startswith(("vit_h", "vit_l", "regnet_y_128"))]


@pytest.mark.slow
@pytest.mark.parametrize("name", classification_models())
def test_models_of_torchvision_have_nothing_hidden(name: str) -> None:
    options = {"init_weights": False} if name in ("inception_v3", "googlenet") else {}
    model = torchvision.models.get_model(name, weights=None, **options)
    side = SIDES.get(name, 224 if name.startswith(("vit", "swin", "maxvit")) else 64)
    report = registration(model, torch.zeros(1, 3, side, side))
    assert report.is_complete, repr(report)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["fcn_resnet50", "deeplabv3_mobilenet_v3_large", "lraspp_mobilenet_v3_large"])
def test_models_for_segmentation_have_nothing_hidden(name: str) -> None:
    model = torchvision.models.get_model(name, weights=None, weights_backbone=None)
    assert registration(model, torch.zeros(1, 3, 64, 64)).is_complete


@pytest.mark.slow
@pytest.mark.parametrize("name", ["r3d_18", "mc3_18", "s3d", "swin3d_t"])
def test_models_for_videos_have_nothing_hidden(name: str) -> None:
    model = torchvision.models.get_model(name, weights=None)
    assert registration(model).is_complete


@pytest.mark.slow
@pytest.mark.parametrize("name", ["fasterrcnn_mobilenet_v3_large_fpn", "retinanet_resnet50_fpn", "ssd300_vgg16"])
def test_models_for_detection_have_nothing_hidden(name: str) -> None:
    """Their anchors are plain tensors on purpose: forward moves them to where the pictures are."""
    model = torchvision.models.get_model(name, weights=None, weights_backbone=None)
    assert registration(model).is_complete
