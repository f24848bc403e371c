"""The learner's own Conv2d."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from labkit.exercises.declaration import Misconception
from labkit.exercises.differences import Tolerance
from labkit.exercises.exercise import Exercise
from labkit.exercises.parts.layers import run_layer


class _Conv2d(nn.Module):
    """A right layer. Each wrong one below differs from it in one place."""

    def __init__(self, inputs: int, outputs: int, kernel_size: int, padding: int = 0):
        super().__init__()
        self.kernel_size, self.padding = kernel_size, padding
        self.weight = nn.Parameter(torch.randn(outputs, inputs, kernel_size, kernel_size))
        self.weight.data /= (inputs * kernel_size**2) ** 0.5
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, x: Tensor) -> Tensor:
        return F.conv2d(x, self.weight, self.bias, padding=self.padding)


class _TorchsOwn(nn.Module):
    def __init__(self, inputs: int, outputs: int, kernel_size: int, padding: int = 0):
        super().__init__()
        self.convolution = nn.Conv2d(inputs, outputs, kernel_size, padding=padding)

    def forward(self, x: Tensor) -> Tensor:
        return self.convolution(x)


class _Flipped(_Conv2d):
    def forward(self, x: Tensor) -> Tensor:
        return F.conv2d(x, self.weight.flip(2, 3), self.bias, padding=self.padding)


class _Transposed(_Conv2d):
    def forward(self, x: Tensor) -> Tensor:
        return F.conv2d(x, self.weight.transpose(2, 3), self.bias, padding=self.padding)


class _WithoutPadding(_Conv2d):
    def forward(self, x: Tensor) -> Tensor:
        return F.conv2d(x, self.weight, self.bias)


class _OneSide(_Conv2d):
    def forward(self, x: Tensor) -> Tensor:
        return F.conv2d(F.pad(x, (self.padding, 0, self.padding, 0)), self.weight, self.bias)


class _OneRowShort(_Conv2d):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x)[:, :, :-1, :-1]


class _ChannelsApart(_Conv2d):
    def forward(self, x: Tensor) -> Tensor:
        return F.conv2d(x.mean(1, keepdim=True), self.weight.sum(1, keepdim=True), self.bias, padding=self.padding)


class _ForgottenBias(_Conv2d):
    def forward(self, x: Tensor) -> Tensor:
        return F.conv2d(x, self.weight, padding=self.padding)


class _BiasForEveryChannel(_Conv2d):
    def forward(self, x: Tensor) -> Tensor:
        return F.conv2d(x, self.weight, self.bias * x.shape[1], padding=self.padding)


class _Unscaled(_Conv2d):
    def __init__(self, inputs: int, outputs: int, kernel_size: int, padding: int = 0):
        super().__init__(inputs, outputs, kernel_size, padding)
        nn.init.normal_(self.weight)


def _cases(generator: torch.Generator) -> list[tuple]:
    def case(picture: tuple[int, ...], outputs: int, kernel_size: int, padding: int) -> tuple:
        inputs = picture[1]
        values = {
            "weight": torch.randn(outputs, inputs, kernel_size, kernel_size, generator=generator),
            "bias": torch.randn(outputs, generator=generator),
        }
        pictures = torch.randn(picture, generator=generator)
        return (inputs, outputs, kernel_size), {"padding": padding}, values, pictures

    return [case((2, 3, 6, 5), 4, 3, 1), case((1, 1, 7, 8), 2, 5, 0), case((3, 4, 4, 3), 5, 2, 2)]


CONV2D = Exercise(
    name="Conv2d",
    prompt=(
        "Write `Conv2d(inputs, outputs, kernel_size, padding=0)`, a module that does what `nn.Conv2d` does with stride "
        "1: `x` of shape `(B, inputs, H, W)` gets `padding` zeros on each side; every output channel is the sum over "
        "the window and over all input channels of `x` times its kernel, plus its bias. "
        "`weight` is `(outputs, inputs, kernel_size, kernel_size)`."
    ),
    stub='''class Conv2d(nn.Module):
    """x (B, inputs, H, W) -> (B, outputs, H + 2·padding - kernel_size + 1, …), with parameters weight and bias."""

    def __init__(self, inputs, outputs, kernel_size, padding=0):
        super().__init__()
        ...  # your turn

    def forward(self, x):
        return ...  # your turn
''',
    solved='''class Conv2d(nn.Module):
    """x (B, inputs, H, W) -> (B, outputs, H + 2·padding - kernel_size + 1, …), with parameters weight and bias."""

    def __init__(self, inputs, outputs, kernel_size, padding=0):
        super().__init__()
        self.kernel_size, self.padding = kernel_size, padding
        scale = (inputs * kernel_size**2) ** -0.5
        self.weight = nn.Parameter(torch.randn(outputs, inputs, kernel_size, kernel_size) * scale)
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, x):
        x = F.pad(x, (self.padding,) * 4)
        windows = x.unfold(2, self.kernel_size, 1).unfold(3, self.kernel_size, 1)  # (B, inputs, H, W, k, k)
        return torch.einsum("bihwkl,oikl->bohw", windows, self.weight) + self.bias[:, None, None]
''',
    hints=(
        "`F.pad(x, (left, right, top, bottom))` puts zeros around the last two dimensions.",
        "`x.unfold(2, k, 1).unfold(3, k, 1)` is a view of all windows: (B, inputs, H, W, k, k). Nothing is copied.",
        "Each letter of `torch.einsum` is an axis: the windows are `bihwkl`, the weight is `oikl`, wanted is `bohw`. "
        "What is missing behind the arrow is summed over. The bias needs the shape `(outputs, 1, 1)`.",
    ),
    cases=_cases,
    run=run_layer,
    misconceptions=(
        Misconception(
            "you used the library's own layer",
            _TorchsOwn,
            "All numbers are right, for `nn.Conv2d` computed them. Here you write what stands inside of it: the "
            "parameters (`nn.Parameter`), and the sum over windows in `forward`.",
        ),
        Misconception(
            "the kernel is flipped",
            _Flipped,
            "In mathematics a convolution flips the kernel. `nn.Conv2d` does not: it is a cross-correlation. Since the "
            "kernel is learned, both can do the same, but not with the same weights.",
        ),
        Misconception(
            "rows and columns of the kernel are exchanged",
            _Transposed,
            "The first index of a kernel goes with the height, the second with the width.",
        ),
        Misconception(
            "padding is ignored",
            _WithoutPadding,
            "Without `padding` zeros around it each side of the picture loses `kernel_size - 1` pixels.",
        ),
        Misconception(
            "zeros on one side only",
            _OneSide,
            "`padding` zeros stand on *each* side: left, right, top and bottom.",
        ),
        Misconception(
            "one window too few",
            _OneRowShort,
            "A side of `n` pixels has `n - kernel_size + 1` windows: the last one starts at `n - kernel_size`, and "
            "`range(n - kernel_size)` leaves it out.",
        ),
        Misconception(
            "the input channels share one kernel",
            _ChannelsApart,
            "Every pair of an output and an input channel has a kernel of its own: multiply first, then sum.",
        ),
        Misconception(
            "the bias is not added",
            _ForgottenBias,
            "`bias` is registered, and `forward` never uses it: its gradient stays `None`, it is never trained.",
        ),
        Misconception(
            "the bias is added once for each input channel",
            _BiasForEveryChannel,
            "The bias belongs to the output channel: add it once, after the sum over the input channels.",
        ),
        Misconception(
            "the weights start too large",
            _Unscaled,
            "An output sums `inputs * kernel_size**2` products. Divide the random weights by the square root of that "
            "number, or the outputs grow from layer to layer.",
        ),
    ),
    tolerance=Tolerance(relative=1e-4, absolute=1e-5),
)
