"""Figures of pictures: which ones are shown, and what is said of them."""

import pytest
import torch

from labkit import show
from labkit.errors import DataError
from labkit.training import Predictions


def images_in(picture: show.Picture) -> list:
    return [panel.get_images()[0] for panel in picture.figure.axes if panel.get_images()]


@pytest.mark.parametrize("channels", [1, 3])
def test_samples_show_each_class_in_its_row(pictures, channels):
    picture = show.samples(pictures(channels), per_class=2)
    assert [(row["class"], row["index"]) for row in picture.data] == [
        *[("bright", 0), ("bright", 3)],
        *[("dark", 1), ("dark", 4)],
        *[("grey", 2), ("grey", 5)],
    ]
    assert len(images_in(picture)) == 6
    word = "1 channel" if channels == 1 else "3 channels"
    assert picture.summary == f"6 of the 9 pictures of test pictures, 6×6 with {word}: 3 classes, up to 2 of each."


def test_samples_of_a_class_with_fewer_pictures(pictures):
    picture = show.samples(pictures().select(torch.tensor([0, 1, 3])), per_class=2)
    assert [row["class"] for row in picture.data] == ["bright", "bright", "dark"]
    assert picture.png()


def test_grey_pictures_keep_their_brightness(pictures):
    image = images_in(show.samples(pictures(1), per_class=1))[0]
    assert image.get_clim() == (0, 255)


def test_augmented_shows_what_a_training_loader_gives(pictures):
    image_set = pictures()
    picture = show.augmented(image_set, index=1, epochs=5, flip=True, shift=2, seed=7)
    assert [row["epoch"] for row in picture.data] == [1, 2, 3, 4, 5]
    shown = images_in(picture)
    assert len(shown) == 6
    assert torch.equal(torch.as_tensor(shown[0].get_array()), image_set.images[1].permute(1, 2, 0))
    changed = [
        not torch.equal(torch.as_tensor(image.get_array()), image_set.images[1].permute(1, 2, 0)) for image in shown
    ]
    assert [row["changed"] for row in picture.data] == changed[1:]
    assert any(changed)


def test_augmented_without_augmentation_says_that_nothing_changes(pictures):
    picture = show.augmented(pictures(), epochs=3)
    assert "1 different version" in picture.summary
    assert picture.summary.endswith("0 of 3 differ from the original.")


def test_an_answer_shows_the_probability_of_every_class(pictures, predictions):
    image_set = pictures()
    picture = show.answer(image_set, predictions(image_set), 8)
    assert [row["class"] for row in picture.data] == ["bright", "dark", "grey"]
    assert sum(row["probability"] for row in picture.data) == pytest.approx(1.0, abs=1e-6)
    assert [row["truth"] for row in picture.data] == [False, False, True]
    assert picture.summary == "Picture 8 is grey; the model says bright with 99 %."
    assert picture.figure.axes[1].get_title(loc="left") == "it is grey, the model says bright (99 %)"


def test_mistakes_come_with_the_surest_first(pictures, predictions):
    image_set = pictures()
    picture = show.mistakes(image_set, predictions(image_set), count=5)
    assert [(row["index"], row["truth"], row["predicted"]) for row in picture.data] == [
        (8, "grey", "bright"),
        (4, "dark", "bright"),
    ]
    assert picture.data[0]["confidence"] > picture.data[1]["confidence"]
    assert picture.summary == "2 of 9 answers are wrong; the surest wrong answer takes grey for bright with 99 %."
    assert picture.png()


def test_no_mistake_is_said_and_drawn(pictures):
    image_set = pictures()
    right = Predictions(torch.nn.functional.one_hot(image_set.labels, 3).float(), image_set.labels, image_set.classes)
    picture = show.mistakes(image_set, right)
    assert picture.data == []
    assert picture.summary == "0 of 9 answers are wrong."
    assert picture.png()


def test_predictions_of_other_pictures_are_refused(pictures, predictions):
    image_set = pictures()
    with pytest.raises(DataError, match="does not shuffle"):
        show.mistakes(image_set.select(torch.arange(8, -1, -1)), predictions(image_set))
    with pytest.raises(DataError, match="9 answers"):
        show.answer(image_set.select(torch.arange(4)), predictions(image_set), 0)
