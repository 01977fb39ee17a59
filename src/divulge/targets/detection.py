"""A first look at an address: which protocol is spoken there, how wide a point is, where values and explanations are."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from divulge.contract import Gradients, Predictions
from divulge.contract.service import Account
from divulge.errors import BadInput, TargetFailed
from divulge.targets import oip, protocols
from divulge.targets.messages import Body, parsed
from divulge.targets.protocols import Preset
from divulge.targets.remote import OIP, RemoteModel, client, connect, host_of, models, root_of
from divulge.targets.wire import Refused, Sending, Wire, short

HINTS = {
    "/v2/models/": OIP,
    "/predictions/": "torchserve",
    "/v1/projects/": "vertex-ai",
    "/v1/models/": "kserve-v1",
    "/endpoints/": "sagemaker",
    "/score": "azure-ml",
}
"What in an address tells the protocol where its server is not known by what it says."
WIDTHS = (
    r"expect\w*\s+(\d+)\s+(?:feature|input|column)",
    r"(\d+) features? as input",
    r"shapes cannot be multiplied \(\d+x\d+ and (\d+)x\d+\)",
    r"\(size (\d+) is different from \d+\)",
    r"[Ee]xpected[^()]*\((?:-1|None|\?|\d+), ?(\d+)\)",
    r"dim\w* mismatch.*?(\d+)\s*$",
)
"How servers say that a point has the wrong width, and which one is right: scikit-learn, torch, NumPy, MLflow."
EXPLAINS = re.compile("grad|explan|salien|attrib|shap|jacob", re.IGNORECASE)
"Names under which explanations come."
TRIES = 8
"Widths that are tried."
ROWS = 3
"Points in a probe: three rows are not taken for two outputs or for one."


@dataclass
class Found:
    """What an address is, in an audit's words."""

    url: str
    kind: str
    options: dict[str, Any]
    "As an audit file would give them."
    about: str
    "The protocol in a few words."
    held: Predictions | Gradients
    notes: list[str] = field(default_factory=list)
    "What was tried in vain."


def look(url: str, options: Mapping[str, Any], account: Account) -> Found:
    """Find out what answers at an address; `options` are what is known of it already."""
    given = RemoteModel(**options)
    url = url.rstrip("/")
    preset = protocols.BY_HAND if given.body and not given.protocol else None
    wire = client(given, preset or protocols.BY_HAND, url)
    if preset is None:
        preset = protocols.read(given.protocol) if given.protocol else _spoken(wire, url)
        wire = client(given, preset, url)
    said = dict(options) if given.body else {"protocol": preset.name, **options}
    url = _with_model(wire, url, preset)
    if preset.name == OIP:
        return _open_inference(wire, url, said, account)
    return _described(wire, root_of(url, preset), said, given, preset, account)


def _spoken(wire: Wire, url: str) -> Preset:
    """The protocol that a server speaks, by what it says of itself, or by its address."""
    host = host_of(url)
    if not re.match(r"https?://[^/]+$", host):
        raise BadInput(f"expected an address that begins with http:// or https://, got {url!r}; correct it")
    for hint, name in HINTS.items():
        if hint in f"{url}/" and name == OIP:
            return protocols.read(name)
    for name in protocols.names():
        preset = protocols.read(name)
        if preset.look is None:
            continue
        try:
            place = preset.look.path.replace("$URL", root_of(url, preset).removeprefix(host))
            content = wire.send("GET", host + place, first=True)
        except Refused:
            continue
        if _says(content, preset):
            return preset
    for hint, name in HINTS.items():
        if hint in f"{url}/":
            return protocols.read(name)
    raise BadInput(
        f"expected a server at {url} that speaks one of {', '.join(protocols.names())}, and none was recognised; name one "
        f"with '{url}#protocol=NAME', or describe the service with body and answer as docs/services.md shows"
    )


def _with_model(wire: Wire, url: str, preset: Preset) -> str:
    """The address of a server's only model, where it names the server alone."""
    placeholder = re.search(r"/(NAME|METHOD)$", preset.address)
    if placeholder is None or url != host_of(url):
        return url
    path = re.sub(r"^https?://[^/]+", "", preset.address).removesuffix(placeholder[1])
    there = models(wire, url, preset)
    if len(there) != 1:
        listed = f"it has {', '.join(there)}" if there else "it does not list them"
        raise BadInput(f"expected one model at {url}, {listed}; name one as in {url}{path}{placeholder[1]}")
    return f"{url}{path}{there[0].strip('/')}"


def _says(content: bytes, preset: Preset) -> bool:
    import jsonpath

    assert preset.look is not None
    if preset.look.decode == "text":
        return re.search(preset.look.says, content.decode(errors="replace").strip()) is not None
    try:
        tree = parsed(content, "")
    except TargetFailed:
        return False
    return not isinstance(tree, str) and bool(jsonpath.compile(preset.look.says).findall(tree))


def _open_inference(wire: Wire, url: str, said: dict[str, Any], account: Account) -> Found:
    about = protocols.read(OIP).about
    said.pop("columns", None)  # a tensor's numbers have no names
    known = {name: said[name] for name in ("input", "dimension", "datatype") if name in said}
    model = oip.Metadata.read(wire, url, **known)
    said.pop("protocol", None)  # the address says it
    outputs = [name for name in model.outputs if name != said.get("output")]
    explaining = [name for name in outputs if EXPLAINS.search(name)]
    plain = [name for name in outputs if name not in explaining]
    if "output" not in said and len(model.outputs) > 1:
        if not plain:
            raise BadInput(f"{url} has outputs {', '.join(outputs)}; say which holds the values with '{url}#output=NAME'")
        said["output"] = plain[0]
    notes: list[str] = []
    ways = [f"output:{name}" for name in explaining] or [f"model:{model.name}-explainer", "v1"]
    if "explanation" in said:
        ways = [said["explanation"]]
    for way in ways:
        try:
            held = connect("gradients", url, {**said, "explanation": way}, account=account)
        except TargetFailed as error:
            notes.append(f"explanation = {way!r}: {short(error)}")
            continue
        return Found(url, "gradients", {**said, "explanation": way}, about, held, notes)
    return Found(url, "predictions", said, about, connect("predictions", url, said, account=account), notes)


def _described(wire: Wire, url: str, said: dict[str, Any], given: RemoteModel, preset: Preset, account: Account) -> Found:
    """A protocol without metadata: what is missing is found by asking."""
    body = given.body or preset.form(given.form, given.columns or []) or preset.predict.body
    if given.dimension is None and given.shape is None and not given.columns:
        said["dimension"] = _width(_Probe(wire, url, preset, body, (), account))
    item = tuple(given.shape or [given.dimension or len(given.columns or []) or said["dimension"]])
    notes: list[str] = []
    if "answer" not in said and "explanation" not in said:
        values, explanation = _paths(_Probe(wire, url, preset, body, tuple(given.columns or ()), account), item)
        if values is not None and values != preset.predict.answer:
            said["answer"] = values
        if explanation is not None:
            said["explanation"] = {"answer": explanation}
            if preset.explain is not None:
                said["explanation"]["url"] = preset.predict.url
    if "explanation" in said or preset.explain is not None:
        try:
            held = connect("gradients", url, said, account=account)
            return Found(url, "gradients", said, preset.about, held, notes)
        except TargetFailed as error:
            notes.append(f"explanations: {short(error)}")
    said.pop("explanation", None)
    return Found(url, "predictions", said, preset.about, connect("predictions", url, said, account=account), notes)


@dataclass(frozen=True)
class _Probe:
    """A few points sent by hand, before it is known how to read the answer."""

    wire: Wire
    url: str
    preset: Preset
    body: str
    columns: tuple[str, ...]
    account: Account

    @property
    def rows(self) -> int:
        return 1 if "$ROW" in self.body or self.preset.predict.batch == 1 else ROWS

    def __call__(self, item: tuple[int, ...]) -> Any:
        made = Body(self.body, item, self.columns, single=False)
        X = np.random.default_rng(0).standard_normal((self.rows, math.prod(item)))
        address = self.preset.predict.at(self.url)
        sending = Sending(lambda: self.account.send(len(X)), lambda: self.account.take_back(len(X)))
        headers = {"Content-Type": made.type}
        return parsed(self.wire.send("POST", address, made.filled(X), headers, sending=sending, first=True), address)


def _width(probe: _Probe) -> int:
    """How wide a point is: the server says so when it is asked with a wrong one."""
    tried: set[int] = set()
    waiting, last = [1, 2], ""
    while waiting and len(tried) < TRIES:
        width = waiting.pop(0)
        tried.add(width)
        try:
            probe((width,))
        except TargetFailed as error:
            last = str(error)
            said = f"{last} {error.said}" if isinstance(error, Refused) else last
            found = [int(one) for pattern in WIDTHS for one in re.findall(pattern, said)]
            waiting = [one for one in found if one not in tried and 0 < one < 10**6] + [w for w in waiting if w not in found]
            continue
        if width > 2:
            return width
        try:  # a server that takes any width has not said which is right
            probe((width + 1,))
        except TargetFailed:
            return width
        last = f"it takes points of {width} numbers and of {width + 1}"
        break
    raise BadInput(
        f"expected {probe.url} to tell how wide a point is, and it did not ({short(last)}); say so with "
        f"'{probe.url}#dimension=784', or give a file of its data along"
    )


def _paths(probe: _Probe, item: tuple[int, ...]) -> tuple[str | None, str | None]:
    """JSONPaths of values and of explanations in an answer that holds both, by their names and sizes."""
    if probe.preset.predict.decode != "json":
        return None, None
    try:
        found = list(_arrays(probe(item), "$", probe.rows))
    except TargetFailed:
        return None, None
    size = math.prod(item)
    explaining = [path for path, row in found if row % size == 0 and (EXPLAINS.search(path) or (size > 1 and row >= size))]
    plain = [path for path, _ in found if path not in explaining and not EXPLAINS.search(path)]
    named = [path for path in explaining if EXPLAINS.search(path)]
    return (plain[0], next(iter(named or explaining), None)) if plain else (None, None)


def _arrays(tree: Any, path: str, rows: int) -> Iterator[tuple[str, int]]:
    """Paths of numbers in an answer with one row for each point, and how many numbers a row has."""
    if isinstance(tree, dict):
        for name, inside in tree.items():
            yield from _arrays(inside, f"{path}{_step(name)}", rows)
    elif isinstance(tree, list) and len(tree) == rows and all(isinstance(one, dict) for one in tree):
        for name in tree[0]:
            if all(name in one for one in tree):
                row = _numbers([one[name] for one in tree])
                if row is not None:
                    yield f"{path}[*]{_step(name)}", row.size // rows
    elif isinstance(tree, list):
        array = _numbers(tree)
        if array is not None and array.shape[:1] == (rows,):
            yield path, array.size // rows


def _numbers(tree: Any) -> np.ndarray[Any, np.dtype[Any]] | None:
    try:
        array = np.asarray(tree, dtype=float)
    except (TypeError, ValueError):
        return None
    return array if array.size and np.isfinite(array).all() else None


def _step(name: str) -> str:
    return f".{name}" if re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) else "['{}']".format(name.replace("'", "\\'"))
