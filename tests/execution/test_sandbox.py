"""What a subject can reach from inside its sandbox, as root and as an ordinary user."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from insitu.injectors.processes import start_time
from insitu.orchestrator.execution.sandbox import protocol
from insitu.orchestrator.execution.sandbox.client import Launcher, LauncherGone
from tests.execution.sandboxed import Result, launcher_in, prepare, split, watch
from tests.leaks import parent_of
from tests.ordinary_user import ids, run_python

PYTHON = "/usr/bin/python3" if Path("/usr/bin/python3").exists() else sys.executable


class Sandbox:
    """Runs programs in sandboxes of one identity."""

    def __init__(self, folder: Path, root: bool) -> None:
        self.folder, self.root = folder, root

    @property
    def scratch(self) -> Path:
        return self.folder / "scratch"

    def run(self, *command: str, **changes: Any) -> Result:
        if self.root or os.geteuid() != 0:
            around, changes = split(changes)
            with launcher_in(self.folder, **around) as launcher:
                return watch(launcher, prepare(self.folder, command, changes))
        module = "tests.execution.sandboxed"
        done = run_python(["-m", module, str(self.folder), json.dumps(changes), *command])
        assert done.returncode == 0, done.stderr
        return Result(**json.loads(done.stdout))

    def shell(self, script: str, **changes: Any) -> Result:
        return self.run("sh", "-c", script, **changes)


@pytest.fixture(params=[pytest.param("root", marks=pytest.mark.root), "ordinary user"])
def sandbox(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    folder = Path(tempfile.mkdtemp(prefix="sandbox-"))
    root = request.param == "root"
    if not root:
        os.chown(folder, *ids())
    yield Sandbox(folder, root)
    shutil.rmtree(folder)


def test_the_program_runs_in_its_scratch_folder_as_its_user_with_nothing_on_stdin(sandbox: Sandbox) -> None:
    result = sandbox.shell("pwd; id -u; cat; readlink /proc/self/fd/0; echo said >&2")
    user = 0 if sandbox.root else ids()[0]
    assert result.output.split() == [str(sandbox.scratch), str(user), "/dev/null"]
    assert (result.status, result.stderr) == (0, "said\n")


@pytest.mark.parametrize("folder", ["/etc", "/tmp", "/var/tmp", "$HOME", "/", "/dev/shm", "/usr"])
def test_writes_elsewhere_do_not_survive(sandbox: Sandbox, folder: str) -> None:
    name = f"sandboxtest{os.getpid()}"
    result = sandbox.shell(f"echo x > {folder}/{name} && cat {folder}/{name}")
    if sandbox.root or folder in ("/tmp", "/var/tmp", "/dev/shm"):
        assert result.output == "x\n", result.stderr
    home = "/root" if sandbox.root else "/tmp"
    for outside in (folder.replace("$HOME", home), "/root", "/tmp"):
        assert not os.path.lexists(f"{outside}/{name}")


@pytest.mark.root
def test_a_file_of_the_host_can_be_changed_and_deleted_without_effect(tmp_path: Path) -> None:
    precious = Path(tempfile.mkdtemp(prefix="host-"))
    try:
        (precious / "file").write_text("kept")
        sandbox = Sandbox(tmp_path, root=True)
        result = sandbox.shell(f"echo lost > {precious}/file; chmod 0 {precious}; rm -r {precious}; ls {precious}")
        assert result.status != 0
        assert (precious / "file").read_text() == "kept"
        assert precious.stat().st_mode & 0o777 == 0o700
    finally:
        shutil.rmtree(precious)


def test_writes_to_the_scratch_folder_survive(sandbox: Sandbox) -> None:
    assert sandbox.shell("mkdir deep && echo kept > deep/file").status == 0
    assert (sandbox.scratch / "deep/file").read_text() == "kept\n"


def test_the_data_folder_can_be_read_and_not_written(sandbox: Sandbox) -> None:
    data = sandbox.folder / "data"
    data.mkdir()
    (data / "text").write_text("shared")
    data.chmod(0o777)
    result = sandbox.shell(f"cat {data}/text; echo x > {data}/new; rm {data}/text")
    assert result.output == "shared"
    assert result.status != 0
    assert [path.name for path in data.iterdir()] == ["text"]


def test_it_has_processes_network_and_host_name_of_its_own(sandbox: Sandbox) -> None:
    result = sandbox.shell("echo $$; ls -d /proc/[0-9]* | wc -l; tail -n +3 /proc/net/dev | cut -d: -f1; uname -n")
    pid, processes, *rest = result.output.split()
    assert int(pid) < 10
    assert int(processes) < 10
    assert rest == ["lo", "insitu"]
    assert os.uname().nodename != "insitu"


def test_loopback_is_up(sandbox: Sandbox) -> None:
    code = (
        "import socket; server = socket.create_server(('127.0.0.1', 0)); "
        "socket.create_connection(server.getsockname(), timeout=5); print('connected')"
    )
    assert sandbox.run(PYTHON, "-c", code).output == "connected\n"


def test_the_host_s_network_is_out_of_reach(sandbox: Sandbox) -> None:
    code = "import socket; socket.socket().connect(('192.0.2.1', 9))"
    assert "Network is unreachable" in sandbox.run(PYTHON, "-c", code).stderr


@pytest.mark.parametrize("path", ["/proc/sys/kernel/hostname", "/proc/sys/vm/swappiness", "/proc/sysrq-trigger"])
def test_the_kernel_s_settings_cannot_be_written(sandbox: Sandbox, path: str) -> None:
    if not Path(path).exists():
        pytest.skip(f"this kernel has no {path}")
    result = sandbox.shell(f"echo 1 > {path}")
    assert result.status != 0
    assert any(reason in result.stderr for reason in ("Read-only file system", "Permission denied"))


def test_disks_and_control_groups_are_out_of_reach(sandbox: Sandbox) -> None:
    number = os.stat("/").st_dev
    major, minor = (os.major(number), os.minor(number)) if os.major(number) else (8, 0)
    script = f"mknod scratchdisk b {major} {minor} || mknod /tmp/disk b {major} {minor}; ls /sys /dev"
    result = sandbox.shell(script)
    assert "not permitted" in result.stderr
    listed = result.output.split()
    assert not {name for name in listed if name.startswith(("vd", "sd", "nvme", "fs", "block", "mem"))}
    assert "null" in listed


@pytest.mark.parametrize(
    "script",
    [
        "mount -t tmpfs none /mnt",
        "umount /proc",
        "unshare --user true",
        "mount -o remount,rw /proc/sys",
        f"{PYTHON} -c 'import os; os.chroot(\"/\")'",
        "nice -n -5 sh -c '[ $(nice) -lt 0 ]'",
        "date -s @0",
    ],
)
def test_privileges_over_the_host_are_refused(sandbox: Sandbox, script: str) -> None:
    result = sandbox.shell(script)
    assert result.status not in (0, 127), result


def test_it_inherits_no_open_file_of_ours(sandbox: Sandbox) -> None:
    code = (
        "import os\n"
        "for name in os.listdir('/proc/self/fd'):\n"
        "    try: print(name, os.readlink('/proc/self/fd/' + name))\n"
        "    except OSError: pass\n"
    )
    result = sandbox.run(PYTHON, "-c", code)
    assert sorted(line.split()[0] for line in result.output.splitlines()) == ["0", "1", "2"]


def test_a_missing_command(sandbox: Sandbox) -> None:
    result = sandbox.run("no-such-program")
    assert not result.started
    assert result.missing
    assert "no-such-program" in result.reason
    assert sandbox.run("/dev/null/x").missing


def test_a_command_that_cannot_be_executed(sandbox: Sandbox) -> None:
    result = sandbox.run("/etc/passwd")
    assert not result.started
    assert not result.missing
    assert "Permission denied" in result.reason


@pytest.mark.parametrize(
    ("script", "status"), [("exit 0", 0), ("exit 7", 7), ("kill -TERM $$", 143), ("kill -KILL $$", 137)]
)
def test_exit_and_signal_status(sandbox: Sandbox, script: str, status: int) -> None:
    assert sandbox.shell(script).status == status


def test_signals_are_as_a_shell_leaves_them(sandbox: Sandbox) -> None:
    _, blocked, _, ignored = sandbox.run("grep", "^Sig[BI]", "/proc/self/status").output.split()
    assert int(blocked, 16) == 0
    assert int(ignored, 16) & 0x7FFFFFFF == 0  # glibc's spawn ignores its two internal ones, 32 and 33
    assert sandbox.shell("(yes; echo $? >&2) | head -1").stderr == "141\n"


def test_a_background_process_ends_with_the_program(sandbox: Sandbox) -> None:
    began = time.monotonic()
    result = sandbox.shell("sleep 1000 & setsid sleep 1000 & exit 3")
    assert result.status == 3
    assert time.monotonic() - began < 60


def test_a_file_beyond_the_limit_is_not_written(sandbox: Sandbox) -> None:
    result = sandbox.shell("head -c 2000000 /dev/zero > big", file_bytes=1_000_000)
    assert (sandbox.scratch / "big").stat().st_size == 1_000_000
    assert result.status == 128 + signal.SIGXFSZ


def test_writes_elsewhere_are_bounded(sandbox: Sandbox) -> None:
    result = sandbox.shell("head -c 20000000 /dev/zero > /tmp/big", private_bytes=4_000_000)
    assert "No space left" in result.stderr


@pytest.mark.parametrize("workers", [1, 2])
def test_a_duty_cycle_gives_its_share(sandbox: Sandbox, workers: int) -> None:
    burn = "import time\nend = time.monotonic() + 1.5\nwhile time.monotonic() < end: pass"
    script = f'{PYTHON} -c "$1" & ' * (workers - 1) + f'{PYTHON} -c "$1"; wait'
    cycle = {"period_s": 0.02, "share": 0.3, "cpus": 1}
    result = sandbox.run("sh", "-c", script, "sh", burn, duty_cycle=cycle)
    assert result.status == 0
    assert result.running_s / result.wall_s == pytest.approx(0.3, abs=0.06)
    assert result.cpu_s / result.wall_s < 0.36
    assert result.wall_s > 1.0


# --- the launcher ----------------------------------------------------------------------------------------


def children_of(pid: int) -> list[int]:
    return [
        int(entry.name)
        for entry in Path("/proc").iterdir()
        if entry.name.isdigit() and parent_of(int(entry.name)) == pid
    ]


def process_1(launcher: Launcher) -> int:
    """The host's pid of process 1, once its program has been started."""
    launched, started = launcher.next_message(30), launcher.next_message(30)
    assert isinstance(launched, protocol.Launched)
    assert isinstance(started, protocol.Started)
    return launched.init


def test_killing_the_launcher_ends_the_subject(tmp_path: Path) -> None:
    with launcher_in(tmp_path) as launcher:
        launcher.launch(prepare(tmp_path, ("sleep", "1000"), {}))
        init = process_1(launcher)
        (subject,) = children_of(init)
        os.kill(launcher.pid, signal.SIGKILL)
        with pytest.raises(LauncherGone):
            launcher.next_message(10)
        deadline = time.monotonic() + 10
        while (start_time(init) or start_time(subject)) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert (start_time(init), start_time(subject)) == ("", "")


def test_killing_process_1_is_reported_as_the_end(tmp_path: Path) -> None:
    with launcher_in(tmp_path) as launcher:
        launcher.launch(prepare(tmp_path, ("sleep", "1000"), {}))
        os.kill(process_1(launcher), signal.SIGKILL)
        assert isinstance(launcher.next_message(10), protocol.Reaped)
        assert watch(launcher, prepare(tmp_path, ("true",), {})).status == 0


def test_closing_a_launcher_ends_a_running_subject(tmp_path: Path) -> None:
    with launcher_in(tmp_path) as launcher:
        launcher.launch(prepare(tmp_path, ("sleep", "1000"), {}))
        init = process_1(launcher)
        (subject,) = children_of(init)
    deadline = time.monotonic() + 10
    while start_time(subject) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert start_time(subject) == ""
    with pytest.raises(LauncherGone):
        launcher.launch(prepare(tmp_path, ("true",), {}))


def test_a_sandbox_that_cannot_be_built_is_not_a_missing_command(tmp_path: Path) -> None:
    with launcher_in(tmp_path, stage=f"{tmp_path}/absent") as launcher:
        result = watch(launcher, prepare(tmp_path, ("true",), {}))
        assert not result.started
        assert not result.missing
        assert "absent" in result.reason
        (tmp_path / "absent").mkdir()
        watch(launcher, prepare(tmp_path, ("true",), {}))  # was made ready before the folder was there
        assert watch(launcher, prepare(tmp_path, ("true",), {})).status == 0


def test_the_host_s_mounts_are_as_before(tmp_path: Path) -> None:
    before = Path("/proc/self/mountinfo").read_text()
    with launcher_in(tmp_path) as launcher:
        for _ in range(3):
            assert watch(launcher, prepare(tmp_path, ("true",), {})).status == 0
    assert Path("/proc/self/mountinfo").read_text() == before
    assert subprocess.run(["ls", tmp_path / "stage"], capture_output=True, check=True).stdout == b""
