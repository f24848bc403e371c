import json

import numpy
import pytest
import torch

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
        ({"seed": 2**63}, "seed is beyond what a computer counts with"),
        ({"epochs": 10**400}, "epochs is beyond"),
        ({"clip_norm": 10**400}, "clip_norm is beyond"),
        ({"learning_rate": 1e-320}, "learning_rate=1e-320 cannot be computed with"),
        ({"learning_rate": 1e39}, r"learning_rate=1e\+39 cannot be computed with"),
        ({"weight_decay": 1e39}, "in float32 it becomes 0 or infinite"),
        ({"momentum": 1}, "momentum must be below 1"),
        ({"num_workers": 10_000}, "num_workers=10000 is too large"),
        ({"learning_rate": 1j}, "must be a number, got complex"),
        ({"flip": numpy.bool_(True)}, "must be True or False"),
        ({"name": " "}, "dots and spaces at the ends"),
        ({"name": "mine."}, "dots and spaces at the ends"),
        ({"name": "a\nb"}, "cannot be printed"),
        ({"name": "a\udcff"}, "cannot be printed"),
        ({"name": "x" * 300}, "at most 200 letters"),
    ],
)
def test_a_wrong_setting_is_refused_with_a_sentence(parameters, sentence):
    with pytest.raises(ConfigError, match=sentence):
        Config.from_parameters(parameters)


@pytest.mark.parametrize("parameters", [None, 3, [], "digits"])
def test_settings_must_be_a_dict(parameters):
    with pytest.raises(ConfigError, match="Settings are a dict of names and values, got"):
        Config.from_parameters(parameters)


def test_numbers_of_numpy_become_plain_so_that_a_checkpoint_can_hold_them(tmp_path):
    rate, epochs, name = numpy.logspace(-3, -1, 3)[0], numpy.int64(3), numpy.str_("mine")
    config = Config(learning_rate=rate, clip_norm=numpy.float32(0.5), epochs=epochs, name=name)
    values = [config.learning_rate, config.clip_norm, config.epochs, config.name]
    assert values == [0.001, 0.5, 3, "mine"] and [type(value) for value in values] == [float, float, int, str]
    torch.save(config.to_dict(), tmp_path / "config.pt")
    assert torch.load(tmp_path / "config.pt", weights_only=True) == config.to_dict()


def test_replace_checks_again():
    assert Config().replace(epochs=3).epochs == 3
    with pytest.raises(ConfigError, match="too small"):
        Config().replace(epochs=-3)
    with pytest.raises(ConfigError, match="Did you mean 'epochs'"):
        Config().replace(epochz=3)
