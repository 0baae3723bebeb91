"""Groups of version 2 in the places in which systemd, containers and users put processes, with a real kernel."""

from __future__ import annotations

import json
import os
import pwd
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from insitu.injectors.cgroups import PRESSURE, remove
from tests.ordinary_user import ROOT

TOP = Path("/sys/fs/cgroup")
CONTROLLERS = ("cpu", "cpuset", "io", "memory", "pids")
PROBE = "tests.guest.inside.probe"
NAME = f"insitu-layouttest{os.getpid()}"
RUN = f"layoutrun{os.getpid()}"

pytestmark = pytest.mark.root


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a process in some group could do.

    Attributes
    ----------
    parents, problems
        As of `insitu.injectors.cgroups.Hierarchies`.
    member
        Where the process was that joined a new group.
    limits
        What was written into the run's group, and read back: file to text.
    """

    parents: dict[str, str]
    problems: dict[str, str]
    member: str
    limits: dict[str, str]


class Layout:
    """Groups of the test, and processes in them."""

    def __init__(self) -> None:
        self._tops: list[Path] = []

    def add(self, path: str, *, hands: tuple[str, ...] = ()) -> Path:
        group = TOP / path
        group.mkdir()
        if group.parent == TOP:
            self._tops.append(group)
        (group / "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in hands))
        return group

    def probe(self, group: Path, *, user: str = "root", prefix: tuple[str, ...] = ()) -> Outcome:
        """Find and use groups from within `group`, as `user`."""
        join = f'echo 0 > "{group}/cgroup.procs" && exec "$@"'
        account = pwd.getpwnam(user)
        change = ("setpriv", f"--reuid={account.pw_uid}", f"--regid={account.pw_gid}", "--clear-groups")
        command = ("sh", "-c", join, "sh", *prefix, *change, sys.executable, "-m", PROBE, NAME, RUN)
        done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, timeout=120, check=True)
        return Outcome(**json.loads(done.stdout))

    def clear(self) -> None:
        for top in self._tops:
            remove(top)


@pytest.fixture
def layout() -> Iterator[Layout]:
    layout = Layout()
    yield layout
    layout.clear()


def test_a_login_session_uses_the_only_group_that_hands_all_controllers_down(layout: Layout) -> None:
    layout.add("user.slice", hands=("memory", "pids"))  # what systemd enables there by itself
    layout.add("user.slice/user-0.slice", hands=("memory", "pids"))
    session = layout.add("user.slice/user-0.slice/session-1.scope")
    outcome = layout.probe(session)
    assert outcome.parents == dict.fromkeys((*CONTROLLERS, PRESSURE), str(TOP))
    assert outcome.member == f"/{NAME}"


def test_a_service_uses_the_slice_that_it_is_in(layout: Layout) -> None:
    layout.add("some.slice", hands=CONTROLLERS)
    service = layout.add("some.slice/some.service")
    outcome = layout.probe(service)
    assert outcome.parents == dict.fromkeys((*CONTROLLERS, PRESSURE), str(TOP / "some.slice"))
    assert outcome.member == f"/some.slice/{NAME}"


def test_what_holds_a_scope_holds_what_is_made_outside_of_it(layout: Layout) -> None:
    """As of ``systemd-run --scope -p MemoryMax=512M -p CPUQuota=90%``."""
    layout.add("some.slice", hands=CONTROLLERS)
    scope = layout.add("some.slice/run-1.scope")
    limits = {"cpu.max": "90000 100000", "memory.max": str(512 << 20), "pids.max": "100"}
    for file, text in limits.items():
        (scope / file).write_text(text)
    outcome = layout.probe(scope)
    assert outcome.member == f"/some.slice/insitu-{RUN}/{NAME}"
    assert {file: text for file, text in outcome.limits.items() if file != "cgroup.subtree_control"} == limits


def test_the_group_of_a_service_that_hands_controllers_down_is_preferred(layout: Layout) -> None:
    layout.add("some.slice", hands=CONTROLLERS)
    layout.add("some.slice/some.service", hands=CONTROLLERS)
    leaf = layout.add("some.slice/some.service/main")
    assert layout.probe(leaf).member == f"/some.slice/some.service/{NAME}"


def test_a_process_in_the_root_group_can_use_it(layout: Layout) -> None:
    assert layout.probe(TOP).member == f"/{NAME}"


def test_an_ordinary_user_uses_what_was_delegated_to_them(layout: Layout) -> None:
    layout.add("user.slice", hands=CONTROLLERS)
    delegated = layout.add("user.slice/user@65534.service", hands=CONTROLLERS)
    leaf = layout.add("user.slice/user@65534.service/app.scope")
    nobody = pwd.getpwnam("nobody").pw_uid
    for group in (delegated, leaf):
        for name in (".", "cgroup.procs", "cgroup.subtree_control", "cgroup.threads"):
            os.chown(group / name, nobody, -1)
    outcome = layout.probe(leaf, user="nobody")
    assert set(outcome.parents.values()) == {str(delegated)}
    assert outcome.member == f"/user.slice/user@65534.service/{NAME}"


def test_an_ordinary_user_without_delegation_is_told_so(layout: Layout) -> None:
    layout.add("user.slice", hands=CONTROLLERS)
    session = layout.add("user.slice/session-2.scope")
    outcome = layout.probe(session, user="nobody")
    assert outcome.parents == {}
    assert "no permission" in outcome.problems["cpu"]
    assert outcome.member == ""


def test_a_container_s_own_group_hands_nothing_down_and_says_so(layout: Layout) -> None:
    layout.add("machine.slice", hands=CONTROLLERS)
    own = layout.add("machine.slice/container.scope")
    inside = 'umount /sys/fs/cgroup && mount -t cgroup2 cgroup2 /sys/fs/cgroup && exec "$@"'
    outcome = layout.probe(own, prefix=("unshare", "--cgroup", "--mount", "sh", "-c", inside, "sh"))
    assert set(outcome.parents) == {PRESSURE}
    assert outcome.problems["cpu"] == "no group above this process hands the cpu controller to its children"
