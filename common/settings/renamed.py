"""Former names of settings; whoever writes one is told the present one.

It serves flags, TOML files, Flower's run config and keywords in Python. Keys inside the parentheses
of a line have a table of their own: `renamed` of their `Params`.
"""

RENAMED: dict[str, str] = {}  # former key -> present key, both as written in TOML


def present_name(key: str) -> str | None:
    """Return what a setting is called now, if `key` is one of its former names."""
    return RENAMED.get(key.replace("_", "-"))
