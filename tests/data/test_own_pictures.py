"""Bring your own pictures: from a folder to a trained model in ten lines, held in memory or streamed from the disk."""

from pathlib import Path

import pytest
from PIL import Image

from labkit.data import digits
from labkit.data.pictures import DataWarning

IN_MEMORY = """
from labkit import data, models, training
splits = data.load(folder)
config = training.Config(data=folder, epochs=6, device="cpu", run_dir="")
train = data.loader(splits.train, 32, shuffle=True, shift=1)
val = data.loader(splits.val, 256, statistics=train.statistics)
model = models.build("lenet", splits.train.image_shape, len(train.classes))
training.fit(model, train, val, config)
test = data.loader(splits.test, 256, statistics=train.statistics)
accuracy = training.predict(model, test).accuracy
"""

STREAMED = """
from labkit import data, models, training
pictures = data.stream(folder, size=16)["all"]
rest, test = data.split_by_group(pictures, range(len(pictures)), 0.2)  # a group for each: any split will do
config = training.Config(epochs=6, device="cpu", run_dir="")
train = data.loader(rest, 32, sampler=data.balanced(rest.labels))
model = models.build("lenet", (3, 16, 16), len(pictures.classes))
training.fit(model, train, None, config)
accuracy = training.predict(model, data.loader(test, 256)).accuracy
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write digits as files of several kinds into class folders, and one file that is no picture."""
    root = tmp_path_factory.mktemp("own") / "pictures"
    written = digits()
    for number, (image, label) in enumerate(zip(written.images[:900], written.labels.tolist(), strict=False)):
        place = root / written.classes[label]
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image[0].numpy()).resize((16, 16)).save(place / f"{number}.{('png', 'bmp', 'jpg')[number % 3]}")
    (place / "broken.jpg").write_bytes(b"no picture")
    return root


@pytest.mark.slow
@pytest.mark.parametrize("program", [IN_MEMORY, STREAMED], ids=["in memory", "streamed"])
def test_ten_lines_train_a_model_on_a_folder(program: str, folder: Path) -> None:
    assert len(program.strip().splitlines()) <= 10
    names = {"folder": str(folder)}
    with pytest.warns(DataWarning):
        exec(program, names)
    assert names["accuracy"] > 0.8
