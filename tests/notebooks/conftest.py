"""The chapters, for tests that hold for each of them."""

from pathlib import Path

import papermill
import pytest

from labkit.course import places

CHAPTERS = places.chapters(Path(__file__).resolve().parents[2])


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test that asks for `chapter` once for each chapter."""
    if "chapter" in metafunc.fixturenames:
        metafunc.parametrize("chapter", CHAPTERS, ids=[chapter.name for chapter in CHAPTERS])


@pytest.fixture
def chapters() -> list[places.Chapter]:
    """All chapters, in order."""
    return CHAPTERS


@pytest.fixture
def declared(chapter: places.Chapter) -> dict[str, dict]:
    """The parameters of the chapter as papermill reads them: name, inferred_type_name, default, help."""
    return papermill.inspect_notebook(chapter.notebook)
