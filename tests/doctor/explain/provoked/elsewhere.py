"""The same kinds of error in other surroundings: libraries, threads, hooks, cells, comprehensions, dicts of tensors."""

import linecache
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torchvision
from torch.utils.data import DataLoader, TensorDataset

from tests.doctor.explain.provoked.program import provokes

# Inside a library


@provokes("conv-channels", names=["scans", "conv1"], fix=("in_channels=1", "Conv2d(1", "scans.expand"), never="permute")
def grey_pictures_for_a_model_of_torchvision():
    network = torchvision.models.resnet18(weights=None)
    scans = torch.rand(2, 1, 64, 64)
    network(scans)


@provokes("matmul-shapes", names=["portraits", "fc"], fix=("in_features=512", "Linear(512"))
def a_new_head_for_a_model_of_torchvision():
    backbone = torchvision.models.resnet18(weights=None)
    backbone.fc = nn.Linear(2048, 5)
    portraits = torch.rand(2, 3, 64, 64)
    backbone(portraits)


@provokes("batchnorm-one-sample", names=["photo"], fix="eval()")
def one_photo_for_a_model_in_training_mode():
    tagger = torchvision.models.resnet18(weights=None)
    photo = torch.rand(1, 3, 32, 32)
    return tagger(photo)


@provokes("attention-sizes", names=["sentence"], fix=("d_model=10", "10"), says="was expecting embedding dimension of")
def words_for_an_encoder():
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, dropout=0.0), 1, enable_nested_tensor=False)
    sentence = torch.rand(5, 2, 10)
    encoder(sentence)


@provokes("conv-dtypes", names=["photo"], fix="float()")
def a_photo_that_a_transform_left_as_bytes():
    photo = torchvision.transforms.functional.pil_to_tensor(
        torchvision.transforms.functional.to_pil_image(torch.rand(3, 40, 40))
    )
    torchvision.models.resnet18(weights=None).eval()(photo[None])


# Batches in dicts, tuples and classes


@provokes("matmul-shapes", names=["batch['features']|batch[\"features\"]"], fix=("in_features=6", "Linear(6"))
def a_batch_that_is_a_dict():
    model = nn.Linear(5, 2)
    batch = {"features": torch.rand(4, 6), "label": torch.zeros(4)}
    model(batch["features"])


@provokes("target-dtype", names=["batch[1]"], fix="batch[1].long()")
def a_batch_by_its_positions():
    model = nn.Linear(3, 2)
    for batch in DataLoader(TensorDataset(torch.rand(4, 3), torch.zeros(4)), batch_size=2):
        F.cross_entropy(model(batch[0]), batch[1])


@dataclass
class Sample:
    """What a batch has."""

    image: torch.Tensor
    age: torch.Tensor


@provokes("loss-broadcast", names=["sample.age"], fix=("squeeze(1)", "unsqueeze(1)"))
def a_batch_with_attributes():
    net = nn.Sequential(nn.Flatten(), nn.Linear(4, 1))
    sample = Sample(torch.rand(6, 2, 2), torch.rand(6))
    F.mse_loss(net(sample.image), sample.age)


@provokes("index-out-of-range", names=["item['ids']|item[\"ids\"]"], fix=("num_embeddings", "Embedding(", "vocabulary"))
def tokens_of_a_larger_vocabulary():
    table = nn.Embedding(num_embeddings=30, embedding_dim=4)
    item = {"ids": torch.tensor([[3, 700], [12, 1]])}
    table(item["ids"])


# Calls that are written in other ways


@provokes("bce-target-shape", names=["answers"], fix=("unsqueeze(1)", "squeeze(1)"))
def a_loss_called_by_keywords():
    criterion, detector = nn.BCEWithLogitsLoss(), nn.Linear(4, 1)
    answers = torch.ones(5)
    criterion(
        input=detector(torch.rand(5, 4)),
        target=answers,
    )


@provokes("target-dimensions", names=["kinds"], fix=("squeeze(1)", "flatten()"))
def a_loss_called_the_other_way_round():
    kinds = torch.randint(0, 2, (3, 1))
    F.cross_entropy(target=kinds, input=torch.rand(3, 2))


@provokes("matmul-shapes", names=["row"], fix=("in_features=3", "Linear(3"))
def a_model_in_a_comprehension():
    scorer = nn.Linear(4, 1)
    return [scorer(row) for row in torch.rand(5, 3)]


@provokes("reshape", names=["block"], fix=("reshape(", "contiguous()"))
def a_view_in_a_map():
    blocks = [torch.rand(2, 3).t()]
    return list(map(lambda block: block.view(6), blocks))


@provokes("cat-shapes", names=["parts"], fix=("dim=1", "3", "4"))
def a_join_of_what_a_loop_collected():
    parts = []
    for width in (3, 4):
        parts.append(torch.rand(2, width))
    if (joined := torch.cat(parts)) is not None:
        print(joined)


@provokes("backward-not-scalar", names=["errors"], fix=("errors.mean()", "errors.sum()", "mean()"))
def a_backward_at_the_end_of_a_long_line():
    net = nn.Linear(2, 1)
    errors = (net(torch.rand(3, 2)) - 1).abs()
    net.zero_grad(), errors.backward()


@provokes("dimension-out-of-range", names=["votes"], fix=("dim=0", "dim=-1", "0"))
def a_partial_of_a_sum():
    votes = torch.rand(4)
    count = partial(torch.sum, dim=-2)
    return count(votes)


# Threads, hooks, closures, generators


@provokes("matmul-shapes", names=["chunk"], fix=("in_features=7", "Linear(7"))
def a_model_in_a_thread():
    model = nn.Linear(8, 2)

    def predict(chunk):
        return model(chunk)

    with ThreadPoolExecutor(1) as pool:
        return list(pool.map(predict, [torch.rand(2, 7)]))


@provokes("broadcast-shapes", names=["output", "reference"], fix=("5", "4", "align"))
def a_forward_hook():
    reference, layer = torch.zeros(3, 5), nn.Linear(2, 4)
    layer.register_forward_hook(lambda module, inputs, output: output - reference)
    nn.Sequential(layer)(torch.rand(3, 2))


@provokes("no-graph", names=["loss"], fix=("no_grad", "requires_grad"))
def a_closure_of_an_optimizer():
    model = nn.Linear(2, 1)
    optimizer = torch.optim.LBFGS(model.parameters())

    @torch.no_grad()
    def score(batch):
        return model(batch).mean()

    def closure():
        optimizer.zero_grad()
        loss = score(torch.rand(4, 2))
        loss.backward()
        return loss

    optimizer.step(closure)


@provokes("integer-mean", names=["hits"], fix=("float()", "dtype=torch.float"))
def a_generator_of_scores():
    def scores(batches):
        for batch in batches:
            hits = batch.argmax(1) == 0
            yield hits.mean()

    sum(scores([torch.rand(3, 2)]))


@provokes("numpy-of-grad", names=["self.net.weight|weight"], fix="detach()")
def a_property_of_a_class():
    class Report:
        def __init__(self):
            self.net = nn.Linear(2, 2)

        @property
        def weights(self):
            return self.net.weight.numpy()

    print(Report().weights)


@provokes("in-place-leaf", names=["bias|layer.bias"], fix="no_grad")
def a_bias_set_by_an_init_function():
    def prepare(layer):
        if isinstance(layer, nn.Linear):
            layer.bias += 0.01

    nn.Sequential(nn.Linear(2, 2), nn.ReLU()).apply(prepare)


@provokes("not-one-value", names=["gains"], fix=("mean()", "sum()", "tolist()", "max()"))
def a_number_in_a_text():
    gains = torch.rand(2, 2)
    print(f"gain {float(gains):.2f}")


@provokes("ambiguous-truth", names=["loss"], fix=("mean()", ".min()", "clamp(max"), never="Loss()(")
def an_early_stop_on_several_losses():
    best = 1.0
    for loss in torch.rand(3, 2):
        best = min(best, loss)


@provokes("array-conversion", names=["samples"], fix=("pad", "stack", "[len("))
def rows_of_arrays_of_other_lengths():
    samples = [np.zeros(3), np.zeros(5)]
    torch.as_tensor(samples)


# A cell of a notebook, and code without a source


def _run_as_cell(text: str) -> None:
    """Run a text as IPython runs a cell: its lines can be looked up, and its names are global."""
    file = f"<ipython-input-{abs(hash(text)) % 1000}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    exec(compile(text, file, "exec"), {"__name__": "__main__"})


@provokes("matmul-shapes", names=["digits", "net.1|net[1]"], fix=("in_features=64", "Linear(64"))
def a_cell():
    _run_as_cell(
        "import torch, torch.nn as nn\n"
        "net = nn.Sequential(nn.Flatten(), nn.Linear(784, 10))\n"
        "digits = torch.rand(16, 1, 8, 8)\n"
        "net(digits).argmax(1)\n"
    )


@provokes("target-out-of-range", names=["answers"], fix=("answers - 1", "4"))
def a_cell_with_a_loop():
    _run_as_cell(
        "import torch\nfrom torch.nn.functional import cross_entropy\n"
        "answers = torch.tensor([1, 2, 3])\n"
        "for _ in range(2):\n"
        "    loss = cross_entropy(torch.rand(3, 3), answers)\n"
    )


@provokes("matmul-shapes", names=["samples"], fix=("in_features=4", "Linear(4"))
def a_program_without_source():
    text = "import torch\nmodel = torch.nn.Linear(3, 1)\nsamples = torch.rand(2, 4)\nmodel(samples)\n"
    exec(compile(text, "<string>", "exec"), {})


# Other modes


@provokes("matmul-shapes", names=["pixels"], fix=("in_features=9", "Linear(9"))
def a_model_under_autocast():
    model, pixels = nn.Linear(16, 2), torch.rand(3, 9)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        model(pixels)


@provokes("bce-range", names=["guess"], fix=("BCEWithLogits", "with_logits"))
def a_loss_in_inference_mode():
    with torch.inference_mode():
        guess = torch.tensor([2.0, -1.0])
        F.binary_cross_entropy(guess, torch.zeros(2))


@provokes("backward-twice", names=["hidden|state"], fix=("detach()",))
def a_state_kept_in_a_module():
    class Remembering(nn.Module):
        def __init__(self):
            super().__init__()
            self.cell, self.hidden = nn.RNNCell(2, 3), torch.zeros(1, 3)

        def forward(self, step):
            self.hidden = self.cell(step, self.hidden)
            return self.hidden

    reader = Remembering()
    for step in torch.rand(3, 1, 2):
        reader(step).sum().backward()


@provokes("in-place-changed", names=["x|loss"], fix=("inplace=True", "inplace=False", "nn.ReLU()", "F.relu", "clone()"))
def an_activation_in_place_behind_a_sigmoid():
    squash, cut = nn.Sigmoid(), nn.ReLU(inplace=True)
    x = squash(torch.rand(3, requires_grad=True))
    loss = cut(x).sum()
    loss.backward()


@provokes("optimizer-parameters", names=["net"], fix="net.parameters()")
def groups_of_an_optimizer():
    net = nn.Linear(2, 2)
    torch.optim.AdamW([{"params": net.parameters, "lr": 0.1}])


@provokes("state-dict-mismatch", names=["again"], fix=("module.", "DataParallel"))
def weights_for_a_wrapped_model():
    plain = nn.Linear(2, 2)
    again = nn.DataParallel(nn.Linear(2, 2))
    again.load_state_dict(plain.state_dict())


@provokes("rnn-shapes", names=["memory"], fix=("zeros(2, 4, 6", "2"))
def a_state_for_one_layer_of_two():
    lstm = nn.LSTM(3, 6, num_layers=2)
    memory = (torch.zeros(1, 4, 6), torch.zeros(1, 4, 6))
    lstm(torch.rand(5, 4, 3), memory)


@provokes("norm-features", names=["picture", "stem.1|stem[1]"], fix="BatchNorm2d(8")
def a_norm_of_groups_of_layers():
    stem = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(16), nn.ReLU())
    picture = torch.rand(2, 3, 9, 9)
    nn.ModuleDict({"stem": stem})["stem"](picture)


@provokes("conv-channels", names=["x", "blocks.1.0|blocks[1][0]|1.0"], fix=("in_channels=8", "Conv2d(8"))
def a_block_inside_of_a_block():
    blocks = nn.Sequential(
        nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU()),
        nn.Sequential(nn.Conv2d(6, 4, 3), nn.ReLU()),
    )
    forward = lambda x: blocks(x).mean()  # noqa: E731
    forward(torch.rand(1, 3, 12, 12))


@provokes("worker-pickle", names=["lambda"], fix=("def ", "num_workers=0"), says=("pickle", "local object"))
def a_lambda_for_the_start_of_a_worker():
    data = TensorDataset(torch.rand(4))
    loader = DataLoader(
        data, num_workers=1, multiprocessing_context="spawn", worker_init_fn=lambda number: torch.manual_seed(number)
    )
    for batch in loader:
        print(batch)
