"""What is said to a server and what it says: a body with points filled in, numbers found in the answer by a JSONPath."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from divulge.arrays import Array
from divulge.errors import BadInput, TargetFailed
from divulge.targets.wire import short

if TYPE_CHECKING:
    from jsonpath import CompoundJSONPath, JSONPath

Decode = Literal["json", "string", "csv"]

_BY_NAME = re.compile(r"\$\.(\w+)\[\?@\.(\w+) == '([^'\\]*)'\]")
"What picks a tensor out of a list, in every answer of V2: found without a general search, which takes ten times as long."
_PLACE = re.compile(r"\$(X|ROW|RECORDS|COLUMNS|FLAT|N|SHAPE|CSV)\b")


class UnreadableAnswer(TargetFailed):
    """A server answered, and charged for it, what cannot be read."""


class Body:
    """A template such as `{"instances": $X}`.

    `$X` are rows, `$ROW` the only one, `$RECORDS` rows as objects, `$COLUMNS` their names, `$FLAT` all numbers in one list,
    `$N` the number of rows, `$SHAPE` that and the shape of one, `$CSV` rows as lines of text.
    """

    def __init__(self, template: str, item: tuple[int, ...], columns: Sequence[str], single: bool) -> None:
        self._parts = _PLACE.split(template)
        places = set(self._parts[1::2])
        if not places & {"X", "ROW", "RECORDS", "FLAT", "CSV"}:
            raise BadInput(
                f"expected a body in which $X stands for the points, got {short(template)}; write it as in "
                "'{\"inputs\": $X}'"
            )
        if places & {"RECORDS", "COLUMNS"} and not columns:
            raise BadInput("expected the names of the features for such a body, got none; list them as columns")
        self.alone = "ROW" in places
        "Whether one request takes one point."
        self.type = "text/csv" if "CSV" in places else "application/json"
        self._item, self._columns, self._dtype = item, list(columns), np.float32 if single else np.float64
        if self.type == "application/json":
            self._try(template)

    def filled(self, X: Array) -> bytes:
        """The body for points (n, dimension)."""
        return b"".join(self._place(part, X) if number % 2 else part.encode() for number, part in enumerate(self._parts))

    def _place(self, name: str, X: Array) -> bytes:
        import orjson

        if name == "N":
            return str(len(X)).encode()
        if name == "SHAPE":
            return orjson.dumps([len(X), *self._item])
        if name == "COLUMNS":
            return orjson.dumps(self._columns)
        rows = np.ascontiguousarray(X, dtype=self._dtype)
        if name == "CSV":
            return "\n".join(",".join(map(repr, row)) for row in rows.tolist()).encode()
        if name == "RECORDS":
            return orjson.dumps([dict(zip(self._columns, row, strict=True)) for row in rows.tolist()])
        shape = {"FLAT": (-1,), "ROW": self._item, "X": (len(rows), *self._item)}[name]
        return orjson.dumps(rows.reshape(shape), option=orjson.OPT_SERIALIZE_NUMPY)

    def _try(self, template: str) -> None:
        text = self.filled(np.zeros((1, math.prod(self._item))))
        try:
            json.loads(text)
        except ValueError as error:
            raise BadInput(
                f"expected a body that is JSON once points are filled in, got {short(template)} ({error}); correct it"
            ) from None


@dataclass(frozen=True)
class Answer:
    """Where numbers are in what a server says."""

    paths: tuple[JSONPath | CompoundJSONPath, ...]
    "Several where text inside the answer holds JSON of its own."
    decode: Decode
    columns: tuple[str, ...]
    whole: bool = False
    "Whether the first path is the answer itself: text that need not be JSON."
    by_name: tuple[str, str, str] | None = None
    "A list, a key and the text under that key, where that is all that the only path says."

    @classmethod
    def at(cls, paths: str | Sequence[str], decode: Decode, columns: Sequence[str]) -> Answer:
        import jsonpath

        compiled = []
        for path in [paths] if isinstance(paths, str) else paths:
            try:
                compiled.append(jsonpath.compile(path))
            except jsonpath.JSONPathError as error:
                reason = str(error).partition("\n")[0]
                raise BadInput(f"expected a JSONPath such as $.predictions, got {path!r} ({reason}); correct it") from None
        if decode == "string" and len(compiled) < 2:
            raise BadInput(
                "expected two JSONPaths for text that holds JSON, one to the text and one inside it; got "
                f"{len(compiled)}; write answer = [..., ...]"
            )
        by_name = _BY_NAME.fullmatch(paths) if isinstance(paths, str) else None
        named = (by_name[1], by_name[2], by_name[3]) if by_name else None
        return cls(tuple(compiled), decode, tuple(columns), str(compiled[0]) == "$", named)

    def read(self, said: Any, count: int, url: str) -> Array:
        """Numbers (count, ...) from an answer that was parsed already (text, for CSV of a whole body)."""
        found = [said]
        for number, path in enumerate(self.paths):
            if number:  # what was found so far is text that holds JSON
                found = [parsed(text, url) for text in found]
            if number or not self.whole:  # text is not looked into
                found = [match for tree in found for match in self._matches(path, tree)]
            if not found:
                raise UnreadableAnswer(
                    f"expected {path} in the answer of {url}, found nothing there; it begins {short(_text(said))}"
                )
        rows: list[Any] = found
        try:
            rows = [_csv(text, url) for text in found] if self.decode == "csv" else [self._plain(one) for one in found]
            array = np.asarray(rows[0] if len(rows) == 1 else rows, dtype=float)  # null, as JSON spells NaN, becomes NaN
        except UnreadableAnswer:
            raise
        except (TypeError, ValueError):
            raise UnreadableAnswer(
                f"expected numbers in the answer of {url}, got {short(_text(rows))}; choose another answer or output"
            ) from None
        if array.size % count or not array.size or (array.ndim > 1 and count > 1 and array.shape[0] != count):
            raise UnreadableAnswer(
                f"expected {count} rows in the answer of {url} for {count} points, got shape {array.shape}; "
                "check that the model answers each row, or set batch = 1"
            )
        if not np.isfinite(array).all():
            raise UnreadableAnswer(
                f"expected finite numbers in the answer of {url}, got NaN or infinity; check that it takes such points"
            )
        return array.reshape(count, *array.shape[1:]) if array.shape[:1] == (count,) else array.reshape(count, -1)

    def _matches(self, path: JSONPath | CompoundJSONPath, tree: Any) -> list[Any]:
        listed = tree.get(self.by_name[0]) if self.by_name and isinstance(tree, dict) else None
        if self.by_name is None or not isinstance(listed, list):
            return path.findall(tree)
        _, key, text = self.by_name
        return [one for one in listed if isinstance(one, dict) and one.get(key) == text]

    def _plain(self, node: Any) -> Any:
        """A tree of lists and numbers from what servers write: objects named by features, tensors, a name around a list."""
        if isinstance(node, dict):
            if "data" in node and "shape" in node:
                return np.asarray(node["data"], dtype=float).reshape([int(side) for side in node["shape"]])
            if self.columns and set(self.columns) <= node.keys():
                return [self._plain(node[name]) for name in self.columns]
            if len(node) == 1:
                return self._plain(next(iter(node.values())))
            raise ValueError(f"an object of {len(node)} names")
        if isinstance(node, list) and any(isinstance(one, dict) for one in node):
            return [self._plain(one) for one in node]
        return node


def parsed(content: bytes | str, url: str) -> Any:
    """JSON, with the NaN that some servers write."""
    import orjson

    try:
        return orjson.loads(content)
    except ValueError:
        pass
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        said = content.decode(errors="replace") if isinstance(content, bytes) else content
        raise UnreadableAnswer(
            f"expected JSON from {url}, got {short(said)!r}; check the address and the protocol"
        ) from None


def gradients(answer: Array, item: tuple[int, ...], url: str) -> Array:
    """Explanations (n, dimension) or (n, outputs, dimension), from whatever shape a point has on the wire."""
    row, size = answer.shape[1:], math.prod(item)
    if math.prod(row) == size:
        return answer.reshape(-1, size)
    if row and math.prod(row) % size == 0 and (len(row) == 1 or row[-1:] == (size,) or row[-len(item) :] == item):
        return answer.reshape(len(answer), -1, size)
    raise UnreadableAnswer(
        f"expected explanations of shape (n, {size}) or (n, outputs, {size}) from {url}, got {answer.shape}; "
        "choose the output that holds input gradients"
    )


def _csv(text: Any, url: str) -> list[list[float]]:
    try:
        lines = [line for line in str(text).strip().splitlines() if line.strip()]
        return [[float(cell) for cell in line.split(",")] for line in lines]
    except ValueError:
        raise UnreadableAnswer(f"expected lines of numbers from {url}, got {short(text)}; choose another decode") from None


def _text(tree: Any) -> str:
    try:
        return tree if isinstance(tree, str) else json.dumps(tree)
    except (TypeError, ValueError):
        return str(tree)
