"""Process 1 of a sandbox: builds the view, joins the cgroups, and waits; then executes one program, and reports.

When it ends, the kernel ends everything else in the sandbox.
"""

from __future__ import annotations

import errno
import os
import resource
import signal
import socket
import time
from typing import NoReturn

from . import filesystem, kernel, protocol


def main(
    agent: socket.socket,
    orders: socket.socket,
    surroundings: protocol.Surroundings,
    cgroup_files: tuple[str, ...],
    carried: tuple[filesystem.Carried, ...],
    parent: int,
) -> NoReturn:
    """Get ready, wait for one launch, see it through; never returns.

    Parameters
    ----------
    agent
        Takes a message for everything that happens.
    orders
        Brings the launch, with the open file for stderr: the host's paths are out of sight by then.
    """
    try:
        kernel.die_with_parent()
        if os.getppid() not in (0, parent):  # it ended before the line above; 0: outside the namespace
            os._exit(1)
        problem = _get_ready(surroundings, cgroup_files, carried)
        packet, files, _, _ = socket.recv_fds(orders, protocol.LARGEST_PACKET, 16)
        for file in files:
            os.set_inheritable(file, False)
        if not packet:
            os._exit(0)
        launch = protocol.decode(packet)
        if problem or not isinstance(launch, protocol.Launch):
            _say(agent, protocol.NotStarted(problem or "no launch"))
        else:
            _execute(agent, launch, files[0], surroundings.unprivileged)
        os._exit(0)
    except OSError as exc:
        _say(agent, protocol.NotStarted(str(exc)))
    except BaseException as exc:
        _say(agent, protocol.NotStarted(f"{type(exc).__name__}: {exc}"))
    finally:
        os._exit(1)


def _say(agent: socket.socket, message: protocol.Message) -> None:
    try:
        protocol.send(agent, message)
    except OSError:
        os._exit(1)  # the agent is gone


def _get_ready(
    surroundings: protocol.Surroundings,
    cgroup_files: tuple[str, ...],
    carried: tuple[filesystem.Carried, ...],
) -> str:
    """Everything that does not depend on the program; gives what went wrong, or nothing."""
    try:
        groups = [os.open(path, os.O_WRONLY) for path in cgroup_files]
        if surroundings.unprivileged:
            kernel.map_identity(*_USER)
        filesystem.enter(surroundings, carried)
        kernel.set_hostname("insitu")
        kernel.raise_loopback()
        if not surroundings.unprivileged:
            kernel.drop_capabilities()
        for group in groups:
            os.write(group, b"0")
            os.close(group)
    except OSError as exc:
        return str(exc)
    return ""


def _execute(agent: socket.socket, launch: protocol.Launch, stderr: int, unprivileged: bool) -> None:
    os.chdir(launch.folder)
    stdin = os.open("/dev/null", os.O_RDONLY)
    if launch.stdout:
        stdout = os.open(launch.stdout, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    else:
        stdout = os.open("/dev/null", os.O_WRONLY)
    _limit(launch, unprivileged)
    allowed = os.sched_getaffinity(0)
    if launch.duty_cycle is not None:
        os.sched_setaffinity(0, sorted(allowed)[: launch.duty_cycle.cpus])
    started = time.monotonic()
    try:
        pid = os.posix_spawnp(
            launch.command[0],
            list(launch.command),
            launch.environment,
            file_actions=[
                (os.POSIX_SPAWN_DUP2, stdin, 0),
                (os.POSIX_SPAWN_DUP2, stdout, 1),
                (os.POSIX_SPAWN_DUP2, stderr, 2),
            ],
            setsid=True,
            setsigdef=_DEFAULT_SIGNALS,
        )
    except OSError as exc:
        absent = exc.errno in (errno.ENOENT, errno.ENOTDIR)
        what = "is not on this node" if absent else f"cannot be executed: {os.strerror(exc.errno or 0)}"
        _say(agent, protocol.NotStarted(f"{launch.command[0]!r} {what}", missing=absent))
        return
    os.sched_setaffinity(0, allowed)  # on the subject's processor, process 1 would come late to stop it
    _say(agent, protocol.Started(started))
    if launch.duty_cycle is None:
        status, usage = _wait_for(pid)
        running_s = time.monotonic() - started
    else:
        status, usage, running_s = _cycle(pid, launch.duty_cycle)
    wall_s = time.monotonic() - started
    names = ("utime", "stime", "maxrss", "minflt", "majflt", "nvcsw", "nivcsw", "inblock", "oublock")
    figures = {name: float(getattr(usage, f"ru_{name}")) for name in names}
    _say(agent, protocol.Exited(_shell_status(status), wall_s, figures, running_s))


_DEFAULT_SIGNALS = (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP)
"""What Python ignores, and what the background of a script or ``nohup`` does: no trial may depend on that."""
_USER = (os.geteuid(), os.getegid())
"""Read when the launcher starts: inside a fresh user namespace both read as *nobody*."""


def _limit(launch: protocol.Launch, unprivileged: bool) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (launch.file_bytes, launch.file_bytes))
    if unprivileged:
        resource.setrlimit(resource.RLIMIT_NPROC, (launch.processes, launch.processes))


def _wait_for(pid: int) -> tuple[int, resource.struct_rusage]:
    """Wait for the program; as process 1, also for orphans."""
    while True:
        ended, status, usage = os.wait4(-1, 0)
        if ended == pid:
            return status, usage


def _cycle(pid: int, cycle: protocol.DutyCycle) -> tuple[int, resource.struct_rusage, float]:
    """Hold a duty cycle until the program ends.

    The schedule is on the monotonic clock. A stop that came late is made up for in the next cycle, so that
    the running time follows the share; nothing that the subject does enters. One ``kill(-1)`` reaches every
    process of the namespace but this one, also those just forked.
    """
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    begin = time.monotonic()
    resumed = begin
    running_s = 0.0
    number = 0
    while True:
        number += 1
        ended = _wait_until(pid, resumed + cycle.share * number * cycle.period_s - running_s)
        if ended is None:
            os.kill(-1, signal.SIGSTOP)
        running_s += time.monotonic() - resumed
        if ended is None:
            ended = _wait_until(pid, begin + number * cycle.period_s)
            if ended is None:
                resumed = time.monotonic()  # before: whoever is woken may run first
                os.kill(-1, signal.SIGCONT)
        if ended is not None:
            return ended[0], ended[1], running_s


def _wait_until(pid: int, deadline: float) -> tuple[int, resource.struct_rusage] | None:
    while True:
        try:
            ended, status, usage = os.wait4(-1, os.WNOHANG)
        except ChildProcessError:
            ended = 0
        if ended == pid:
            return status, usage
        if ended:
            continue
        left = deadline - time.monotonic()
        if left <= 0:
            return None
        signal.sigtimedwait({signal.SIGCHLD}, left)


def _shell_status(status: int) -> int:
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code
