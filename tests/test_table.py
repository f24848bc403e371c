"""Tables: aligned in a terminal, escaped in a notebook."""

from xml.etree import ElementTree

import pytest

from labkit.table import Table

ROWS = [
    {"layer": "stem", "values": 1_234_567, "share": 0.123456, "trained": True},
    {"layer": "a longer name", "values": 8, "share": 12.0, "trained": False},
]


def cells(table: Table) -> list[list[str]]:
    """Return the texts of an HTML table, read by a parser that accepts no unbalanced tag."""
    return [[cell.text or "" for cell in row] for row in ElementTree.fromstring(table._repr_html_()).iter("tr")]


def sides(table: Table) -> list[list[str]]:
    rows = ElementTree.fromstring(table._repr_html_()).iter("tr")
    return [[cell.attrib["style"].removeprefix("text-align:") for cell in row] for row in rows]


def test_text_is_aligned_numbers_to_the_right() -> None:
    assert str(Table(ROWS, "Two layers")).splitlines() == [
        "Two layers",
        "layer             values   share  trained",
        "stem           1,234,567  0.1235  True",
        "a longer name          8      12  False",
    ]


def test_a_notebook_shows_the_same_cells() -> None:
    table = Table(ROWS, "Two layers")
    assert cells(table) == [
        ["layer", "values", "share", "trained"],
        ["stem", "1,234,567", "0.1235", "True"],
        ["a longer name", "8", "12", "False"],
    ]
    assert sides(table) == [["left", "right", "right", "left"]] * 3
    assert ElementTree.fromstring(table._repr_html_()).findtext("caption") == "Two layers"


def test_names_texts_and_captions_are_shown_as_they_are_written() -> None:
    hostile = "<b>&amp;\"'</b><script>"
    table = Table([{hostile: hostile}], hostile)
    assert cells(table) == [[hostile], [hostile]]
    assert ElementTree.fromstring(table._repr_html_()).findtext("caption") == hostile
    assert str(table).splitlines() == [hostile] * 3


@pytest.mark.parametrize(("caption", "text"), [("", ""), ("Nothing here", "Nothing here")])
def test_a_table_without_rows(caption: str, text: str) -> None:
    table = Table([], caption)
    assert (len(table), table.columns, str(table), cells(table)) == (0, [], text, [[]])


def test_a_row_may_give_its_values_in_another_order() -> None:
    table = Table([{"name": "a", "value": 1}, {"value": 22, "name": "b"}])
    assert str(table).splitlines() == ["name  value", "a         1", "b        22"]
    assert sides(table)[2] == ["left", "right"]


def test_a_column_with_one_text_in_it_is_a_column_of_text() -> None:
    assert str(Table([{"precision": 0.5}, {"precision": None}])).splitlines() == ["precision", "0.5", "None"]


def test_the_repr_is_the_text_and_len_counts_rows() -> None:
    table = Table(ROWS)
    assert repr(table) == str(table) and not str(table).startswith("\n") and len(table) == 2


def test_what_somebody_typed_stays_in_its_cell() -> None:
    table = Table([{"name": "Ada\n\x1b[31m<b>", "tried": 1}])
    assert str(table).splitlines() == ["name          tried", "Ada  [31m<b>      1"]
    assert cells(table)[1] == ["Ada  [31m<b>", "1"]
