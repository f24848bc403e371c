"""Every kind of place in a checkpoint: whatever is damaged is noticed, nothing in it is run, the one before is used."""

import io
import os
import pickle
import zipfile

import pytest
import torch

from labkit.runs import checkpoint

SIGNATURE = len(b"\nlabkit-sha256:") + 64


@pytest.fixture
def saved(tmp_path):
    """Two checkpoints, one after the other: the path of the newest and its bytes."""
    path = tmp_path / "last.pt"
    for number in (1, 2):
        checkpoint.save(path, {"weights": {"layer.weight": torch.full((40, 50), float(number))}, "epoch": number})
    return path, path.read_bytes()


def places(content: bytes) -> dict[str, list[int]]:
    """Return positions in the file by what is there."""
    payload = content[:-SIGNATURE]
    archive = zipfile.ZipFile(io.BytesIO(payload))
    found = {"header of the archive": list(range(0, 30))}
    for info in archive.infolist():
        length = int.from_bytes(payload[info.header_offset + 26 : info.header_offset + 28], "little")
        extra = int.from_bytes(payload[info.header_offset + 28 : info.header_offset + 30], "little")
        start = info.header_offset + 30 + length + extra
        kind = {"data.pkl": "pickle", "0": "numbers of a tensor"}.get(info.filename.rpartition("/")[2], "small parts")
        found.setdefault(f"header of {kind}", []).extend(range(info.header_offset, info.header_offset + 30 + length))
        found.setdefault(f"padding before {kind}", []).extend(range(start - extra, start))
        found.setdefault(kind, []).extend(range(start, start + info.file_size))
    end = len(payload) - 22
    found["directory of the archive"] = list(range(archive.start_dir, end))
    found["end of the archive"] = list(range(end, len(payload)))
    found["mark"] = list(range(len(payload), len(payload) + SIGNATURE - 64))
    found["checksum"] = list(range(len(content) - 64, len(content)))
    return found


def test_a_flipped_bit_in_every_kind_of_place_is_noticed(saved, capsys):
    path, good = saved
    kinds = places(good)
    assert {"pickle", "numbers of a tensor", "directory of the archive", "mark", "checksum"} <= set(kinds)
    assert len({position for positions in kinds.values() for position in positions}) > 0.95 * len(good)
    for kind, positions in kinds.items():
        for position in positions[:: max(1, len(positions) // 40)]:
            damaged = bytearray(good)
            damaged[position] ^= 1 << position % 8
            path.write_bytes(bytes(damaged))
            assert checkpoint.load(path)["epoch"] == 1, (kind, position)
            assert "Going on from last.previous.pt." in capsys.readouterr().out
    path.write_bytes(good)
    assert checkpoint.load(path)["epoch"] == 2 and capsys.readouterr().out == ""


def test_a_file_cut_at_fifty_places_is_noticed(saved):
    path, good = saved
    lengths = {len(good) * part // 50 for part in range(48)} | {len(good) - 1, len(good) - SIGNATURE}
    assert len(lengths) == 50
    for length in lengths:
        path.write_bytes(good[:length])
        assert checkpoint.load(path)["epoch"] == 1, length


@pytest.mark.parametrize(
    "spoil",
    [
        lambda good: b"",
        lambda good: good + b"\n",
        lambda good: good + good,
        lambda good: b"\0" * len(good),
        lambda good: good[:-SIGNATURE],
        lambda good: good[-SIGNATURE:],
        lambda good: b"x" + good,
    ],
)
def test_a_file_that_grew_or_is_of_zeros_is_noticed(saved, spoil):
    path, good = saved
    path.write_bytes(spoil(good))
    assert checkpoint.load(path)["epoch"] == 1


class Code:
    """A pickle that would make a folder if it were ever loaded."""

    def __init__(self, victim):
        self.victim = victim

    def __reduce__(self):
        return os.mkdir, (str(self.victim),)


@pytest.mark.parametrize("signed", [False, True], ids=["raw", "with a right checksum"])
@pytest.mark.parametrize("packed", [False, True], ids=["pickle", "archive"])
def test_code_in_place_of_a_checkpoint_is_not_run_and_the_one_before_is_used(saved, tmp_path, signed, packed):
    path, victim = saved[0], tmp_path / "victim"
    if packed:
        torch.save({"schema": checkpoint.SCHEMA, "epoch": 3, "model": Code(victim)}, path)
    else:
        path.write_bytes(pickle.dumps(Code(victim)))
    if signed:
        payload = path.read_bytes()
        path.write_bytes(payload + b"\nlabkit-sha256:" + checkpoint.hashlib.sha256(payload).hexdigest().encode())
    assert checkpoint.load(path)["epoch"] == 1
    assert not victim.exists()
    pickle.loads(pickle.dumps(Code(victim)))
    assert victim.exists()  # so it was dangerous


def test_a_folder_in_place_of_a_checkpoint_is_said_and_the_one_before_is_used(saved, capsys):
    path, _ = saved
    path.unlink()
    path.mkdir()
    assert checkpoint.load(path)["epoch"] == 1
    assert "last.pt cannot be read" in capsys.readouterr().out
