"""Losses and targets that look unusual and are meant."""

import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

from tests.faults.networks_c import Reader, Recurrent, Segmenter, dense, explained, minus_loss, overlap, small_cnn
from tests.faults.program import sound
from tests.faults.tasks_c import (
    blobs,
    both,
    clusters,
    cut,
    diabetes,
    draws,
    handwriting,
    phrases,
    sayings,
    surface,
    tags,
    tumours,
    vibrations,
    visits,
)


def adam(model: nn.Module, rate: float = 5e-3) -> optim.Optimizer:
    return optim.Adam(model.parameters(), lr=rate)


@sound("label smoothing: the loss never comes near zero")
def label_smoothing() -> dict:
    model = small_cnn()
    return {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(label_smoothing=0.2),
        "optimizer": adam(model),
        **both(handwriting()),
    }


@sound("class weights for classes of unequal size")
def class_weights() -> dict:
    model = dense(30, 32, 2)
    labels = tumours()[0].tensors[1]
    weights = len(labels) / (2 * torch.bincount(labels).float())
    return {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(weight=weights),
        "optimizer": adam(model),
        **both(tumours()),
    }


@sound("log-softmax in the network and NLLLoss")
def log_softmax_with_nll() -> dict:
    model = nn.Sequential(*dense(10, 32, 4), nn.LogSoftmax(dim=1))
    return {"model": model, "loss_fn": nn.NLLLoss(), "optimizer": adam(model), **both(clusters())}


@sound("log-softmax in the network and CrossEntropyLoss: once more changes nothing")
def log_softmax_with_cross_entropy() -> dict:
    model = nn.Sequential(*small_cnn(), nn.LogSoftmax(dim=-1))
    return {"model": model, "loss_fn": nn.CrossEntropyLoss(), "optimizer": adam(model), **both(handwriting())}


class Probabilities(nn.Module):
    """Scores in training, probabilities for whoever uses the network."""

    def __init__(self):
        super().__init__()
        self.scores = dense(10, 32, 4)

    def forward(self, x):
        scores = self.scores(x)
        return scores if self.training else scores.softmax(1)


@sound("softmax in evaluation only")
def softmax_only_in_evaluation() -> dict:
    model = Probabilities()
    return {"model": model, "loss_fn": F.cross_entropy, "optimizer": adam(model), **both(clusters())}


@sound("targets that are shares of classes")
def soft_targets() -> dict:
    train, validation = clusters()
    x, y = train.tensors
    shares = 0.85 * F.one_hot(y, 4) + 0.15 * torch.rand(len(y), 4, generator=draws(31)).softmax(1)
    model = dense(10, 32, 4)
    return {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": adam(model),
        "train_loader": DataLoader(TensorDataset(x, shares), 32, shuffle=True),
        "val_loader": DataLoader(validation, 200),
    }


def mixed(model, batch, loss_fn, optimizer) -> float:
    """Take a step on pictures that are mixtures of two (mixup)."""
    images, labels = batch
    share = float(torch.distributions.Beta(0.4, 0.4).sample())
    other = torch.randperm(len(images))
    outputs = model(share * images + (1 - share) * images[other])
    loss = share * loss_fn(outputs, labels) + (1 - share) * loss_fn(outputs, labels[other])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


@sound("mixup: training accuracy stays below validation accuracy", epochs=4)
def mixup() -> dict:
    model = small_cnn()
    return {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": adam(model, 0.01),
        "train_step": mixed,
        **both(handwriting()),
    }


@sound("the next letter, ignore_index at the first places of each text", epochs=4)
def ignored_places() -> dict:
    pairs = [(x, y.clone()) for x, y in (part.tensors for part in sayings())]
    for _, y in pairs:
        y[:, 0] = -100
    train, validation = (TensorDataset(x, y) for x, y in pairs)

    class Writer(nn.Module):
        def __init__(self):
            super().__init__()
            self.letters = nn.Embedding(10, 16)
            self.rnn = nn.GRU(16, 32, batch_first=True)
            self.head = nn.Linear(32, 10)

        def forward(self, text):
            return self.head(self.rnn(self.letters(text))[0])

    def loss_fn(scores, targets):
        return F.cross_entropy(scores.flatten(0, 1), targets.flatten(), ignore_index=-100)

    model = Writer()
    return {
        "model": model,
        "loss_fn": loss_fn,
        "optimizer": adam(model, 0.01),
        "evaluate": minus_loss(loss_fn),
        **both((train, validation), batch_size=16),
    }


@sound("regression on targets from 25 to 346, the mean in the last bias", epochs=8)
def wide_targets() -> dict:
    model = dense(10, 32, 1)
    nn.init.constant_(model[-1].bias, float(diabetes()[0].tensors[1].mean()))
    return {
        "model": model,
        "loss_fn": nn.MSELoss(),
        "optimizer": adam(model, 0.03),
        "evaluate": explained,
        **both(diabetes()),
    }


class Unscaled(nn.Module):
    """Predicts standardised values inside, and gives them in the unit of the targets."""

    def __init__(self, targets):
        super().__init__()
        self.body = dense(5, 32, 32, 1)
        self.register_buffer("mean", targets.mean(0))
        self.register_buffer("deviation", targets.std(0))

    def forward(self, x):
        return self.body(x) * self.deviation + self.mean


@sound("targets in the hundreds, scaled inside the network by buffers", epochs=4)
def targets_scaled_in_the_network() -> dict:
    model = Unscaled(surface(500.0)[0].tensors[1])
    return {
        "model": model,
        "loss_fn": nn.SmoothL1Loss(beta=100.0),
        "optimizer": adam(model),
        "evaluate": explained,
        **both(surface(500.0)),
    }


@sound("counts: the network gives the logarithm of the rate; the loss may be negative", epochs=5)
def poisson_counts() -> dict:
    model = dense(6, 32, 1)
    loss_fn = nn.PoissonNLLLoss(log_input=True)
    return {
        "model": model,
        "loss_fn": loss_fn,
        "optimizer": adam(model),
        "evaluate": minus_loss(loss_fn),
        **both(visits()),
    }


@sound("mean and variance from one network: GaussianNLLLoss, which becomes negative", epochs=6)
def gaussian_with_its_variance() -> dict:
    model = dense(5, 48, 48, 2)
    gauss = nn.GaussianNLLLoss()

    def loss_fn(outputs, targets):
        mean, spread = outputs.split(1, dim=1)
        return gauss(mean, targets, F.softplus(spread) + 1e-3)

    return {
        "model": model,
        "loss_fn": loss_fn,
        "optimizer": adam(model),
        "evaluate": minus_loss(loss_fn),
        **both(surface()),
    }


@sound("three quantiles by the pinball loss", epochs=4)
def quantiles() -> dict:
    model = dense(5, 48, 3)
    shares = torch.tensor([0.1, 0.5, 0.9])

    def pinball(outputs, targets):
        error = targets - outputs
        return torch.maximum(shares * error, (shares - 1) * error).mean()

    return {
        "model": model,
        "loss_fn": pinball,
        "optimizer": adam(model),
        "evaluate": minus_loss(pinball),
        **both(surface()),
    }


def tag_accuracy(model, loader) -> float:
    model.eval()
    with torch.no_grad():
        return float(sum(((model(x) > 0) == (y > 0.5)).float().mean() for x, y in loader) / len(loader))


@sound("several tags at once: BCEWithLogitsLoss with pos_weight", epochs=4)
def multi_label() -> dict:
    model = dense(40, 48, 6)
    return {
        "model": model,
        "loss_fn": nn.BCEWithLogitsLoss(pos_weight=torch.full((6,), 1.8)),
        "optimizer": adam(model),
        "evaluate": tag_accuracy,
        **both(tags()),
    }


@sound("one output, sigmoid and BCELoss belong together", epochs=4)
def sigmoid_with_bce() -> dict:
    model = nn.Sequential(*dense(30, 16, 1), nn.Sigmoid())

    def evaluate(model, loader):
        model.eval()
        with torch.no_grad():
            return float(sum(((model(x) > 0.5) == (y > 0.5)).float().mean() for x, y in loader) / len(loader))

    return {
        "model": model,
        "loss_fn": nn.BCELoss(),
        "optimizer": adam(model),
        "evaluate": evaluate,
        **both(tumours(column=True)),
    }


class PictureCode(nn.Module):
    """Sixteen numbers for a picture, and a picture from 0 to 1 from them."""

    def __init__(self):
        super().__init__()
        self.encoder = dense(64, 48, 16)
        self.decoder = nn.Sequential(*dense(16, 48, 64), nn.Sigmoid())

    def forward(self, pictures):
        return self.decoder(self.encoder(pictures.flatten(1))).view_as(pictures)


@sound("autoencoder with sigmoid and BCE on grey values: its loss cannot reach zero", epochs=5)
def autoencoder_of_grey_values() -> dict:
    train, validation = (TensorDataset(x, x) for x, _ in (part.tensors for part in handwriting()))
    model = PictureCode()
    return {
        "model": model,
        "loss_fn": nn.BCELoss(),
        "optimizer": adam(model),
        "evaluate": explained,
        **both((train, validation)),
    }


class Variational(nn.Module):
    """A variational autoencoder: random in training, the mean in evaluation."""

    def __init__(self):
        super().__init__()
        self.encoder = dense(64, 48, 16)
        self.decoder = dense(8, 48, 64)

    def forward(self, pictures):
        mean, log_variance = self.encoder(pictures.flatten(1)).chunk(2, dim=1)
        code = mean + torch.randn_like(mean) * (0.5 * log_variance).exp() if self.training else mean
        return self.decoder(code).view_as(pictures), mean, log_variance


def evidence_bound(outputs, pictures):
    logits, mean, log_variance = outputs
    rebuilt = F.binary_cross_entropy_with_logits(logits, pictures, reduction="sum")
    divergence = -0.5 * (1 + log_variance - mean.square() - log_variance.exp()).sum()
    return (rebuilt + divergence) / len(pictures)


@sound("variational autoencoder: random on purpose, outputs are a tuple", epochs=4)
def variational_autoencoder() -> dict:
    train, validation = (TensorDataset(x, x) for x, _ in (part.tensors for part in handwriting()))
    model = Variational()
    return {
        "model": model,
        "loss_fn": evidence_bound,
        "optimizer": adam(model),
        "evaluate": minus_loss(evidence_bound),
        **both((train, validation)),
    }


@sound("pictures and masks: cross-entropy and dice together", epochs=4)
def dice_and_cross_entropy() -> dict:
    model = Segmenter()

    def loss_fn(logits, masks):
        shares = logits.sigmoid()
        joint = 2 * (shares * masks).sum() / (shares.sum() + masks.sum())
        return F.binary_cross_entropy_with_logits(logits, masks) + 1 - joint

    return {
        "model": model,
        "loss_fn": loss_fn,
        "optimizer": adam(model, 0.01),
        "evaluate": overlap,
        **both(blobs(), batch_size=20),
    }


@sound("focal loss: easy samples count less", epochs=4)
def focal_loss() -> dict:
    model = Reader()

    def focal(scores, labels):
        surprise = F.cross_entropy(scores, labels, reduction="none")
        return ((1 - (-surprise).exp()) ** 2 * surprise).mean()

    return {"model": model, "loss_fn": focal, "optimizer": adam(model, 0.02), **both(phrases())}


@sound("a hinge loss on raw scores", epochs=3)
def hinge_loss() -> dict:
    model = dense(10, 32, 4)
    return {"model": model, "loss_fn": nn.MultiMarginLoss(), "optimizer": adam(model), **both(clusters())}


@sound("the sum of the losses of a batch, with a learning rate to match")
def summed_loss() -> dict:
    model = dense(10, 32, 4)
    optimizer = optim.SGD(model.parameters(), lr=0.1 / 32)
    return {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(reduction="sum"),
        "optimizer": optimizer,
        **both(clusters(), drop_last=True),
    }


class Embedder(nn.Module):
    """A direction for each picture."""

    def __init__(self):
        super().__init__()
        self.body = small_cnn(classes=12)

    def forward(self, pictures):
        return F.normalize(self.body(pictures), dim=1)


def contrast(codes, labels):
    """Draw pictures of one class together and push the others away (supervised contrastive loss)."""
    likeness = codes @ codes.T / 0.2
    likeness = likeness.masked_fill(torch.eye(len(codes), dtype=torch.bool), -1e9)
    same = (labels[:, None] == labels).float().fill_diagonal_(0)
    chances = likeness.log_softmax(1)
    return -((same * chances).sum(1) / same.sum(1).clamp(min=1)).mean()


def nearest(model, loader) -> float:
    """Return how often the nearest other picture has the same class."""
    model.eval()
    with torch.no_grad():
        codes, labels = (torch.cat(each) for each in zip(*[(model(x), y) for x, y in loader], strict=True))
    likeness = (codes @ codes.T).fill_diagonal_(-2)
    return float((labels[likeness.argmax(1)] == labels).float().mean())


@sound("contrastive: outputs are directions, a batch is compared with itself", epochs=4)
def contrastive() -> dict:
    model = Embedder()
    return {
        "model": model,
        "loss_fn": contrast,
        "optimizer": adam(model),
        "evaluate": nearest,
        **both(handwriting(), batch_size=64, drop_last=True),
    }


class Speller(nn.Module):
    """Reads a series and gives, at each place, a letter or a blank: log-probabilities (T, N, 5)."""

    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(6, 32, batch_first=True, bidirectional=True)
        self.head = nn.Linear(64, 5)

    def forward(self, x):
        return self.head(self.rnn(x)[0]).log_softmax(2).transpose(0, 1)


@sound("CTC: the output comes with time first, the batch second", epochs=6)
def connectionist() -> dict:
    draw = draws(33)
    letters = torch.randint(1, 5, (500, 3), generator=draw)
    drawn = F.one_hot(letters.repeat_interleave(4, dim=1), 6).float()
    series = drawn + 0.3 * torch.randn(drawn.shape, generator=draw)

    def loss_fn(log_chances, targets):
        sizes = torch.full((len(targets),), len(log_chances))
        return F.ctc_loss(log_chances, targets, sizes, torch.full((len(targets),), 3))

    model = Speller()
    return {
        "model": model,
        "loss_fn": loss_fn,
        "optimizer": adam(model, 0.01),
        "evaluate": minus_loss(loss_fn),
        **both(cut(400, series, letters), batch_size=20),
    }


@sound("an auxiliary head in the middle, its loss counts a third", epochs=3)
def two_heads() -> dict:
    class TwoHeads(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn = nn.GRU(3, 24, batch_first=True)
            self.early, self.late = nn.Linear(24, 3), nn.Linear(24, 3)

        def forward(self, x):
            states, _ = self.rnn(x)
            if self.training:
                return self.late(states.mean(1)), self.early(states[:, 5:10].mean(1))
            return self.late(states.mean(1))

    def loss_fn(outputs, targets):
        if isinstance(outputs, tuple):
            return F.cross_entropy(outputs[0], targets) + 0.3 * F.cross_entropy(outputs[1], targets)
        return F.cross_entropy(outputs, targets)

    model = TwoHeads()
    return {"model": model, "loss_fn": loss_fn, "optimizer": adam(model, 0.01), **both(vibrations())}


@sound("LSTM whose forget gate begins open")
def forget_gate_open() -> dict:
    model = Recurrent(nn.LSTM)
    with torch.no_grad():
        model.rnn.bias_hh_l0[24:48].fill_(1.0)
    return {"model": model, "loss_fn": nn.CrossEntropyLoss(), "optimizer": adam(model, 0.01), **both(vibrations())}
