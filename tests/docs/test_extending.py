"""The documented injector: short, under contract, found by its entry point alone, and put back after a kill."""

from __future__ import annotations

import dataclasses
import importlib.util
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType

import pytest

from insitu.injectors.contract import Injector, Node
from insitu.injectors.journal import Header, Journal, boot_id
from insitu.injectors.lifecycle import Verdict, hold, plan_hold, verdict
from insitu.injectors.processes import start_time
from insitu.injectors.recovery import recover_journal
from insitu.injectors.treatment import Intervention
from tests.injectors.nodes import node

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/how-to/injector.md").read_text()
SOURCE, CONTRACT = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A folder with the injector as an installed package of somebody else's."""
    (tmp_path / "site/my_package").mkdir(parents=True)
    (tmp_path / "site/my_package/__init__.py").touch()
    (tmp_path / "site/my_package/read_ahead.py").write_text(SOURCE)
    metadata = tmp_path / "site/my_package-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: my-package\nVersion: 1.0\n")
    entry_point = re.search(r"^```toml\n\[project\.(.*)\]\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert entry_point
    group = entry_point[1].removeprefix("entry-points.").strip('"')
    (metadata / "entry_points.txt").write_text(f"[{group}]\n" + entry_point[2].replace('"', ""))
    return tmp_path / "site"


def environment(package: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": f"{package}{os.pathsep}{ROOT}"}


@pytest.fixture
def module(package: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("read_ahead", package / "my_package/read_ahead.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    """The made-up queue of the disk that the made-up machine has."""
    file = tmp_path / "block/sda/queue/read_ahead_kb"
    file.parent.mkdir(parents=True)
    file.write_text("128\n")
    return file


@pytest.fixture
def injector(module: ModuleType, disk: Path) -> Injector:
    made: Injector = type("Made", (module.ReadAhead,), {"root": disk.parents[2]})()
    return made


@pytest.fixture
def machine() -> Node:
    here = node()
    assert here.device is not None
    return dataclasses.replace(here, privileged=True, device=dataclasses.replace(here.device, name="sda"))


def test_it_is_short() -> None:
    assert len(SOURCE.splitlines()) < 60


@pytest.mark.root
def test_it_keeps_the_contract_and_is_found_by_its_entry_point(package: Path) -> None:
    (package / "test_read_ahead.py").write_text(CONTRACT)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(package / "test_read_ahead.py")]
    done = subprocess.run(
        command, cwd=package, env=environment(package), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
    assert "passed" in done.stdout


def test_a_model_may_name_it(package: Path, tmp_path: Path) -> None:
    doctor = [sys.executable, "-m", "insitu", "doctor"]
    done = subprocess.run(
        doctor, cwd=tmp_path, env=environment(package), capture_output=True, text=True, check=False
    )
    assert "disk.read_ahead" in done.stdout


def test_a_level_is_set_verified_and_put_back(injector: Injector, machine: Node, disk: Path, state: Path) -> None:
    header = Header("readahead", os.getpid(), start_time(os.getpid()), boot_id(), "")
    steps = plan_hold(
        [Intervention(injector, 2**20)],
        machine,
        name="insitu-readahead-t1",
        controllers=(),
        limits=(),
        folders=(),
        actuators={},
    )
    with Journal(state, header) as journal:
        with hold(steps, journal) as reserved:
            reserved.apply(lambda: pytest.fail("it needs no sandbox"))
            assert disk.read_text().strip() == "1024"
            (probe,) = injector.probes(machine)
            import numpy as np

            seen = float(Path(probe.path).read_text()) * probe.scale
            samples = {"time_s": np.arange(3.0), probe.column: np.full(3, seen)}
            achieved = injector.achieved(2**20, samples, machine)
            assert verdict(2**20, achieved, injector) is Verdict.HELD
        assert disk.read_text().strip() == "128"


_KILLED = """
import dataclasses, os, sys, time
from pathlib import Path
sys.path.insert(0, {package!r})
from my_package.read_ahead import ReadAhead
from insitu.injectors.journal import Header, Journal, boot_id
from insitu.injectors.lifecycle import hold, plan_hold
from insitu.injectors.processes import start_time
from insitu.injectors.treatment import Intervention
from tests.injectors.nodes import node

ReadAhead.root = Path({root!r})
here = node()
here = dataclasses.replace(here, privileged=True, device=dataclasses.replace(here.device, name="sda"))
header = Header("readahead", os.getpid(), start_time(os.getpid()), boot_id(), "")
steps = plan_hold([Intervention(ReadAhead(), 2**20)], here, name="insitu-readahead-t1", controllers=(), limits=(),
                  folders=(), actuators={{}})
with Journal(Path({state!r}), header) as journal, hold(steps, journal) as reserved:
    reserved.apply(lambda: None)
    print("held", flush=True)
    time.sleep(60)
"""


def test_after_a_kill_recovery_puts_it_back(package: Path, disk: Path, state: Path) -> None:
    script = _KILLED.format(package=str(package), root=str(disk.parents[2]), state=str(state))
    with subprocess.Popen([sys.executable, "-c", script], cwd=ROOT, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        assert disk.read_text().strip() == "1024"
        os.kill(process.pid, signal.SIGKILL)
    deadline = time.monotonic() + 10
    while (journals := list(state.glob("*.journal"))) and time.monotonic() < deadline:
        recover_journal(journals[0])
    assert disk.read_text().strip() == "128"
