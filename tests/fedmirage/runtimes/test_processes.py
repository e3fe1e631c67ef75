"""Nothing outlives the process that started it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fedmirage.runtimes.guardian import processes_with
from fedmirage.runtimes.processes import Processes, environment
from tests.support.commands import wait_until

ORPHAN = "import subprocess, time; subprocess.Popen(['sleep', '600'], start_new_session=True)"


def test_a_detached_grandchild_is_ended_too(tmp_path: Path) -> None:
    mark = f"FEDMIRAGE_RUN={tmp_path}"
    with Processes(mark) as processes:
        processes.spawn([sys.executable, "-c", ORPHAN], environment()).wait()
        assert len(processes_with(mark)) == 1
    assert processes_with(mark) == set()
    assert processes.guardian is not None
    assert processes.guardian.returncode == 0


def test_the_guardian_ends_what_a_killed_process_started(tmp_path: Path) -> None:
    mark, rubbish = f"FEDMIRAGE_RUN={tmp_path}", tmp_path / "rubbish"
    rubbish.mkdir()
    code = f"""
import time
from pathlib import Path
from fedmirage.runtimes.processes import Processes, environment
with Processes({mark!r}, Path({str(rubbish)!r})) as processes:
    processes.spawn(["sleep", "600"], environment())
    time.sleep(600)
"""
    starter = subprocess.Popen([sys.executable, "-c", code], env=environment())
    wait_until(lambda: len(processes_with(mark)) == 1, 60, "it has started something")
    starter.kill()
    starter.wait()
    wait_until(lambda: not processes_with(mark), 30, "it is ended")
    wait_until(lambda: not rubbish.exists(), 30, "its folder is removed")


@pytest.mark.skipif(not Path("/proc/self/autogroup").exists(), reason="sessions have no priority")
def test_a_session_has_the_priority_of_the_process_that_started_it() -> None:
    program = """
import os
from pathlib import Path
from fedmirage.runtimes.processes import Processes, environment
os.nice(7)
with Processes("FEDMIRAGE_TEST=priority") as processes:
    started = processes.spawn(["sleep", "60"], environment())
    print(Path(f"/proc/{started.pid}/autogroup").read_text())
"""
    done = subprocess.run(
        [sys.executable, "-P", "-c", program], env=environment(), capture_output=True, text=True
    )
    assert done.stdout.strip().endswith(f"nice {os.nice(0) + 7}"), done.stderr
