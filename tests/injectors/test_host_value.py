"""Values of the host are put back as they were, once, and never over what somebody else has written since."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from insitu.injectors.errors import ForeignState, UndoFailed
from insitu.injectors.host_value import Change, chains, put_back, read_value, write_value

TEXTS = st.text("ab \n", min_size=1, max_size=6).filter(lambda text: bool(text.strip()))


@pytest.fixture
def value(tmp_path: Path) -> Path:
    path = tmp_path / "value"
    path.write_text("800000\n")
    return path


@pytest.fixture
def kernel_value() -> Iterator[Path]:
    """A file of the kernel's that takes a value: how likely a process of ours is to be ended for its memory."""
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as process:
        yield Path(f"/proc/{process.pid}/oom_score_adj")
        process.kill()


@given(prior=TEXTS, written=TEXTS)
def test_what_was_written_is_put_back_to_the_byte(prior: str, written: str) -> None:
    with tempfile.NamedTemporaryFile("w+") as file:
        file.write(prior)
        file.flush()
        write_value(file.name, written)
        assert read_value(file.name) == written
        for _ in range(2):
            assert put_back(Change(file.name, prior, (written,))) == ""
            assert read_value(file.name) == prior


def test_a_value_of_the_kernel_is_put_back(kernel_value: Path) -> None:
    prior = read_value(kernel_value)
    write_value(kernel_value, "500")
    assert read_value(kernel_value) == "500\n"
    put_back(Change(str(kernel_value), prior, ("500",)))
    assert read_value(kernel_value) == prior


def test_what_the_kernel_refuses_is_said(kernel_value: Path) -> None:
    with pytest.raises(OSError, match="Invalid argument"):
        write_value(kernel_value, "5000")
    write_value(kernel_value, "500")
    with pytest.raises(UndoFailed, match="cannot be put back: Invalid argument"):
        put_back(Change(str(kernel_value), "no number", ("500",)))


def test_what_somebody_else_has_written_stays(value: Path) -> None:
    value.write_text("1200000\n")
    change = Change(str(value), "800000\n", ("400000",))
    with pytest.raises(ForeignState, match="reads '1200000', but '400000' was written over '800000'") as caught:
        put_back(change)
    assert str(value) in caught.value.remedy
    assert value.read_text() == "1200000\n"
    assert "left alone" in put_back(change, rebooted=True)
    assert value.read_text() == "1200000\n"


def test_after_a_reboot_only_what_still_reads_as_ours_is_put_back(value: Path) -> None:
    value.write_text("400000\n")
    assert put_back(Change(str(value), "800000\n", ("400000",)), rebooted=True) == ""
    assert value.read_text() == "800000\n"


def test_after_a_reboot_a_value_of_the_kernel_is_left_though_it_reads_as_ours(kernel_value: Path) -> None:
    change = Change(str(kernel_value), read_value(kernel_value), ("500",))
    write_value(kernel_value, "500")
    assert put_back(change, rebooted=True) == "it was reset by the boot, and reads '500'"
    assert read_value(kernel_value) == "500\n"


def test_a_value_that_is_gone_may_come_back_unless_the_machine_was_started_anew(value: Path) -> None:
    value.unlink()
    change = Change(str(value), "800000\n", ("400000",))
    with pytest.raises(UndoFailed, match="may come back with the '400000'"):
        put_back(change)
    assert "gone" in put_back(change, rebooted=True)
    assert not value.exists(), "a value is never made"


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: path.symlink_to("/etc/hostname")])
def test_what_is_no_file_is_left_alone(tmp_path: Path, make: Callable[[Path], None]) -> None:
    path = tmp_path / "value"
    make(path)
    with pytest.raises((ForeignState, UndoFailed)):
        put_back(Change(str(path), "800000\n", ("400000",)))


def test_a_file_that_is_too_long_for_a_value_is_left_alone(value: Path) -> None:
    value.write_text("x" * 100_000)
    with pytest.raises(ForeignState, match="too long"):
        put_back(Change(str(value), "800000\n", ("400000",)))


def test_a_shorter_value_over_a_longer_one_never_reads_as_a_mixture(
    value: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    value.write_text("1234567890\n")
    change = Change(str(value), "8\n", ("1234567890",))
    with monkeypatch.context() as patch:
        patch.setattr(os, "ftruncate", lambda *_: exec("raise KeyboardInterrupt"))
        with pytest.raises(KeyboardInterrupt):
            put_back(change)
    assert value.read_text().strip() == "8"
    assert put_back(change) == ""
    assert value.read_text() == "8\n"


@given(st.lists(st.tuples(st.integers(0, 1), st.sampled_from("wxyz")), min_size=1, max_size=8))
def test_nested_changes_are_put_back_at_once_and_done_twice_do_no_harm(steps: list[tuple[int, str]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / name for name in ("first", "second")]
        for path in paths:
            path.write_text("prior\n")
        changes: list[Change] = []
        for which, text in steps:
            changes.insert(0, Change(str(paths[which]), paths[which].read_text(), (text,)))
            write_value(paths[which], text)
        joined = chains(changes)
        assert len(joined) == len({which for which, _ in steps})
        for _ in range(2):
            for change in joined:
                put_back(change)
            assert [path.read_text() for path in paths] == ["prior\n", "prior\n"]


def test_a_change_that_was_put_back_before_the_next_one_is_settled() -> None:
    older, newer = Change("/v", "prior", ("a",)), Change("/v", "set by the user", ("b",))
    assert chains([newer, older]) == (newer,)
    oldest = Change("/v", "x", ("prior",))
    assert chains([newer, older, oldest]) == (newer,)
    assert chains([older, oldest]) == (Change("/v", "x", ("a", "prior")),)
