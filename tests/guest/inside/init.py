"""The guest's first process: makes the machine ready, executes the order, says how it ended, powers off.

It runs under an emulated processor, so it imports little, and nothing outside the standard library.
"""

from __future__ import annotations

import ctypes
import os
import socket
import subprocess
import sys
import tomllib
import traceback
from pathlib import Path

from tests.guest import recipe
from tests.guest.orders import Order, results_folder, write_status

SHARED, PROJECT = Path("/shared"), Path("/project")
"""The host's own folder, read-only, and a copy of it that is on a disk and may be written to."""
NOT_COPIED = frozenset({"dist", "runs"})
EXCHANGE, PACKAGES = Path("/exchange"), Path("/packages")
ENTRY_POINTS = Path("/run/site")
GROUPS = Path("/sys/fs/cgroup")
OWN_GROUP = "system.slice/tests.service/main"
"""As systemd does it with ``Delegate=yes`` and ``DelegateSubgroup=main``: in a leaf, whose parent is delegated."""
CONTROLLERS = ("cpu", "cpuset", "io", "memory", "pids")
_POWER_OFF = 0x4321FEDC  # LINUX_REBOOT_CMD_POWER_OFF


def main() -> None:
    status = 255
    try:
        prepare_machine()
        copy_project()
        group = make_own_group(GROUPS, OWN_GROUP)
        write_entry_points(PROJECT / "pyproject.toml", ENTRY_POINTS)
        with output_port().open("wb", buffering=0) as output:
            status = execute(Order.read(EXCHANGE), group, output.fileno())
        write_status(EXCHANGE, status)
    except BaseException:
        traceback.print_exc()
    power_off()


def prepare_machine() -> None:
    subprocess.run(["mount", "--all", "--fstab", f"{SHARED}/tests/guest/inside/fstab"], check=True)
    os.chmod("/tmp", 0o1777)
    subprocess.run(["modprobe", "--all", *recipe.MODULES], check=True)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    socket.sethostname("guest")


def copy_project() -> None:
    wanted = [one for one in SHARED.iterdir() if not one.name.startswith(".") and one.name not in NOT_COPIED]
    subprocess.run(["cp", "--archive", *wanted, PROJECT], check=True)


def make_own_group(top: Path, path: str) -> Path:
    """Make a group whose parents hand every controller down."""
    group = top
    for name in path.split("/"):
        (group / "cgroup.subtree_control").write_text(" ".join(f"+{one}" for one in CONTROLLERS))
        group /= name
        group.mkdir()
    return group


def write_entry_points(project: Path, site: Path) -> None:
    """Register the project's plug-ins as an installation would: the project itself is only a folder here."""
    declared = tomllib.loads(project.read_text())["project"]
    metadata = site / f"{declared['name']}-0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {declared['name']}\nVersion: 0\n")
    with (metadata / "entry_points.txt").open("w") as file:
        for group, entries in declared["entry-points"].items():
            file.write(f"[{group}]\n" + "".join(f"{name} = {target}\n" for name, target in entries.items()))


def output_port() -> Path:
    """The device whose other end is the standard output of who booted us."""
    for port in Path("/sys/class/virtio-ports").iterdir():
        if (port / "name").read_text().strip() == "output":
            return Path("/dev", port.name)
    raise FileNotFoundError("no port for output")


def execute(order: Order, group: Path, output: int) -> int:
    """Run the order in its group, and reap the orphans of others meanwhile."""
    environment = {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": "/root",
        "LANG": "C.UTF-8",
        "PYTHONPATH": f"{PROJECT}:{PACKAGES}:{ENTRY_POINTS}",
        "PYTHONUNBUFFERED": "1",
        "INSITU_GUEST_RESULTS": str(results_folder(EXCHANGE)),
        **order.environment,
    }
    child = os.fork()
    if child == 0:
        try:
            (group / "cgroup.procs").write_text("0")
            os.setsid()
            os.chdir(PROJECT)
            os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
            os.dup2(output, 1)
            os.dup2(output, 2)
            os.execvpe(order.command[0], order.command, environment)
        except OSError as exc:
            os.write(2, f"{order.command[0]}: {exc.strerror}\n".encode())
        os._exit(127)
    while True:
        pid, status = os.wait()
        if pid == child:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code


def power_off() -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    os.sync()
    ctypes.CDLL(None).reboot(_POWER_OFF)


if __name__ == "__main__":
    main()
