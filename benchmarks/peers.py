"""The same training in the libraries that people use for it, each in the way its own documentation shows."""

from collections.abc import Callable
from importlib.util import find_spec

import torch
from torch import Tensor, nn

RATE, CLIP_NORM = 1e-3, 1.0


def optimizer_of(model: nn.Module) -> torch.optim.Optimizer:
    """Return AdamW as `fit` makes it: fused, matrices in one group and vectors in another, the rate in a tensor."""
    parameters = list(model.parameters())
    groups = [[one for one in parameters if one.ndim > 1], [one for one in parameters if one.ndim <= 1]]
    return torch.optim.AdamW(
        [{"params": group} for group in groups], lr=torch.tensor(RATE), weight_decay=0.0, fused=True
    )


def lightning(model: nn.Module, batches, loss_fn: Callable, epochs: int) -> None:
    """Train with Lightning's Trainer."""
    from lightning.pytorch import LightningModule, Trainer

    class Module(LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def training_step(self, batch: tuple[Tensor, Tensor]) -> Tensor:
            inputs, targets = batch
            outputs = self.model(inputs)
            loss = loss_fn(outputs, targets)
            right = (outputs.argmax(dim=1) == targets).float().mean()
            self.log_dict({"loss": loss, "accuracy": right}, on_step=False, on_epoch=True, batch_size=len(targets))
            return loss

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return optimizer_of(self)

    Trainer(
        accelerator="cpu",
        max_epochs=epochs,
        gradient_clip_val=CLIP_NORM,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    ).fit(Module(), batches)


def ignite(model: nn.Module, batches, loss_fn: Callable, epochs: int) -> None:
    """Train with an Engine of Ignite."""
    from ignite.engine import Engine
    from ignite.metrics import Accuracy, Average

    optimizer = optimizer_of(model)

    def step(engine: Engine, batch: tuple[Tensor, Tensor]) -> dict:
        inputs, targets = batch
        model.train()
        optimizer.zero_grad()
        outputs = model(inputs)
        loss = loss_fn(outputs, targets)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), CLIP_NORM)
        optimizer.step()
        return {"loss": loss.detach(), "norm": norm, "y_pred": outputs.detach(), "y": targets}

    engine = Engine(step)
    Average(output_transform=lambda output: output["loss"]).attach(engine, "loss")
    Average(output_transform=lambda output: output["norm"]).attach(engine, "norm")
    Accuracy(output_transform=lambda output: (output["y_pred"], output["y"])).attach(engine, "accuracy")
    engine.run(batches, max_epochs=epochs)


def accelerate(model: nn.Module, batches, loss_fn: Callable, epochs: int) -> None:
    """Train with the calls of Accelerate in the inline loop."""
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True)
    model, optimizer = accelerator.prepare(model, optimizer_of(model))
    for _ in range(epochs):
        model.train()
        loss_sum, norm_sum = torch.zeros((), dtype=torch.float64), torch.zeros((), dtype=torch.float64)
        correct, count = torch.zeros((), dtype=torch.int64), 0
        for inputs, targets in batches:
            with accelerator.accumulate(model):
                outputs = model(inputs)
                loss = loss_fn(outputs, targets)
                accelerator.backward(loss)
                norm_sum += accelerator.clip_grad_norm_(model.parameters(), CLIP_NORM)
                optimizer.step()
                optimizer.zero_grad()
            loss_sum += loss.detach() * len(targets)
            correct += (outputs.argmax(dim=1) == targets).sum()
            count += len(targets)
        print(loss_sum.item() / count, correct.item() / count, norm_sum.item() / len(batches))


def skorch(model: nn.Module, batches, loss_fn: Callable, epochs: int) -> None:
    """Train with a NeuralNetClassifier of skorch."""
    from skorch import NeuralNetClassifier
    from skorch.callbacks import EpochScoring, GradientNormClipping

    class Criterion(nn.Module):
        def forward(self, outputs: Tensor, targets: Tensor) -> Tensor:
            return loss_fn(outputs, targets)

    images, labels = batches.loader.batches.images, batches.loader.batches.labels
    net = NeuralNetClassifier(
        model,
        criterion=Criterion,
        optimizer=lambda parameters, **settings: optimizer_of(model),
        max_epochs=epochs,
        train_split=None,
        iterator_train=lambda dataset, **settings: batches,
        callbacks=[GradientNormClipping(CLIP_NORM), EpochScoring("accuracy", name="accuracy", on_train=True)],
        verbose=0,
    )
    net.fit(images.float(), labels)


_ALL = {"lightning": lightning, "ignite": ignite, "accelerate": accelerate, "skorch": skorch}
INSTALLED = {name: train for name, train in _ALL.items() if find_spec(name)}
MISSING = sorted(set(_ALL) - set(INSTALLED))
