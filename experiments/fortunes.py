"""Makes labelled texts of the sayings in Debian's package fortunes; the file's name is the label.

python -m experiments.fortunes /usr/share/games/fortunes fortunes.csv
"""

import csv
import io
import sys
from pathlib import Path

from fedmirage.common.drafts import write_whole

TOPICS = (
    *("art", "computers", "drugs", "education", "food"),
    *("law", "men-women", "politics", "science", "startrek"),
)


def make_csv(folder: Path) -> str:
    """Write the sayings of all topics as rows of text and label; twice the same counts once."""
    made = io.StringIO(newline="")
    writer = csv.writer(made, lineterminator="\n")
    writer.writerow(("text", "label"))
    for topic in TOPICS:
        sayings = (folder / topic).read_text(encoding="utf-8").split("\n%\n")
        rows = dict.fromkeys(" ".join(saying.split()) for saying in sayings)
        writer.writerows((text, topic) for text in rows if text.strip("%"))
    return made.getvalue()


if __name__ == "__main__":
    write_whole(Path(sys.argv[2]), make_csv(Path(sys.argv[1])).encode())
