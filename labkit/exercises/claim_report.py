"""What `labkit claims` says: the ledger by topic, the claims of a topic, measurements, or one claim."""

from pathlib import Path

from labkit.exercises import claims
from labkit.table import Table


def as_dict(claim_id: str, demonstrate: bool = False) -> dict:
    """Return a claim as plain values; with `demonstrate`, "evidence" says of each part whether it was measured to hold.

    Raises LabkitError for an id that the ledger does not have, and for a claim without a demonstration.
    """
    known = claims.find(claim_id)
    names = ("id", "topic", "statement", "verdict", "choice", "right_statement")
    evidence = {"evidence": known.demonstrate().parts} if demonstrate else {}
    return {name: getattr(known, name) for name in names} | evidence


def as_text(claim_id: str, demonstrate: bool = False) -> str:
    """Return a claim to read: statement, verdict, right statement and, with `demonstrate`, the evidence.

    Raises LabkitError as `as_dict` does.
    """
    known = claims.find(claim_id)
    paragraphs = [f"{known.id}  {known.statement}", f"Verdict: {known.verdict_text}.", known.right_statement]
    if demonstrate:
        paragraphs.append(str(known.demonstrate()))
    elif known.unmeasured:
        paragraphs.append(f"Judged, not measured: {known.unmeasured}")
    return "\n\n".join(paragraphs)


def coverage(root: Path, topic: str = "", demonstrate: bool = False) -> dict:
    """Return `claims.coverage`; with `demonstrate`, "measured" has the choice that each measurement comes to."""
    found = claims.coverage(root, topic)
    if demonstrate:
        found["measured"] = {row["id"]: row["measured"] for row in _measurements(topic).rows}
    return found


def table(root: Path, topic: str = "", demonstrate: bool = False) -> Table:
    """Return the measurements, if asked for; else the claims of a topic; without one, the topics with their numbers."""
    if demonstrate:
        return _measurements(topic)
    return _statements(topic) if topic else _topics(claims.taught(root))


def _measurements(topic: str) -> Table:
    rows = []
    for known in claims.all_claims(topic):
        if known.measure:
            measured = known.demonstrate().choice
            verdict = "agrees" if measured == known.choice else f"the ledger says {known.choice}"
            rows.append({"id": known.id, "measured": measured, "ledger": verdict})
    differing = sum(row["ledger"] != "agrees" for row in rows)
    return Table(rows, f"{len(rows)} claims were measured on this computer; {differing} differ from the ledger.")


def _statements(topic: str) -> Table:
    found = claims.all_claims(topic)
    return Table([{"id": known.id, "verdict": known.choice or "-", "statement": known.statement} for known in found])


def _topics(known_as_taught: set[str]) -> Table:
    rows: dict[str, dict] = {}
    for known in claims.all_claims():
        row = rows.setdefault(known.topic, {"topic": known.topic, "checkable": 0, "taught": 0, "judged": 0})
        row["checkable"] += known.is_checkable
        row["taught"] += known.is_checkable and known.id in known_as_taught
        row["judged"] += bool(known.unmeasured)
    caption = "Claims that a measurement can decide, those of them that are taught, and those judged by reasons alone."
    return Table(list(rows.values()), caption)
