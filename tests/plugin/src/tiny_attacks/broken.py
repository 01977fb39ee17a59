"""A plug-in that cannot be loaded."""

raise ImportError("a library that nobody has")
