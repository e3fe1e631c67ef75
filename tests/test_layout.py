"""The layout is a fact: rooms, import directions, a declaration for every method, no pickle.

No committed file names a path of one machine.
"""

import ast
import importlib
import os
import re
import subprocess
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
# What each room may import of the others. `fedmirage` is the product's front; the three folders of
# the federated program are its subpackages, as links in a checkout.
MAY_IMPORT = {
    "common": {"common"},
    "client": {"client", "common"},
    "server": {"server", "common"},
    "fedmirage": {"fedmirage", "client", "server", "common"},
    "experiments": {"experiments", "fedmirage", "client", "server", "common"},
}
PROGRAM = ("common", "client", "server")
# The rooms and loose modules of `fedmirage`, each of which imports only earlier ones, also inside
# functions. The package's own `__init__` names later ones, but loads them when they are asked for.
FRONT = (
    *("records", "runtimes", "settings", "show", "trained", "audit", "launch", "comparison"),
    *(
        "report",
        "follow",
        "node",
        "deployment",
        "submission",
        "testing",
        "skeleton",
        "api",
        "__init__",
    ),
    *("commands", "cli", "entry"),
)


def list_files(room: str) -> list[Path]:
    """List the sources of a room; links to other rooms are not followed."""
    return sorted(
        Path(folder, name)
        for folder, _, names in os.walk(ROOT / room, followlinks=False)
        for name in names
        if name.endswith(".py")
    )


SOURCES = [path.relative_to(ROOT).as_posix() for room in MAY_IMPORT for path in list_files(room)]
# Archives that exist only as pickles (CIFAR) are read by an unpickler that knows numpy arrays and
# nothing else. Between the processes of one run on one host, messages are pickled, as Python's own
# multiprocessing does it.
MAY_UNPICKLE = {"common/data/files/archives.py", "fedmirage/runtimes/parcels.py"}
PICKLES = {"pickle", "_pickle", "cPickle", "cloudpickle", "dill", "joblib", "shelve", "marshal"}
# What these packages export is Flower's public interface; docs/flower.md lists what else is used.
PUBLIC_FLOWER = (
    *("flwr.app", "flwr.common", "flwr.simulation"),
    *("flwr.client", "flwr.client.mod", "flwr.clientapp", "flwr.clientapp.mod"),
    *("flwr.server", "flwr.server.strategy", "flwr.server.workflow"),
    *("flwr.serverapp", "flwr.serverapp.strategy"),
)
MACHINE_PATH = re.compile(r"(?<![\w./~-])/(?:work|root)/")


def imports(tree: ast.Module) -> Iterator[str]:
    """The full names of all modules that a file imports, wherever the import stands."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def room_of(module: str) -> str:
    """The room of a module: `fedmirage.common.x` lies in common, `fedmirage.cli` in fedmirage."""
    first, _, rest = module.partition(".")
    second = rest.partition(".")[0]
    return second if first == "fedmirage" and second in PROGRAM else first


@pytest.mark.parametrize("source", SOURCES)
def test_imports_go_one_way(source: str) -> None:
    found = set(imports(ast.parse((ROOT / source).read_text())))
    assert not {name for name in found if name.split(".")[0] in PROGRAM}, "one name per module"
    ours = {room_of(name) for name in found} & (set(MAY_IMPORT) | {"tests"})
    assert ours <= MAY_IMPORT[source.split("/")[0]]


@pytest.mark.parametrize("source", [one for one in SOURCES if one.startswith("fedmirage/")])
def test_rooms_of_the_front_import_earlier_ones_only(source: str) -> None:
    own = source.split("/")[1].removesuffix(".py")
    parts = [name.split(".") for name in imports(ast.parse((ROOT / source).read_text()))]
    named = {part[1] for part in parts if part[0] == "fedmirage" and part[1:]} - {own, *PROGRAM}
    assert named <= set(FRONT[: FRONT.index(own)]), f"{own} comes before them in FRONT"


@pytest.mark.parametrize("source", SOURCES)
def test_relative_imports_stay_inside_their_package(source: str) -> None:
    """`from ...x import y` could climb out of `common`, past the test of directions."""
    depth = source.count("/")
    for node in ast.walk(ast.parse((ROOT / source).read_text())):
        if isinstance(node, ast.ImportFrom):
            assert node.level <= depth, f"{source}:{node.lineno}"


@pytest.mark.parametrize("side", ["client", "server"])
def test_every_half_of_a_method_has_its_declaration(side: str) -> None:
    def names(package: str) -> set[str]:
        return {path.stem for path in (ROOT / package / "methods").glob("[!_]*")}

    assert names(side) <= names("common")


@pytest.mark.parametrize("source", SOURCES)
def test_nothing_is_unpickled(source: str) -> None:
    tree = ast.parse((ROOT / source).read_text())
    loaded = {name.split(".")[0] for name in imports(tree)}
    assert source in MAY_UNPICKLE or not loaded & PICKLES
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        keywords = {keyword.arg: ast.unparse(keyword.value) for keyword in node.keywords}
        if ast.unparse(node.func) == "torch.load":
            assert keywords.get("weights_only") == "True", (
                f"{source}:{node.lineno}: torch.load without weights_only=True"
            )
        assert keywords.get("allow_pickle", "False") == "False", (
            f"{source}:{node.lineno}: allow_pickle"
        )


def find_private_flower() -> dict[str, set[str]]:
    """Map names of Flower's that are not public to the files that import them, also by a text."""
    public = set(PUBLIC_FLOWER)
    for package in PUBLIC_FLOWER:
        public |= {f"{package}.{name}" for name in importlib.import_module(package).__all__}
    used: dict[str, set[str]] = defaultdict(set)
    for path in [ROOT / source for source in SOURCES] + list_files("deploy"):
        tree = ast.parse(path.read_text())
        texts = [str(node.value) for node in ast.walk(tree) if isinstance(node, ast.Constant)]
        named = [text for text in texts if re.fullmatch(r"flwr(\.\w+)+", text)]
        for name in {*imports(tree), *named} - public:
            if name.split(".")[0] == "flwr":
                used[name].add(path.relative_to(ROOT).as_posix())
    return used


@pytest.mark.skipif(not (ROOT / "docs").exists(), reason="the pages are not here")
def test_private_names_of_flower_are_listed_with_the_files_that_use_them() -> None:
    listed: dict[str, set[str]] = {}
    for row in re.findall(r"^\| (`flwr\..*)", (ROOT / "docs/flower.md").read_text(), re.MULTILINE):
        names, files, reason, *_ = row.split(" | ")
        assert len(reason) > len("why"), row
        for name in re.findall("`(.+?)`", names):
            listed.setdefault(name, set()).update(re.findall("`(.+?)`", files))
    assert listed == find_private_flower(), "docs/flower.md lists each, with the reason"


@pytest.mark.parametrize("lock", sorted((ROOT / "deploy" / "locks").glob("*.lock")))
def test_the_lock_pins_every_dependency_and_names_no_place(lock: Path) -> None:
    lines = [line for line in lock.read_text().splitlines() if not line.startswith("#")]
    assert [line for line in lines if not re.fullmatch(r"[a-z0-9-]+==[a-z0-9.]+", line)] == []
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    wanted = project["dependencies"] + [name for extra in extras.values() for name in extra]
    wanted = [
        name for name in wanted if not name.startswith(project["name"])
    ]  # an extra of its own
    names = {re.split(r"[^A-Za-z0-9_.-]", requirement)[0].lower() for requirement in wanted}
    assert names - {line.split("==")[0] for line in lines} == set(), "run `make lock`"


def test_no_committed_file_names_a_place_on_one_machine() -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("not a git work tree")
    files = [ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]
    assert [path for path in files if MACHINE_PATH.search(path.read_text(errors="replace"))] == []


def test_messages_that_train_nothing_load_no_torch() -> None:
    """Over gRPC every message is a process of its own, and three of the four of a secure round are
    only about keys."""
    code = "import sys, fedmirage.client.app; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


@pytest.mark.parametrize(
    "test",
    sorted((ROOT / "tests").rglob("*.py")),
    ids=lambda path: path.relative_to(ROOT).as_posix(),
)
def test_no_test_imports_from_another_test(test: Path) -> None:
    """What two tests need lies in tests/support."""
    for node in ast.walk(ast.parse(test.read_text())):
        names = [str(node.module)] if isinstance(node, ast.ImportFrom) else []
        names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        for name in names:
            room = name.split(".")[:2]
            assert room[0] != "tests" or room == ["tests", "support"], f"line {node.lineno}: {name}"


@pytest.mark.parametrize("page", sorted((ROOT / "docs").rglob("*.md")), ids=lambda path: path.stem)
def test_paths_that_the_docs_name_exist(page: Path) -> None:
    """A page that names a file or a folder of the source in backticks must follow when it moves."""
    named = re.findall(rf"`((?:{'|'.join(MAY_IMPORT)}|tests)/[\w./-]*)`", page.read_text())
    assert [name for name in named if not (ROOT / name).exists()] == []


def list_folders(root: Path) -> list[str]:
    """List a folder and those below it, by their path from the checkout."""
    folders = [Path(folder) for folder, _, _ in os.walk(root, followlinks=False)]
    names = [path.relative_to(ROOT).as_posix() for path in folders]
    return sorted(name for name in names if "__pycache__" not in name)


@pytest.mark.skipif(not (ROOT / "docs").exists(), reason="the pages are not here")
def test_the_tree_of_the_architecture_names_every_folder() -> None:
    """A folder inside these, such as a method's, may be left to its parent."""
    tree = (ROOT / "docs/architecture.md").read_text().partition("## The tree")[2].split("```")[1]
    parts = re.split(r"^(\w+)/", tree, flags=re.MULTILINE)[1:]  # name, text, name, text, ...
    told = dict(zip(parts[::2], parts[1::2], strict=True))
    missing = [
        folder.relative_to(ROOT).as_posix()
        for package in MAY_IMPORT
        for folder in (ROOT / package).glob("*")
        if folder.is_dir() and not folder.is_symlink() and folder.name != "__pycache__"
        if f"{folder.name}/" not in told.get(package, "")
    ]
    assert missing == []


def test_tests_lie_in_the_folders_of_the_source() -> None:
    """Tests of whole methods, whole runs and real processes have folders of their own."""
    mirrored = [name.removeprefix("tests/") for name in list_folders(ROOT / "tests")]
    rooms = {name.split("/")[0] for name in mirrored} - {"tests", "methods", "rounds", "e2e"}
    known = {folder for package in MAY_IMPORT for folder in list_folders(ROOT / package)}
    assert rooms - {"support"} == {*MAY_IMPORT, "deploy"}
    assert {name for name in mirrored if name.split("/")[0] in MAY_IMPORT} <= known
