"""Shapes that do not fit each other: broadcasting, batches of matrices, joining, reshaping, dimensions."""

from functools import partial

import numpy as np
import torch
import torch.nn as nn

from tests.doctor.explain.provoked.program import provokes

# Broadcasting


@provokes("broadcast-shapes", names=["heights", "weights"], fix=("3", "unsqueeze", "align"), never="in_features")
def a_sum_of_other_lengths():
    heights, weights = torch.rand(2, 3), torch.rand(2, 2)
    return heights + weights


@provokes("broadcast-shapes", names=["data", "mean"], fix=("keepdim=True", "[:, None]", "unsqueeze(1)"))
def a_mean_of_rows_without_its_dimension():
    data = torch.rand(5, 3)
    mean = data.mean(dim=1)
    data = data - mean


class Residual(nn.Module):
    """Adds its input to an output of fewer channels."""

    def __init__(self):
        super().__init__()
        self.body = nn.Conv2d(8, 4, 3, padding=1)

    def forward(self, inputs):
        change = self.body(inputs)
        return inputs + change


@provokes("broadcast-shapes", names=["inputs", "change"], fix=("8", "4"))
def a_shortcut_past_a_narrower_layer():
    block = Residual()
    block(torch.rand(2, 8, 6, 6))


@provokes("broadcast-shapes", names=["scores", "mask"], fix=("unsqueeze", "[:, None]", "None", "10"))
def a_mask_of_another_length():
    scores, mask = torch.rand(2, 4, 10), torch.ones(2, 4, 7, dtype=torch.bool)
    scores.masked_fill(~mask, float("-inf"))


@provokes("broadcast-shapes", names=["total", "part"], fix=("3", "2"))
def a_sum_in_place():
    def collect(parts):
        total = torch.zeros(3)
        for part in parts:
            total += part
        return total

    collect([torch.ones(3), torch.ones(2)])


@provokes("broadcast-shapes", names=["row"], fix=("4", "3"))
def a_row_that_is_too_short():
    table = torch.zeros(3, 4)
    row = torch.ones(3)
    table[0] = row


@provokes("broadcast-shapes", names=["labels", "guesses"], fix=("[:8]", "8", "5"))
def an_accuracy_of_other_counts():
    guesses, labels = torch.randint(0, 3, (8,)), torch.randint(0, 3, (5,))
    print((guesses == labels).float().mean())


# Batches of matrices


@provokes("batched-matmul-shapes", names=["query", "key"], fix=("transpose(1, 2)", "transpose(-2, -1)", ".mT"))
def attention_scores_without_a_transpose():
    query, key = torch.rand(2, 6, 4), torch.rand(2, 5, 4)
    return query @ key


@provokes("batched-matmul-shapes", names=["q", "k"], fix=("transpose(-2, -1)", "transpose(2, 3)", ".mT"))
def heads_of_attention():
    class Heads(nn.Module):
        def forward(self, q, k):
            return torch.matmul(q, k).softmax(-1)

    Heads()(torch.rand(2, 3, 7, 4), torch.rand(2, 3, 7, 4))


@provokes("batched-matmul-shapes", names=["rotations", "points"], fix=("3", "transpose", ".mT"))
def a_bmm_of_points():
    rotations, points = torch.rand(10, 3, 3), torch.rand(10, 50, 3)
    torch.bmm(rotations, points)


@provokes("batched-matmul-shapes", names=["left", "right"], fix=("3", "2"), never=("transpose(", ".mT"))
def other_numbers_of_matrices():
    left, right = torch.rand(3, 4, 5), torch.rand(2, 5, 4)
    torch.bmm(left, right)


# Reshaping


@provokes("reshape", names=["pixels"], fix=("12", "24", "-1"))
def a_view_of_another_size():
    pixels = torch.rand(24)
    pixels.view(2, 10)


class Encoder(nn.Module):
    """Flattens by a number that somebody counted for larger pictures."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3)

    def forward(self, batch):
        maps = self.conv(batch)
        return maps.view(-1, 4 * 13 * 13)


@provokes("reshape", names=["maps"], fix=("flatten(1)", "576"))
def a_count_of_pixels_that_is_wrong():
    encoder = Encoder()
    encoder(torch.rand(3, 1, 14, 14))


@provokes("reshape", names=["turned"], fix=("reshape(", "contiguous()"))
def a_view_of_what_was_turned():
    turned = torch.rand(4, 6, 3).permute(0, 2, 1)
    return turned.view(4, -1)


@provokes("reshape", names=["self.table"], fix=("reshape(", "contiguous()"))
def a_view_of_a_transposed_attribute():
    class Holder:
        def __init__(self):
            self.table = torch.rand(5, 8).t()

        def line(self):
            return self.table.view(-1)

    Holder().line()


@provokes("reshape", names=["sequence"], fix=("drop_last", "-1", "size(0)", "shape[0]", "len("))
def a_batch_size_written_into_the_model():
    batch_size = 32
    for sequence in torch.rand(40, 6).split(batch_size):
        sequence.reshape(batch_size, 3, 2)


# Joining


@provokes("cat-shapes", names=["first", "second"], fix=("dim=1", "align", "4"))
def rows_of_other_widths():
    first, second = torch.rand(2, 3), torch.rand(2, 4)
    torch.cat([first, second])


@provokes("cat-shapes", names=["scores", "bias"], fix=("unsqueeze", "[None", "[:, None"))
def a_vector_beside_a_matrix():
    scores, bias = torch.rand(2, 3), torch.rand(3)
    return torch.cat((scores, bias), dim=0)


class Skip(nn.Module):
    """Joins maps from before and after a convolution without padding."""

    def __init__(self):
        super().__init__()
        self.down = nn.Conv2d(2, 2, 3)

    def forward(self, wide):
        narrow = self.down(wide)
        return torch.cat([wide, narrow], dim=1)


@provokes("cat-shapes", names=["wide", "narrow"], fix=("padding", "crop", "interpolate", "same size", "10"))
def maps_of_other_heights():
    Skip()(torch.rand(1, 2, 10, 10))


@provokes("cat-shapes", names=["sentences"], fix=("pad_sequence", "pad"))
def a_stack_of_sentences():
    sentences = [torch.tensor([4, 8, 1]), torch.tensor([3, 2])]
    tokens = torch.stack(sentences)
    print(tokens.shape)


# Dimensions


@provokes("dimension-out-of-range", names=["losses"], fix=("dim=0", "0"))
def a_sum_over_columns_of_a_vector():
    losses = torch.rand(6)
    return losses.sum(dim=1)


@provokes("dimension-out-of-range", names=["logits"], fix=("dim=0", "-1", "unsqueeze(0)"))
def a_softmax_of_one_sample():
    classify = partial(torch.softmax, dim=1)
    logits = torch.rand(10)
    classify(logits)


@provokes("dimension-out-of-range", names=["sample"], fix=("unsqueeze(0)", "batch"))
def a_flatten_of_a_vector():
    model = nn.Sequential(nn.Flatten(2), nn.Linear(4, 2))
    sample = torch.rand(4)
    model(sample)


@provokes("dimension-out-of-range", names=["prediction"], fix=("dim=0", "-1", "unsqueeze(0)"))
def a_class_of_one_prediction():
    class Judge:
        def verdict(self, prediction):
            return prediction.argmax(1)

    Judge().verdict(torch.rand(3))


@provokes("dimension-out-of-range", names=["image"], fix=("permute(2, 0, 1)", "3", "unsqueeze"))
def a_permutation_of_a_batch_that_is_one_picture():
    image = torch.from_numpy(np.zeros((8, 8, 3), dtype=np.float32))
    image.transpose(1, 3)


# Attention


@provokes("attention-sizes", names=["embed_dim|nn.MultiheadAttention"], fix=("8", "12", "divide", "multiple"))
def heads_that_do_not_divide():
    return nn.MultiheadAttention(embed_dim=10, num_heads=4)


@provokes("attention-sizes", names=["words"], fix=("embed_dim=10", "10"))
def words_of_another_width():
    words = torch.rand(5, 2, 10)
    attention = nn.MultiheadAttention(8, 2)
    attention(words, words, words)


@provokes("attention-sizes", names=["tokens", "attend"], fix=("embed_dim=6", "6"))
def a_block_of_a_transformer():
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.attend = nn.MultiheadAttention(12, 3, batch_first=True)

        def forward(self, tokens):
            mixed, _ = self.attend(tokens, tokens, tokens)
            return mixed + tokens

    Block()(torch.rand(2, 9, 6))


@provokes("attention-sizes", names=["nhead|nn.TransformerEncoderLayer"], fix=("10", "divide", "multiple"))
def an_encoder_of_three_heads():
    layer = nn.TransformerEncoderLayer(d_model=10, nhead=3)
    nn.TransformerEncoder(layer, num_layers=1)
