"""What is seen of an audit while it runs: a page without scripts that the browser loads again by itself."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from html import escape

import numpy as np

from divulge.contract import Preview
from divulge.report import pictures, wording
from divulge.report.pictures import Gallery

REFRESH = 5
"Seconds after which the browser loads the page again: it is written every three seconds at most."
STYLE = """
:root { color-scheme: light dark; }
body { max-width: 66rem; margin: 2.5rem auto; padding: 0 1.5rem; font: 1rem/1.5 system-ui, sans-serif; }
p, h1, h2 { overflow-wrap: anywhere; }
h1 { font-size: 1.35rem; }
h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; }
.note { font-size: .85rem; opacity: .75; }
.pictures { display: flex; flex-wrap: wrap; gap: .5rem; }
img { width: 5.5rem; height: auto; image-rendering: pixelated; }
"""


def render(title: str, now: str, seconds: float, sections: Sequence[str]) -> str:
    """The page: `now` is what runs, for so many seconds, and sections have the pictures so far, the latest first."""
    parts = "\n".join(sections)
    policy = f"default-src 'none'; img-src data:; style-src {_hash(STYLE)}; base-uri 'none'; form-action 'none'"
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta http-equiv="refresh" content="{REFRESH}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<link rel="icon" href="data:,">
<title>{escape(title)}: running</title>
<style>{STYLE}</style>
</head>
<body>
<h1>{escape(title)}: running</h1>
<p>{escape(now)}, for {wording.duration(seconds)}.</p>
<p class="note">Pictures so far, judged by the attack alone: nothing here has been compared with the truth. The page loads
itself again every {REFRESH} seconds and is removed when the audit ends; then report.html lies beside it.</p>
{parts}
</body>
</html>
"""


def section(attack: str, preview: Preview) -> str:
    """A part of the page: what an attack has so far. What is no picture is told in words alone."""
    gallery = _gallery(preview)
    images = "".join(
        f'<img src="{escape(picture.uri)}" width="{picture.width}" height="{picture.height}" alt="{escape(picture.alt)}">'
        for group, _ in gallery.groups
        for picture in group
    )
    notes = " ".join(filter(None, (preview.note, gallery.note)))
    return (
        f'<h2>{escape(preview.title)}</h2>\n<p class="note">{escape(attack)}. {escape(notes)}</p>\n'
        f'<div class="pictures">{images}</div>'
    )


def _gallery(preview: Preview) -> Gallery:
    X = np.asarray(preview.X, dtype=float)
    if not (len(X) and pictures.drawable(preview.shape) and X[0].size == np.prod(preview.shape)):
        return Gallery("", ())
    return pictures.points(np.nan_to_num(X), preview.shape, None, "picture")


def _hash(content: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"
