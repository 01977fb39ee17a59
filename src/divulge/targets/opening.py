"""Opening files from strangers: whatever is wrong with one is said in a sentence."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from divulge.errors import BadInput

LONGEST_REASON = 160
"A library's reason is quoted up to here: some write paragraphs."


def contents(path: Path, endings: Collection[str], what: str) -> bytes:
    """The bytes of a file whose name ends as expected."""
    try:
        found = "folder" if path.is_dir() else "file" if path.exists() else "nothing"
        fits = path.suffix.lower() in endings
        blob = path.read_bytes() if found == "file" and fits else b""
    except (OSError, ValueError) as error:
        raise BadInput(f"cannot read {path}: {reason(error)}; check its name and that you may read it") from None
    if found == "nothing":
        raise BadInput(f"expected {what} in the file {path}, found no such file; check its name")
    if found == "folder":
        raise BadInput(f"expected {what} in a file, got the folder {path}; name the file in it")
    if not fits:
        raise BadInput(
            f"expected {what} in a file ending in {' or '.join(endings)}, got {path.name}; save it as one of these"
        )
    if not blob:
        raise BadInput(f"expected {what} in {path}, got an empty file; save it again")
    return blob


@contextmanager
def opened(path: Path, what: str) -> Iterator[None]:
    """Whatever a library raises while it reads a file becomes one sentence."""
    try:
        yield
    except BadInput:
        raise
    except ImportError as error:
        raise BadInput(
            f"cannot read {path.name}: {reason(error)}; get what reads such files by pip install 'divulge[files,torch]'"
        ) from None
    except Exception as error:  # a damaged file can make a library raise anything
        if "allow_pickle" in str(error):
            raise BadInput(
                f"expected plain numbers in {path.name}, got pickled Python objects, which can run code when they are read; "
                "save arrays of numbers instead"
            ) from None
        raise BadInput(
            f"cannot read {path.name} as {what}: {reason(error)}; it may be damaged or cut short, so save it again"
        ) from None


def reason(error: Exception) -> str:
    """What a library says was wrong: its first line, not too long."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    reason = lines[0].rstrip(".;:") if lines else type(error).__name__
    return reason if len(reason) <= LONGEST_REASON else reason[:LONGEST_REASON] + " ..."
