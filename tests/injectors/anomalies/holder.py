"""A process that holds a lease and loads, as an agent does: to be killed. ``python -m ... RUN FOLDER``.

It says what it made: the pids of server, leader and workers, a semicolon, and the paths of groups and folders.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import closing
from pathlib import Path

from insitu.injectors.actuator import Host
from insitu.injectors.anomalies import variables
from insitu.injectors.anomalies.actuator import LoadActuator
from insitu.injectors.anomalies.load import Loads
from insitu.injectors.journal import Header, Journal, boot_id
from insitu.injectors.lease import Lease
from insitu.injectors.node import survey
from insitu.injectors.processes import start_time
from insitu.injectors.state_folder import state_folder
from tests.injectors.anomalies.held import children_of, servers


def main(run: str, folder: Path) -> None:
    header = Header(run, os.getpid(), start_time(os.getpid()), boot_id(), "")
    with (
        Journal(state_folder(), header) as journal,
        Lease(journal),
        closing(LoadActuator(survey(folder), folder, journal)) as actuator,
    ):
        part, name = Loads((variables.CpuLoad().load(2.0), variables.DiskLoad().load(1.0))), f"insitu-{run}-t1"
        undos = actuator.undos(part, name)
        journal.intend(undos)
        with actuator.hold(part, name, Host(os.getpid(), {}, folder, 60.0)):
            (server,) = servers()
            leaders = children_of(server)
            workers = [worker for leader in leaders for worker in children_of(leader)]
            pids = " ".join(map(str, (server, *leaders, *workers)))
            sys.stdout.write(f"{pids};{' '.join(undo.path for undo in undos)}\n")
            sys.stdout.flush()
            signal.pause()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
