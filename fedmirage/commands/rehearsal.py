"""`fedmirage rehearse`: the federation at home, before any site joins."""

from pathlib import Path
from typing import Any

from fedmirage.commands.console import out
from fedmirage.commands.work import carry_on, pick_settings
from fedmirage.common.errors import ConfigurationError
from fedmirage.node.checks import read_node_config
from fedmirage.node.findings import FAULT, OK, pick
from fedmirage.runtimes.sites import Sites
from fedmirage.settings.layers import read_layers

OWN = ("partition-id", "num-partitions", "data", "memory", "name")  # what each site has differently
TOLD = ("data", "the run's line")


def rehearse(sites: list[Path], node_config: str = "", **given: Any) -> None:
    """Play a federation at home: one client per site, each with all of that site's data.

    It has the settings, the checks and the bits of the deployment in which a node per site names
    the same data. The server's own set is that of --dataset, with the line that the run will have.

    Arguments:
        sites: A folder or file per site, as a node would name it in data=.
    Options:
        node_config: What every site's node would have, e.g. 'skip=true' or 'require="secagg"'.
            [default: none]
    """
    nodes, settings = describe_sites(sites, node_config), pick_settings(given)
    problems = list_problems(nodes, settings)
    layers = [settings, *read_layers(given["preset"], given["config"])]
    if not given["resume"] and not any("dataset" in layer for layer in layers):
        problems.append("--dataset is missing; write the run's line, with the server's own set")
    carry_on(given, {"clients": str(len(nodes)), **settings}, problems, nodes)


def describe_sites(sites: list[Path], node_config: str) -> Sites:
    """Return what the node of each site would have in its --node-config."""
    common = read_node_config(node_config)
    if taken := [key for key in OWN if key in common]:
        raise ConfigurationError(
            f"--node-config: {', '.join(taken)} cannot be set; each site has its own, by its place"
            " on the command line"
        )
    return [{**common, "data": str(path.expanduser().absolute())} for path in sites]


def list_problems(nodes: Sites, settings: dict[str, Any]) -> list[str]:
    """Check every site's data as its node would, and say what they are."""
    from fedmirage.node.own_files import examine_data  # loads NumPy, which --help must not

    problems = []
    if settings.get("clients", str(len(nodes))) != str(len(nodes)):
        told = f"--clients {settings['clients']}: there are {len(nodes)} sites; leave it out"
        problems.append(told)
    paths = [node["data"] for node in nodes]
    if double := sorted({path for path in paths if paths.count(path) > 1}):
        problems.append(f"{', '.join(double)}: named twice; each site has data of its own")
    for number, node in enumerate(nodes):
        path = Path(node["data"])
        if not path.exists():
            problems.append(f"{path}: nothing is there; write the path of the site's data")
            continue
        skip, schema = node.get("skip") is True, str(node.get("schema", ""))
        findings = examine_data(path, skip, schema)
        problems += [found.text for found in pick(findings, FAULT)]
        for found in findings:
            if found.state != FAULT and (found.state != OK or found.subject in TOLD):
                name = found.subject if found.state == OK else found.state
                out.print(f"site {number}, {name}: {found.text}", highlight=False, markup=False)
    return problems
