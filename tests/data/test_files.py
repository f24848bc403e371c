"""A directory and a tar archive look alike, and neither can lead astray."""

import io
import os
import sys
import tarfile
from pathlib import Path

import pytest

from labkit.data.files import Directory, TarArchive, tidy
from labkit.errors import DataError

TREE = {"b/2.txt": b"two", "b/1.txt": b"one", "a b/é.txt": "ä".encode(), "top.txt": b"", "b/deep/er/3.txt": b"3" * 5000}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name, content in TREE.items():
        (tmp_path / "tree" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "tree" / name).write_bytes(content)
    return tmp_path / "tree"


def packed(path: Path, members: list[tuple[tarfile.TarInfo | str, bytes]], mode: str = "w") -> Path:
    with tarfile.open(path, mode) as archive:
        for member, content in members:
            member = tarfile.TarInfo(member) if isinstance(member, str) else member
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


def test_a_directory(tree: Path) -> None:
    files = Directory(tree)
    assert files.names == sorted(TREE)
    assert set(files.folders) == {"a b", "b", "b/deep", "b/deep/er"}
    assert dict(files.contents(files.names)) == TREE and files.notes == []


@pytest.mark.parametrize(("ending", "mode"), [(".tar", "w"), (".tar.gz", "w:gz"), (".tgz", "w:gz")])
@pytest.mark.parametrize("top", [".", ""])
def test_a_tar_of_it_gives_the_same(tree: Path, tmp_path: Path, ending: str, mode: str, top: str) -> None:
    path = tmp_path / f"tree{ending}"
    with tarfile.open(path, mode) as archive:
        archive.add(tree, arcname=top)
    files, directory = TarArchive(path), Directory(tree)
    assert files.names == directory.names and sorted(files.folders) == sorted([*directory.folders, ""])
    assert dict(files.contents(files.names)) == TREE
    assert dict(files.contents(["b/1.txt"])) == {"b/1.txt": b"one"}


def test_contents_come_in_the_order_in_which_they_lie(tmp_path: Path) -> None:
    path = packed(tmp_path / "unsorted.tar.gz", [("c", b"1"), ("a", b"2"), ("b", b"3")], "w:gz")
    files = TarArchive(path)
    assert files.names == ["a", "b", "c"]
    assert list(files.contents(files.names)) == [("c", b"1"), ("a", b"2"), ("b", b"3")]


def test_a_name_that_comes_twice_counts_once_as_when_unpacking(tmp_path: Path) -> None:
    files = TarArchive(packed(tmp_path / "twice.tar", [("a", b"old"), ("b", b"b"), ("./a", b"new")]))
    assert files.names == ["a", "b"] and dict(files.contents(["a"])) == {"a": b"new"}


@pytest.mark.parametrize(
    "name",
    ["/etc/passwd", "../up.png", "a/../../up.png", "..", "C:\\x.png", "c:/x.png", "\\\\host\\x.png", "a\\..\\x.png"],
)
def test_names_that_lead_out_are_refused(tmp_path: Path, name: str) -> None:
    path = packed(tmp_path / "escape.tar", [("cat/1.png", b"fine"), (name, b"evil")])
    with pytest.raises(DataError, match="leads out of the archive"):
        TarArchive(path)


def test_harmless_dots_are_not_refused(tmp_path: Path) -> None:
    names = ["a..b/c..png", "...x/y", "b/..hidden"]
    assert TarArchive(packed(tmp_path / "dots.tar", [(name, b"") for name in names])).names == sorted(names)


def test_links_and_devices_in_an_archive_are_left_out_with_a_note(tmp_path: Path) -> None:
    odd = []
    for name, kind in [("soft", tarfile.SYMTYPE), ("hard", tarfile.LNKTYPE), ("pipe", tarfile.FIFOTYPE)]:
        member = tarfile.TarInfo(name)
        member.type, member.linkname = kind, "/etc/passwd"
        odd.append((member, b""))
    files = TarArchive(packed(tmp_path / "links.tar", [("plain", b"x"), *odd]))
    assert files.names == ["plain"]
    assert files.notes == [
        f"{name} is a link or a device, not a file, and was left out." for name in ("soft", "hard", "pipe")
    ]


@pytest.mark.parametrize("ending", [".tar", ".tar.gz"])
@pytest.mark.parametrize("share", [0.0, 0.2, 0.5, 0.8])
def test_archives_that_were_cut_off_are_refused(tmp_path: Path, ending: str, share: float) -> None:
    members = [(f"cat/{number}.bin", os.urandom(700)) for number in range(40)]
    path = packed(tmp_path / f"whole{ending}", members, "w:gz" if ending.endswith("gz") else "w")
    content = path.read_bytes()
    cut = tmp_path / f"cut{ending}"
    cut.write_bytes(content[: int(len(content) * share)])
    with pytest.raises(DataError, match="cannot be read as a tar archive"):
        TarArchive(cut)


@pytest.mark.parametrize("cut", [3 * 1536, 3 * 1536 + 100])
def test_a_cut_between_two_members_is_noticed_too(tmp_path: Path, cut: int) -> None:
    path = packed(tmp_path / "whole.tar", [(f"{number}", bytes(700)) for number in range(9)])  # 512 + 1024 bytes each
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(DataError, match="stops before its end mark"):
        TarArchive(path)


def test_a_damaged_header_in_the_middle_is_noticed(tmp_path: Path) -> None:
    path = packed(tmp_path / "whole.tar", [(f"{number}", bytes(700)) for number in range(9)])
    content = bytearray(path.read_bytes())
    content[3 * 1536 + 5] ^= 0xFF
    path.write_bytes(content)
    with pytest.raises(DataError, match="cannot be read as a tar archive"):
        TarArchive(path)


@pytest.mark.parametrize("content", [b"", b"plain words", b"\x1f\x8bnot really gzip", bytes(300)])
def test_what_only_calls_itself_an_archive_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "fake.tar.gz"
    path.write_bytes(content)
    with pytest.raises(DataError, match="cannot be read as a tar archive") as caught:
        TarArchive(path)
    assert "\n" not in str(caught.value)


@pytest.mark.skipif(sys.platform == "win32", reason="links need special rights on Windows")
def test_links_in_a_directory_are_followed_but_not_in_circles(tree: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "far.txt").write_bytes(b"far")
    (tree / "linked").symlink_to(elsewhere)
    (tree / "b" / "loop").symlink_to(tree)
    (tree / "broken.txt").symlink_to(tmp_path / "nowhere")
    files = Directory(tree)
    assert files.names == sorted([*TREE, "linked/far.txt"])
    assert files.notes == ["broken.txt is a link or a device, not a file, and was left out."]


def test_a_file_that_vanishes_gives_its_error_in_place(tree: Path) -> None:
    files = Directory(tree)
    (tree / "b" / "1.txt").unlink()
    contents = dict(files.contents(["b/1.txt", "b/2.txt"]))
    assert isinstance(contents["b/1.txt"], FileNotFoundError) and contents["b/2.txt"] == b"two"


def test_names_are_tidied() -> None:
    assert tidy("./a//b/./c.png") == "a/b/c.png"
    assert tidy("e\u0301") == "é"
    assert tidy("bad\udcff") == "bad\\udcff" != tidy("bad\udcfe"), "two names must not become one"
    assert tidy("a\nb/\x1b[31mred") == "a\\x0ab/\\x1b[31mred", "a name from an archive must not steer the terminal"


@pytest.mark.skipif(os.name == "nt" or sys.platform == "darwin", reason="these systems allow no such names")
def test_names_that_are_no_text_or_spelt_twice_are_all_accounted_for(tmp_path: Path) -> None:
    for name in (b"\x80.png", b"\x81.png", "é.png".encode(), "e\u0301.png".encode()):
        with open(os.fsencode(tmp_path) + b"/" + name, "wb") as file:
            file.write(name)
    files = Directory(tmp_path)
    assert files.names == ["\\udc80.png", "\\udc81.png", "é.png"]
    assert dict(files.contents(files.names[:2])) == {"\\udc80.png": b"\x80.png", "\\udc81.png": b"\x81.png"}
    assert len(files.notes) == 1 and "é.png is there twice" in files.notes[0]


def test_a_file_too_large_for_a_picture_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("labkit.data.files.LARGEST_FILE", 10)
    (tmp_path / "some").mkdir()
    (tmp_path / "some" / "a").write_bytes(bytes(10))
    (tmp_path / "some" / "b").write_bytes(bytes(11))
    archive = packed(tmp_path / "some.tar", [("a", bytes(10)), ("b", bytes(11))])
    for files in (Directory(tmp_path / "some"), TarArchive(archive)):
        contents = dict(files.contents(["a", "b"]))
        assert contents["a"] == bytes(10) and "too many for a picture" in contents["b"].strerror
