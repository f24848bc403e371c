"""Networks of torchvision, untrained, on a few small pictures: none of them has a fault."""

import torch
from torch import nn, optim
from torchvision import models
from torchvision.models.convnext import CNBlockConfig
from torchvision.models.resnet import Bottleneck
from torchvision.models.vgg import make_layers

from tests.faults.program import sound
from tests.faults.tasks_c import both, figures


def loaders(side: int = 32, count: int = 32, batch_size: int = 8) -> dict:
    """Return loaders of `count` pictures of four shapes: batches have more than one sample, also the last."""
    return both(figures(count * 4 // 3, side), batch_size)


def program(model: nn.Module, rate: float = 1e-3, **options) -> dict:
    """Return the plainest program: cross-entropy and Adam."""
    optimizer = optim.Adam(model.parameters(), lr=rate)
    return {"model": model, "loss_fn": nn.CrossEntropyLoss(), "optimizer": optimizer, **loaders(**options)}


@sound("resnet18 as it is", epochs=6)
def torchvision_resnet18() -> dict:
    return program(models.resnet18(weights=None, num_classes=4))


@sound("resnet34 without the first pooling, as for small pictures", epochs=6)
def torchvision_resnet34_small() -> dict:
    model = models.resnet34(weights=None, num_classes=4)
    model.conv1 = nn.Conv2d(3, 64, 3, stride=2, padding=1, bias=False)
    model.maxpool = nn.Identity()
    return program(model, count=16)


@sound("bottleneck blocks with zero-initialised residual branches", epochs=6)
def torchvision_bottlenecks_zero_residual() -> dict:
    model = models.ResNet(Bottleneck, [1, 1, 1, 1], num_classes=4, zero_init_residual=True)
    return program(model, count=24)


@sound("grouped convolutions", epochs=6)
def torchvision_grouped_bottlenecks() -> dict:
    return program(models.ResNet(Bottleneck, [1, 1, 1, 1], num_classes=4, groups=32, width_per_group=4), count=24)


@sound("dilated convolutions in place of strides", epochs=6)
def torchvision_dilated_bottlenecks() -> dict:
    dilated = [False, True, True]
    model = models.ResNet(Bottleneck, [1, 1, 1, 1], num_classes=4, replace_stride_with_dilation=dilated)
    return program(model, count=16)


@sound("VGG with batch normalisation", epochs=6)
def torchvision_vgg_bn() -> dict:
    body = make_layers([32, "M", 64, "M", 128, "M", 128, "M"], batch_norm=True)
    return program(nn.Sequential(body, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 4)), count=24)


@sound("features of all earlier layers joined", epochs=5)
def torchvision_densenet() -> dict:
    model = models.DenseNet(growth_rate=12, block_config=(3, 3, 3), num_init_features=24, num_classes=4)
    return program(model, count=24)


@sound("depthwise convolutions", epochs=8)
def torchvision_mobilenet_v2() -> dict:
    return program(models.mobilenet_v2(weights=None, num_classes=4), count=24)


@sound("squeeze and excitation, hard swish", epochs=8)
def torchvision_mobilenet_v3_small() -> dict:
    return program(models.mobilenet_v3_small(weights=None, num_classes=4), count=24)


@sound("channels shuffled between groups", epochs=8)
def torchvision_shufflenet() -> dict:
    return program(models.shufflenet_v2_x0_5(weights=None, num_classes=4), count=24)


@sound("regnet", epochs=6)
def torchvision_regnet_y_400mf() -> dict:
    return program(models.regnet_y_400mf(weights=None, num_classes=4), count=16)


@sound("convnext: layer scales that begin at one millionth", epochs=8)
def torchvision_convnext() -> dict:
    settings = [CNBlockConfig(24, 48, 2), CNBlockConfig(48, None, 2)]
    return program(models.ConvNeXt(settings, num_classes=4))


@sound("a vision transformer whose head begins with zeros", epochs=8)
def torchvision_vit() -> dict:
    model = models.VisionTransformer(
        image_size=32, patch_size=8, num_layers=3, num_heads=4, hidden_dim=48, mlp_dim=96, num_classes=4
    )
    return program(model)


@sound("a vision transformer of six layers with AdamW and clipping", epochs=8)
def torchvision_vit_clipped() -> dict:
    model = models.VisionTransformer(
        image_size=32, patch_size=4, num_layers=4, num_heads=2, hidden_dim=32, mlp_dim=64, num_classes=4
    )

    def train_step(model, batch, loss_fn, optimizer):
        optimizer.zero_grad()
        loss = loss_fn(model(batch[0]), batch[1])
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.item()

    optimizer = optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.05)
    return {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(label_smoothing=0.1),
        "optimizer": optimizer,
        "train_step": train_step,
        **loaders(),
    }


@sound("a swin transformer, small: shifted windows, stochastic depth", epochs=8)
def torchvision_swin() -> dict:
    model = models.SwinTransformer(
        patch_size=[4, 4],
        embed_dim=24,
        depths=[2, 2],
        num_heads=[2, 4],
        window_size=[4, 4],
        stochastic_depth_prob=0.1,
        num_classes=4,
    )
    return program(model)


@sound("maxvit, small: attention in blocks and over a grid", epochs=14)
def torchvision_maxvit() -> dict:
    model = models.MaxVit(
        input_size=(32, 32),
        stem_channels=8,
        partition_size=4,
        block_channels=[8, 16],
        block_layers=[1, 1],
        head_dim=8,
        stochastic_depth_prob=0.0,
        num_classes=4,
    )
    return program(model, rate=5e-3, count=16)


@sound("googlenet: two more heads that only training sees", epochs=6)
def torchvision_googlenet_helpers() -> dict:
    model = models.googlenet(weights=None, num_classes=4, aux_logits=True, init_weights=True)

    def loss_of(outputs, labels):
        if isinstance(outputs, torch.Tensor):
            return nn.functional.cross_entropy(outputs, labels)
        main, second, first = outputs
        return sum(
            share * nn.functional.cross_entropy(scores, labels)
            for share, scores in ((1.0, main), (0.3, second), (0.3, first))
        )

    optimizer = optim.Adam(model.parameters(), lr=3e-4)
    return {"model": model, "loss_fn": loss_of, "optimizer": optimizer, **loaders(side=64, count=16)}


@sound("googlenet without its helpers", epochs=6)
def torchvision_googlenet() -> dict:
    model = models.googlenet(weights=None, num_classes=4, aux_logits=False, init_weights=False)
    return program(model, count=16)


@sound("group normalisation in place of batch normalisation, two pictures a batch", epochs=5)
def torchvision_resnet18_group_norm() -> dict:
    model = models.resnet18(weights=None, num_classes=4, norm_layer=lambda channels: nn.GroupNorm(8, channels))
    return program(model, rate=3e-4, count=16, batch_size=2)


@sound("the body frozen and in evaluation mode, a new head", epochs=12)
def torchvision_frozen_body_new_head() -> dict:
    model = models.resnet18(weights=None)
    model.requires_grad_(False)
    model.fc = nn.Linear(512, 4)

    def train_step(model, batch, loss_fn, optimizer):
        model.eval()
        model.fc.train()
        optimizer.zero_grad()
        loss = loss_fn(model(batch[0]), batch[1])
        loss.backward()
        optimizer.step()
        return loss.item()

    optimizer = optim.Adam(model.fc.parameters(), lr=3e-3)
    return {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optimizer,
        "train_step": train_step,
        **loaders(),
    }


class Segmentation(nn.Module):
    """A segmentation network of torchvision that returns its scores, not a dictionary."""

    def __init__(self, network: nn.Module):
        super().__init__()
        self.network = network

    def forward(self, pictures):
        return self.network(pictures)["out"]


@sound("lraspp paints each picture with its class: one class a pixel", epochs=6)
def torchvision_lraspp() -> dict:
    network = models.segmentation.lraspp_mobilenet_v3_large(weights=None, weights_backbone=None, num_classes=4)
    model = Segmentation(network)

    def loss_of(scores, labels):
        return nn.functional.cross_entropy(scores, labels[:, None, None].expand(-1, *scores.shape[2:]))

    def evaluate(model, loader):
        model.eval()
        with torch.no_grad():
            shares = [(model(x).argmax(1) == y[:, None, None]).float().mean() for x, y in loader]
        return float(sum(shares) / len(shares))

    return {
        "model": model,
        "loss_fn": loss_of,
        "optimizer": optim.Adam(model.parameters(), lr=1e-3),
        "evaluate": evaluate,
        **loaders(side=64, count=16),
    }
