"""Models that are compiled: PyTorch meets the error while it traces them, and says it in other words."""

import torch
import torch.nn as nn
import torch.nn.functional as F

from tests.doctor.explain.provoked.program import provokes


class Classifier(nn.Module):
    """A body and a head that were not counted for these pictures."""

    def __init__(self):
        super().__init__()
        self.body = nn.Linear(784, 10)

    def forward(self, pixels):
        return self.body(pixels)


@provokes("matmul-shapes", names=["pixels|images", "body"], fix=("in_features=400", "Linear(400"), slow=True)
def a_compiled_model():
    model = torch.compile(Classifier(), backend="eager")
    images = torch.rand(32, 400)
    model(images)


@provokes("matmul-shapes", names=["pixels|images"], fix=("in_features=400", "Linear(400"), slow=True)
def a_model_compiled_in_place_with_autograd():
    model = Classifier()
    model.compile(backend="aot_eager")
    images = torch.rand(8, 400)
    model(images).sum().backward()


@provokes("conv-channels", names=["photos"], fix="permute(0, 3, 1, 2)", slow=True)
def a_compiled_convolution():
    net = torch.compile(nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU()), backend="eager")
    photos = torch.rand(2, 28, 28, 3)
    net(photos)


@provokes("matmul-dtypes", names=["pixels|table"], fix="float()", slow=True)
def a_compiled_model_with_doubles():
    model = torch.compile(Classifier(), backend="eager")
    table = torch.rand(2, 784, dtype=torch.float64)
    return model(table)


@provokes("broadcast-shapes", names=["left|a", "right|b"], fix=("right", "left", "b.shape", "a.shape"), slow=True)
def a_compiled_function():
    @torch.compile(backend="eager")
    def add(left, right):
        return left + right

    a, b = torch.rand(2, 3), torch.rand(2, 4)
    add(a, b)


@provokes("reshape", names=["sequence|rows"], fix=("12", "-1", "reshape", "view"), slow=True)
def a_compiled_view():
    fold = torch.compile(lambda sequence: sequence.view(2, 10), backend="eager")
    rows = torch.rand(24)
    fold(rows)


@provokes("cat-shapes", names=["first|seen", "second|new"], fix=("dim=1", "second", "new"), slow=True)
def a_compiled_join():
    class Join(nn.Module):
        def forward(self, first, second):
            return torch.cat([first, second])

    seen, new = torch.rand(2, 3), torch.rand(2, 4)
    torch.compile(Join(), backend="eager")(seen, new)


@provokes("target-out-of-range", names=["grades|target"], fix=("- 1", "4"), slow=True)
def a_compiled_loss():
    criterion = torch.compile(lambda scores, target: F.cross_entropy(scores, target), backend="eager")
    grades = torch.tensor([1, 2, 3])
    criterion(torch.rand(3, 3), grades)


@provokes("conv-channels", names=["photos"], fix="permute(0, 3, 1, 2)", slow=True)
def a_convolution_compiled_for_many_sizes():
    net = torch.compile(nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU()), backend="eager", dynamic=True)
    net(torch.rand(2, 3, 28, 28))
    net(torch.rand(3, 3, 29, 28))
    photos = torch.rand(2, 28, 28, 3)
    net(photos)


@provokes("matmul-shapes", names=["pixels|images", "body"], fix=("in_features=400", "Linear(400"), slow=True)
def a_model_compiled_for_many_sizes():
    model = torch.compile(Classifier(), backend="eager", dynamic=True)
    model(torch.rand(3, 784))
    images = torch.rand(32, 400)
    model(images)
