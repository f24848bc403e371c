import json

import pytest

from labkit.errors import ConfigError
from labkit.training import Config


def test_defaults_are_plain_values_and_survive_json():
    config = Config()
    assert Config.from_parameters(json.loads(json.dumps(config.to_dict()))) == config


def test_a_whole_number_is_taken_for_a_float():
    assert Config(learning_rate=1).learning_rate == 1.0
    assert isinstance(Config(clip_norm=1).clip_norm, float)


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"epoch": 3}, "no setting named 'epoch'. Did you mean 'epochs'"),
        ({"xyzzy": 3}, "The settings are: accumulate, amp"),
        ({"epochs": 0}, "epochs=0 is too small"),
        ({"epochs": 2.5}, "epochs=2.5 must be a whole number, got a number"),
        ({"epochs": True}, "must be a whole number, got True or False"),
        ({"epochs": "3"}, "must be a whole number, got text"),
        ({"batch_size": 0}, "batch_size=0 is too small: it must be at least 1"),
        ({"learning_rate": -0.1}, "learning_rate=-0.1 is too small"),
        ({"learning_rate": 0.0}, "nothing would be learned"),
        ({"learning_rate": float("nan")}, "learning_rate=nan is no usable number"),
        ({"learning_rate": float("inf")}, "learning_rate=inf is no usable number"),
        ({"learning_rate": "fast"}, "must be a number, got text"),
        ({"flip": 1}, "must be True or False, got a whole number"),
        ({"name": 7}, "`-r name …` passes text"),
        ({"name": None}, r"got nothing \(None\)"),
        ({"name": "../elsewhere"}, "becomes the name of a folder"),
        ({"name": ".."}, "becomes the name of a folder"),
        ({"model": "resnet"}, "Choose one of 'mlp', 'lenet', 'cnn'"),
        ({"schedule": "cosin"}, "schedule='cosin' is not known"),
        ({"optimizer": "lion"}, "Choose one of 'sgd', 'adam', 'adamw'"),
        ({"amp": "fp8"}, "Choose one of 'off', 'bf16', 'fp16'"),
        ({"dropout": 1.0}, "below 1"),
        ({"momentum": 1.5}, "is too large"),
        ({"seed": -1}, "seed=-1 is too small"),
        ({"patience": [3]}, "must be a whole number"),
    ],
)
def test_a_wrong_setting_is_refused_with_a_sentence(parameters, sentence):
    with pytest.raises(ConfigError, match=sentence):
        Config.from_parameters(parameters)


def test_replace_checks_again():
    assert Config().replace(epochs=3).epochs == 3
    with pytest.raises(ConfigError, match="too small"):
        Config().replace(epochs=-3)
    with pytest.raises(ConfigError, match="Did you mean 'epochs'"):
        Config().replace(epochz=3)
