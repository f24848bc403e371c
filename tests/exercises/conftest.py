"""A course of two small chapters, for what looks at all chapters at once."""

import practice
import pytest

from labkit import exercises
from labkit.exercises import Chapter, Prediction


@pytest.fixture
def two_chapters(monkeypatch) -> list[Chapter]:
    """Chapter 01 has two exercises and a prediction, chapter 02 has one exercise."""
    choices = {"float32": "The tensor's dtype wins.", "float64": "So NumPy does."}
    promotion = Prediction("promotion", "Which dtype?", "float32", choices)
    chapters = [
        Chapter("01_tensors", [practice.column_means(), practice.labels()], [promotion]),
        Chapter("02_autograd", [practice.leaf()]),
    ]
    monkeypatch.setattr(exercises, "_all_chapters", lambda: chapters)
    return chapters
