"""Data of the size of CIFAR-10 are held once, as uint8, however long a training goes on."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import ctypes, gc, json, torch
from labkit.data import ImageSet, loader
from labkit.models import build
from labkit.training import Config, fit

def resident():
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim:
        trim(0)  # memory that is free, but not yet handed back to the system, holds nothing
    for line in open("/proc/self/status", encoding="ascii"):
        if line.startswith("VmRSS"):
            return int(line.split()[1]) * 1024 / 1e6

SETTINGS = Config(epochs=1, model="mlp", batch_size=512, run_dir="", device="cpu", optimizer="sgd")
def make(count):
    source = torch.Generator().manual_seed(0)
    images = torch.empty(count, 3, 32, 32, dtype=torch.uint8)
    for chunk in images.split(1000):
        chunk.random_(0, 256, generator=source)
    return ImageSet(images, torch.arange(count) % 10, tuple("abcdefghij"), "noise")

def train(images, epochs):
    model = build("mlp", (3, 32, 32), 10)
    batches = loader(images, 512, shuffle=True, flip=True, shift=4, cutout=8)
    fit(model, batches, None, SETTINGS.replace(epochs=epochs))

train(make(2000), 2)  # everything is imported, warm, and allocated once
baseline = resident()
images = make(50_000)
seen = []
for epochs in (1, 3):
    train(images, epochs)
    seen.append(resident() - baseline)
print(json.dumps(seen))
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="resident memory is read from Linux's /proc")
def test_fifty_thousand_pictures_cost_at_most_160_megabytes():
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    child = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, env=environment)
    after_one, after_four = json.loads(child.stdout.splitlines()[-1])
    pixels = 50_000 * 3 * 32 * 32 / 1e6
    assert pixels * 0.9 < after_one <= 160, "megabytes above the baseline after one epoch"
    assert after_four <= 160, "megabytes above the baseline after four epochs"
