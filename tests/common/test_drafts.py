"""What killed processes were writing is removed, and nothing else."""

import os
import subprocess
import sys
from pathlib import Path

from fedmirage.common.drafts import remove_drafts


def test_what_a_killed_process_had_begun_is_removed_and_nothing_else(tmp_path: Path) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    stale = [f".model.safetensors.{gone.pid}.tmp", f".results.jsonl.{gone.pid}.tmp"]
    kept = [
        f".model.safetensors.{os.getpid()}.tmp",  # of a process that is running
        f"model.safetensors.{gone.pid}.tmp",
        ".model.safetensors.tmp",
        ".model.safetensors.x1.tmp",
        "notes.tmp",
    ]
    for name in (*stale, *kept):
        (tmp_path / name).write_text("")
    remove_drafts(tmp_path)
    remove_drafts(tmp_path / "nowhere")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(kept)


def test_a_process_that_is_killed_leaves_a_draft_that_is_known_as_one(tmp_path: Path) -> None:
    killed = f"""
import os, signal
os.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
from fedmirage.common.wire import files
files.write_arrays({str(tmp_path / "a.safetensors")!r}, {{}})
"""
    subprocess.run([sys.executable, "-c", killed], check=False)
    assert len(list(tmp_path.iterdir())) == 1
    remove_drafts(tmp_path)
    assert not list(tmp_path.iterdir())
