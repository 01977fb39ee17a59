"""The door to notebooks: what shows values there registers in the entry-point group `divulge.displays`.

A cell shows a value by its `_repr_html_`. Values live down here; what draws them lives far above, with libraries that not
every installation has. So a value asks through this door, as models in memory are read through that of `reading`; and
nothing is loaded before a cell shows something.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from importlib.metadata import entry_points

GROUP = "divulge.displays"
"`html` draws a value; `bar` watches one attack."

Progress = Callable[[int, int], None]


class Shown:
    """A value that a notebook draws, where what draws it is installed; elsewhere it is text."""

    def _repr_html_(self) -> str | None:
        return html(self)


def html(value: object, *rest: object) -> str | None:
    """A fragment for a cell; None, for which a notebook shows text, where a library that draws it is missing."""
    for point in entry_points(group=GROUP, name="html"):
        try:
            drawn: str | None = point.load()(value, *rest)
        except ModuleNotFoundError as missing:
            if (missing.name or "").partition(".")[0] == "divulge":
                raise
            return None
        return drawn
    return None


def bar(title: str) -> AbstractContextManager[Progress | None]:
    """What an attack that is called in a notebook tells its progress to; nobody elsewhere."""
    for point in entry_points(group=GROUP, name="bar") if in_kernel() else ():
        shown: AbstractContextManager[Progress] = point.load()(title)
        return shown
    return nullcontext()


def in_kernel() -> bool:
    """Whether this is a notebook's kernel. IPython is only looked for: in a kernel it is loaded."""
    find = getattr(sys.modules.get("IPython"), "get_ipython", None)
    shell = find() if find else None
    return any(kind.__name__ == "ZMQInteractiveShell" for kind in type(shell).__mro__)
