"""Real loads of every kind: they use what they should, when they should, and leave nothing."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from insitu.injectors.actuator import Host, Moment, MomentKind
from insitu.injectors.anomalies import variables
from insitu.injectors.anomalies.actuator import LoadActuator
from insitu.injectors.anomalies.client import LoadServer, RunningLoad
from insitu.injectors.anomalies.counters import total_memory_bytes
from insitu.injectors.anomalies.levels import MOST_PROCESSES, Anomaly, How
from insitu.injectors.anomalies.load import BIGROOTS, DEFAULT, Kind, Load, Loads
from insitu.injectors.anomalies.order import StartLoad
from insitu.injectors.anomalies.work import net
from insitu.injectors.cgroups import Hierarchies
from insitu.injectors.contract import Node
from insitu.injectors.errors import ForeignState, InjectorError, NotSettable
from insitu.injectors.journal import Journal
from insitu.injectors.lifecycle import Verdict, verdict
from insitu.injectors.options import Window
from insitu.injectors.processes import start_time
from tests.injectors.anomalies.conftest import Hold
from tests.injectors.anomalies.held import Held, children_of, servers

needs_groups = pytest.mark.root
Samples = dict[str, np.ndarray]


def gain(samples: Samples, anomaly: Anomaly, counter: str) -> float:
    column = samples[f"{anomaly.variable}:{counter}"]
    return float(column[-1] - column[0])


CASES = [
    (variables.CpuLoad(), 2.0, "cpu_s", 0.1),
    (variables.CpuLoad(How(preset=BIGROOTS)), 2.0, "cpu_s", 0.1),
    (variables.CpuDuty(How(processes=2)), 0.35, "cpu_s", 0.1),
    (variables.CpuRate(), 0.5, "cpu_s", 0.05),
    (variables.DiskLoad(), 2.0, "write_bytes", 1e5),
    (variables.DiskLoad(How(preset=BIGROOTS)), 1.0, "write_bytes", 1e5),
    (variables.DiskDuty(), 0.5, "write_bytes", 1e5),
    (variables.DiskRate(), 2e6, "write_bytes", 1e5),
    (variables.NetLoad(), 1.0, "sent_bytes", 1e5),
    (variables.NetLoad(How(preset=BIGROOTS)), 2.0, "sent_bytes", 1e5),
    (variables.NetDuty(), 0.5, "sent_bytes", 1e5),
    (variables.NetRate(), 2e6, "sent_bytes", 1e5),
    (variables.MemoryBandwidthLoad(), 1.0, "moved_bytes", 1e7),
    (variables.MemoryBandwidthDuty(), 0.5, "moved_bytes", 1e7),
    (variables.MemoryBandwidthRate(), 50e6, "moved_bytes", 1e6),
    (variables.CacheLoad(), 1.0, "cpu_s", 0.05),
    (variables.CacheDuty(), 0.5, "cpu_s", 0.05),
    (variables.MemoryLoad(), 50e6, "open_s", 0.5),
]


@pytest.mark.parametrize(("anomaly", "level", "counter", "least"), CASES)
def test_each_kind_asks_for_its_level_and_uses_its_resource(
    anomaly: Anomaly, level: float, counter: str, least: float, hold: Hold, here: Node
) -> None:
    with hold(anomaly.load(level)) as held:
        samples = held.watch(1.0)
        assert len(held.workers) == 0  # ended with the subject
    assert gain(samples, anomaly, counter) > least
    achieved = anomaly.achieved(level, samples, here)
    assert achieved.bound_share == 1
    assert achieved.level is not None
    assert achieved.level == pytest.approx(level, rel=0.25)
    assert achieved.note.startswith("took ")


def test_memory_is_held_and_no_processor_is_used(hold: Hold) -> None:
    anomaly = variables.MemoryLoad()
    with hold(anomaly.load(100e6)) as held:
        (worker,) = held.workers
        before = resident_bytes(worker)
        samples = held.watch(1.0)
    assert before > 100e6
    resident = samples["anomaly.memory:resident_bytes"]
    assert resident.min() == pytest.approx(100e6, rel=0.01)
    assert gain(samples, anomaly, "cpu_s") < 0.03


def resident_bytes(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


def test_the_file_of_a_disk_load_does_not_grow(hold: Hold, folder: Path) -> None:
    sizes: list[int] = []

    def measure(_: float) -> None:
        files = [path.stat().st_size for path in folder.glob(f"{held.name}-disk/*")]
        sizes.append(max(files))

    with hold(variables.DiskLoad().load(2.0)) as held:
        samples = held.watch(0.8, measure)
    assert set(sizes) == {1 << 24}
    assert samples["anomaly.disk:write_bytes"][-1] > 2 * (1 << 24)


@needs_groups
def test_each_load_is_in_groups_of_its_own_and_its_workers_weigh_as_subjects_do(hold: Hold) -> None:
    with hold(variables.CpuLoad().load(3.0), variables.MemoryLoad().load(20e6)) as held:
        groups = {pid: Path(f"/proc/{pid}/cgroup").read_text() for pid in held.workers}
        in_cpu = [pid for pid, text in groups.items() if f"/{held.name}-cpu\n" in text]
        in_memory = [pid for pid, text in groups.items() if f"/{held.name}-memory\n" in text]
        assert (len(in_cpu), len(in_memory)) == (3, 1)
        (weight,) = Path("/sys/fs/cgroup").glob(f"**/{held.name}-cpu/cpu.[sw][he][ai][rg][eh][st]")
        assert int(weight.read_text()) in (3 * 1024, 3 * 100)


def test_without_control_groups_the_processes_are_counted(folder: Path, journal: Journal, here: Node) -> None:
    node = replace(here, hierarchies=Hierarchies({}, {}, {}))
    with closing(LoadActuator(node, folder, journal)) as actuator:
        part = Loads((variables.CpuLoad().load(1.0), variables.DiskRate().load(2e6)))
        name = f"insitu-{journal.header.run}-t1"
        assert [undo.kind for undo in actuator.undos(part, name)] == ["folder"]
        with actuator.hold(part, name, host_of(folder)) as in_force:
            samples = Held(name, in_force).watch(0.6)
    assert gain(samples, variables.CpuLoad(), "cpu_s") > 0.05
    assert gain(samples, variables.DiskRate(), "write_bytes") > 1e5
    assert variables.CpuLoad().capability(node).weaker


def host_of(folder: Path, longest_s: float = 30.0) -> Host:
    return Host(os.getpid(), {}, folder, longest_s)


# windows


def test_windows_begin_and_end_when_the_plan_says_and_nothing_is_done_between(hold: Hold) -> None:
    anomaly = variables.CpuLoad()
    windows = (Window(0.2, 0.5), Window(1.0, 1.3), Window(5.0, 6.0))
    with hold(replace(anomaly.load(1.0), windows=windows)) as held:
        samples = held.watch(1.6)
        moments = held.in_force.ended()
    kinds = [(moment.kind, moment.planned_s) for moment in moments]
    on, off = MomentKind.ONSET, MomentKind.OFFSET
    assert kinds == [(on, 0.2), (off, 0.5), (on, 1.0), (off, 1.3)]  # the third never came
    for moment in moments:
        assert moment.planned_s is not None
        assert moment.planned_s <= moment.actual_s < moment.planned_s + 0.2
    time_s, cpu_s = samples["time_s"], samples["anomaly.cpu:cpu_s"]
    between = (time_s > moments[1].actual_s + 0.05) & (time_s < 0.98)
    assert np.ptp(cpu_s[between]) < 0.02
    assert samples["anomaly.cpu:open_s"][-1] == pytest.approx(0.6)


def test_a_load_without_windows_is_there_before_the_subject_and_until_its_end(hold: Hold) -> None:
    with hold(variables.CpuLoad().load(1.0)) as held:
        samples = held.watch(0.4)
        onset, offset = held.in_force.ended()
    assert (onset.kind, onset.planned_s) == (MomentKind.ONSET, None)
    assert onset.actual_s < 0
    assert (offset.kind, offset.planned_s) == (MomentKind.OFFSET, None)
    assert 0.2 < offset.actual_s <= samples["time_s"][-1]


def test_memory_is_taken_and_given_back_with_its_windows(hold: Hold) -> None:
    anomaly = variables.MemoryLoad()
    with hold(replace(anomaly.load(50e6), windows=(Window(0.2, 0.6),))) as held:
        samples = held.watch(1.0)
        moments = held.in_force.ended()
    resident, time_s = samples["anomaly.memory:resident_bytes"], samples["time_s"]
    assert resident[time_s < 0.2].max() == 0
    assert resident.max() == pytest.approx(50e6, rel=0.01)
    assert resident[-1] == 0
    assert [moment.planned_s for moment in moments] == [0.2, 0.6]


def test_on_a_node_without_windows_it_is_never_there(hold: Hold, here: Node) -> None:
    with hold(replace(variables.CpuLoad().load(1.0), windows=())) as held:
        samples = held.watch(0.3)
        assert held.in_force.ended() == ()
    assert gain(samples, variables.CpuLoad(), "cpu_s") < 0.02
    assert gain(samples, variables.CpuLoad(), "open_s") == 0


# what goes wrong


def judged(anomaly: Anomaly, level: float, samples: Samples, here: Node) -> Verdict:
    return verdict(level, anomaly.achieved(level, samples, here), anomaly)


@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGSTOP])
@pytest.mark.parametrize("anomaly", [variables.CpuLoad(), variables.DiskLoad(), variables.NetLoad()])
def test_a_worker_that_is_ended_or_stopped_was_not_at_its_level(
    anomaly: Anomaly, sign: signal.Signals, hold: Hold, here: Node
) -> None:
    hit: list[int] = []

    def strike(elapsed: float) -> None:
        if elapsed > 0.3 and not hit:
            hit.append(held.workers[0])
            os.kill(hit[0], sign)

    with hold(anomaly.load(2.0)) as held:
        samples = held.watch(1.0, strike)
    assert hit
    achieved = anomaly.achieved(2.0, samples, here)
    assert achieved.level is not None
    assert achieved.level < 1.8
    assert judged(anomaly, 2.0, samples, here) is Verdict.MISSED


def test_loads_end_with_their_server_and_the_next_trial_gets_another_one(hold: Hold, here: Node) -> None:
    anomaly = variables.CpuLoad()
    ended: list[int] = []

    def strike(elapsed: float) -> None:
        if elapsed > 0.2 and not ended:
            workers = held.workers
            ended.extend((*servers(), *held.leaders, *workers))
            os.kill(ended[0], signal.SIGKILL)

    with hold(anomaly.load(2.0)) as held:
        samples = held.watch(0.8, strike)
        assert len(ended) == 4
        assert not any(map(start_time, ended))
    assert judged(anomaly, 2.0, samples, here) is Verdict.MISSED
    with hold(anomaly.load(1.0)) as held:
        assert len(held.workers) == 1
        assert not set(ended) & {*servers(), *held.workers}


def test_the_deadline_holds_when_everybody_who_could_end_a_load_is_stopped(
    actuator: LoadActuator, folder: Path, here: Node, journal: Journal
) -> None:
    with closing(LoadActuator(here, folder, journal, margin_s=0.0)) as hasty:
        part, name = Loads((variables.CpuLoad().load(2.0),)), f"insitu-{journal.header.run}-t1"
        with hasty.hold(part, name, host_of(folder, longest_s=4.0)):
            (server,) = servers()
            (leader,) = children_of(server)
            workers = children_of(leader)
            assert len(workers) == 2
            for pid in (server, leader):
                os.kill(pid, signal.SIGSTOP)
            deadline = time.monotonic() + 20
            while any(map(start_time, workers)) and time.monotonic() < deadline:
                time.sleep(0.02)
            assert not any(map(start_time, workers))


def test_a_server_that_hangs_is_replaced(folder: Path, here: Node, journal: Journal) -> None:
    part, name = Loads((variables.CpuLoad().load(1.0),)), f"insitu-{journal.header.run}-t1"
    with closing(LoadActuator(here, folder, journal)) as actuator:
        with actuator.hold(part, name, host_of(folder)):
            (first,) = servers()
        os.kill(first, signal.SIGSTOP)
        actuator.server.patience_s = 0.5
        with (
            pytest.raises(InjectorError, match="load server did not start 1 processes of default cpu load"),
            actuator.hold(part, name, host_of(folder)),
        ):
            pass
        assert not start_time(first)
        actuator.server.patience_s = 20.0
        with actuator.hold(part, name, host_of(folder)):
            assert servers() != (first,)


def test_a_load_of_memory_has_the_time_that_taking_it_needs(folder: Path, here: Node, journal: Journal) -> None:
    name = f"insitu-{journal.header.run}-t1"
    memory = Loads((variables.MemoryLoad().load(4e8),))
    with closing(LoadActuator(here, folder, journal)) as actuator:
        with actuator.hold(Loads((variables.CpuLoad().load(1.0),)), name, host_of(folder)):
            (server,) = servers()
        os.kill(server, signal.SIGSTOP)
        actuator.server.patience_s = 0.1
        began = time.monotonic()
        with (
            pytest.raises(InjectorError, match=r"of 4e\+08 B within 0\.5 s"),
            actuator.hold(memory, name, host_of(folder)),
        ):
            pass
        assert time.monotonic() - began >= 0.5


def test_no_load_ends_by_itself_while_another_one_of_the_trial_takes_its_memory(
    folder: Path, here: Node, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders: list[StartLoad] = []
    start_load = LoadServer.start_load

    def start(server: LoadServer, order: StartLoad, meanwhile: Callable[[], None]) -> RunningLoad:
        orders.append(order)
        return start_load(server, order, meanwhile)

    monkeypatch.setattr(LoadServer, "start_load", start)
    part = Loads((variables.CpuLoad().load(1.0), variables.MemoryLoad().load(5e7)))
    with (
        closing(LoadActuator(here, folder, journal, margin_s=60.0)) as actuator,
        actuator.hold(part, f"insitu-{journal.header.run}-t1", host_of(folder, longest_s=30.0)),
    ):
        pass
    assert [order.deadline_s for order in orders] == [pytest.approx(90.05)] * 2


class Enough(Exception):
    pass


def test_whoever_waits_for_a_load_is_called_and_can_end_it(folder: Path, here: Node, journal: Journal) -> None:
    part, name = Loads((variables.CpuLoad().load(1.0),)), f"insitu-{journal.header.run}-t1"
    calls = 0

    def stop_at_the_third() -> None:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise Enough

    with closing(LoadActuator(here, folder, journal)) as actuator:
        with actuator.hold(part, name, host_of(folder)):
            (first,) = servers()
        os.kill(first, signal.SIGSTOP)
        watched = replace(host_of(folder), meanwhile=stop_at_the_third)
        with pytest.raises(Enough), actuator.hold(part, name, watched):
            pass
        assert not start_time(first)  # nor any worker of it, known or not
        with actuator.hold(part, name, host_of(folder)):
            assert servers() != (first,)


def test_more_memory_than_there_is_is_refused_before_it_is_taken(hold: Hold) -> None:
    load = Load("anomaly.memory", Kind.MEMORY, held_bytes=2 * total_memory_bytes())
    with pytest.raises(NotSettable, match="would leave 0 MB for all others"), hold(load):
        pass


def test_a_target_that_does_not_answer_is_named_with_what_to_do(hold: Hold) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    load = Load("anomaly.net", Kind.NET, 2, target=f"127.0.0.1:{port}")
    with pytest.raises(NotSettable, match=f"no echo server answers at 127.0.0.1:{port}"), hold(load):
        pass


@pytest.fixture
def echo_port() -> Iterator[int]:
    """An echo server as a user starts it on another machine."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = int(free.getsockname()[1])
    command = [sys.executable, "-m", "insitu.injectors.anomalies.work.echo", str(port), "--address", "127.0.0.1"]
    server = subprocess.Popen(command)
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            break
        except ConnectionRefusedError:
            time.sleep(0.02)
    yield port
    server.terminate()
    server.wait()


def test_as_many_workers_as_a_load_can_have_exchange_messages_with_one_target(echo_port: int) -> None:
    with ExitStack() as stack:
        for _ in range(MOST_PROCESSES):
            connection = stack.enter_context(socket.create_connection(("127.0.0.1", echo_port), timeout=10))
            connection.sendall(b"?")
            assert connection.recv(1) == b"?"  # and those before stay connected


def answers_with(text: bytes, server: socket.socket) -> None:
    connection, _ = server.accept()
    with connection:
        connection.recv(1)
        connection.sendall(text)


@pytest.mark.parametrize(
    ("answer", "reason"), [(None, "timed out"), (b"", "what is sent does not"), (b"!", "what is sent does not")]
)
def test_a_target_that_takes_connections_and_echoes_nothing_is_refused_before_the_trial(
    answer: bytes | None, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(net, "_CONNECT_S", 0.5 if answer is None else 10.0)
    with ExitStack() as stack:
        server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        if answer is not None:
            thread = threading.Thread(target=answers_with, args=(answer, server))
            thread.start()
            stack.callback(thread.join)
        with pytest.raises(NotSettable, match=f"no echo server answers at .*: {reason}"):
            net.Exchange(DEFAULT, 0, f"127.0.0.1:{server.getsockname()[1]}")


def test_a_target_takes_the_messages_and_gives_them_back(hold: Hold, echo_port: int) -> None:
    anomaly = variables.NetLoad(How(preset=BIGROOTS, target=f"127.0.0.1:{echo_port}"))
    with hold(anomaly.load(1.0)) as held:
        samples = held.watch(0.5)
    assert gain(samples, anomaly, "sent_bytes") > 1e4


@contextmanager
def echo_that_falls_silent(silent: threading.Event) -> Iterator[str]:
    """Address of an echo server that takes nothing any more from a moment on, and keeps its connection."""

    def serve() -> None:
        connection, _ = server.accept()
        with connection:
            while not silent.is_set() and (text := connection.recv(1 << 16)):
                connection.sendall(text)
            over.wait()

    over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"127.0.0.1:{server.getsockname()[1]}"
        finally:
            silent.set()
            over.set()
            thread.join()


@pytest.mark.parametrize(
    ("hit", "is_held"), [(None, Verdict.HELD), (signal.SIGSTOP, Verdict.MISSED), (signal.SIGKILL, Verdict.MISSED)]
)
def test_a_rate_is_asked_for_also_in_a_step_that_does_not_end_while_its_worker_is_there(
    hit: signal.Signals | None, is_held: Verdict, hold: Hold, here: Node
) -> None:
    silent = threading.Event()
    hits: list[signal.Signals] = []

    def strike(elapsed: float) -> None:
        if elapsed > 0.3:
            silent.set()
        if elapsed > 0.5 and hit is not None and not hits:
            hits.append(hit)
            os.kill(held.workers[0], hit)

    with echo_that_falls_silent(silent) as target:
        anomaly = variables.NetRate(How(target=target))
        with hold(anomaly.load(8e5)) as held:
            samples = held.watch(1.5, strike)
    assert judged(anomaly, 8e5, samples, here) is is_held
    sent = samples["anomaly.net.rate:sent_bytes"]
    assert 0 < sent[-1] == sent[samples["time_s"] > 0.5][0]  # so the last step went on until the end


def test_two_loads_of_one_kind_contradict_each_other() -> None:
    first, second = variables.CpuLoad().load(2.0), variables.CpuDuty().load(0.5)
    with pytest.raises(NotSettable, match=r"anomaly\.cpu and anomaly\.cpu\.duty both ask for load of the cpu"):
        Loads((first,)).joined(Loads((second,)))
    disk = variables.DiskLoad().load(1.0)
    assert Loads((first,)).joined(Loads((disk,))) == Loads((first, disk))


@needs_groups
def test_a_foreign_group_of_that_name_is_refused_and_left(actuator: LoadActuator, here: Node) -> None:
    name = f"insitu-{actuator.owner.run}-t7"
    foreign = here.hierarchies.parents["cpu"] / f"{name}-cpu"
    foreign.mkdir()
    try:
        with pytest.raises(ForeignState):
            actuator.undos(Loads((variables.CpuLoad().load(1.0),)), name)
        assert foreign.is_dir()
    finally:
        foreign.rmdir()


def test_moments_are_those_of_the_load_that_had_them(hold: Hold) -> None:
    cpu = replace(variables.CpuLoad().load(1.0), windows=(Window(0.1, 0.2),))
    net = replace(variables.NetRate().load(1e6), windows=(Window(0.1, 0.3),))
    with hold(cpu, net) as held:
        held.watch(0.5)
        moments: tuple[Moment, ...] = held.in_force.ended()
    assert [(m.variable, m.planned_s) for m in moments] == [
        ("anomaly.cpu", 0.1),
        ("anomaly.cpu", 0.2),
        ("anomaly.net.rate", 0.1),
        ("anomaly.net.rate", 0.3),
    ]
