"""What somebody's own code may not do while it is called."""

import socket
import subprocess
import threading
from collections.abc import Callable

import pytest

from fedmirage.common.confinement import confined
from fedmirage.common.errors import ConfigurationError

START: list[Callable[[], object]] = [
    lambda: subprocess.run(["true"], check=True),
    lambda: socket.create_connection(("127.0.0.1", 9), 1),
]


@pytest.mark.parametrize("leave", START)
def test_what_is_confined_cannot_leave(leave: Callable[[], object]) -> None:
    sentence = "it tried to use the network or to start"
    with pytest.raises(ConfigurationError, match=sentence), confined("it"):
        leave()


def test_afterwards_and_in_other_threads_nothing_is_confined() -> None:
    """Ray is started in a thread while another one examines a network."""
    codes = []
    with confined("it"):
        thread = threading.Thread(target=lambda: codes.append(subprocess.run(["true"]).returncode))
        thread.start()
        thread.join()
    assert codes == [subprocess.run(["true"]).returncode]
