"""Whole trials of a subject whose network is shaped."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from insitu.injectors.network import addresses, tun
from insitu.injectors.network.netlink import Netlink
from insitu.injectors.processes import start_time
from insitu.orchestrator.errors import CannotExecute
from insitu.orchestrator.execution.agent import AgentSetup, NodeAgent
from insitu.orchestrator.execution.orders import SetLevel
from insitu.orchestrator.execution.sandbox.client import Launcher
from insitu.orchestrator.store.records import LevelVerdict, TrialRecord, TrialState
from tests.execution.test_trials import order
from tests.injectors.network.linked import Linked

_SIZE = 2_000_000
_ATTEMPTS = 5
_MBIT = 1e6 / 8

DOWNLOAD = """
import hashlib, sys, urllib.request
data = urllib.request.urlopen(sys.argv[1]).read()
assert len(data) == int(sys.argv[2]), len(data)
"""

FOR_A_WHILE = """
import sys, time, urllib.request
with urllib.request.urlopen(sys.argv[1]) as response:
    end = time.monotonic() + 3.0
    while time.monotonic() < end:
        assert response.read1(1 << 16)
"""


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *arguments: object) -> None:
        return


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    """A file that the host serves on its loopback, as ``python -m http.server`` does."""
    folder = tmp_path / "served"
    folder.mkdir()
    (folder / "file").write_bytes(os.urandom(_SIZE))
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/file"
        server.shutdown()


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[NodeAgent]:
    run = f"net{os.getpid()}"
    setup = AgentSetup(run, tmp_path / "work", tmp_path / "run", os.getpid(), start_time(os.getpid()))
    with closing(NodeAgent(setup)) as agent:
        yield agent


def download(agent: NodeAgent, url: str, *levels: SetLevel, script: str = DOWNLOAD) -> TrialRecord:
    """One trial; repeated a few times while the hypervisor takes processors: a link may then be late itself."""
    for _ in range(_ATTEMPTS):
        record = agent.run(order("{python}", "-c", script, url, str(_SIZE), levels=levels)).record
        if not _hypervisor_took_processors(record):
            break
    return record


def counted(record: TrialRecord) -> TrialRecord:
    """`record`; where the hypervisor let no attempt alone, only that the trial does not count is known."""
    if _hypervisor_took_processors(record):
        assert record.state is TrialState.INVALID, record
        pytest.skip(f"in each of {_ATTEMPTS} attempts {record.reasons[0]}; the trial did not count, rightly")
    return record


def _hypervisor_took_processors(record: TrialRecord) -> bool:
    return any(reason.startswith("the hypervisor") for reason in record.reasons)


def test_a_download_takes_as_long_as_the_rate_says(agent: NodeAgent, url: str) -> None:
    record = counted(download(agent, url, SetLevel("rate", "net.rate_in", "bit/s", 10 * _MBIT)))
    (rate,) = record.levels
    assert record.exit_status == 0, record
    assert rate.mechanism == "link.htb"
    assert rate.verdict is LevelVerdict.HELD, record
    assert rate.achieved == pytest.approx(10 * _MBIT, rel=0.03)
    wall_s, least_s = record.measurements["wall_time"], _SIZE / (10 * _MBIT)
    assert wall_s > 0.95 * least_s
    assert rate.bound_share * wall_s > 0.8 * least_s  # the rest is the interpreter's, which may be slow


@pytest.mark.parametrize("mbit", [0.1, 0.2, 0.4])
def test_a_rate_is_held_at_which_a_packet_outlasts_a_sample(agent: NodeAgent, url: str, mbit: float) -> None:
    level = SetLevel("rate", "net.rate_in", "bit/s", mbit * _MBIT)
    record = counted(download(agent, url, level, script=FOR_A_WHILE))
    (rate,) = record.levels
    assert record.exit_status == 0, record
    assert rate.verdict is LevelVerdict.HELD, record
    assert rate.achieved == pytest.approx(mbit * _MBIT, rel=0.03)
    assert rate.bound_share * record.measurements["wall_time"] > 2.5


def test_a_cap_in_the_other_direction_is_slack(agent: NodeAgent, url: str) -> None:
    levels = (
        SetLevel("in", "net.rate_in", "bit/s", 10 * _MBIT),
        SetLevel("out", "net.rate_out", "bit/s", 5 * _MBIT),
    )
    record = counted(download(agent, url, *levels))
    verdicts = {level.variable: level.verdict for level in record.levels}
    assert verdicts["in"] is LevelVerdict.HELD, record
    assert verdicts["out"] in (LevelVerdict.SLACK, LevelVerdict.DISTURBED), record


def test_a_trial_at_rest_has_the_link_too_and_its_rate_is_measured(agent: NodeAgent, url: str) -> None:
    record = download(agent, url, SetLevel("rate", "net.rate_in", "bit/s", math.inf))
    (rate,) = record.levels
    assert record.exit_status == 0, record
    assert rate.verdict is LevelVerdict.UNSET
    assert rate.achieved is not None
    assert rate.achieved > 10 * _MBIT


@pytest.mark.tun
def test_a_jitter_is_measured_in_a_short_trial_and_one_that_is_too_short_does_not_count(agent: NodeAgent) -> None:
    level = SetLevel("jitter", "net.jitter", "s", 0.02)
    (short,) = agent.run(order("sleep", "0.5", levels=(level,))).record.levels
    assert short.achieved is not None, short
    assert short.verdict is not LevelVerdict.SLACK
    record = agent.run(order("true", levels=(level,))).record
    assert record.levels[0].achieved is None
    assert record.levels[0].verdict is LevelVerdict.DISTURBED
    assert record.state is TrialState.INVALID
    assert "let the subject run for longer" in record.reasons[0]


def test_without_a_variable_of_the_network_there_is_none(agent: NodeAgent, url: str) -> None:
    assert download(agent, url).exit_status != 0


def test_a_plan_can_ask_for_the_network_as_it_is(agent: NodeAgent, url: str) -> None:
    record = agent.run(order("{python}", "-c", DOWNLOAD, url, str(_SIZE), linked=True)).record
    assert record.exit_status == 0, record
    assert record.levels == ()


def test_links_follow_each_other(agent: NodeAgent, url: str) -> None:
    for _ in range(3):
        assert download(agent, url, SetLevel("rate", "net.rate_in", "bit/s", 100 * _MBIT)).exit_status == 0


@pytest.mark.tun
def test_an_interface_that_somebody_put_into_the_subject_s_namespace_is_left_alone(
    agent: NodeAgent, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    confirm = Launcher.confirm_ready

    def with_company(launcher: Launcher, join_files: tuple[str, ...] = ()) -> int:
        init = confirm(launcher, join_files)
        if (pid := os.fork()) == 0:
            try:
                Linked(init, Netlink(), Netlink()).enter()
                tun.leave_to_namespace(tun.make("eth0", addresses.LINK_INDEX))
            finally:
                os._exit(0)
        os.waitpid(pid, 0)
        return init

    monkeypatch.setattr(Launcher, "confirm_ready", with_company)
    with pytest.raises(CannotExecute) as refused:
        download(agent, url, SetLevel("rate", "net.rate_in", "bit/s", 10 * _MBIT))
    assert refused.value.message == (
        "the subject's network namespace has an interface that is not ours; left alone"
    )
    assert refused.value.hint == _LEAVE_ALONE


_LEAVE_ALONE = "have whatever sets up new network interfaces on this node leave those named insitu-* alone"
_SOMEBODY_QUICK = """
from insitu.injectors.network import addresses
from insitu.injectors.network import rtnetlink as rt
from insitu.injectors.network.ends import Ends

connect = Ends.connect_directly

def with_company(ends, name, link):
    connect(ends, name, link)
    ends.in_subject.request(rt.shaper(addresses.LINK_INDEX))

Ends.connect_directly = with_company
"""


def test_a_queueing_discipline_that_somebody_gave_the_link_is_left_alone(
    agent: NodeAgent, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "quick").mkdir()
    (tmp_path / "quick" / "sitecustomize.py").write_text(_SOMEBODY_QUICK)
    monkeypatch.syspath_prepend(str(tmp_path / "quick"))  # the server of links has the same path
    with pytest.raises(CannotExecute) as refused:
        download(agent, url, SetLevel("rate", "net.rate_out", "bit/s", 10 * _MBIT))
    assert refused.value.message.startswith(
        "the subject's link has a queueing discipline that is not ours; left alone (root queueing discipline: "
        "File exists"
    )
    assert refused.value.hint == _LEAVE_ALONE
