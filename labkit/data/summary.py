"""What `labkit data` says: which data sets there are, and what one of them holds."""

from labkit.data.images import ImageSet
from labkit.data.sources import SOURCES, cached
from labkit.data.splits import Splits, load
from labkit.table import Table


def list_sources() -> Table:
    """Return the data sets that have a name, and whether they are on this disk."""
    rows = [
        {"name": name, "what": source.description, "size": source.size, "on this disk": _where(name, source.megabytes)}
        for name, source in SOURCES.items()
    ]
    return Table(rows, "Data sets by name. The path of a folder or .tar of pictures is good as well.")


def _where(name: str, megabytes: int) -> str:
    if cached(name) is None:
        return f"no; {megabytes} MB to download"
    return "yes" if megabytes else "yes, installed with labkit"


def describe(name_or_path: str) -> dict:
    """Load a data set and describe it as plain data.

    Keys: name, image_shape (C, H, W), classes, parts (for each its pictures, its counts by class, its fingerprint),
    mean and deviation of the training pixels by channel (for pixels scaled to 0..1), notes. Raises DataError as `load`.
    """
    splits = load(name_or_path)
    mean, deviation = splits.train.statistics()
    return {
        "name": name_or_path,
        "image_shape": list(splits.train.image_shape),
        "classes": list(splits.train.classes),
        "parts": {part: _describe_part(images) for part, images in _parts(splits).items()},
        "mean": mean.tolist(),
        "deviation": deviation.tolist(),
        "notes": list(dict.fromkeys(note for images in _parts(splits).values() for note in images.notes)),
    }


def _parts(splits: Splits) -> dict[str, ImageSet]:
    return {"train": splits.train, "val": splits.val, "test": splits.test}


def _describe_part(images: ImageSet) -> dict:
    return {"pictures": len(images), "counts": images.counts().tolist(), "fingerprint": images.fingerprint()}


def as_text(description: dict) -> str:
    """Return a description for people: a table of the classes, then what holds for all."""
    parts = description["parts"]
    rows = [
        {"class": name, **{part: facts["counts"][index] for part, facts in parts.items()}}
        for index, name in enumerate(description["classes"])
    ]
    rows.append({"class": "all", **{part: facts["pictures"] for part, facts in parts.items()}})
    shape = "×".join(map(str, description["image_shape"]))
    lines = [
        str(Table(rows, f"{description['name']}: pictures of {shape} in {len(description['classes'])} classes")),
        "",
        f"pixels of train, from 0 to 1: mean {_rounded(description['mean'])}",
        f"                         deviation {_rounded(description['deviation'])}",
        *(f"fingerprint of {part}: {facts['fingerprint'][:16]}" for part, facts in parts.items()),
        *(f"note: {note}" for note in description["notes"]),
    ]
    return "\n".join(lines)


def _rounded(values: list[float]) -> str:
    return " ".join(f"{value:.3f}" for value in values)
