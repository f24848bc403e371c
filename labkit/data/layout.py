"""Where in a tree of names the parts (train, val, test) and the classes are: names in, an arrangement out."""

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass, field

from labkit.errors import DataError

WANTED = """
    pictures/                   pictures/
        cat/                        train/
            tom.jpg       or            cat/tom.jpg
        dog/                            dog/rex.jpg
            rex.jpg                 test/
                                        cat/kit.jpg"""
PART_WORDS = {
    "train": "train",
    "training": "train",
    "val": "val",
    "valid": "val",
    "validation": "val",
    "test": "test",
    "testing": "test",
}
EXTENSIONS = (".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff")
CLUTTER = ("thumbs.db", "desktop.ini", "__macosx")  # what Windows and macOS leave behind, besides hidden files


@dataclass
class Part:
    """The pictures of one part of the data: the name of each file, its class, and notes for people."""

    names: list[str] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def arrange(names: Collection[str], folders: Collection[str], title: str) -> tuple[dict[str, Part], tuple[str, ...]]:
    """Return ({"all": Part} or {"train": Part, …}, the class names) of a tree of files.

    names: every file, as "folder/folder/file".   folders: every folder (an empty one is an error worth telling).
    title: what to call the whole in a message.   Raises DataError when the tree is not laid out as WANTED.
    """
    names = [name for name in names if not _is_clutter(name)]
    folders = {folder for folder in folders if not _is_clutter(folder)} | _parents(names)
    pictures = [name for name in names if _extension(name) in EXTENSIONS]
    if not pictures:
        endings = sorted({_extension(name) for name in names})
        found = f" (its files end in {', '.join(endings[:8])})" if endings else ""
        raise DataError(f"{title}: there are no pictures{found}. Wanted are folders with pictures:{WANTED}")
    root = _inside_wrappers(pictures, folders)
    parts = {}
    for key, prefix in _part_folders(_children(folders, root), root, title).items():
        parts[key] = _part(prefix, pictures, names, _children(folders, prefix), title)
    classes = _classes(parts, title)
    next(iter(parts.values())).notes += _left_out(names, set(pictures), parts)
    return parts, classes


def _part(prefix: str, pictures: list[str], names: list[str], class_folders: list[str], title: str) -> Part:
    """Gather the pictures that lie below the class folders of one part."""
    by_class, loose = defaultdict(list), []
    for name in pictures:
        if name.startswith(prefix):
            label, _, below = name.removeprefix(prefix).partition("/")
            (by_class[label] if below else loose).append(name)
    if not by_class:
        where = f"{title}, folder {prefix.removesuffix('/')!r}" if prefix else title
        found = f"the pictures lie in no class folder (such as {loose[0]!r})" if loose else "there are no pictures"
        raise DataError(f"{where}: {found}. Put the pictures of each class into a folder of their own:{WANTED}")
    part = Part()
    for label in class_folders:
        if label not in by_class:
            raise DataError(_empty_class(f"{prefix}{label}/", names, title))
        part.names += by_class[label]
        part.labels += [label] * len(by_class[label])
    return part


def _part_folders(tops: list[str], root: str, title: str) -> dict[str, str]:
    """Return the folder of each part: {"train": "train/", …}, or {"all": root} when there are only classes."""
    words = [top for top in tops if top.casefold() in PART_WORDS]
    if not words:
        return {"all": root}
    others = [top for top in tops if top not in words]
    if others:
        raise DataError(
            f"{title}: folder {words[0]!r} names a part of the data, but {others[0]!r} beside it does not. Take "
            f"{others[0]!r} away; or, if {words[0]!r} is a class, give it another name."
        )
    found = {}
    for word in words:
        key = PART_WORDS[word.casefold()]
        if key in found:
            raise DataError(f"{title}: {found[key]!r} and {root + word!r} are both the {key} part. Keep one of them.")
        found[key] = root + word
    return {key: found[key] + "/" for key in ("train", "val", "test") if key in found}


def _classes(parts: dict[str, Part], title: str) -> tuple[str, ...]:
    """Return the class names of the first part, in order, after making sure that they serve for every part."""
    first_key, first = next(iter(parts.items()))
    classes = tuple(sorted(set(first.labels)))
    if len(classes) < 2:
        raise DataError(
            f"{title}: there is one class only, {classes[0]!r}, so there is nothing to tell apart. "
            f"Every class needs a folder of its own:{WANTED}"
        )
    for key, part in parts.items():
        unknown = sorted(set(part.labels) - set(classes))
        if unknown:
            raise DataError(
                f"{title}: the {key} part has a class {unknown[0]!r} that the {first_key} part lacks, so it cannot "
                f"be learned. Is it spelt differently? {first_key} has {', '.join(map(repr, classes[:10]))}."
            )
    return classes


def _inside_wrappers(pictures: list[str], folders: set[str]) -> str:
    """Return the prefix of the folder that holds the parts or classes, below folders that only wrap the whole."""
    root = ""
    while True:
        inside = _children(folders, root)
        loose = any("/" not in name.removeprefix(root) for name in pictures)
        if loose or len(inside) != 1 or inside[0].casefold() in PART_WORDS:
            return root
        if not _children(folders, f"{root}{inside[0]}/"):  # a folder that holds files only: a lonely class
            return root
        root += inside[0] + "/"


def _empty_class(prefix: str, names: list[str], title: str) -> str:
    others = sorted({_extension(name) for name in names if name.startswith(prefix)})
    found = f"; its files end in {', '.join(others)}" if others else ""
    return (
        f"{title}: the class folder {prefix.removesuffix('/')!r} holds no picture{found}. "
        f"Put pictures ({', '.join(EXTENSIONS[:6])}, …) into it, or take it away."
    )


def _left_out(names: list[str], pictures: set[str], parts: dict[str, Part]) -> list[str]:
    """Return notes about the pictures that belong to no class, and about the files that are no pictures."""
    used = {name for part in parts.values() for name in part.names}
    notes = [f"left out {name}: it lies in no class folder" for name in names if name in pictures and name not in used]
    others = [name for name in names if name not in pictures]
    if others:
        endings = ", ".join(sorted({_extension(name) for name in others}))
        notes.append(f"left out what does not end like a picture: {len(others)} files ({endings}), such as {others[0]}")
    return notes


def _children(folders: Collection[str], prefix: str) -> list[str]:
    """Return the names of the folders directly below a prefix such as "" or "train/"."""
    inside = (folder.removeprefix(prefix) for folder in folders if folder.startswith(prefix))
    return sorted(folder for folder in inside if folder and "/" not in folder)


def _parents(names: Collection[str]) -> set[str]:
    """Return every folder that a name runs through."""
    folders = {name.rpartition("/")[0] for name in names}
    for folder in list(folders):
        while folder := folder.rpartition("/")[0]:
            folders.add(folder)
    return folders - {""}


def _extension(name: str) -> str:
    stem, dot, ending = name.rpartition("/")[2].rpartition(".")
    return f".{ending.lower()}" if stem and dot else "no extension"


def _is_clutter(name: str) -> bool:
    return any(part.startswith(".") or part.lower() in CLUTTER for part in name.split("/"))
