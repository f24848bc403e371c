"""Where the parts and classes are, found in names alone."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labkit.data.layout import arrange
from labkit.errors import DataError

CLASSES = ["cat/a.jpg", "cat/b.PNG", "dog/c.jpeg"]


def keys_and_classes(names: list[str], folders: tuple[str, ...] = ()) -> tuple[list[str], tuple[str, ...]]:
    parts, classes = arrange(sorted(names), folders, "pictures")
    return list(parts), classes


def below(prefix: str, names: list[str] = CLASSES) -> list[str]:
    return [f"{prefix}/{name}" for name in names]


def test_class_folders() -> None:
    parts, classes = arrange(CLASSES, (), "pictures")
    assert classes == ("cat", "dog")
    assert parts["all"].names == CLASSES and parts["all"].labels == ["cat", "cat", "dog"]
    assert parts["all"].notes == []


@pytest.mark.parametrize(
    ("folders", "keys"),
    [
        (["train", "test"], ["train", "test"]),
        (["Training", "Validation", "TESTING"], ["train", "val", "test"]),
        (["train", "valid"], ["train", "val"]),
        (["train"], ["train"]),
    ],
)
def test_part_folders(folders: list[str], keys: list[str]) -> None:
    assert keys_and_classes([name for part in folders for name in below(part)]) == (keys, ("cat", "dog"))


def test_wrapping_folders_are_seen_through() -> None:
    assert keys_and_classes(below("archive")) == (["all"], ("cat", "dog"))
    assert keys_and_classes(below("a/b/train") + below("a/b/test")) == (["train", "test"], ("cat", "dog"))
    assert keys_and_classes([*below("archive"), "README.md"])[0] == ["all"]


def test_folders_inside_a_class_belong_to_it() -> None:
    parts, classes = arrange(["cat/black/1.png", "cat/2.png", "dog/3.png"], (), "pictures")
    assert classes == ("cat", "dog") and sorted(parts["all"].labels) == ["cat", "cat", "dog"]


def test_clutter_is_ignored_without_a_word() -> None:
    clutter = [".DS_Store", "cat/.DS_Store", "cat/._a.jpg", "dog/Thumbs.db", "__MACOSX/cat/._a.jpg", ".git/x/y.png"]
    parts, classes = arrange(CLASSES + clutter, (".ipynb_checkpoints",), "pictures")
    assert classes == ("cat", "dog") and parts["all"].names == CLASSES and parts["all"].notes == []


def test_what_is_left_out_is_noted() -> None:
    names = [*below("train"), *below("test"), "labels.csv", "train/cat/info.txt", "overview.png", "test/stray.jpg"]
    parts, _ = arrange(sorted(names), (), "pictures")
    assert parts["train"].notes == [
        "left out overview.png: it lies in no class folder",
        "left out test/stray.jpg: it lies in no class folder",
        "left out what does not end like a picture: 2 files (.csv, .txt), such as labels.csv",
    ]


@pytest.mark.parametrize(
    ("names", "folders", "message"),
    [
        ([], (), "there are no pictures"),
        (["notes.txt"], (), "there are no pictures"),
        (["a.jpg", "b.jpg"], (), "the pictures lie in no class folder (such as 'a.jpg')"),
        (["train/a.jpg", "test/b.jpg"], (), "folder 'train': the pictures lie in no class folder"),
        ([*below("train"), "test/1.jpg"], (), "folder 'test': the pictures lie in no class folder"),
        (["cat/a.jpg"], (), "one class only, 'cat'"),
        (["train/cat/a.jpg", "test/cat/a.jpg"], (), "one class only, 'cat'"),
        (CLASSES, ("horse",), "class folder 'horse' holds no picture"),
        ([*CLASSES, "horse/1.heic"], (), "class folder 'horse' holds no picture; its files end in .heic"),
        ([*below("train"), "test/horse/1.png"], (), "test part has a class 'horse' that the train part lacks"),
        ([*below("train"), *below("raw")], (), "'train' names a part of the data, but 'raw' beside it does not"),
        ([*below("val"), *below("Valid")], (), "'Valid' and 'val' are both the val part"),
    ],
)
def test_trees_that_cannot_be_used(names: list[str], folders: tuple[str, ...], message: str) -> None:
    with pytest.raises(DataError, match=r"^pictures") as caught:
        arrange(sorted(names), folders, "pictures")
    assert message in str(caught.value)


def test_the_wanted_layout_is_drawn_when_pictures_lie_loose() -> None:
    with pytest.raises(DataError) as caught:
        arrange(["a.jpg"], (), "pictures")
    assert "rex.jpg" in str(caught.value) and "train/\n" in str(caught.value)


FOLDER = st.sampled_from(["train", "test", "val", "cat", "dog", "archive", "ä_b", ".hidden", "x"])
FILE = st.sampled_from(["1.jpg", "2.PNG", "3.txt", "Thumbs.db", "noext", ".DS_Store"])
PATH = st.builds(lambda folders, file: "/".join([*folders, file]), st.lists(FOLDER, max_size=4), FILE)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(names=st.lists(PATH, unique=True, max_size=14), folders=st.lists(FOLDER, unique=True, max_size=3))
def test_any_tree_is_arranged_or_refused_with_a_sentence(names: list[str], folders: list[str]) -> None:
    try:
        parts, classes = arrange(sorted(names), folders, "pictures")
    except DataError:
        return
    assert len(classes) >= 2 and set(parts) <= {"all", "train", "val", "test"}
    used = [name for part in parts.values() for name in part.names]
    assert len(used) == len(set(used)) and set(used) <= set(names)
    visible = {name for name in names if name.endswith((".jpg", ".PNG")) and ".hidden" not in name}
    noted = {note.split(" ")[2].rstrip(":") for part in parts.values() for note in part.notes if "class folder" in note}
    assert set(used) | noted == visible, "a picture was neither used nor noted"
