"""Data sets by name. The downloads are real ones, from a server on this machine that serves the official formats."""

import errno
import gc
import gzip
import hashlib
import http.server
import io
import os
import pickle
import socket
import subprocess
import sys
import tarfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy
import pytest
import torch
import torchvision.datasets

from labkit.data import downloads, sources
from labkit.data.sources import cached, cifar10, digits, fashion_mnist, mnist
from labkit.errors import DataError

# torchvision leaves a refused connection to the garbage collector, which complains whenever it finds it.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning")


@pytest.fixture(autouse=True)
def refused_connections_are_collected_at_once() -> Iterator[None]:
    """Let the collector find them while the test still runs: after the last one nobody would hold its complaint."""
    yield
    gc.collect()


CIFAR_CLASSES = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]


def test_digits_are_all_there_and_scaled_to_the_full_range() -> None:
    data = digits()
    assert data.images.shape == (1797, 1, 8, 8) and data.classes == tuple("0123456789")
    assert sorted(data.images.unique().tolist()) == [round(value * 255 / 16) for value in range(17)]
    assert data.labels[:10].tolist() == list(range(10))
    assert data.counts().tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]


def md5(content: bytes) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


def pictures(count: int, side: int, channels: int) -> numpy.ndarray:
    return numpy.random.default_rng(count).integers(0, 256, (count, channels, side, side), numpy.uint8)


def cifar_files() -> dict[str, bytes]:
    """Return a small CIFAR-10 in its official format: pickled batches of rows, red before green before blue."""
    files = {"batches.meta": {"label_names": CIFAR_CLASSES}}
    for number, name in enumerate([*(f"data_batch_{batch}" for batch in range(1, 6)), "test_batch"]):
        labels = [(number + index) % 10 for index in range(20)]
        files[name] = {"data": pictures(20 + number, 32, 3)[:20].reshape(20, 3072), "labels": labels}
    return {name: pickle.dumps(content) for name, content in files.items()}


def cifar_archive(files: dict[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(f"cifar-10-batches-py/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return stream.getvalue()


def mnist_files() -> dict[str, bytes]:
    """Return a small MNIST in its official format: a magic number, the shape, then the bytes, all gzipped."""
    files = {}
    for part, count in (("train", 30), ("t10k", 20)):
        labels = numpy.arange(count, dtype=numpy.uint8) % 10
        for kind, array in (("images-idx3", pictures(count, 28, 1)[:, 0]), ("labels-idx1", labels)):
            header = numpy.array([0x0800 + array.ndim, *array.shape], ">i4").tobytes()
            files[f"{part}-{kind}-ubyte.gz"] = gzip.compress(header + array.tobytes())
    return files


class Handler(http.server.BaseHTTPRequestHandler):
    """Serves `files` and behaves as `behaviour` says."""

    files: dict[str, bytes]
    behaviour = "good"

    def do_GET(self) -> None:
        content = self.files.get(self.path.rpartition("/")[2])
        if self.behaviour == "forbidden" or content is None:
            self.send_error(403 if self.behaviour == "forbidden" else 404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.behaviour == "login page":
            content = b"<html>Please log in.</html>".ljust(len(content))
        if self.behaviour == "cut":
            content = content[: len(content) // 2]
        if self.behaviour == "slow":
            self.wfile.write(content[:100])
            self.wfile.flush()
            time.sleep(60)
        self.wfile.write(content)

    def log_message(self, *arguments) -> None:
        pass


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Handler]]:
    """Serve small data sets in place of the official ones, and give labkit an empty cache."""
    files = cifar_files()
    archive = cifar_archive(files)
    mnist = mnist_files()  # once: a compressed file tells the second in which it was made
    handler = type("Served", (Handler,), {"files": {"cifar-10-python.tar.gz": archive, **mnist}})
    running = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=running.serve_forever, args=(0.02,), daemon=True).start()
    address = f"http://127.0.0.1:{running.server_port}/"

    cifar = torchvision.datasets.CIFAR10
    monkeypatch.setattr(cifar, "url", address + "cifar-10-python.tar.gz")
    monkeypatch.setattr(cifar, "tgz_md5", md5(archive))
    monkeypatch.setattr(cifar, "train_list", [[name, md5(files[name])] for name, _ in cifar.train_list])
    monkeypatch.setattr(cifar, "test_list", [[name, md5(files[name])] for name, _ in cifar.test_list])
    monkeypatch.setattr(cifar, "meta", {**cifar.meta, "md5": md5(files["batches.meta"])})
    for dataset in (torchvision.datasets.MNIST, torchvision.datasets.FashionMNIST):
        monkeypatch.setattr(dataset, "mirrors", [address])
        monkeypatch.setattr(dataset, "resources", [(name, md5(content)) for name, content in mnist.items()])
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setenv("LABKIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("LABKIT_DATA", raising=False)
    yield handler
    running.shutdown()
    running.server_close()


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def unplug(monkeypatch: pytest.MonkeyPatch) -> None:
    """Point every address to a port where nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{probe.getsockname()[1]}/"
    monkeypatch.setattr(torchvision.datasets.CIFAR10, "url", address + "cifar-10-python.tar.gz")
    monkeypatch.setattr(torchvision.datasets.MNIST, "mirrors", [address])


def test_cifar10_is_downloaded_once_and_kept(server, cache: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    assert cached("cifar10") is None
    train = cifar10("train")
    assert capsys.readouterr().err == f"fetching cifar10, 170 MB, into {cache}\n"
    assert cached("cifar10") == cache / "cifar-10-batches-py"
    assert os.listdir(cache) == ["cifar-10-batches-py"], "the archive and the working folder should be gone"

    unplug(monkeypatch)
    test = cifar10("test")
    assert (len(train), len(test)) == (100, 20) and train.image_shape == (3, 32, 32)
    assert list(train.classes) == CIFAR_CLASSES and train.labels[:3].tolist() == [0, 1, 2]
    assert torch.equal(test.images, torch.from_numpy(pictures(25, 32, 3)[:20]))
    assert train.images.is_contiguous() and train.images.untyped_storage().nbytes() == 100 * 3072
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(("load", "first_class"), [(mnist, "0"), (fashion_mnist, "T-shirt/top")])
def test_the_mnist_family(server, load, first_class: str) -> None:
    train, test = load(), load("test")
    assert (len(train), len(test)) == (30, 20) and train.image_shape == (1, 28, 28)
    assert train.classes[0] == first_class and len(train.classes) == 10
    assert torch.equal(train.images, torch.from_numpy(pictures(30, 28, 1)))
    assert train.labels.tolist() == [index % 10 for index in range(30)]


def test_labkit_data_comes_before_the_cache(server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mnist()
    (tmp_path / "cache").rename(tmp_path / "given")
    monkeypatch.setenv("LABKIT_DATA", str(tmp_path / "given"))
    unplug(monkeypatch)
    assert len(mnist("test")) == 20 and cached("mnist") == tmp_path / "given" / "MNIST" / "raw"
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize("folder", ["given", "cache"])
def test_an_archive_put_there_by_hand_needs_no_network(server, tmp_path, folder: str, monkeypatch) -> None:
    unplug(monkeypatch)
    monkeypatch.setenv("LABKIT_DATA", str(tmp_path / "given"))
    (tmp_path / folder / "MNIST" / "raw").mkdir(parents=True)
    (tmp_path / folder / "cifar-10-python.tar.gz").write_bytes(server.files["cifar-10-python.tar.gz"])
    for name, content in mnist_files().items():
        (tmp_path / folder / "MNIST" / "raw" / name).write_bytes(content)
    assert len(cifar10()) == 100 and len(mnist()) == 30


def test_an_archive_put_there_by_hand_with_another_checksum_is_not_used(server, cache, monkeypatch) -> None:
    unplug(monkeypatch)
    cache.mkdir()
    (cache / "cifar-10-python.tar.gz").write_bytes(server.files["cifar-10-python.tar.gz"][:-1])
    with pytest.raises(DataError, match="downloading it failed"):
        cifar10()


def test_without_network_one_sentence_says_what_to_do(server, cache: Path, monkeypatch) -> None:
    unplug(monkeypatch)
    with pytest.raises(DataError, match="there is no connection") as caught:
        cifar10()
    message = str(caught.value)
    assert f"Put cifar-10-python.tar.gz into {cache}, or use" in message
    assert '"digits" or "shapes"' in message and "\n" not in message
    monkeypatch.setenv("LABKIT_DATA", "elsewhere")
    with pytest.raises(DataError, match="there is no connection") as caught:
        mnist()
    message = str(caught.value)
    assert message.count("-ubyte.gz") == 4 and f"t10k-labels-idx1-ubyte.gz into {cache / 'MNIST' / 'raw'}," in message
    assert "nor in elsewhere, which LABKIT_DATA names" in message and "\n" not in message
    assert os.listdir(cache) == []


@pytest.mark.parametrize("load", [cifar10, mnist])
@pytest.mark.parametrize(
    ("behaviour", "reason"),
    [
        ("forbidden", "the server answered 403: Forbidden"),
        ("login page", "what arrived does not have the right checksum"),
        ("cut", "what arrived does not have the right checksum"),
    ],
)
def test_bad_servers_leave_nothing_and_a_good_one_helps_afterwards(server, cache, load, behaviour, reason) -> None:
    server.behaviour = behaviour
    with pytest.raises(DataError, match=reason):
        load()
    assert os.listdir(cache) == []
    server.behaviour = "good"
    assert len(load("test")) == 20


def test_a_server_that_says_nothing_more_is_given_up(server, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server.behaviour = "slow"
    monkeypatch.setattr(downloads, "SILENCE", 0.3)
    before = socket.getdefaulttimeout()
    with pytest.raises(DataError, match="there is no connection"):
        cifar10()
    assert socket.getdefaulttimeout() == before and os.listdir(cache) == []


def test_a_full_disk(server, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments, **named):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(torchvision.datasets.utils, "_urlretrieve", full)
    for load in (cifar10, mnist):
        with pytest.raises(DataError, match="the disk is full"):
            load()
    assert os.listdir(cache) == []


def test_a_cache_that_cannot_be_made(server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "occupied").write_bytes(b"a file, not a folder")
    monkeypatch.setenv("LABKIT_CACHE", str(tmp_path / "occupied" / "cache"))
    with pytest.raises(DataError, match=r"occupied.* cannot be written"):
        cifar10()


@pytest.mark.parametrize("damage", ["changed", "cut"])
def test_damaged_files_on_disk_are_told_apart_from_missing_ones(server, cache: Path, damage: str) -> None:
    cifar10(), mnist()
    for file in (cache / "cifar-10-batches-py" / "data_batch_3", cache / "MNIST" / "raw" / "train-images-idx3-ubyte"):
        content = file.read_bytes()
        file.write_bytes(content[: len(content) // 2] + (b"x" if damage == "changed" and "cifar" in str(file) else b""))
    for load in (cifar10, mnist):
        with pytest.raises(DataError, match=r"are damaged .* Delete that folder"):
            load()


def test_an_incomplete_copy_is_fetched_again(server, cache: Path) -> None:
    cifar10()
    (cache / "cifar-10-batches-py" / "data_batch_3").unlink()
    assert cached("cifar10") is None
    assert len(cifar10()) == 100 and cached("cifar10")


def test_a_part_that_does_not_exist() -> None:
    with pytest.raises(DataError, match='"train" and "test", not \'val\''):
        cifar10("val")


def test_where_things_are(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert set(sources.SOURCES) == {"digits", "shapes", "cifar10", "mnist", "fashion_mnist"}
    assert (cached("digits") / "digits.csv.gz").is_file() and cached("shapes").is_file()
    monkeypatch.delenv("LABKIT_CACHE", raising=False)
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path))
    assert sources.cache_folder() == tmp_path / "labkit"
    monkeypatch.delenv("LOCALAPPDATA")
    assert sources.cache_folder() == Path.home() / ".cache" / "labkit"


KILLED = """
import sys, torchvision.datasets
torchvision.datasets.CIFAR10.url = sys.argv[1]
from labkit.data import cifar10
cifar10()
"""


@pytest.mark.slow
def test_a_download_that_is_killed_is_never_taken_for_good(server, cache: Path) -> None:
    server.behaviour = "slow"
    process = subprocess.Popen([sys.executable, "-c", KILLED, torchvision.datasets.CIFAR10.url])
    while not list(cache.glob(".unfinished-*/cifar-10-python.tar.gz")):
        assert process.poll() is None
        time.sleep(0.05)
    process.kill()
    process.wait()
    assert len(os.listdir(cache)) == 1 and cached("cifar10") is None
    server.behaviour = "good"
    assert len(cifar10()) == 100
