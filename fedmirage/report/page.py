"""Puts the page together: one HTML file with its styles, its programs and its numbers inside.

The tables and pictures are written here, so that they can be read without JavaScript, which adds
the plots. A content security policy inside the page forbids every request to a network.
"""

import base64
import gzip
import json
from collections.abc import Mapping
from functools import lru_cache
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

from fedmirage.report.html import Html, element, join

ASSETS = files("fedmirage.report") / "assets"
STYLES = ("page.css", "tables.css", "print.css")
PROGRAMS = ("theme.js", "traces.js", "plots.js", "series.js", "live.js", "main.js")
EMBEDDED = ("title", "going", "plots", "series")  # what the programs need; the HTML is there


def render(data: Mapping[str, Any], live: bool = False) -> str:
    """Write what `gather` returned as a page.

    A live page asks its own server for `data.json` and brings itself up to date.
    """
    embedded = {key: data[key] for key in EMBEDDED}
    return Template(_asset("page.html")).substitute(
        title=escape(data["title"]),
        made=escape(data["made"]),
        live="true" if live else "false",
        connect="'self'" if live else "'none'",
        styles="\n".join(map(_asset, STYLES)),
        programs="\n".join(map(_asset, PROGRAMS)),
        contents=data["html"]["contents"],
        problems=data["html"]["problems"],
        groups=join(map(_group, data["html"]["groups"])),
        data=inside_script(embedded),
        plotly=compressed_plotly(),
    )


def inside_script(value: Any) -> str:
    """Write JSON that no text in it can end: in a script, only `<` has a meaning for HTML."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


@lru_cache(maxsize=1)
def compressed_plotly() -> str:
    """Return plotly.js for the browser to unpack.

    Its 4.85 MB become 1.47 MB by gzip, and 1.96 MB as text, so that a page has about 2 MB instead
    of 5; packing takes 0.4 s and unpacking in a browser a tenth of that. Level 9 would save 4 kB
    more.
    """
    from plotly.offline import get_plotlyjs

    packed = gzip.compress(get_plotlyjs().encode(), compresslevel=6, mtime=0)
    return base64.b64encode(packed).decode()


def _asset(name: str) -> str:
    return (ASSETS / name).read_text(encoding="utf-8")


def _group(group: Mapping[str, Any]) -> Html:
    heading = element("h2", group["title"], id=f"{group['id']}-title")
    head = element("div", Html(group["head"]), class_="head")
    sections = join(map(_section, group["sections"]))
    content = join((heading, head, sections))
    return element("article", content, id=group["id"], aria_labelledby=f"{group['id']}-title")


def _section(section: Mapping[str, Any]) -> Html:
    heading = element("h3", section["title"], id=f"{section['id']}-title")
    body = element("div", Html(section["html"]), class_="body")
    label = f"{section['id']}-title"
    return element("section", join((heading, body)), id=section["id"], aria_labelledby=label)
