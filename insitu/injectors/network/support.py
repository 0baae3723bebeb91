"""What this machine can do about a subject's network: found by making a link for nobody, and ending it.

Run as ``python -m insitu.injectors.network.support``, it does that and prints the answer as JSON. Nothing outlives
that process but kernel modules that the kernel may have loaded by itself.
"""

from __future__ import annotations

import errno
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import cache

from insitu.injectors.contract import Network
from insitu.injectors.network import addresses, host_view, namespaces, tun
from insitu.injectors.network import rtnetlink as rt
from insitu.injectors.network.gateway import Gateway, Order
from insitu.injectors.network.link import Link

_PATIENCE_S = 20.0
_NAME = "insitu-nobody"


@cache
def examine() -> Network:
    """What this machine can do; asked once per process."""
    try:
        answer = subprocess.run(
            [sys.executable, "-m", __name__],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_PATIENCE_S,
            check=True,
            env={"PYTHONPATH": os.pathsep.join(path for path in sys.path if path), "PATH": os.defpath},
        )
        return Network(**json.loads(answer.stdout))
    except (OSError, ValueError, subprocess.SubprocessError) as exc:
        return Network(problem=f"making a link for nobody failed: {exc}")


def _try_everything() -> Network:
    with nobody() as init:
        try:
            link = Link(rate_out=1e6, rate_in=1e6)
            gateway = Gateway(
                Order(init, _NAME, link, 0, host_view.has_ipv6()), None, socket.socket, host_view.services
            )
        except OSError as exc:
            return Network(problem=f"a link cannot be made ({exc})", remedy=_REMEDY)
        try:
            gateway.ends.room.netlink.request(rt.netem(addresses.LINK_INDEX, rt.SHAPED, 0.01, 0.0, 0.0, 100))
            netem_problem = ""
        except OSError as exc:
            netem_problem = f"the kernel has no netem ({exc.strerror})"
    return Network("", "", netem_problem, *_line_problem())


def _line_problem() -> tuple[str, str]:
    """Why there is no delay line, and what would help."""
    try:
        os.close(tun.make("insitu-line", addresses.LINK_INDEX + 1))
    except FileNotFoundError:
        return f"{tun.DEVICE} is missing", _GET_TUN
    except OSError as exc:
        if exc.errno in (errno.ENODEV, errno.ENXIO):
            return f"{tun.DEVICE} has no driver ({exc.strerror})", "modprobe tun"
        if exc.errno in (errno.EPERM, errno.EACCES):
            return (
                f"{tun.DEVICE} may not be used ({exc.strerror})",
                f"in a container: {_LET_IN}; else: run as root",
            )
        return f"there is no TUN interface ({exc})", _GET_TUN
    return "", ""


_LET_IN = f"--device {tun.DEVICE}"
_GET_TUN = f"modprobe tun, or in a container: {_LET_IN}"


_REMEDY = "use a kernel with veth, sch_htb, nf_tables and nft_tproxy, and user namespaces where you are not root"


@contextmanager
def nobody() -> Iterator[int]:
    """A process in fresh namespaces such as a sandbox has; gives its pid."""
    ready, tell = os.pipe()
    user, group = os.geteuid(), os.getegid()
    pid = os.fork()
    if pid == 0:
        try:
            namespaces.die_with_parent()
            namespaces.leave(namespaces.CLONE_NEWNET | (namespaces.CLONE_NEWUSER if user else 0))
            if user:
                namespaces.map_identity(user, group)
            os.write(tell, b"+")
            signal.pause()
        finally:
            os._exit(1)
    os.close(tell)
    try:
        os.read(ready, 1)
        yield pid
    finally:
        os.close(ready)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


if __name__ == "__main__":
    print(json.dumps(asdict(_try_everything())))  # noqa: T201 - the answer of this program
