"""Ways around the update: data, gradients that nobody needs, memory that is not there."""

from collections.abc import Callable
from io import BytesIO

import torch
from PIL import Image
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, Dataset

from labkit import randomness
from labkit.data import augment
from labkit.data.profiling import cores
from labkit.speed.bench import Bench, many_layers, updates
from labkit.speed.clock import Ways

SIDE = 32  # pixels of a side
SHIFT = 4  # pixels by which a picture is moved
LARGE = 256  # pixels of a side of the pictures that are decoded


def noise(count: int) -> Tensor:
    """Return pictures uint8 (count, 3, 32, 32), the same each time."""
    source = randomness.generator(0, "noise")
    return torch.randint(0, 256, (count, 3, SIDE, SIDE), dtype=torch.uint8, generator=source)


def one_by_one(images: Tensor, draws: Tensor) -> Tensor:
    """Move and mirror picture by picture, in a loop; `draws` as for `labkit.data.augment.move`."""
    done = []
    for image, (flip, down, right, *_) in zip(images, draws.tolist(), strict=True):
        padded = nn.functional.pad(image[None].float(), (SHIFT,) * 4, mode="reflect")[0].to(torch.uint8)
        row, column = int(down * (2 * SHIFT + 1)), int(right * (2 * SHIFT + 1))
        image = padded[:, row : row + SIDE, column : column + SIDE]
        done.append(image.flip(2) if flip < 0.5 else image)
    return torch.stack(done)


def pixel_by_pixel(images: Tensor, draws: Tensor) -> Tensor:
    """Do the same for the whole batch at once, with the number of each pixel's row and column."""
    padded = nn.functional.pad(images.float(), (SHIFT,) * 4, mode="reflect").to(torch.uint8)
    down, right = (draws[:, 1:3] * (2 * SHIFT + 1)).long().to(images.device).T
    mirrored = (draws[:, :1] < 0.5).to(images.device)
    side = torch.arange(SIDE, device=images.device)
    rows = down[:, None] + side
    columns = right[:, None] + torch.where(mirrored, side.flip(0), side)
    sample = torch.arange(len(images), device=images.device)[:, None, None, None]
    channel = torch.arange(images.shape[1], device=images.device)[:, None, None]
    return padded[sample, channel, rows[:, None, :, None], columns[:, None, None, :]]


def augmentation(bench: Bench) -> Ways:
    """Move and mirror 256 pictures, each in its own way: one after the other, or the whole batch in two ways."""
    images = noise(256).to(bench.device)
    draws = randomness.uniform(0, "bench", 0, torch.arange(256), augment.DRAWS)
    return {
        "picture by picture": lambda: one_by_one(images, draws),
        "whole batch, by pixels": lambda: pixel_by_pixel(images, draws),
        "whole batch, by rows": lambda: augment.move(images, draws, flip=True, shift=SHIFT),
    }


class Decoded(Dataset):
    """Pictures in a file format, decoded and made small one by one: work that a core needs milliseconds for."""

    def __init__(self, count: int, side: int) -> None:
        large = Image.fromarray(noise(1)[0].permute(1, 2, 0).numpy()).resize((LARGE, LARGE))
        with BytesIO() as file:
            large.save(file, "JPEG")
            self.file = file.getvalue()
        self.count, self.side = count, side

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        """Return a picture float32 (3, side, side) and its class."""
        with Image.open(BytesIO(self.file)) as image:
            small = image.convert("RGB").resize((self.side, self.side), Image.Resampling.LANCZOS)
        pixels = torch.frombuffer(bytearray(small.tobytes()), dtype=torch.uint8).view(self.side, self.side, 3)
        return pixels.permute(2, 0, 1) / 255, index % 10


def workers(bench: Bench) -> Ways:
    """An epoch of pictures that are decoded and computed with, by the number of processes that decode."""
    data = Decoded(4 * bench.batch_size, bench.side)
    model = bench.network()
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)

    def epoch_with(count: int) -> Callable:
        loader = DataLoader(data, bench.batch_size, num_workers=count, persistent_workers=count > 0)

        def epoch() -> None:
            for inputs, targets in loader:
                updates(model, (inputs.to(bench.device), targets.to(bench.device)), optimizer=optimizer)()

        return epoch

    numbers = {0: "no workers", 1: "1 worker", 2: "2 workers"} | ({4: "4 workers"} if cores() >= 4 else {})
    return {name: epoch_with(count) for count, name in numbers.items()}


def no_gradients(bench: Bench) -> Ways:
    """Forty small layers, forward only: with a graph that nobody uses, without one, in inference mode."""
    model, inputs = many_layers(bench), torch.ones(32, 32, device=bench.device)

    def under(mode: Callable) -> Callable:
        def forward() -> Tensor:
            with mode():
                return model(inputs)

        return forward

    modes = {"a graph is kept": torch.enable_grad, "no_grad": torch.no_grad, "inference_mode": torch.inference_mode}
    return {name: under(mode) for name, mode in modes.items()}


class Deep(nn.Module):
    """Twelve blocks, of which the inner values are kept for the way back, or computed again there."""

    def __init__(self, again: bool) -> None:
        super().__init__()
        self.again = again
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(256, 256), nn.GELU(), nn.Linear(256, 256), nn.GELU()) for _ in range(12)
        )
        self.head = nn.Linear(256, 10)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return logits (B, 10) for inputs (B, 256)."""
        for block in self.blocks:
            inputs = checkpoint(block, inputs, use_reentrant=False) if self.again else block(inputs)
        return self.head(inputs)


def checkpointing(bench: Bench) -> Ways:
    """An update of twelve blocks: inner values kept for the way back, or computed a second time."""
    inputs = torch.ones(bench.batch_size * 8, 256, device=bench.device)
    batch = inputs, torch.zeros(len(inputs), dtype=torch.int64, device=bench.device)
    return {
        "values kept": updates(Deep(again=False).to(bench.device), batch),
        "computed again": updates(Deep(again=True).to(bench.device), batch),
    }
