"""A file's pages are in memory, or not, as asked."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from insitu.orchestrator.execution.page_cache import keep

SIZE = 4_000_001


@pytest.fixture
def on_disk(tmp_path: Path) -> Path:
    folder = tmp_path
    if os.major(os.stat(folder).st_dev) == 0:
        pytest.skip("the temporary folder is not on a disk of its own")
    return folder


def test_a_file_is_made_cold_and_warm(on_disk: Path) -> None:
    file = on_disk / f".pagecache{os.getpid()}"
    try:
        file.write_bytes(b"x" * SIZE)
        assert keep(file, 1.0) == 1.0
        assert keep(file, 0.0) < 0.01
        assert keep(file, 0.0) < 0.01
        assert keep(file, 1.0) == 1.0
        for share in (0.25, 0.5, 0.75):
            assert keep(file, share) == pytest.approx(share, abs=1 / 900)  # to a page
        assert file.read_bytes() == b"x" * SIZE
    finally:
        file.unlink()


def test_a_file_that_lives_in_memory_stays_warm() -> None:
    file = Path(f"/dev/shm/pagecache{os.getpid()}")
    try:
        file.write_bytes(b"x" * SIZE)
        assert keep(file, 0.0) == 1.0
    finally:
        file.unlink()


def test_an_empty_file_has_no_pages(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    assert keep(tmp_path / "empty", 0.0) == keep(tmp_path / "empty", 1.0) == 0.0


class Enough(Exception):
    pass


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_whoever_waits_is_called_all_along_and_can_end_it(on_disk: Path, share: float) -> None:
    file, size = on_disk / f".pagecache{os.getpid()}", 30 << 20
    calls = 0

    def count() -> None:
        nonlocal calls
        calls += 1

    def stop_at_the_third() -> None:
        count()
        if calls == 3:
            raise Enough

    files = os.listdir("/proc/self/fd")
    try:
        file.write_bytes(b"x" * size)
        keep(file, share, count)
        assert calls > (1 + share) * size / (4 << 20)
        calls = 0
        with pytest.raises(Enough):
            keep(file, share, stop_at_the_third)
        assert calls == 3
        assert len(os.listdir("/proc/self/fd")) == len(files)
    finally:
        file.unlink()
