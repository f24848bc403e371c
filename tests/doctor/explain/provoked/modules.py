"""Modules, optimizers and files that are put together in a wrong way."""

import tempfile
from pathlib import Path

import torch
import torch.nn as nn

from tests.doctor.explain.provoked.program import provokes

# Modules


class Unprepared(nn.Module):
    """Makes a layer before nn.Module is set up."""

    def __init__(self, width):
        self.layer = nn.Linear(width, width)

    def forward(self, x):
        return self.layer(x)


@provokes("missing-super-init", names=["Unprepared"], fix="super().__init__()")
def a_layer_before_super():
    Unprepared(4)


@provokes("missing-super-init", names=["Scale"], fix="super().__init__()")
def a_parameter_before_super():
    class Scale(nn.Module):
        def __init__(self):
            self.factor = nn.Parameter(torch.ones(1))
            super().__init__()

    Scale()


@provokes("missing-super-init", names=["Base|Special"], fix="super().__init__()")
def a_child_that_forgets_its_parent():
    class Base(nn.Module):
        def __init__(self):
            super().__init__()
            self.size = 3

    class Special(Base):
        def __init__(self):
            self.register_buffer("mean", torch.zeros(3))

    Special()


@provokes("missing-super-init", names=["Shift"], fix="super().__init__()", says="has no attribute '_backward_hooks'")
def a_module_without_layers_that_is_called():
    class Shift(nn.Module):
        def __init__(self, by):
            self.by = by

        def forward(self, x):
            return x + self.by

    shift = Shift(2)
    shift(torch.ones(3))


class Mistyped(nn.Module):
    """Has its forward under a name with a slip."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 2)

    def foward(self, x):
        return self.layer(x)


@provokes("missing-forward", names=["Mistyped", "foward"], fix="forward")
def a_slip_in_the_name():
    mistyped = Mistyped()
    mistyped(torch.rand(1, 2))


@provokes("missing-forward", names=["Indented"], fix="forward")
def a_forward_inside_of_init():
    class Indented(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(2, 2)

            def forward(self, x):
                return self.layer(x)

    nn.Sequential(nn.Flatten(), Indented())(torch.rand(3, 2))


@provokes("missing-forward", names=["layers", "ModuleList"], fix=("Sequential", "for "))
def a_list_that_is_called():
    layers = nn.ModuleList([nn.Linear(2, 3), nn.Linear(3, 1)])
    layers(torch.rand(4, 2))


# Optimizers


@provokes("optimizer-parameters", names=["net"], fix="net.parameters()")
def a_method_that_is_not_called():
    net = nn.Linear(3, 1)
    torch.optim.Adam(net.parameters, lr=1e-3)


@provokes("optimizer-parameters", names=["model"], fix="model.parameters()")
def a_module_for_an_optimizer():
    def prepare(model):
        return torch.optim.SGD(model, lr=0.1)

    prepare(nn.Sequential(nn.Linear(3, 1)).append(nn.ReLU())[0])


@provokes("optimizer-parameters", names=["encoder", "decoder"], fix="parameters()")
def two_modules_for_an_optimizer():
    encoder, decoder = nn.Linear(4, 2), nn.Linear(2, 4)
    return torch.optim.AdamW([encoder, decoder])


class Hidden(nn.Module):
    """Keeps its layers where PyTorch does not look."""

    def __init__(self):
        super().__init__()
        self.layers = [nn.Linear(2, 2), nn.Linear(2, 1)]


@provokes("optimizer-parameters", names=["hidden", "layers"], fix="ModuleList")
def layers_in_a_plain_list():
    hidden = Hidden()
    torch.optim.SGD(hidden.parameters(), lr=0.1)


@provokes("optimizer-parameters", names=["weights"], fix=("list(", "parameters()"))
def a_generator_that_is_used_up():
    net = nn.Linear(2, 2)
    weights = net.parameters()
    print(sum(weight.numel() for weight in weights))
    torch.optim.SGD(weights, lr=0.1)


@provokes("optimizer-parameters", names=["scaled"], fix=("detach()", "requires_grad_()", "leaf", "nn.Parameter"))
def a_value_that_was_computed():
    scaled = torch.rand(3, requires_grad=True) * 0.01
    torch.optim.Adam([scaled])


@provokes("optimizer-parameters", names=["image"], fix="[image]")
def one_tensor_without_a_list():
    image = torch.zeros(1, 3, 4, 4, requires_grad=True)
    return torch.optim.LBFGS(image)


@provokes("optimizer-parameters", names=["head"], fix="parameters()")
def a_dict_of_weights():
    head = nn.Linear(2, 2)
    torch.optim.SGD(head.state_dict(), lr=0.1)


# Weights of another model


@provokes("state-dict-mismatch", names=["plain"], fix=("module.", "removeprefix"))
def weights_of_a_model_on_several_gpus():
    plain = nn.Sequential(nn.Linear(2, 2))
    saved = {f"module.{name}": value for name, value in plain.state_dict().items()}
    plain.load_state_dict(saved)


@provokes("state-dict-mismatch", names=["target"], fix=("10", "100", "classes"))
def a_head_for_other_classes():
    source, target = nn.Linear(8, 100), nn.Linear(8, 10)
    target.load_state_dict(source.state_dict())


@provokes("state-dict-mismatch", names=["student"], fix=("same", "rebuild", "strict=False", "architecture", "2.weight"))
def a_model_with_fewer_layers():
    teacher = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 1))
    student = nn.Sequential(nn.Linear(2, 4), nn.ReLU())

    def copy(source):
        student.load_state_dict(source.state_dict())

    copy(teacher)


@provokes("state-dict-mismatch", names=["net"], fix=('["model"]', "['model']", "model"))
def a_whole_checkpoint_as_weights():
    net = nn.Linear(2, 2)
    checkpoint = {"model": net.state_dict(), "epoch": 3, "optimizer": {}}
    net.load_state_dict(checkpoint)


@provokes("state-dict-mismatch", names=["compiled|again"], fix=("_orig_mod.", "removeprefix"))
def weights_of_a_compiled_model():
    again = nn.Linear(3, 1)
    compiled = torch.compile(again, backend="eager").state_dict()
    again.load_state_dict(compiled)


# Files


class Small(nn.Linear):
    """A model that is saved as a whole."""

    def __init__(self):
        super().__init__(2, 2)


@provokes("weights-only", names=["path"], fix=("state_dict", "weights_only=False"))
def a_whole_model_in_a_file():
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.pt"
        torch.save(Small(), path)
        torch.load(path)


@provokes("weights-only", names=["file"], fix=("state_dict", "weights_only=False", "add_safe_globals"))
def a_checkpoint_with_an_object_in_it():
    class Store:
        def __init__(self, folder):
            self.folder = Path(folder)

        def save(self, model):
            torch.save({"weights": model.state_dict(), "folder": self.folder}, self.folder / "last.pt")

        def load(self):
            file = self.folder / "last.pt"
            return torch.load(file, map_location="cpu")

    with tempfile.TemporaryDirectory() as folder:
        store = Store(folder)
        store.save(nn.Linear(2, 1))
        store.load()


@provokes("weights-only", names=["name"], fix=("state_dict", "weights_only=False", "add_safe_globals"))
def statistics_of_numpy_in_a_file():
    import numpy as np

    with tempfile.TemporaryDirectory() as folder:
        name = f"{folder}/run.pth"
        torch.save({"accuracy": np.float64(0.9), "weights": nn.Linear(2, 1).state_dict()}, name)
        torch.load(name, weights_only=True)


@provokes("weights-only", names=["buffer"], fix=("state_dict", "weights_only=False", "add_safe_globals"))
def a_model_in_memory():
    import io

    buffer = io.BytesIO()
    torch.save(nn.Sequential(nn.Linear(2, 2)), buffer)
    buffer.seek(0)
    restored = (lambda: torch.load(buffer))()
    return restored
