"""MNIST, Fashion-MNIST and CIFAR-10: samples inside the package, full sets from a folder or by a checked download."""

from __future__ import annotations

import gzip
import io
import lzma
import os
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from divulge.contract import Array
from divulge.datasets.dataset import Dataset, limited
from divulge.errors import BadInput

FOLDER = "DIVULGE_DATA"
"The environment variable that names the folder of full sets."
KEYS = ("x_train", "y_train", "x_test", "y_test")
TIMEOUT = 30
"Seconds without a byte after which a download is given up."


@dataclass(frozen=True)
class Collection:
    """Pictures of ten classes."""

    file: str
    shape: tuple[int, ...]
    classes: tuple[str, ...]
    source: str
    licence: str
    embedded: bool = True
    downloads: Mapping[str, str] = field(default_factory=dict)
    "Address -> SHA-256, in the order of the keys, or one npz file."


@dataclass(frozen=True)
class Task:
    """A collection as it is, or two groups of its classes, labelled −1 and +1."""

    line: str
    collection: str
    minus: tuple[int, ...] = ()
    plus: tuple[int, ...] = ()
    classes: tuple[str, ...] = ()


FASHION_HOST = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com"
COLLECTIONS = {
    "mnist": Collection(
        "mnist.npz",
        (28, 28),
        tuple("0123456789"),
        "MNIST by Yann LeCun and Corinna Cortes, derived from NIST's handwritten digits.",
        "CC BY-SA 3.0",
        downloads={
            "https://storage.googleapis.com/tensorflow/tf-keras-datasets/mnist.npz":
                "731c5ac602752760c8e48fbffcf8c3b850d9dc2a2aedcf2cc48468fc17b673d1",
        },
    ),
    "fashion-mnist": Collection(
        "fashion_mnist.npz",
        (28, 28),
        ("T-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot"),
        "Fashion-MNIST by Han Xiao, Kashif Rasul and Roland Vollgraf, Zalando SE, 2017.",
        "MIT",
        downloads={
            f"{FASHION_HOST}/train-images-idx3-ubyte.gz": "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
            f"{FASHION_HOST}/train-labels-idx1-ubyte.gz": "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
            f"{FASHION_HOST}/t10k-images-idx3-ubyte.gz": "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
            f"{FASHION_HOST}/t10k-labels-idx1-ubyte.gz": "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
        },
    ),
    "cifar10": Collection(
        "cifar10.npz",
        (32, 32, 3),
        ("aeroplane", "car", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "lorry"),
        "CIFAR-10 by Alex Krizhevsky, Vinod Nair and Geoffrey Hinton, 2009, www.cs.toronto.edu/~kriz/cifar.html.",
        "none stated; not distributed with divulge",
        embedded=False,
    ),
}  # fmt: skip

TASKS = {
    "mnist": Task("handwritten digits, 28 x 28", "mnist"),
    "mnist-odd-even": Task(
        "handwritten digits, even (−1) or odd (+1)", "mnist", (0, 2, 4, 6, 8), (1, 3, 5, 7, 9), ("even", "odd")
    ),
    "mnist-0-8": Task("handwritten 0 (−1) or 8 (+1)", "mnist", (0,), (8,), ("0", "8")),
    "fashion-mnist": Task("pieces of clothing, 28 x 28", "fashion-mnist"),
    "fashion-mnist-tshirt-pullover": Task(
        "T-shirts (−1) or pullovers (+1)", "fashion-mnist", (0,), (2,), ("T-shirt", "pullover")
    ),
    "cifar10": Task("colour photographs of ten kinds of thing, 32 x 32 (not in the package)", "cifar10"),
    "cifar-vehicles-animals": Task(
        "colour photographs of vehicles (−1) or animals (+1) (not in the package)",
        "cifar10", (0, 1, 8, 9), (2, 3, 4, 5, 6, 7), ("vehicle", "animal"),
    ),
    "cifar-dog-ship": Task(
        "colour photographs of dogs (−1) or ships (+1) (not in the package)", "cifar10", (5,), (8,), ("dog", "ship")
    ),
}  # fmt: skip
NAMES = {name: task.line for name, task in TASKS.items()}


def load(name: str, samples: int | None, full: bool, only: Sequence[Any] | None = None) -> Dataset:
    """Pictures still in whole numbers: of 60,000 most are never drawn, and floats take eight times the room."""
    task = TASKS[name]
    if COLLECTIONS[task.collection].embedded and not full:
        chosen = _chosen(name, embedded(task.collection), only)
        if samples is None or samples <= len(chosen.X):
            return chosen
    return _chosen(name, whole(task.collection), only)


def as_floats(X: Array) -> Array:
    """Rows of floats; whole numbers from 0 to 255 become 0 to 1."""
    return X / 255 if X.dtype == np.uint8 else X


@cache
def embedded(collection: str) -> tuple[Array, ...]:
    """The sample inside the package, in the order of `KEYS`."""
    blob = (files("divulge.datasets") / "samples" / f"{COLLECTIONS[collection].file}.xz").read_bytes()
    arrays = _four(lzma.decompress(blob))
    for array in arrays:
        array.flags.writeable = False  # kept for the next caller
    return arrays


def whole(collection: str) -> tuple[Array, ...]:
    """The full set, in the order of `KEYS`."""
    known = COLLECTIONS[collection]
    folder = Path(os.environ.get(FOLDER, ""))
    if os.environ.get(FOLDER):
        for path in (folder / known.file, folder / known.file.replace(".npz", "_subset.npz")):
            if path.is_file():
                return _from_folder(path, known)
    if not known.downloads:
        raise BadInput(f"expected the full {collection}, found none; {_remedy(known)}")
    return _download(collection)


def _chosen(name: str, arrays: tuple[Array, ...], only: Sequence[Any] | None) -> Dataset:
    task = TASKS[name]
    collection = COLLECTIONS[task.collection]
    parts = []
    for X, y in (arrays[:2], arrays[2:]):
        y = y.astype(np.int64).ravel()
        if task.minus:
            kept = np.isin(y, task.minus + task.plus)
            X, y = X[kept], np.where(np.isin(y[kept], task.plus), 1, -1)
        parts += [X.reshape(len(X), int(np.prod(collection.shape))), y]
    X, y, X_test, y_test = parts
    found = Dataset(
        name,
        X,
        y,
        X_test,
        y_test,
        collection.source,
        collection.licence,
        collection.shape,
        task.classes or collection.classes,
    )
    return found if only is None else limited(found, only)


def _four(blob: bytes) -> tuple[Array, ...]:
    with np.load(io.BytesIO(blob), allow_pickle=False) as archive:
        return tuple(archive[key] for key in KEYS)


def _from_folder(path: Path, known: Collection) -> tuple[Array, ...]:
    try:
        arrays = _four(path.read_bytes())
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise BadInput(f"cannot read {path}: {error}; {_remedy(known)}") from None
    for X, y in (arrays[:2], arrays[2:]):
        if X.dtype != np.uint8 or X.shape[1:] != known.shape or y.size != len(X):
            raise BadInput(
                f"expected pictures with labels in {path}, got {X.dtype} {X.shape} and {y.shape}; {_remedy(known)}"
            )
    return arrays


def _download(collection: str) -> tuple[Array, ...]:
    known = COLLECTIONS[collection]
    blobs = []
    try:
        import pooch

        for address, digest in known.downloads.items():
            path = pooch.retrieve(
                address,
                known_hash=f"sha256:{digest}",
                path=pooch.os_cache("divulge") / collection,
                fname=address.rpartition("/")[2],
                downloader=pooch.HTTPDownloader(timeout=TIMEOUT),
            )
            blobs.append(Path(path).read_bytes())
    except ImportError:
        raise BadInput(
            f"the full {collection} needs pooch to download it; pip install 'divulge[data]', or {_remedy(known)}"
        ) from None
    except OSError as error:
        raise BadInput(f"cannot download the full {collection} ({type(error).__name__}); {_remedy(known)}") from None
    except ValueError:
        raise BadInput(f"the full {collection} at {address} is not the one it was; {_remedy(known)}") from None
    return _four(blobs[0]) if len(blobs) == 1 else tuple(_idx(gzip.decompress(blob)) for blob in blobs)


def _idx(blob: bytes) -> Array:
    """An array in the format of the MNIST files: its number of sides at byte 3, the sides, the bytes."""
    sides = np.frombuffer(blob, ">u4", count=blob[3], offset=4)
    return np.frombuffer(blob, np.uint8, offset=4 + 4 * blob[3]).reshape(sides)


def _remedy(known: Collection) -> str:
    sides = ", ".join(map(str, known.shape))
    return (
        f"put {known.file} with uint8 arrays x_train (n, {sides}), y_train, x_test and y_test "
        f"into a folder and name that folder in the environment variable {FOLDER}"
    )
