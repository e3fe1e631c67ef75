"""The Slurm file, as far as it can be tried without Slurm: with stand-ins for its two programs."""

import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
FILE = ROOT / "deploy" / "slurm" / "fedmirage.sbatch"
SRUN = """#!/bin/sh
case "$*" in
  *hostname*) echo 10.0.0.1 fe80::1 ;;
  *) printf '%s\\n' "$@" "$RAY_AUTH_MODE" "$RAY_AUTH_TOKEN" ;;
esac
"""


def submit(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    bin_folder = folder / "bin"
    bin_folder.mkdir(exist_ok=True)
    programs = {"srun": SRUN, "scontrol": '#!/bin/sh\nprintf "%s\\n" one two\n'}
    programs |= dict.fromkeys(("fedmirage", "ray"), "#!/bin/sh\n")
    programs["python"] = '#!/bin/sh\nexec python3 "$@"\n'
    for name, text in programs.items():
        (bin_folder / name).write_text(text)
        (bin_folder / name).chmod(0o755)
    job = {"SLURM_JOB_NODELIST": "one,two", "SLURM_JOB_NUM_NODES": "2", "SLURM_JOB_ID": "12345"}
    more = {"SLURM_CPUS_PER_TASK": "8", "FEDMIRAGE_BIN": str(bin_folder)}
    known = {**os.environ, **job, **more, "PATH": f"{bin_folder}:{os.environ['PATH']}"}
    return subprocess.run(
        ["bash", str(FILE), *arguments], env=known, capture_output=True, text=True, check=False
    )


def test_it_is_a_script_of_bash() -> None:
    assert subprocess.run(["bash", "-n", str(FILE)], check=False).returncode == 0


def test_it_starts_rays_launcher_on_all_hosts_with_the_command(tmp_path: Path) -> None:
    done = submit(tmp_path, "compare", "--methods", "vhl, fedprox(mu=0.01)", "--seeds", "0..9")
    assert done.returncode == 0, done.stderr
    *said, mode, token = done.stdout.splitlines()
    assert (mode, len(token)) == ("token", 64)
    assert said[:2] == ["--nodes=2", "--ntasks=2"]
    assert said[2:4] == ["ray", "symmetric-run"]
    assert said[4:8] == ["--address", "10.0.0.1:6745", "--min-nodes", "2"]
    assert said[said.index("--num-cpus") + 1] == "8"
    command = said[said.index("--") + 1 :]
    assert command[:4] == ["fedmirage", "compare", "--methods", "vhl, fedprox(mu=0.01)"]
    assert command[-2:] == ["--ray-address", "10.0.0.1:6745"]


def test_what_is_missing_is_a_sentence(tmp_path: Path) -> None:
    done = submit(tmp_path)
    assert done.returncode == 2
    assert "no command; write e.g. sbatch" in done.stderr
    job = {**os.environ, "FEDMIRAGE_BIN": str(tmp_path)}
    done = subprocess.run(
        ["bash", str(FILE), "compare"], env=job, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "no fedmirage in" in done.stderr
