"""The chapters, for tests that hold for each of them."""

from pathlib import Path

import papermill
import pytest

from labkit.course import expansion, places

CHAPTERS = places.chapters(Path(__file__).resolve().parents[2])


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test that asks for `chapter` once for each chapter, unless it or its module says which.

    Where a module calls itself FAST_FOR a chapter, its tests are slow for all others.
    """
    chosen = any(mark.args[0] == "chapter" for mark in metafunc.definition.iter_markers("parametrize"))
    if "chapter" in metafunc.fixturenames and not chosen and not hasattr(metafunc.module, "chapter"):
        fast = getattr(metafunc.module, "FAST_FOR", None)
        for_each = [
            pytest.param(chapter, id=chapter.name, marks=[] if fast in (None, chapter.name) else pytest.mark.slow)
            for chapter in CHAPTERS
        ]
        metafunc.parametrize("chapter", for_each)


@pytest.fixture
def chapters() -> list[places.Chapter]:
    """All chapters, in order."""
    return CHAPTERS


@pytest.fixture(scope="session")
def with_exercises() -> list[places.Chapter]:
    """The chapters that have exercises."""
    found = [chapter for chapter in CHAPTERS if expansion.declared(chapter)]
    assert found
    return found


@pytest.fixture
def declared(chapter: places.Chapter) -> dict[str, dict]:
    """The parameters of the chapter as papermill reads them: name, inferred_type_name, default, help."""
    return papermill.inspect_notebook(chapter.notebook)
