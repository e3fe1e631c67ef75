"""Commands for a SuperLink that stays: its keys, whom it admits, how it is getting on."""

from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text

from fedmirage.commands.console import out
from fedmirage.common.errors import FedmirageError
from fedmirage.show.words import make_table, say

if TYPE_CHECKING:
    from fedmirage.deployment.status import RunStatus

FOLDER = "federation"


def key(file: Path) -> None:
    """Make the key pair of a site, on its own host.

    FILE is the private key and never leaves the host; FILE.pub goes to whoever runs the SuperLink.
    The name of the file is the name of the site.

    Example: fedmirage key site-a

    Arguments:
        file: The private key, called by the site: site-a, or /srv/site-a.
    """
    from fedmirage.deployment.sites import make_key

    private, public = make_key(file)
    say(out, f"made {private}, which stays on this host, for --auth-supernode-private-key")
    say(out, f"made {public}: send it to whoever runs the SuperLink, for `fedmirage admit`")


def superlink(
    folder: Path = Path(FOLDER),
    host: list[str] | None = None,
    certificates: Path | None = None,
    certificates_only: bool = False,
    insecure: bool = False,
    fleet_api_address: str = "0.0.0.0:9092",
    control_api_address: str = "127.0.0.1:9093",
    serverappio_api_address: str = "127.0.0.1:9091",
) -> None:
    """Start a SuperLink: with a database, TLS, and only the nodes of sites that it has admitted.

    It is Flower's flower-superlink, and this prints the command. Its folder has its certificates,
    its database and the list of sites; back it up, and start it again with the same command.

    Example: fedmirage superlink federation --host fl.example.org

    Arguments:
        folder: Where it keeps everything; made if it is not there.
    Certificates:
        host: A name or an address by which nodes reach this machine, for the certificate; may be
            given several times. [default: this machine's own names]
        certificates: Folder of ca.crt, server.crt and server.key; what is missing is made.
            [default: certificates in FOLDER]
        certificates_only: Make what is missing, and start nothing.
        insecure: Neither TLS nor keys: everybody who reaches it may take part; only where nobody
            else can.
    Addresses:
        fleet_api_address: HOST:PORT where nodes connect.
        control_api_address: HOST:PORT where runs are submitted and sites admitted. Whoever reaches
            it can run code here, so it is this machine's loopback.
        serverappio_api_address: HOST:PORT where its own processes meet.
    """
    from fedmirage.deployment.certificates import make_certificates
    from fedmirage.deployment.link import Home
    from fedmirage.deployment.program import Program, start

    home = Home(folder.absolute())
    place = (certificates or home.certificates).absolute()
    if certificates_only:
        if insecure:
            raise FedmirageError("--certificates-only and --insecure exclude each other")
        for line in make_certificates(place, host or ()):
            say(out, line)
        return
    addresses = (fleet_api_address, control_api_address, serverappio_api_address)
    program = Program(home, place, host or (), insecure, *addresses)
    for line in program.prepare():
        say(out, line)
    start(program)


def admit(
    keys: list[Path] | None = None,
    superlink: Path = Path(FOLDER),
    revoke: list[str] | None = None,
    only: bool = False,
) -> None:
    """Admit sites: register their public keys, and bind each to a name and a partition.

    A site is called as its file, and gets the lowest free partition. A node that claims another's
    name or partition is refused. If anything is wrong, nothing is changed.

    Example: fedmirage admit site-a.pub site-b.pub site-c.pub

    Arguments:
        keys: Public keys, each called by its site: site-a.pub site-b.pub.
    Options:
        superlink: The folder of a SuperLink that runs on this machine.
        revoke: A site whose key no longer counts; may be given several times.
        only: Revoke everybody whose key is not given here.
    """
    from fedmirage.deployment.link import Home, control, find_link
    from fedmirage.deployment.sites import Admitted

    home = Home(superlink.absolute())
    if not home.exists:
        raise FedmirageError(
            f"--superlink {superlink}: no SuperLink was started there; write the folder of"
            " `fedmirage superlink FOLDER`, on its machine"
        )
    if not (keys or revoke or only):
        raise FedmirageError("nothing is asked for; write the files of public keys, or --revoke")
    if revoke and (keys or only):
        raise FedmirageError("--revoke and keys are two commands; revoke first, then admit")
    link = find_link(str(home.folder))
    if link.insecure:
        raise FedmirageError(
            f"the SuperLink of {superlink} was started with --insecure, and admits everybody; start"
            " it without"
        )
    with control(link) as asked:
        admitted = Admitted(asked, home.nodes)
        said = admitted.revoke(revoke) if revoke else admitted.admit(keys or [], only)
    for line in said:
        say(out, line)


def status(where: str = FOLDER, run: str | None = None) -> None:
    """Show how a federation is getting on: runs and rounds, who is connected, late or away.

    Example: fedmirage status federation  ·  fedmirage status runs/first

    Arguments:
        where ADDRESS|DIR: A SuperLink, by its folder, or by its name or address in Flower's
            config.toml; or the folder of a run.
    Options:
        run: Only this run of the SuperLink, with all its clients.
    """
    from fedmirage.deployment.link import control, find_link
    from fedmirage.deployment.status import describe_folder, list_runs, list_sites
    from fedmirage.server.record.results import FILE

    if (Path(where) / FILE).exists():
        if run is not None:
            raise FedmirageError(f"--run {run}: {where} is the folder of one run; leave it out")
        show_runs([describe_folder(Path(where))], all_clients=True)
        return
    link = find_link(where)
    with control(link) as orders:
        runs = list_runs(orders, run)
        sites = list_sites(link, orders)
    say(out, f"SuperLink at {link.address}")
    if run is None:
        table = make_table(("site", "partition", "state"), ("partition",))
        for row in sites:
            table.add_row(*row)
        out.print(table)
    show_runs(runs, all_clients=run is not None)


def show_runs(runs: "list[RunStatus]", all_clients: bool) -> None:
    """Show runs in a table, and clients below it: all of them, or those that were left out."""
    table = make_table(("run", "state", "since", "rounds", "methods", "results"), ())
    for run in runs:
        cells = (run.name, run.state, run.since, run.rounds, run.methods, str(run.folder))
        table.add_row(*map(Text, cells))
    out.print(table)
    for run in runs:
        shown = [client for client in run.clients if all_clients or client.late]
        for client in shown:
            say(out, f"{client}" if all_clients else f"run {run.name}, {client}")
