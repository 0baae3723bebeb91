"""The disk under a folder, on the disks that this machine has."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from insitu.injectors import block_device
from insitu.injectors.block_device import device_under
from insitu.injectors.contract import Device
from tests.injectors.nodes import on_a_disk


def test_a_folder_on_a_disk_gives_the_whole_disk(tmp_path: Path) -> None:
    folder = on_a_disk(tmp_path)
    if os.major(os.stat(folder).st_dev) == 0:
        pytest.skip("neither this repository nor the folder of temporary files is on a disk of its own")
    device, problem = device_under(folder)
    assert problem == ""
    assert device is not None
    disk = Path("/sys/block") / device.name
    assert (disk / "dev").read_text().strip() == device.number
    assert not (disk / "partition").exists()


def test_a_folder_in_memory_has_no_disk() -> None:
    device, problem = device_under(Path("/dev/shm"))
    assert device is None
    assert problem == "/dev/shm is on tmpfs without a disk of its own"


def test_a_folder_that_will_be_gone_is_not_named() -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        assert device_under(Path(folder)) == device_under(Path("/dev/shm"))


@pytest.fixture
def partitioned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A made-up /sys in which the disk of `tmp_path` is a partition of sdq."""
    number = os.stat(tmp_path).st_dev
    part = tmp_path / "sys/devices/sdq/sdq1"
    part.mkdir(parents=True)
    for folder, text in ((part.parent, "8:0"), (part, f"{os.major(number)}:{os.minor(number)}")):
        (folder / "dev").write_text(text + "\n")
        (folder / "stat").touch()
    (part / "partition").write_text("1\n")
    links = tmp_path / "sys/dev/block"
    links.mkdir(parents=True)
    (links / f"{os.major(number)}:{os.minor(number)}").symlink_to("../../devices/sdq/sdq1")
    monkeypatch.setattr(block_device, "_SYS", tmp_path / "sys")
    if os.major(number) == 0:
        pytest.skip("the temporary folder is not on a disk of its own")
    return part


def test_a_partition_is_traced_to_its_disk(partitioned: Path, tmp_path: Path) -> None:
    assert device_under(tmp_path) == (Device("8:0", "sdq"), "")


def test_what_is_not_a_disk_is_refused(partitioned: Path, tmp_path: Path) -> None:
    (partitioned.parent / "stat").unlink()
    device, problem = device_under(tmp_path)
    assert device is None
    assert "sdq" in problem
    (partitioned / "dev").unlink()
    partitioned.rename(partitioned.with_name("gone"))
    assert "not visible in /sys" in device_under(tmp_path)[1]
