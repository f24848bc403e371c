"""The engine from nothing trains a classifier: one layer in between, the digits, and three lines a batch."""

import numpy as np

from labkit import data
from labkit.autograd.scratch import Tensor


def layer(inputs, outputs, random):
    weight = random.normal(size=(inputs, outputs)) * (2 / inputs) ** 0.5
    return Tensor(weight, requires_grad=True), Tensor(np.zeros(outputs), requires_grad=True)


def cross_entropy(scores, labels):
    scores = scores - scores.data.max(axis=1, keepdims=True)
    log_probabilities = scores - scores.exp().sum(axis=1).log().reshape(len(labels), 1)
    return -(log_probabilities * np.eye(10)[labels]).sum() / len(labels)


def test_a_classifier_trained_with_the_engine_reads_95_percent_of_the_test_digits():
    digits, random = data.load("digits"), np.random.default_rng(0)
    images, labels = digits.train.images.flatten(1).numpy() / 255, digits.train.labels.numpy()
    learning = [*layer(64, 64, random), *layer(64, 10, random)]

    def network(images):
        weight_1, bias_1, weight_2, bias_2 = learning
        return (Tensor(images) @ weight_1 + bias_1).relu() @ weight_2 + bias_2

    for _ in range(15):
        for batch in np.array_split(random.permutation(len(labels)), 40):
            loss = cross_entropy(network(images[batch]), labels[batch])
            for one in learning:
                one.zero_grad()
            loss.backward()
            for one in learning:
                one.data = one.data - 0.5 * one.grad

    answers = network(digits.test.images.flatten(1).numpy() / 255).data.argmax(axis=1)
    assert (answers == digits.test.labels.numpy()).mean() >= 0.95
