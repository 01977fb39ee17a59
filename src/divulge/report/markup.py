"""Text as the page and notebooks set it."""

from __future__ import annotations

import re

from markupsafe import Markup, escape


def code(text: str) -> Markup:
    """Text with `names` set as code; everything in it is escaped first."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))
