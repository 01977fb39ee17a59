"""AUDIT.toml: what is held, what is true, which attacks, how long. Every key is checked before anything runs."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from divulge import defences
from divulge.contract import Access, Budget, Candidates, Explanation, Gradients, Hyperparameters, TrainingData
from divulge.errors import BadInput, refuse_unknown
from divulge.report import formats, thresholds
from divulge.storage import fingerprint

KEYS = (
    "title", "out", "seed", "workers", "attacks", "studies", "defend", "allow_pickle", "format", "fail_on", "budget", "held",
    "truth", "options",
)  # fmt: skip
OWN_FILES = ("mean", "start")
"Options that name a file beside that of a network."
SOURCES = ("file", "url", "dataset")
NAMES = ("features", "target", "weights", "record", "score", "member", "source")


@dataclass(frozen=True, eq=False)
class AuditFile:
    """An audit as its file describes it."""

    title: str
    out: Path
    seed: int
    workers: int | None
    attacks: tuple[str, ...] | None
    studies: tuple[str, ...]
    budget: Budget
    held: Mapping[str, Access]
    sources: Mapping[str, str]
    truth: Mapping[str, Access | Mapping[str, Access]]
    options: Mapping[str, Mapping[str, Any]]
    format: tuple[str, ...] = ()
    "Files for other programs to write besides."
    fail_on: tuple[str, ...] = ()
    "Conditions under which the command line ends with 1."
    defend: tuple[Mapping[str, Any], ...] = ()


def read(path: Path, *, allow_pickle: bool = False) -> AuditFile:
    """Read an audit file and everything it refers to; paths in it are relative to it."""
    document = _document(path)
    refuse_unknown(document, KEYS, str(path))
    allow_pickle = allow_pickle or _value(document, "allow_pickle", bool, False, path)
    out = _value(document, "out", str, f"runs/{path.stem}", path)
    if not out.strip():
        raise BadInput(f"{path}: expected the name of a run folder for 'out', got an empty one; name a folder")
    out = path.parent / out
    opener = _Opener(path.parent, allow_pickle)
    sections = _value(document, "held", dict, {}, path)
    if not sections:
        raise BadInput(f"{path}: expected at least one [held.NAME] section, got none; say what an attacker holds")
    budget = _value(document, "budget", dict, {}, path)
    refuse_unknown(budget, ("seconds", "queries"), f"{path} [budget]")
    attacks, studies = (_names(document, key, path) for key in ("attacks", "studies"))
    wanted, conditions = _for_machines(document, path)
    held = {name: opener.open(section, f"[held.{name}]") for name, section in sections.items()}
    return AuditFile(
        title=_value(document, "title", str, path.stem, path),
        out=out,
        seed=_value(document, "seed", int, 0, path),
        workers=_value(document, "workers", int, None, path),
        attacks=attacks,
        studies=studies or (),
        budget=Budget(_value(budget, "seconds", float, None, path), _value(budget, "queries", int, None, path)),
        held=held,
        sources={name: str(next(section[key] for key in SOURCES if key in section)) for name, section in sections.items()},
        truth=_truth(_value(document, "truth", dict, {}, path), set(held), opener),
        options=_value(document, "options", dict, {}, path),
        format=wanted,
        fail_on=conditions,
        defend=_defend(document.get("defend", []), path),
    )


def open_source(kind: str, source: str, *, allow_pickle: bool = False) -> Access:
    """What a command line names: `FILE`, or `FILE#option=value&option=value` with the options of a [held] section."""
    name, options = parse_source(source)
    key = "url" if "://" in name else "file"
    return _Opener(Path(), allow_pickle).open({key: name, **options}, source, kind)


def check(path: Path, *, allow_pickle: bool = False) -> None:
    """Refuse an audit file that could not be read, without asking a server anything."""
    document = _document(path)
    refuse_unknown(document, KEYS, str(path))
    _for_machines(document, path)
    for name, section in _value(document, "held", dict, {}, path).items():
        if "url" not in section:
            _Opener(path.parent, allow_pickle).open(section, f"[held.{name}]")


def fingerprints(path: Path, *, allow_pickle: bool = False) -> dict[str, str | BadInput | None]:
    """What an audit file holds as it is found today: its fingerprint, why it cannot be read, or None for an address."""
    document = _document(path)
    refuse_unknown(document, KEYS, str(path))
    opener = _Opener(path.parent, allow_pickle or _value(document, "allow_pickle", bool, False, path))
    found: dict[str, str | BadInput | None] = {}
    for name, section in _value(document, "held", dict, {}, path).items():
        try:
            asked = isinstance(section, dict) and "url" in section
            found[name] = None if asked else fingerprint(opener.open(section, f"[held.{name}]"))
        except BadInput as error:
            found[name] = error
    return found


def parse_source(source: str) -> tuple[str, dict[str, Any]]:
    """The file or address, and the options after `#`."""
    name, _, text = source.partition("#")
    options: dict[str, Any] = {}
    for part in filter(None, text.split("&")):
        key, equals, value = part.partition("=")
        if not equals:
            raise BadInput(f"expected option=value after '#' in {source!r}, got {part!r}; write FILE#option=value")
        options[key] = value
        if key not in NAMES:  # a column may be called 2020
            with suppress(tomllib.TOMLDecodeError):
                options[key] = tomllib.loads(f"value = {value}")["value"]
    return name, options


@dataclass(frozen=True)
class _Opener:
    """Turns a section of the file into something held."""

    home: Path
    allow_pickle: bool

    def open(self, section: Any, where: str, kind: str | None = None) -> Access:
        if not isinstance(section, dict):
            raise BadInput(f"{where}: expected a section with a kind and a file, got {section!r}; write it as [section]")
        section = dict(section)
        kind = kind or section.pop("kind", None)
        if not isinstance(kind, str):
            raise BadInput(f'{where}: expected kind = "...", got none; use one of: {", ".join(sorted(Access.kinds))}')
        refuse_unknown([kind], Access.kinds, f"{where} kind")
        given = [key for key in SOURCES if key in section]
        if len(given) != 1:
            raise BadInput(
                f"{where}: expected one of file, url, dataset, got {' and '.join(given) or 'none'}; give exactly one"
            )
        source = section.pop(given[0])
        if not isinstance(source, str):
            raise BadInput(f"{where}: expected text for {given[0]!r}, got {source!r}; put it in quotation marks")
        openers = {"file": self._file, "url": self._url, "dataset": self._dataset}
        defence, told = section.pop("defence", None), section.pop("explained", None)
        try:
            access = openers[given[0]](kind, source, section)
            access = access if told is None else _explained(access, told)
            return access if defence is None else defences.from_table(access, defence)
        except BadInput as error:
            error.args = (f"{where}: {error}",)
            raise error from None

    def _file(self, kind: str, source: str, options: Mapping[str, Any]) -> Access:
        from divulge.targets import files

        own = {name: str(self.home / options[name]) for name in OWN_FILES if isinstance(options.get(name), str)}
        options = {**options, **own}
        return files.read(kind, self.home / source, options, allow_pickle=self.allow_pickle)

    def _url(self, kind: str, source: str, options: Mapping[str, Any]) -> Access:
        from divulge.targets import remote

        given = [name for name in ("authority", "certificate", "key", *OWN_FILES) if name in options]
        files = {name: str(self.home / str(options[name])) for name in given}
        return remote.connect(kind, source, {**options, **files}, look=False)

    def _dataset(self, kind: str, source: str, options: Mapping[str, Any]) -> Access:
        from divulge import datasets

        if "name" in options:
            raise BadInput("unknown key 'name'; a dataset's name is what dataset = says")
        makers: dict[str, type[TrainingData] | type[Candidates]] = {"training_data": TrainingData, "candidates": Candidates}
        if kind not in makers:
            raise BadInput(f"a dataset can be training_data or candidates, not {kind}; give a file instead")
        loaded = datasets.load(source, **options)
        return makers[kind](loaded.X, loaded.y, shape=loaded.shape)


def _explained(access: Access, told: Any) -> Gradients:
    """What answers with explanations, and of which kind the auditor says these are."""
    if not isinstance(access, Gradients):
        raise BadInput(f"option 'explained' is for kind gradients, got it for {access.kind}; leave it out")
    if not isinstance(told, dict) or not isinstance(told.get("kind"), str):
        raise BadInput(f'expected a table for explained, got {told!r}; write it as in {{ kind = "gradient times input" }}')
    refuse_unknown(told, [f.name for f in fields(Explanation) if f.name not in ("agreement", "points")], "explained")
    return replace(access, explanation=Explanation(**told))


def _truth(section: Mapping[str, Any], names: set[str], opener: _Opener) -> dict[str, Access | Mapping[str, Access]]:
    """`[truth.KIND]` holds for everything, `[truth.NAME.KIND]` for what goes back to one thing held."""
    truth: dict[str, Access | Mapping[str, Access]] = {}
    for key, value in section.items():
        if key in Access.kinds and key not in names:
            truth[key] = _true(key, value, f"[truth.{key}]", opener)
        else:
            refuse_unknown([key], names | set(Access.kinds), "[truth]")
            if not isinstance(value, dict):
                raise BadInput(
                    f"[truth]: expected a section [truth.{key}.KIND], got {key} = {value!r}; write it as a section"
                )
            refuse_unknown(value, Access.kinds, f"[truth.{key}]")
            truth[key] = {kind: _true(kind, part, f"[truth.{key}.{kind}]", opener) for kind, part in value.items()}
    return truth


def _true(kind: str, section: Any, where: str, opener: _Opener) -> Access:
    plain = isinstance(section, dict) and section and not any(key in section for key in SOURCES)
    if kind == "hyperparameters" and plain:
        return Hyperparameters(section)
    return opener.open(section, where, kind)


def _document(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise BadInput(f"expected an audit file at {path}, found none; docs/audit-file.md shows how to write one") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise BadInput(f"cannot read {path}: {error}; correct the file: docs/audit-file.md shows its form") from None


def _names(document: Mapping[str, Any], key: str, path: Path) -> tuple[str, ...] | None:
    found = document.get(key)
    if found is None:
        return None
    if not (isinstance(found, list) and all(isinstance(name, str) for name in found)):
        raise BadInput(f"{path}: expected a list of names for {key!r}, got {found!r}; or leave it out")
    return tuple(found)


def _for_machines(document: Mapping[str, Any], path: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The formats and the conditions that a file asks for, checked."""
    wanted, conditions = (_names(document, key, path) or () for key in ("format", "fail_on"))
    try:
        return formats.read(wanted), tuple(map(str, thresholds.read(conditions)))
    except BadInput as error:
        raise BadInput(f"{path}: {error}") from None


def _defend(told: Any, path: Path) -> tuple[Mapping[str, Any], ...]:
    """`[[defend]]` tables, or the same in short: each is tried by itself."""
    try:
        return tuple(defences.spelled(one, defences.DEFENCES) for one in (told if isinstance(told, list) else [told]))
    except BadInput as error:
        raise BadInput(f"{path} [[defend]]: {error}") from None


def _value(section: Mapping[str, Any], key: str, kind: type, default: Any, path: Path) -> Any:
    value = section.get(key, default)
    right = isinstance(value, int | float) if kind is float else isinstance(value, kind)
    if (value is not default and not right) or (kind in (int, float) and isinstance(value, bool)):
        raise BadInput(f"{path}: expected {kind.__name__} for {key!r}, got {value!r}; correct its value")
    return value
