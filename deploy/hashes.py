"""Write the SHA-256 of every file of the locked packages, as the index of your pip gives them.

    python deploy/hashes.py RUN.json < deploy/locks/3.11.lock > deploy/locks/3.11.hashes

Files of the Python that runs this are listed for every platform, and torch and torchvision
are left out, because every build of them (CPU, each CUDA) has files of its own. RUN.json is pip's
report of what running needs; other packages are tools for development, and come last.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

from pip._internal.commands import create_command
from pip._internal.index.collector import parse_links
from pip._internal.models.link import Link
from pip._vendor.packaging.utils import (
    canonicalize_name,
    parse_sdist_filename,
    parse_wheel_filename,
)
from pip._vendor.packaging.version import Version

MANY_BUILDS = {"torch", "torchvision"}
TOOLS = "# tools for development"  # the line that deploy/Dockerfile stops at
MINOR = sys.version_info.minor
HEADER = f"""# The SHA-256 of every file of the locked packages; written by `make lock`.
# pip install --require-hashes --no-deps -r deploy/locks/3.{MINOR}.hashes
# Left out: torch and torchvision, whose files differ from build to build."""


def main(report: Path) -> None:
    """Read the lock file, ask the index, print the result."""
    needed = {
        canonicalize_name(item["metadata"]["name"])
        for item in json.loads(report.read_text())["install"]
    }
    pins = [line.split("==") for line in sys.stdin.read().split() if "==" in line]
    lines: dict[bool, list[str]] = {True: [], False: []}
    index = Index()
    for name, version in pins:
        if name not in MANY_BUILDS:
            sums = sorted(index.sums(name, Version(version)))
            if not sums:
                sys.exit(f"the index has no SHA-256 for {name} {version}")
            hashes = "".join(f" \\\n    --hash=sha256:{each}" for each in sums)
            lines[name in needed].append(f"{name}=={version}{hashes}")
    print(HEADER, *lines[True], TOOLS, *lines[False], sep="\n")


class Index:
    """The index that pip is configured with, the first one if there are several."""

    def __init__(self) -> None:
        command = create_command("install")
        options, _ = command.parse_args([])
        with command.main_context():
            session = command.get_default_session(options)
            self.finder = command._build_package_finder(options, session)

    def sums(self, name: str, version: Version) -> Iterator[str]:
        """Yield the sums of all files of a version that this Python can use on any platform."""
        page = self.finder.search_scope.get_index_urls_locations(name)[0]
        response = self.finder._link_collector.fetch_response(Link(page))
        for link in parse_links(response) if response else ():
            if link.hash_name == "sha256" and link.hash and fits(link.filename, version):
                yield link.hash


def fits(filename: str, version: Version) -> bool:
    """Whether a file belongs to a version, and is a source or one for this Python."""
    try:
        if not filename.endswith(".whl"):
            return bool(parse_sdist_filename(filename)[1] == version)
        _, found, _, tags = parse_wheel_filename(filename)
    except ValueError:  # names and versions of old times
        return False
    return found == version and any(
        tag.interpreter in (f"cp3{MINOR}", "py3", f"py3{MINOR}")
        or (tag.abi == "abi3" and int(tag.interpreter.removeprefix("cp3") or 0) <= MINOR)
        for tag in tags
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
