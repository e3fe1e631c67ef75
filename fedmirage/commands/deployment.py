"""Commands for a SuperLink that stays: its keys, whom it admits, how it is getting on."""

from pathlib import Path
from typing import Annotated

import typer

from fedmirage.commands.console import out
from fedmirage.commands.federation import option
from fedmirage.common.errors import FedmirageError
from fedmirage.show.words import say

FOLDER = "federation"
ADDRESSES, KEYS = "Addresses", "Certificates"


def key(
    file: Annotated[
        Path, typer.Argument(help="The private key, called by the site: site-a, or /srv/site-a.")
    ],
) -> None:
    """Make the key pair of a site, on its own host.

    FILE is the private key and never leaves the host; FILE.pub goes to whoever runs the SuperLink.
    The name of the file is the name of the site.

    Example: fedmirage key site-a
    """
    from fedmirage.deployment.keys import make_key

    private, public = make_key(file)
    say(out, f"made {private}, which stays on this host, for --auth-supernode-private-key")
    say(out, f"made {public}: send it to whoever runs the SuperLink, for `fedmirage admit`")


def superlink(
    folder: Annotated[
        Path, typer.Argument(help="Where it keeps everything; made if it is not there.")
    ] = Path(FOLDER),
    host: Annotated[
        list[str] | None,
        option(
            "A name or an address by which nodes reach this machine, for the certificate; may be"
            " given several times.",
            KEYS,
            show_default="this machine's own names",
        ),
    ] = None,
    certificates: Annotated[
        Path | None,
        option(
            "Folder of ca.crt, server.crt and server.key; what is missing is made.",
            KEYS,
            show_default="certificates in FOLDER",
        ),
    ] = None,
    certificates_only: Annotated[
        bool, option("Make what is missing, and start nothing.", KEYS, "--certificates-only")
    ] = False,
    insecure: Annotated[
        bool,
        option(
            "Neither TLS nor keys: everybody who reaches it may take part; only where nobody else"
            " can.",
            KEYS,
            "--insecure",
        ),
    ] = False,
    fleet_api_address: Annotated[
        str, option("HOST:PORT where nodes connect.", ADDRESSES)
    ] = "0.0.0.0:9092",
    control_api_address: Annotated[
        str,
        option(
            "HOST:PORT where runs are submitted and sites admitted. Whoever reaches it can run code"
            " here, so it is this machine's loopback.",
            ADDRESSES,
        ),
    ] = "127.0.0.1:9093",
    serverappio_api_address: Annotated[
        str, option("HOST:PORT where its own processes meet.", ADDRESSES)
    ] = "127.0.0.1:9091",
) -> None:
    """Start a SuperLink: with a database, TLS, and only the nodes of sites that it has admitted.

    It is Flower's flower-superlink, and this prints the command. Its folder has its certificates,
    its database and the list of sites; back it up, and start it again with the same command.

    Example: fedmirage superlink federation --host fl.example.org
    """
    from fedmirage.deployment.certificates import make_certificates
    from fedmirage.deployment.home import Home
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
    keys: Annotated[
        list[Path] | None,
        typer.Argument(help="Public keys, each called by its site: site-a.pub site-b.pub."),
    ] = None,
    superlink: Annotated[
        Path, typer.Option(help="The folder of a SuperLink that runs on this machine.")
    ] = Path(FOLDER),
    revoke: Annotated[
        list[str] | None,
        typer.Option(help="A site whose key no longer counts; may be given several times."),
    ] = None,
    only: Annotated[
        bool, typer.Option("--only", help="Revoke everybody whose key is not given here.")
    ] = False,
) -> None:
    """Admit sites: register their public keys, and bind each to a name and a partition.

    A site is called as its file, and gets the lowest free partition. A node that claims another's
    name or partition is refused. If anything is wrong, nothing is changed.

    Example: fedmirage admit site-a.pub site-b.pub site-c.pub
    """
    from fedmirage.deployment.home import Home
    from fedmirage.deployment.link import control, find_link
    from fedmirage.deployment.sites import Admitted

    home = Home(superlink.absolute())
    if not home.exists:
        raise FedmirageError(
            f"--superlink {superlink}: no SuperLink was started there; write the folder of"
            " `fedmirage superlink FOLDER`, on its machine"
        )
    if not (keys or revoke or only):
        raise FedmirageError("nothing is asked for; write the files of public keys, or --revoke")
    link = find_link(str(home.folder))
    if link.insecure:
        raise FedmirageError(
            f"the SuperLink of {superlink} was started with --insecure, and admits everybody; start"
            " it without"
        )
    with control(link) as asked:
        admitted = Admitted(asked, home.nodes)
        said = admitted.revoke(revoke or [])
        said += admitted.admit(keys or [], only) if keys or only else []
    for line in said:
        say(out, line)
