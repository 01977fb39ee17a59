"""Contract values to JSON + npz and back without loss, written so that a kill at any moment loses nothing finished."""

from __future__ import annotations

import hashlib
import io
import json
import os
import uuid
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from divulge import contract
from divulge.contract import Access, Array, Evidence, Predictions
from divulge.contract.evidence import StoredEvidence
from divulge.errors import BadInput, StorageError

SCHEMA = 1
"The version of the format; raised when a reader of the old one could misread the new one."

UNFINISHED = ".writing-"
"How the name of a file begins until it is whole."

_TYPES: dict[str, type] = {
    kind.__name__: kind
    for kind in (
        contract.Cost, contract.Curve, contract.Explanation, contract.Finding, contract.HeatMap, contract.Histogram,
        contract.Holding, contract.ImagePairs, contract.Kernel, contract.Preparation, contract.Provenance, contract.Record,
        contract.Remedy, contract.Scatter, contract.Score, contract.Table, contract.TaxonomyId, contract.Trial,
    )
}  # fmt: skip


def pack(value: Any) -> tuple[Any, dict[str, Array]]:
    """A JSON tree and the arrays it refers to."""
    arrays: dict[str, Array] = {}
    return _pack(value, arrays), arrays


def unpack(tree: Any, arrays: Mapping[str, Array]) -> Any:
    """The value that `pack` was given."""
    if isinstance(tree, list):
        return [unpack(item, arrays) for item in tree]
    if not isinstance(tree, dict):
        return tree
    if "$" not in tree:
        return {key: unpack(item, arrays) for key, item in tree.items()}
    kind = tree["$"]
    if kind == "float":
        return float(tree["is"])
    if kind == "scalar":
        return np.dtype(tree["dtype"]).type(unpack(tree["is"], arrays))
    if kind == "tuple":
        return tuple(unpack(item, arrays) for item in tree["is"])
    if kind == "dict":
        return {unpack(key, arrays): unpack(item, arrays) for key, item in tree["is"]}
    if kind == "array":
        return arrays[tree["is"]]
    if kind == "sparse":
        from scipy.sparse import csr_matrix

        parts = tuple(arrays[name] for name in tree["is"])
        return csr_matrix(parts, shape=tuple(tree["shape"]))
    if kind == "evidence":
        return _evidence(tree["of"], {key: unpack(item, arrays) for key, item in tree["is"].items()})
    made = _known().get(kind)
    if made is None:
        raise StorageError(f"expected a known kind of value, got {kind!r}; install the plug-in that wrote it")
    return made(**{key: unpack(item, arrays) for key, item in tree.items() if key != "$"})


def fingerprint(value: Any) -> str:
    """A hash of everything in a value; two values share one only when they are the same."""
    tree, arrays = pack(value)
    digest = hashlib.sha256(json.dumps(tree, sort_keys=True).encode())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()[:32]


def save(value: Any, path: Path, *, prune: bool = False) -> None:
    """Write a value to `path` (JSON), its arrays beside it under a name made of their contents.

    The JSON file is the commit: a kill before it leaves the old value whole. `prune` then drops the arrays of the value
    that stood there before, and no other file.
    """
    tree, arrays = pack(value)
    document: dict[str, Any] = {"schema": SCHEMA, "arrays": None, "value": tree}
    if arrays:
        buffer = io.BytesIO()
        np.savez(buffer, allow_pickle=False, **arrays)
        blob = buffer.getvalue()
        document["arrays"] = f"arrays/{hashlib.sha256(blob).hexdigest()[:32]}.npz"
        write(path.parent / document["arrays"], blob)
    before = _named_arrays(path) if prune else None
    write(path, json.dumps(document, indent=1).encode())
    if before is not None and before != document["arrays"]:
        with suppress(OSError):
            _beside(path, before).unlink()


def load(path: Path) -> Any:
    """Read what `save` wrote; anything else is refused with a sentence."""
    try:
        document = json.loads(path.read_bytes())
        schema = document["schema"]
    except FileNotFoundError:
        raise StorageError(f"expected a file at {path}, found none; check the folder's name") from None
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise StorageError(f"cannot read {path}: {error}; delete that file and run the audit again to rebuild it") from None
    if schema != SCHEMA:
        raise StorageError(f"{path} has schema {schema}, this version reads {SCHEMA}; use the divulge version that wrote it")
    try:
        return unpack(document["value"], _arrays(path, document["arrays"]))
    except StorageError:
        raise
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise StorageError(f"{path} is damaged ({error}); delete it and run the audit again to rebuild it") from None


def write(path: Path, content: bytes, *, sure: bool = True) -> None:
    """Write a file whole or not at all; `sure` waits until it would survive a power cut."""
    temporary = path.parent / f"{UNFINISHED}{uuid.uuid4().hex}"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("xb") as file:
            file.write(content)
            file.flush()
            if sure:
                os.fsync(file.fileno())
        os.replace(temporary, path)
        if not sure:
            return
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink()
        raise StorageError(
            f"cannot write {path}: {error.strerror or error}; free space or choose another folder, "
            "then run the same command again: what was finished is kept"
        ) from None


def arrays_of(path: Path) -> str | None:
    """Where the arrays of the value at `path` are, beside it; None where it has none, or cannot be read."""
    name = _named_arrays(path)
    return None if name is None else f"arrays/{Path(name).name}"


def sweep(folder: Path) -> None:
    """Remove what a killed process left half written."""
    with suppress(OSError):  # what may not be removed does no harm
        for path in folder.rglob(f"{UNFINISHED}*"):
            path.unlink(missing_ok=True)


def _named_arrays(path: Path) -> str | None:
    """The arrays that the value at `path` refers to, if there is one that can be read."""
    try:
        name = json.loads(path.read_bytes())["arrays"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return name if isinstance(name, str) else None


def _beside(path: Path, name: str) -> Path:
    """Where a value's arrays are: always in the folder `arrays` beside it, whatever the file says."""
    return path.parent / "arrays" / Path(name).name


def _arrays(value: Path, name: str | None) -> dict[str, Array]:
    if name is None:
        return {}
    path = _beside(value, name)
    try:
        blob = path.read_bytes()
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror}; run the audit again to rebuild it") from None
    if path.stem != hashlib.sha256(blob).hexdigest()[:32]:
        raise StorageError(f"{path} is damaged: its contents do not match its name; delete it and run the audit again")
    with np.load(io.BytesIO(blob), allow_pickle=False) as archive:
        return {key: archive[key] for key in archive.files}


def _known() -> dict[str, type]:
    return _TYPES | {kind.__name__: kind for kind in Access.kinds.values()}


def _evidence(name: str, values: dict[str, Any]) -> Evidence:
    """As its attack made it where that is loaded; else what it held, under its name."""
    made: Any = Evidence.kinds.get(name)
    return StoredEvidence(name, values) if made is None else made(**values)


def _pack(value: Any, arrays: dict[str, Array]) -> Any:
    if isinstance(value, np.floating) and not isinstance(value, np.float64):
        return {"$": "scalar", "dtype": value.dtype.str, "is": _pack(float(value), arrays)}
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not np.isfinite(value):
        return {"$": "float", "is": repr(value)}
    if isinstance(value, str):
        return str(value)
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, np.ndarray) and value.dtype.kind in "biufU":
        name = f"a{len(arrays)}"
        arrays[name] = value
        return {"$": "array", "is": name}
    if hasattr(value, "tocsr"):
        rows = value.tocsr()
        packed = [_pack(part, arrays)["is"] for part in (rows.data, rows.indices, rows.indptr)]
        return {"$": "sparse", "is": packed, "shape": list(rows.shape)}
    if isinstance(value, list):
        return [_pack(item, arrays) for item in value]
    if isinstance(value, tuple):
        return {"$": "tuple", "is": [_pack(item, arrays) for item in value]}
    if isinstance(value, Mapping):
        if all(isinstance(key, str) and key != "$" for key in value):
            return {key: _pack(item, arrays) for key, item in value.items()}
        return {"$": "dict", "is": [[_pack(key, arrays), _pack(item, arrays)] for key, item in value.items()]}
    if isinstance(value, Predictions):
        told = getattr(value, "explanation", None)
        known = {"explanation": told, "mean": value.mean, "shape": value.shape, "start": value.start}
        more = {name: _pack(one, arrays) for name, one in known.items() if one is not None}
        return {"$": type(value).__name__, "dimension": value.dimension, "identity": value.identity, **more}
    if isinstance(value, StoredEvidence):
        return {"$": "evidence", "of": value.name, "is": _pack(value.values, arrays)}
    if isinstance(value, Evidence) and is_dataclass(value):
        return {"$": "evidence", "of": type(value).__name__, "is": _fields(value, arrays)}
    if is_dataclass(value) and type(value).__name__ in _known():
        return {"$": type(value).__name__} | _fields(value, arrays)
    raise BadInput(
        f"cannot store a {type(value).__name__}; use numbers, text, lists, dicts, numpy arrays or contract values"
    )


def _fields(value: Any, arrays: dict[str, Array]) -> dict[str, Any]:
    """Every field, but what its kind says is not to be stored, such as a module that is also described."""
    return {f.name: _pack(getattr(value, f.name), arrays) for f in fields(value) if f.metadata.get("stored", True)}
