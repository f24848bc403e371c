"""Normalisations and recurrent layers that get other sizes than they were made for."""

import torch
import torch.nn as nn
import torch.nn.functional as F

from tests.doctor.explain.provoked.program import provokes

# Normalisation


@provokes("norm-features", names=["maps", "norm"], fix=("BatchNorm2d(4", "4"))
def a_norm_of_three_channels_for_four():
    norm = nn.BatchNorm2d(3)
    maps = torch.rand(2, 4, 5, 5)
    norm(maps)


@provokes("norm-features", names=["rows"], fix="BatchNorm1d")
def a_norm_of_pictures_for_rows():
    rows = torch.rand(4, 6)
    nn.Sequential(nn.BatchNorm2d(6), nn.ReLU())(rows)


@provokes("norm-features", names=["tokens", "self.norm|norm"], fix=("LayerNorm(3", "3"))
def a_layer_norm_of_another_width():
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.LayerNorm(5)

        def forward(self, tokens):
            return self.norm(tokens)

    Block()(torch.rand(2, 3))


@provokes("norm-features", names=["features", "layers.1|layers[1]"], fix=("BatchNorm1d(20", "20"))
def a_norm_between_linears():
    layers = nn.Sequential(nn.Linear(4, 20), nn.BatchNorm1d(10), nn.Linear(20, 2))
    features = torch.rand(6, 4)
    layers(features)


@provokes("norm-features", names=["picture"], fix="BatchNorm2d")
def a_norm_of_rows_for_pictures():
    picture = torch.rand(2, 3, 8, 8)
    normalise = nn.BatchNorm1d(3)
    return (lambda: normalise(picture))()


@provokes("batchnorm-one-sample", names=["last"], fix=("drop_last", "eval()"))
def a_last_batch_of_one():
    model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    for last in torch.rand(9, 2).split(4):
        model(last)


@provokes("batchnorm-one-sample", names=["sample"], fix="eval()")
def a_prediction_in_training_mode():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.hidden, self.norm = nn.Linear(4, 8), nn.BatchNorm1d(8)

        def forward(self, sample):
            return self.norm(self.hidden(sample))

    net = Net()
    net(torch.rand(1, 4))


@provokes("batchnorm-one-sample", names=["single"], fix="training=False")
def a_functional_norm_of_one():
    single = torch.rand(1, 5)
    F.batch_norm(single, torch.zeros(5), torch.ones(5), training=True)


@provokes("batchnorm-one-sample", names=["pooled"], fix=("eval()", "drop_last"))
def one_picture_that_was_pooled_to_a_point():
    norm = nn.BatchNorm2d(8)
    pooled = F.adaptive_avg_pool2d(torch.rand(1, 8, 6, 6), 1)
    norm(pooled)


# Recurrent layers


@provokes("rnn-shapes", names=["waves"], fix=("input_size=5", "5"))
def more_features_than_an_lstm_takes():
    lstm = nn.LSTM(4, 8)
    waves = torch.rand(7, 2, 5)
    lstm(waves)


@provokes("rnn-shapes", names=["state", "chunk"], fix=("zeros(1, 3", "chunk.shape[0]", "len(chunk)", "size(0)"))
def a_state_of_another_batch():
    memory, state = nn.GRU(4, 2, batch_first=True), torch.zeros(1, 8, 2)
    for chunk in torch.rand(11, 5, 4).split(8):
        memory(chunk, state)


@provokes("rnn-shapes", names=["steps", "hidden"], fix=("batch_first=True", "batch_first"))
def a_batch_that_comes_first():
    class Reader(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm = nn.LSTM(6, 2)

        def forward(self, steps):
            hidden = torch.zeros(1, steps.shape[0], 2), torch.zeros(1, steps.shape[0], 2)
            return self.lstm(steps, hidden)

    Reader()(torch.rand(3, 9, 6))


@provokes("rnn-shapes", names=["frames"], fix=("flatten", "3", "reshape"))
def pictures_for_a_recurrent_layer():
    frames = torch.rand(2, 5, 8, 8)
    nn.LSTM(8, 4)(frames)


@provokes("rnn-shapes", names=["step"], fix=("input_size=5", "5"))
def a_cell_of_another_width():
    cell = nn.LSTMCell(4, 2)
    step = torch.rand(3, 5)
    cell(step)


@provokes("rnn-shapes", names=["letters", "self.reader|reader"], fix=("input_size=26", "26", "transpose"))
def letters_with_the_features_in_the_middle():
    class Names(nn.Module):
        def __init__(self):
            super().__init__()
            self.reader = nn.RNN(26, 16, batch_first=True)

        def forward(self, letters):
            _, last = self.reader(letters)
            return last[-1]

    Names()(torch.rand(4, 26, 11))


@provokes("rnn-dtype", names=["prices"], fix=("float()", "to(torch.float32)"))
def prices_in_double():
    prices = torch.rand(6, 2, 3, dtype=torch.float64)
    nn.GRU(3, 5)(prices)


@provokes("rnn-dtype", names=["series", "self.lstm|lstm"], fix=("float()", "to(torch.float32)"))
def series_out_of_numpy():
    import numpy as np

    class Forecast(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm = nn.LSTM(1, 4, batch_first=True)

        def forward(self, series):
            return self.lstm(series)[0]

    Forecast()(torch.from_numpy(np.linspace(0, 1, 12).reshape(2, 6, 1)))


@provokes("rnn-dtype", names=["codes"], fix=("float()", "Embedding", "one_hot"))
def letters_as_whole_numbers():
    codes = torch.randint(0, 26, (5, 1, 1))
    reader = nn.RNN(1, 4)
    return reader(codes)


@provokes("rnn-dtype", names=["window"], fix=("float()", "half()", "to("))
def a_layer_in_half():
    layer = nn.LSTM(2, 3).half()
    predict = lambda window: layer(window)[0][-1]  # noqa: E731
    predict(torch.rand(4, 1, 2))
