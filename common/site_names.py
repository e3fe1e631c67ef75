"""The names of sites: what people call a client whose node belongs to somebody.

A client is its partition, in seeds, files and messages. A name stands beside it, for people.
"""

import re

SITE = "site"  # what a node calls it when it says who it is
LONGEST = 40  # characters
NAME = re.compile(rf"[A-Za-z][A-Za-z0-9._-]{{0,{LONGEST - 1}}}")
RULE = f"write up to {LONGEST} letters, digits, dots, dashes and underscores, a letter first"


def is_site_name(text: object) -> bool:
    """Whether something may be the name of a site; a number may not, since clients have numbers."""
    return isinstance(text, str) and NAME.fullmatch(text) is not None
