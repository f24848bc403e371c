"""Progress beside the exercises that there are: which are right, which are begun, and what comes next."""

from labkit import exercises
from labkit.exercises.progress import place
from labkit.table import Table

RIGHT, BEGUN, WAITING = "right", "not right yet", "not tried"


def state(entry: dict) -> str:
    """Return the state of an exercise from its entry in the progress: right once stays right."""
    checks = entry.get("checks", {})
    return RIGHT if "right" in checks else BEGUN if checks else WAITING


def exercise_rows(progress: dict) -> list[dict]:
    """Return one row for each exercise of the course, in order: chapter, exercise, state, checks, hint, solution."""
    rows = []
    for chapter in exercises.names():
        entries = progress["chapters"].get(chapter, {}).get("exercises", {})
        for exercise in exercises.load(chapter).exercises:
            entry = entries.get(exercise.name, {})
            rows.append(
                {
                    "chapter": chapter,
                    "exercise": exercise.name,
                    "state": state(entry),
                    "checks": sum(entry.get("checks", {}).values()),
                    "hint": entry.get("hint", 0),
                    "solution": entry.get("solution", False),
                }
            )
    return rows


def chapter_table(progress: dict) -> Table:
    """Return one row for each chapter with exercises: how many are right and begun, and what it took."""
    every, rows = exercise_rows(progress), []
    for name in exercises.names():
        own = [row for row in every if row["chapter"] == name]
        chapter = progress["chapters"].get(name, {})
        predictions = [answer.get("right_at_once", False) for answer in chapter.get("predictions", {}).values()]
        rows.append(
            {
                "chapter": name,
                "exercises": len(own),
                RIGHT: sum(row["state"] == RIGHT for row in own),
                BEGUN: sum(row["state"] == BEGUN for row in own),
                "with a hint": sum(row["hint"] > 0 for row in own),
                "solution seen": sum(row["solution"] for row in own),
                "predicted rightly": f"{sum(predictions)} of {len(predictions)}",
                "errors met": sum(chapter.get("errors", {}).values()),
            }
        )
    return Table(rows, summary(progress))


def report(progress: dict) -> str:
    """Return the progress as text: a line for each chapter, the claims, and where it is kept."""
    kept = place()
    where = "Nothing is recorded: LABKIT_PROGRESS is off." if kept is None else f"Kept in {kept}"
    return "\n\n".join([str(chapter_table(progress)), claims_sentence(progress), where])


def summary(progress: dict) -> str:
    """Return one or two sentences: how far the learner is, and which exercise is next."""
    rows = exercise_rows(progress)
    if all(row["state"] == WAITING for row in rows):
        first = f"; the first is {rows[0]['exercise']} in {rows[0]['chapter']}" if rows else ""
        return f"Nothing tried yet: {_exercises(len(rows))} to come{first}."
    right = sum(row["state"] == RIGHT for row in rows)
    if right == len(rows):
        return f"All {_exercises(len(rows))} are right."
    begun = [row for row in rows if row["state"] == BEGUN]
    following = (begun or [row for row in rows if row["state"] == WAITING])[0]
    return (
        f"{right} of {_exercises(len(rows))} right, {len(begun)} begun. "
        f"Next: {following['exercise']} in {following['chapter']}."
    )


def claims_sentence(progress: dict) -> str:
    """Return a sentence about the claims that were answered."""
    answers = progress["claims"].values()
    right = sum(answer.get("is_right", False) for answer in answers)
    return f"Claims: {len(answers)} answered, {right} of them rightly." if answers else "Claims: none answered yet."


def _exercises(count: int) -> str:
    return f"{count} {'exercise' if count == 1 else 'exercises'}"
