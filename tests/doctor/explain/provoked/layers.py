"""Shapes that do not fit a layer: linear, convolution, pooling."""

import torch
import torch.nn as nn
import torch.nn.functional as F

from tests.doctor.explain.provoked.program import provokes

# Sizes of a matrix product


@provokes("matmul-shapes", names=["images", "model.1|model[1]"], fix=("in_features=400", "Linear(400"))
def a_linear_made_for_other_pictures():
    model = nn.Sequential(nn.Flatten(), nn.Linear(784, 10))
    images = torch.rand(32, 1, 20, 20)
    model(images)


@provokes("matmul-shapes", names=["digits"], fix=("flatten(1)", "Flatten()"), never="in_features=28")
def pictures_that_are_not_flattened():
    classifier = nn.Linear(784, 10)
    digits = torch.rand(4, 1, 28, 28)
    classifier(digits)


class Recogniser(nn.Module):
    """A convolution that gives 6 × 6 maps, and a head that was counted for 7 × 7."""

    def __init__(self):
        super().__init__()
        self.maps = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(6))
        self.head = nn.Linear(8 * 7 * 7, 10)

    def forward(self, pictures):
        maps = self.maps(pictures)
        flat = torch.flatten(maps, start_dim=1)
        return self.head(flat)


@provokes("matmul-shapes", names=["flat", "self.head|head"], fix=("in_features=288", "Linear(288"))
def a_head_counted_wrongly():
    net = Recogniser()
    net(torch.rand(2, 1, 28, 28))


class Stack(nn.Module):
    """Layers in a list, of which the third does not fit the second."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(6, 20), nn.Linear(20, 12), nn.Linear(16, 4)])

    def forward(self, hidden):
        for layer in self.layers:
            hidden = layer(hidden).relu()
        return hidden


@provokes("matmul-shapes", names=["hidden", "layers.2|layers[2]"], fix=("in_features=12", "Linear(12"))
def a_layer_of_a_list_in_a_loop():
    stack = Stack()
    stack(torch.rand(3, 6))


class NamedSteps(nn.Module):
    """The same, each layer reached by its number."""

    def __init__(self):
        super().__init__()
        self.layers = [nn.Linear(6, 20), nn.Linear(20, 12), nn.Linear(16, 4)]

    def forward(self, rows):
        rows = self.layers[0](rows)
        rows = self.layers[1](rows)
        return self.layers[2](rows)


@provokes("matmul-shapes", names=["rows", "self.layers[2]"], fix=("in_features=12", "Linear(12"))
def a_layer_reached_by_its_number():
    NamedSteps()(torch.rand(3, 6))


@provokes("matmul-shapes", names=["features"], fix=("in_features=5", "Linear(5"))
def a_row_without_a_batch():
    features, score = torch.rand(5), nn.Linear(4, 1)
    print(score(features))


@provokes(
    "matmul-shapes", names=["kernel", "samples"], fix=(".T", "transpose"), never=("in_features", "Linear", "latten")
)
def a_weight_written_by_hand():
    samples, kernel = torch.rand(8, 3), torch.rand(5, 3)
    return samples @ kernel


@provokes("matmul-shapes", names=["queries", "keys"], fix=(".T", "transpose"), never=("in_features", "latten"))
def scores_of_attention():
    def attend(queries, keys):
        return torch.softmax(torch.matmul(queries, keys) / queries.shape[-1] ** 0.5, dim=-1)

    attend(torch.rand(7, 16), torch.rand(7, 16))


@provokes("matmul-shapes", names=["left", "right"], fix=("3", "4"), never=("in_features", ".T", "latten"))
def a_product_that_no_transpose_can_mend():
    left, right = torch.rand(2, 3), torch.rand(4, 5)
    torch.mm(left, right)


@provokes("matmul-shapes", names=["matrix", "vector"], fix=("3", "4", ".T"), never="in_features")
def a_matrix_times_a_vector():
    matrix, vector = torch.rand(3, 4), torch.rand(3)
    return matrix @ vector


@provokes(
    "matmul-shapes",
    names=["batch", "weight"],
    fix=("F.linear(batch, weight.T)", "batch @ weight"),
    never=("in_features", "batch @ weight.T"),
)
def a_functional_linear_with_its_weight_the_wrong_way():
    weight, batch = torch.rand(9, 4), torch.rand(2, 9)
    return F.linear(batch, weight)


@provokes("matmul-shapes", names=["x"], fix=("in_features=400", "Linear(400"))
def a_model_in_a_lambda():
    body = nn.Sequential(nn.Linear(784, 30), nn.Tanh(), nn.Linear(30, 10))
    predict = lambda x: body(x).argmax(1)  # noqa: E731
    predict(torch.rand(32, 400))


@provokes("matmul-shapes", names=["tokens"], fix=("in_features=32", "Linear(32"))
def a_linear_behind_an_embedding():
    class Tagger(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(100, 32)
            self.tag = nn.Linear(64, 5)

        def forward(self, tokens):
            return self.tag(self.embed(tokens))

    Tagger()(torch.randint(0, 100, (4, 11)))


@provokes("matmul-shapes", names=["pooled"], fix=("flatten(1)", "Flatten()", "squeeze"))
def an_average_that_keeps_its_pixels():
    backbone = nn.Sequential(nn.Conv2d(3, 16, 3), nn.AdaptiveAvgPool2d(1))
    head = nn.Linear(16, 2)
    pooled = backbone(torch.rand(4, 3, 9, 9))
    head(pooled)


# Channels


@provokes("conv-channels", names=["photos"], fix="permute(0, 3, 1, 2)")
def channels_last():
    photos = torch.rand(2, 28, 28, 3)
    convolve = nn.Conv2d(3, 8, 3)
    convolve(photos)


@provokes(
    "conv-channels",
    names=["grey", "network.0|network[0]"],
    fix=("in_channels=1", "Conv2d(1", "expand"),
    never="permute",
)
def grey_pictures_for_a_colour_network():
    network = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3))
    grey = torch.rand(5, 1, 28, 28)
    network(grey)


@provokes("conv-channels", names=["xb"], fix="unsqueeze(1)", never="permute")
def a_batch_without_a_channel():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1 = nn.Conv2d(1, 4, 3)

        def forward(self, xb):
            return self.conv1(xb)

    Net()(torch.rand(32, 28, 28))


@provokes("conv-channels", names=["features", "second"], fix=("in_channels=8", "Conv2d(8"), never="permute")
def two_convolutions_that_do_not_fit():
    class Pair(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Conv2d(3, 8, 3), nn.Conv2d(16, 4, 3)

        def forward(self, image):
            features = self.first(image).relu()
            return self.second(features)

    pair = Pair()
    pair(torch.rand(2, 3, 12, 12))


@provokes("conv-channels", names=["signal"], fix=("transpose(1, 2)", "permute(0, 2, 1)"))
def a_sequence_with_its_features_last():
    signal = torch.rand(8, 50, 12)
    smooth = nn.Conv1d(12, 6, 5)
    return smooth(signal)


@provokes("conv-channels", names=["code"], fix=("in_channels=10", "ConvTranspose2d(10"), never="permute")
def a_transposed_convolution():
    code = torch.rand(2, 10, 4, 4)
    nn.ConvTranspose2d(16, 4, 2)(code)


@provokes("conv-channels", names=["picture", "filters"], fix=("3", "channels"))
def a_functional_convolution():
    picture, filters = torch.rand(1, 4, 8, 8), torch.rand(2, 3, 3, 3)
    F.conv2d(picture, filters, padding=1)


# Dimensions


@provokes("conv-dimensions", names=["digit"], fix=("unsqueeze(0)", "[None"))
def one_picture_as_a_matrix():
    digit = torch.rand(28, 28)
    nn.Conv2d(1, 4, 3)(digit)


@provokes("conv-dimensions", names=["clip"], fix=("Conv3d", "flatten(0, 1)"))
def a_film_for_a_flat_convolution():
    class Films(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(3, 4, 3)

        def forward(self, clip):
            return self.conv(clip).mean()

    films = Films()
    films(torch.rand(2, 5, 3, 16, 16))


@provokes("conv-dimensions", names=["maps"], fix=("Conv2d", "flatten(2)"))
def maps_for_a_convolution_over_time():
    maps = torch.rand(2, 3, 28, 28)
    (lambda: nn.Conv1d(3, 4, 3)(maps))()


@provokes("conv-dimensions", names=["flat"], fix=("unflatten", "reshape", "view"))
def a_flat_batch_for_a_convolution():
    flat = torch.rand(16, 784)
    features = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU())
    features(flat)


# Windows larger than the picture


@provokes("conv-too-small", names=["thumbnail"], fix=("padding", "kernel_size"))
def a_kernel_larger_than_the_picture():
    thumbnail = torch.rand(1, 1, 3, 3)
    return nn.Conv2d(1, 4, kernel_size=5)(thumbnail)


class Deep(nn.Module):
    """Halves the picture five times."""

    def __init__(self):
        super().__init__()
        self.pool = nn.MaxPool2d(2)

    def forward(self, maps):
        for _ in range(5):
            maps = self.pool(maps)
        return maps


@provokes("conv-too-small", names=["maps", "pool"], fix=("padding", "fewer", "remove"))
def halved_too_often():
    Deep()(torch.rand(2, 3, 16, 16))


@provokes("conv-too-small", names=["model.3|model[3]"], fix=("padding", "kernel_size", "fewer"))
def a_convolution_behind_pools():
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.MaxPool2d(2), nn.MaxPool2d(4), nn.Conv2d(4, 4, 3))
    model(torch.rand(1, 1, 10, 10))


@provokes("conv-too-small", names=["wave"], fix=("padding", "kernel_size"))
def a_short_signal():
    def smooth(wave):
        return F.conv1d(wave, torch.ones(1, 1, 9) / 9)

    smooth(torch.rand(1, 1, 4))


@provokes("conv-too-small", names=["tiny"], fix=("padding", "kernel_size", "fewer", "AdaptiveAvgPool2d"))
def an_average_of_more_than_there_is():
    tiny = torch.rand(1, 2, 2, 2)
    F.avg_pool2d(tiny, 7)
