import pytest

from labkit.errors import LabkitError
from labkit.show.broadcasting import broadcasting


def texts(picture):
    return [text.get_text() for text in picture.figure.axes[0].texts]


def hatched(picture):
    return sum(patch.get_hatch() is not None for patch in picture.figure.axes[0].patches)


def test_stretched_boxes_are_hatched():
    picture = broadcasting((3, 1), (4,), names=("column", "row"))
    assert picture.summary == "(3, 1) and (4,) give (3, 4); stretched: (3, 1) and (4,), so 3 and 4 elements make 12."
    assert hatched(picture) == 2 + 9 + 8  # in the table, of the column, of the row
    assert picture.data == [
        {"axis": -2, "column": 3, "row": None, "result": 3},
        {"axis": -1, "column": 1, "row": 4, "result": 4},
    ]
    assert {"column", "row", "result"} <= set(texts(picture))


def test_the_result_says_which_elements_meet():
    names = texts(broadcasting((3, 1), (4,)))
    assert {f"{letter}{number}" for letter in "abc" for number in range(1, 5)} <= set(names)
    assert names.count("a") == 4 and names.count("1") == 3 + 1  # three times in the second tensor, once in the table
    assert {"a1", "b2", "f6"} <= set(texts(broadcasting((2, 3), (2, 3))))


def test_a_column_against_a_row_of_equal_length_is_told_by_its_number_of_elements():
    assert broadcasting((4, 1), (4,)).summary.endswith("so 4 and 4 elements make 16.")
    assert "make" not in broadcasting((4, 1), (4, 4)).summary


def test_the_way_out_is_said_where_a_missing_axis_is_the_cause():
    assert "With unsqueeze(-1), (3,) becomes (3, 1), and the result is (3, 2)." in texts(broadcasting((3, 2), (3,)))


def test_the_axis_that_fails_is_marked():
    picture = broadcasting((3, 2), (3,))
    assert "✗" in texts(picture) and "do not fit. On axis -1" in picture.summary
    assert picture.data[-1]["result"] is None


def test_large_shapes_have_the_table_only():
    assert hatched(broadcasting((32, 1, 28, 28), (3, 1, 1))) == 4


def test_equal_shapes_stretch_nothing():
    picture = broadcasting((2, 2), (2, 2))
    assert hatched(picture) == 0 and picture.summary.endswith("nothing is stretched.")


def test_what_cannot_be_drawn_is_a_sentence():
    with pytest.raises(LabkitError, match="cannot be drawn: give 1 to 4 shapes of at most 6 axes"):
        broadcasting((1,) * 7)
    with pytest.raises(LabkitError, match="cannot be drawn"):
        broadcasting()
    with pytest.raises(LabkitError, match="has a comma"):
        broadcasting((2,), 3)


@pytest.mark.parametrize("names", [("a", "a"), ("axis",), ("a", "result"), ("second",)])
def test_names_that_would_hide_a_column_of_the_data_are_refused(names):
    with pytest.raises(LabkitError, match="Each shape needs a name of its own"):
        broadcasting((3, 1), (4,), names=names)
