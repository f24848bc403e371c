"""The words of one kind, and another cause than the usual one: the usual advice would be wrong."""

import io
import pickle

import torch
import torch.nn as nn
import torch.nn.functional as F

from tests.doctor.explain.provoked.program import provokes


@provokes(
    "matmul-shapes", names=["a", "b"], fix=("a.T @ b", "a @ b.T", ".T"), never=("in_features", "Linear", "latten")
)
def a_covariance():
    a, b = torch.rand(50, 3), torch.rand(50, 2)
    return a @ b


@provokes("matmul-shapes", names=["weight"], fix=("weight", "4"), never=("in_features", "nn.Linear(", "latten"))
def a_layer_of_the_users_own():
    class Mine(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.rand(5, 2))

        def forward(self, x):
            return x @ self.weight

    Mine()(torch.rand(3, 4))


@provokes("conv-channels", names=["photo"], fix=("permute(2, 0, 1)",), never="unsqueeze(1)")
def one_photo_with_its_channels_last():
    photo = torch.rand(28, 28, 3)
    nn.Conv2d(3, 8, 3)(photo)


@provokes("conv-channels", names=["x"], fix=("in_channels=16", "Conv2d(16"), never=("permute", "unsqueeze", "expand"))
def channels_that_are_simply_others():
    x = torch.rand(4, 16, 10, 10)
    nn.Conv2d(32, 8, 3)(x)


@provokes("broadcast-shapes", names=["batch", "scale"], fix=("[:, None, None, None]", "view(-1, 1, 1, 1)", "None"))
def a_factor_for_each_picture():
    batch, scale = torch.rand(5, 3, 8, 8), torch.rand(5)
    return batch * scale


@provokes("broadcast-shapes", names=["pictures", "mean"], fix=("[:, None, None]", "view(3, 1, 1)", "view(-1, 1, 1)"))
def a_mean_for_each_channel():
    pictures, mean = torch.rand(5, 3, 8, 8), torch.rand(3)
    return pictures - mean


@provokes("target-out-of-range", names=["labels"], fix=("BCEWithLogits", "Linear("), never="labels - 1")
def one_output_for_two_classes():
    labels, scores = torch.tensor([0, 1, 1]), torch.rand(3, 1)
    F.cross_entropy(scores, labels)


@provokes("target-out-of-range", names=["labels"], fix=("- 10", "unique", "remap", "{"), never="ignore_index")
def classes_with_large_numbers():
    labels, scores = torch.tensor([10, 11, 12]), torch.rand(3, 3)
    F.cross_entropy(scores, labels)


@provokes("target-dtype", names=["temperatures"], fix=("mse_loss", "MSELoss"), never="temperatures.long()")
def a_regression_by_cross_entropy():
    temperatures = torch.tensor([21.5, 18.25, 30.75])
    F.cross_entropy(torch.rand(3, 1), temperatures)


@provokes("target-one-hot", names=["tags"], fix=("BCEWithLogits", "tags.float()"), never="tags.argmax")
def several_tags_at_once():
    tags = torch.tensor([[1, 1, 0], [0, 1, 1]])
    nn.CrossEntropyLoss()(torch.rand(2, 3), tags)


@provokes("target-dimensions", names=["wanted"], fix=("argmax(1)", "float()", "BCEWithLogits"), never="squeeze")
def targets_of_two_columns():
    wanted = torch.tensor([[0, 1], [1, 0], [1, 0]])
    F.nll_loss(torch.rand(3, 2).log_softmax(1), wanted)


@provokes("no-graph", names=["loss"], fix=("requires_grad_(True)", "requires_grad"), never=("no_grad()", "argmax"))
def only_the_head_was_meant_to_be_frozen():
    encoder, head = nn.Linear(4, 3), nn.Linear(3, 1)
    for parameter in [*encoder.parameters(), *head.parameters()]:
        parameter.requires_grad = False
    loss = head(encoder(torch.rand(2, 4))).mean()
    loss.backward()


@provokes("no-graph", names=["loss"], fix="detach", never="frozen")
def an_output_that_is_cut_off():
    model = nn.Linear(3, 1)
    output = model(torch.rand(2, 3)).detach()
    loss = (output - 1).pow(2).mean()
    loss.backward()


@provokes("backward-not-scalar", names=["output"], fix=("mean()", "sum()", "ones_like"))
def a_column_of_one_output():
    output = nn.Linear(2, 1)(torch.rand(4, 2))
    output.backward()


@provokes("ambiguous-truth", names=["mask"], fix=("torch.where", "mask.any()", "mask.all()"), never="(1.0 if")
def a_choice_by_a_mask():
    mask = torch.tensor([True, False])
    return 1.0 if mask else 0.0


@provokes("not-a-tensor", names=["model"], fix=("model(", "call"), never="from_numpy")
def a_model_in_place_of_its_outputs():
    model = nn.Linear(3, 2)
    F.cross_entropy(model, torch.tensor([0, 1]))


@provokes(
    "not-a-tensor",
    names=["model"],
    fix=("parameters()", "model.", "model("),
    never="from_numpy",
    says="has no attribute",
)
def a_shape_of_a_model():
    model = nn.Linear(3, 2)
    print(model.shape)


@provokes(
    "weights-only", names=["file"], fix=("torch.save", "pickle.load", "weights_only=False"), never="add_safe_globals"
)
def a_file_of_pickle():
    file = io.BytesIO(pickle.dumps({"accuracy": 0.5}))
    torch.load(file)


@provokes("index-out-of-range", names=["tokens"], fix=("Embedding(501", "vocabulary"), never="padding")
def a_token_that_is_far_away():
    tokens = torch.tensor([3, 5, 500])
    nn.Embedding(10, 2)(tokens)


@provokes("index-out-of-range", names=["batch"], fix=("batch", "3"), never="num_embeddings")
def a_column_that_is_not_there():
    batch = torch.rand(4, 3)
    return batch[:, 3]


@provokes("bce-target-dtype|bce-target-shape", names=["classes"], fix="CrossEntropyLoss")
def classes_for_a_binary_loss():
    classes = torch.tensor([0, 2, 1])
    nn.BCEWithLogitsLoss()(torch.rand(3), classes)


@provokes("reshape", names=["images"], fix=("flatten(1)", "784", "reshape"), never="contiguous")
def a_view_with_three_channels_too_few():
    images = torch.rand(5, 1, 28, 28)
    images.view(5, 3 * 28 * 28)


@provokes("rnn-shapes", names=["state"], fix=("zeros(1, 3", "unsqueeze(0)"))
def a_state_without_its_layers():
    gru, state = nn.GRU(4, 2), torch.zeros(3, 2)
    gru(torch.rand(6, 3, 4), state)
