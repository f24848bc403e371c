"""The progress of a room: where it is stuck, and on which wrong idea. Names appear only where learners gave theirs."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import shorten

from labkit import exercises
from labkit.errors import LabkitError
from labkit.exercises import progress
from labkit.exercises.overview import BEGUN, RIGHT, state
from labkit.table import Table


@dataclass(frozen=True, repr=False)
class Room:
    """What the files of a room say together.

    learners: how many files were read. exercises, predictions, claims, errors: tables, the hardest first.
    ideas: for each wrong idea in the table of exercises ("exercise, idea"), the first sentence of its explanation.
    left_out: a sentence for each file that could not be used.
    """

    learners: int
    exercises: Table
    predictions: Table
    claims: Table
    errors: Table
    ideas: dict[str, str]
    left_out: list[str]

    def to_dict(self) -> dict:
        """Return the same as plain values, for JSON."""
        tables = {name: getattr(self, name).rows for name in ("exercises", "predictions", "claims", "errors")}
        return {"learners": self.learners, **tables, "ideas": self.ideas, "left_out": self.left_out}

    def __str__(self) -> str:
        tables = [self.exercises, self.predictions, self.claims, self.errors]
        parts = [_learners(self.learners) + "."] + [str(table) for table in tables if len(table)]
        if self.ideas:
            says = [f"  {name}: {sentence}" for name, sentence in self.ideas.items()]
            parts.insert(2, "\n".join(["What these wrong ideas do:", *says]))
        parts += ["\n".join(f"Left out: {sentence}" for sentence in self.left_out)] if self.left_out else []
        return "\n\n".join(parts)

    __repr__ = __str__


def merge(paths: Iterable[Path]) -> Room:
    """Return what the progress files of a room say together; the same file named twice counts once.

    A file that cannot be used is left out and named. Raises LabkitError when none can be used.
    """
    files, left_out = [], []
    for path in dict.fromkeys(Path(path).resolve() for path in paths):
        try:
            files.append(progress.read(path))
        except LabkitError as error:
            left_out.append(str(error))
    if not files:
        raise LabkitError(" ".join(["There is no progress file to read.", *left_out]))
    table = _exercises(files)
    return Room(
        learners=len(files),
        exercises=table,
        predictions=_answers("Predictions", "prediction", _predictions(files)),
        claims=_answers("Claims", "claim", _claims(files)),
        errors=_errors(files),
        ideas=_ideas(table),
        left_out=left_out,
    )


def _exercises(files: Sequence[dict]) -> Table:
    """Return a row for each exercise that somebody began, those first on which most are stuck."""
    begun: dict[tuple[str, str], list[tuple[str, dict]]] = {}
    for file in files:
        for chapter, content in file["chapters"].items():
            for name, entry in content.get("exercises", {}).items():
                if entry.get("checks"):
                    begun.setdefault((chapter, name), []).append((file["name"], entry))
    named = any(file["name"] for file in files)
    rows = [_exercise_row(*where, learners, named) for where, learners in sorted(begun.items())]
    rows.sort(key=lambda row: (-row["stuck"], -row["tried"]))
    return Table(rows, "Exercises: who tried, and is not right yet, is stuck.")


def _exercise_row(chapter: str, name: str, learners: list[tuple[str, dict]], named: bool) -> dict:
    entries = [entry for _, entry in learners]
    stuck = [(who, entry) for who, entry in learners if state(entry) == BEGUN]
    # Each learner counts once, however often they checked; and those who found the way out do not hide the others.
    looked_at = [entry for _, entry in stuck] or entries
    ideas = Counter(idea for entry in looked_at for idea in entry.get("misconceptions", {}))
    idea, count = min(ideas.items(), key=lambda pair: (-pair[1], pair[0]), default=("", 0))
    row = {
        "chapter": chapter,
        "exercise": name,
        "tried": len(entries),
        RIGHT: sum(state(entry) == RIGHT for entry in entries),
        "stuck": len(stuck),
        "hint": sum(entry.get("hint", 0) > 0 for entry in entries),
        "solution": sum(entry.get("solution", False) for entry in entries),
        "most frequent wrong idea": idea,
        "of them": count,
    }
    return row | (
        {"stuck by name": ", ".join(sorted(shorten(who, 40, placeholder=" …") for who, _ in stuck if who))}
        if named
        else {}
    )


def _predictions(files: Sequence[dict]) -> Iterator[tuple[str, dict]]:
    for file in files:
        for chapter, content in file["chapters"].items():
            for name, answer in content.get("predictions", {}).items():
                yield f"{chapter}: {name}", answer


def _claims(files: Sequence[dict]) -> Iterator[tuple[str, dict]]:
    for file in files:
        yield from file["claims"].items()


def _answers(title: str, kind: str, answers: Iterable[tuple[str, dict]]) -> Table:
    """Return a row for each question that somebody answered: how many were right at once, and what misled most."""
    by_question: dict[str, list[dict]] = {}
    for question, answer in answers:
        by_question.setdefault(question, []).append(answer)
    rows = []
    for question, given in sorted(by_question.items()):
        wrong = Counter(answer.get("first", "") for answer in given if not answer.get("right_at_once"))
        choice, count = min(wrong.items(), key=lambda pair: (-pair[1], pair[0]), default=("", 0))
        rows.append(
            {
                kind: question,
                "answered": len(given),
                "right at once": len(given) - wrong.total(),
                "most frequent wrong answer": choice,
                "of them": count,
            }
        )
    rows.sort(key=lambda row: row["right at once"] / row["answered"])
    return Table(rows, f"{title}: the first answer of each learner.")


def _errors(files: Sequence[dict]) -> Table:
    met: Counter[tuple[str, str]] = Counter()
    learners: Counter[tuple[str, str]] = Counter()
    for file in files:
        for chapter, content in file["chapters"].items():
            for error, count in content.get("errors", {}).items():
                met[chapter, error] += count
                learners[chapter, error] += 1
    rows = [
        {"chapter": chapter, "error": error, "learners": learners[chapter, error], "times": met[chapter, error]}
        for chapter, error in sorted(met, key=lambda key: (-learners[key], -met[key], key))
    ]
    return Table(rows, "Errors that ended a cell.")


def _ideas(table: Table) -> dict[str, str]:
    """Return the first sentence of the explanation of each wrong idea in the table, where it is declared here."""
    explanations = {
        (name, exercise.name, idea.name): idea.explanation
        for name in exercises.names()
        for exercise in exercises.load(name).exercises
        for idea in exercise.misconceptions
    }
    keys = [(row["chapter"], row["exercise"], row["most frequent wrong idea"]) for row in table.rows]
    return {f"{key[1]}, {key[2]}": _first_sentence(explanations[key]) for key in keys if key in explanations}


def _first_sentence(markdown: str) -> str:
    line = markdown.strip().split("\n", 1)[0].replace("**", "")
    return line.split(". ", 1)[0].rstrip(".") + "."


def _learners(count: int) -> str:
    return f"{count} {'learner' if count == 1 else 'learners'}"
