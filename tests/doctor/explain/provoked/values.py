"""Dtypes and values: what a layer, an index, a mean, a condition or a tensor cannot take."""

import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

from tests.doctor.explain.provoked.program import provokes

# Dtypes of a matrix product and of a convolution


@provokes("matmul-dtypes", names=["table"], fix=("table.float()", "float32"))
def a_table_out_of_numpy():
    table = torch.from_numpy(np.random.rand(6, 4))
    nn.Linear(4, 2)(table)


@provokes("matmul-dtypes", names=["counts", "net.0|net[0]"], fix="counts.float()")
def counts_for_a_linear():
    net = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 1))
    counts = torch.tensor([[1, 5, 2], [0, 0, 7]])
    net(counts)


class Regressor(nn.Module):
    """Makes double numbers on its way: NumPy's."""

    def __init__(self):
        super().__init__()
        self.scale = np.array([1.0, 10.0, 100.0])
        self.layers = nn.ModuleList([nn.Linear(3, 3), nn.Linear(3, 3), nn.Linear(3, 1)])

    def forward(self, values):
        scaled = values * torch.from_numpy(self.scale)
        return self.layers[2](scaled)


@provokes("matmul-dtypes", names=["scaled", "layers.2|layers[2]"], fix=("scaled.float()", "float32"))
def a_scale_in_double():
    Regressor()(torch.rand(2, 3))


@provokes("matmul-dtypes", names=["design", "beta"], fix=("double()", "float()", ".to("), never="Linear")
def a_regression_by_hand():
    design, beta = torch.rand(5, 2, dtype=torch.float64), torch.zeros(2, 1)
    return design @ beta


@provokes("matmul-dtypes", names=["half"], fix=("float()", "half()", ".to("))
def a_model_in_half():
    model = nn.Linear(4, 4).half()
    half = torch.rand(2, 4)
    (lambda: model(half))()


@provokes("matmul-dtypes", names=["bytes_"], fix="float()", never="flatten")
def pixels_as_bytes():
    bytes_ = torch.randint(0, 256, (2, 1, 4, 4), dtype=torch.uint8)
    nn.Sequential(nn.Flatten(), nn.Linear(16, 2))(bytes_)


@provokes("matmul-dtypes", names=["queries", "keys"], fix=("float()", "double()", ".to("), never="Linear")
def a_batch_of_products():
    queries, keys = torch.rand(2, 3, 4), torch.rand(2, 4, 3, dtype=torch.float64)
    torch.bmm(queries, keys)


@provokes("conv-dtypes", names=["photo"], fix="float()")
def a_photo_as_bytes():
    photo = torch.randint(0, 256, (1, 3, 9, 9), dtype=torch.uint8)
    nn.Conv2d(3, 4, 3)(photo)


@provokes("conv-dtypes", names=["images", "self.stem|stem"], fix=("images.float()", "float32"))
def images_in_double():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.stem = nn.Conv2d(1, 4, 3)

        def forward(self, images):
            return self.stem(images)

    Net()(torch.from_numpy(np.zeros((2, 1, 8, 8))))


@provokes("conv-dtypes", names=["sound"], fix=("float()", "half()", ".to("))
def a_convolution_in_half():
    filters = nn.Sequential(nn.Conv1d(1, 2, 3), nn.ReLU()).half()
    sound = torch.rand(1, 1, 30)
    filters(sound)


@provokes("conv-dtypes", names=["frame"], fix=("float()", "float32"))
def a_convolution_without_bias():
    frame = torch.rand(1, 1, 6, 6, dtype=torch.float64)
    edges = nn.Conv2d(1, 1, 3, bias=False)
    edges(frame)


# Indices


@provokes("index-dtype", names=["tokens"], fix="tokens.long()")
def tokens_as_floats():
    tokens = torch.tensor([[1.0, 4.0, 2.0]])
    nn.Embedding(10, 4)(tokens)


@provokes("index-dtype", names=["ids", "words"], fix="ids.long()")
def tokens_in_a_classifier_of_texts():
    class Texts(nn.Module):
        def __init__(self):
            super().__init__()
            self.words = nn.EmbeddingBag(50, 8)

        def forward(self, ids):
            return self.words(ids)

    Texts()(torch.zeros(2, 5))


@provokes("index-dtype", names=["order"], fix="order.long()")
def an_order_as_floats():
    values, order = torch.rand(5), torch.linspace(0, 4, 5)
    return values[order]


@provokes("index-dtype", names=["actions"], fix="long()", says="Expected dtype int32/int64 for index")
def actions_of_an_agent():
    rewards, actions = torch.rand(3, 2), torch.tensor([[0.0], [1.0], [1.0]])
    rewards.gather(1, actions)


@provokes("index-out-of-range", names=["words", "embed"], fix=("num_embeddings=101", "Embedding(101", "101"))
def a_vocabulary_that_is_one_word_short():
    embed = nn.Embedding(100, 8)
    words = torch.arange(101)
    embed(words)


@provokes("index-out-of-range", names=["tokens", "self.table|table"], fix=("padding_idx", "tokens.clamp", "mask"))
def padding_by_minus_one():
    class Reader(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(20, 4)

        def forward(self, tokens):
            return self.table(tokens).mean(1)

    Reader()(torch.tensor([[3, 5, -1], [2, -1, -1]]))


@provokes(
    "index-out-of-range", names=["rows", "wanted"], fix=("wanted.max()", "len(rows)", "wanted"), never="num_embeddings"
)
def a_row_that_is_not_there():
    rows = torch.rand(3, 2)
    wanted = torch.tensor([0, 5])
    rows[wanted]


@provokes(
    "index-out-of-range", names=["scores", "classes"], fix=("classes - 1", "classes.max()"), never="num_embeddings"
)
def a_gather_of_classes_from_one():
    scores, classes = torch.rand(2, 3), torch.tensor([[3], [1]])
    picked = scores.gather(1, classes)
    print(picked)


@provokes("index-out-of-range", names=["history"], fix=("range(4)", "len(history)"), never="num_embeddings")
def a_loop_that_goes_too_far():
    history = torch.zeros(4)
    for step in range(5):
        history[step] = step**2


# One number, true or false


@provokes("integer-mean", names=["clicks"], fix=("clicks.float()", "dtype=torch.float"))
def a_mean_of_counts():
    clicks = torch.tensor([3, 5, 8])
    return clicks.mean()


@provokes("integer-mean", names=["guesses", "labels"], fix=("float()", "dtype=torch.float"))
def an_accuracy_of_booleans():
    guesses, labels = torch.tensor([0, 1, 1]), torch.tensor([0, 1, 0])
    accuracy = (guesses == labels).mean()
    print(f"{accuracy:.1%}")


@provokes("integer-mean", names=["images"], fix=("float()", "dtype=torch.float", "/ 255"))
def a_mean_of_bytes():
    def statistics(images):
        return torch.mean(images, dim=(0, 2, 3))

    statistics(torch.zeros(4, 3, 5, 5, dtype=torch.uint8))


@provokes("not-one-value", names=["losses"], fix=("mean().item()", "tolist()", "sum().item()"))
def an_item_of_several():
    losses = torch.rand(3)
    print(losses.item())


@provokes("not-one-value", names=["error"], fix=("mean()", "tolist()"))
def a_loss_that_was_not_reduced():
    criterion = nn.MSELoss(reduction="none")
    error = criterion(torch.rand(4), torch.rand(4))
    history = [float(error)]
    return history


@provokes("not-one-value", names=["distances"], fix=("torch.sqrt", "torch."))
def a_function_of_math():
    distances = torch.rand(5)
    return math.sqrt(distances)


@provokes("not-one-value", names=["picks"], fix=("item()", "tolist()", "for"))
def a_list_indexed_by_a_tensor():
    names, picks = ["cat", "dog", "fish"], torch.tensor([0, 2])
    return names[picks]


@provokes(
    "ambiguous-truth",
    names=["outputs", "labels"],
    fix=("nn.CrossEntropyLoss()(outputs, labels)", "CrossEntropyLoss()("),
)
def a_loss_that_is_made_of_its_arguments():
    outputs, labels = torch.rand(4, 3), torch.tensor([0, 1, 2, 0])
    loss = nn.CrossEntropyLoss(outputs, labels)
    loss.backward()


@provokes("ambiguous-truth", names=["predicted", "target"], fix="MSELoss()(")
def a_squared_error_that_is_made_of_its_arguments():
    class Fit:
        def loss(self, predicted, target):
            return nn.MSELoss(predicted, target)

    Fit().loss(torch.rand(3), torch.rand(3))


@provokes("ambiguous-truth", names=["difference"], fix=(".any()", ".all()"), never="Loss()(")
def a_condition_on_a_tensor():
    difference = torch.tensor([0.1, -0.2])
    if difference > 0:
        print("larger")


@provokes("ambiguous-truth", names=["mask", "valid"], fix=("&", ".all()"), never="Loss()(")
def masks_joined_by_and():
    mask, valid = torch.ones(3, dtype=torch.bool), torch.zeros(3, dtype=torch.bool)
    both = mask and valid
    return both


@provokes("ambiguous-truth", names=["best", "seen"], fix=(".any()", ".all()", "torch.equal"), never="Loss()(")
def a_tensor_looked_up_in_a_list():
    best, seen = torch.rand(2), [torch.rand(2), torch.rand(2)]
    return best in seen


# What becomes a tensor


@provokes("array-conversion", names=["columns"], fix=("astype", "float32"))
def a_table_with_words_in_it():
    columns = np.array([[1.5, "red"], [2.0, "blue"]], dtype=object)
    return torch.from_numpy(columns)


@provokes("array-conversion", names=["sequences"], fix=("pad_sequence", "pad"))
def sequences_of_other_lengths():
    sequences = [[4, 2], [7]]
    tokens = torch.tensor(sequences)
    print(tokens)


@provokes("array-conversion", names=["mirrored"], fix=(".copy()", "flip"))
def a_mirrored_array():
    picture = np.zeros((4, 4), dtype=np.float32)
    mirrored = picture[:, ::-1]
    torch.from_numpy(mirrored)


@provokes("array-conversion", names=["colours"], fix=("number", "index", "{"))
def words_as_a_tensor():
    def encode(colours):
        return torch.as_tensor(colours)

    encode(["red", "green", "red"])


@provokes("array-conversion", names=["column"], fix=("number", "index", "{", "unique"))
def an_array_of_words():
    names = np.array(["cat", "dog"])
    (lambda column: torch.tensor(column))(names)


@provokes(
    "array-conversion|not-one-value",
    names=["rows"],
    fix=("torch.stack(rows)", "stack"),
    says="only one element tensors",
)
def a_list_of_tensors_as_a_tensor():
    rows = [torch.rand(3), torch.rand(3)]
    return torch.tensor(rows)


# What is no tensor


@provokes("not-a-tensor", names=["features"], fix=("torch.from_numpy(features)", "from_numpy", "torch.as_tensor"))
def an_array_for_a_linear():
    features = np.ones((4, 2), dtype=np.float32)
    nn.Linear(2, 1)(features)


@provokes("not-a-tensor", names=["activation", "hidden"], fix=("nn.ReLU()(hidden)", "nn.ReLU()("))
def a_layer_made_of_a_tensor():
    hidden = torch.rand(2, 3)
    activation = nn.ReLU(hidden)
    return activation.sum()


class Forgetful(nn.Module):
    """Returns its last layer, and not what that makes of the input."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(4, 4), nn.Linear(4, 2)

    def forward(self, x):
        x = self.first(x)
        return self.last


@provokes("not-a-tensor", names=["outputs"], fix="return")
def a_forward_that_returns_a_layer():
    outputs = Forgetful()(torch.rand(3, 4))
    F.cross_entropy(outputs, torch.tensor([0, 1, 1]))


@provokes("not-a-tensor", names=["states"], fix=("states, _", "[0]", "output, "))
def a_recurrent_layer_gives_two_things():
    lstm, head = nn.LSTM(4, 8), nn.Linear(8, 2)
    states = lstm(torch.rand(5, 1, 4))
    head(states)


@provokes("not-a-tensor", names=["row"], fix=("torch.tensor(row", "torch.tensor("))
def a_list_for_a_model():
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
    row = [0.5, 1.0, 2.0]
    model(row)


@provokes("not-a-tensor", names=["label"], fix=("torch.tensor(", "torch.as_tensor"))
def a_label_that_is_a_number():
    label = 2
    return nn.CrossEntropyLoss()(torch.rand(1, 3), label)


@provokes("not-a-tensor", names=["hidden"], fix=("return",), says="must be Tensor, not NoneType")
def a_forward_that_returns_nothing():
    class Mute(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(2, 2)

        def forward(self, x):
            self.layer(x)

    body, head = Mute(), nn.Linear(2, 1)
    hidden = body(torch.rand(3, 2))
    head(hidden)
