"""The processes that a run starts; none of them outlives the run or the process that started it."""

import contextlib
import os
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from fedmirage.common.own_code import VARIABLE
from fedmirage.runtimes import guardian
from fedmirage.runtimes.interrupts import INTERRUPTIONS


class Processes:
    """Everything with one mark (NAME=VALUE) in its environment.

    Flower's SuperExec and Ray's daemons detach themselves from the process that starts them, so
    process groups and parents are not enough to find them. The environment is inherited by all.
    """

    def __init__(self, mark: str, folder: Path | None = None, adopted: bool = False) -> None:
        self.mark, self.folder = mark, folder  # the folder is removed if this process is killed
        self.adopted = adopted  # whether whoever kills this process kills its children, as Ray does
        self.started: list[subprocess.Popen[bytes]] = []
        self.guardian: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "Processes":
        command = [sys.executable, "-I", "-S", guardian.__file__, self.mark]
        command += [str(self.folder)] if self.folder else []
        if self.adopted:  # a shell that starts it and ends leaves it without a parent
            command = ["sh", "-c", 'exec 3<&0; "$@" <&3 3<&- &', "sh", *command]
        self.guardian = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True
        )
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def spawn(
        self, command: Sequence[str], environment: Mapping[str, str], **options: Any
    ) -> "subprocess.Popen[bytes]":
        """Start a process in a session of its own, which a terminal's Ctrl-C does not reach."""
        name, _, value = self.mark.partition("=")
        process = subprocess.Popen(
            command,
            env={**environment, name: value},
            start_new_session=True,
            **{"stdin": subprocess.DEVNULL, **options},
        )
        self.started.append(process)
        pass_on_priority(process.pid)
        return process

    def stop(self) -> None:
        """End all of them at once; this is safe, because their files are complete at any moment."""
        with undisturbed():
            for process in self.started:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(process.pid, signal.SIGKILL)  # its session, for systems without /proc
            guardian.end_all(self.mark)
            for process in self.started:
                process.wait()
            if self.guardian is not None and self.guardian.stdin is not None:
                with contextlib.suppress(OSError):
                    self.guardian.stdin.write(b"all is well")
                    self.guardian.stdin.close()
                self.guardian.wait()


def pass_on_priority(session: int) -> None:
    """Let a new session have as low a priority as this process has.

    Linux shares the processor among sessions (see "autogroup" in sched(7)), and a process's own
    niceness counts only within its session. Other systems have no such file, and need it not.
    """
    if niceness := os.nice(0):
        with contextlib.suppress(OSError):
            Path(f"/proc/{session}/autogroup").write_text(str(niceness))


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Delay signals until the block has ended, so that nothing interrupts it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, INTERRUPTIONS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def environment() -> dict[str, str]:
    """Return this process's environment, changed so that a new Python finds this code first.

    It also finds the modules that this process finds, after all others: somebody's own code.
    """
    root = str(Path(__file__).parents[2])
    known = os.environ.get("PYTHONPATH")
    path = os.pathsep.join([root, known] if known else [root])
    return {**os.environ, "PYTHONPATH": path, VARIABLE: os.pathsep.join(own_folders())}


def own_folders() -> list[str]:
    """List the folders of this process's path that do not belong to Python, and the current one."""
    installed = [Path(folder) for folder in sysconfig.get_paths().values()]
    given = os.environ.get(VARIABLE, "").split(os.pathsep)
    folders = [Path(entry).absolute() for entry in (*filter(None, given), *sys.path, ".")]
    return [
        str(folder)
        for folder in dict.fromkeys(folders)
        if folder.is_dir() and not any(folder.is_relative_to(place) for place in installed)
    ]
