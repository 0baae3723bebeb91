"""Writing a treatment's settings and values of the host, and reading back what became of them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from insitu.injectors import host_value
from insitu.injectors.cgroups import GroupPlan
from insitu.injectors.contract import HostValue, Setting
from insitu.injectors.errors import ForeignState, InjectorError, NotSettable

_REMEDY = "see what insitu doctor says of it"


def write_setting(setting: Setting, plan: GroupPlan) -> None:
    """Write one control file of the trial's own group.

    Raises
    ------
    InjectorError
        If the kernel refuses it, or it does not read back.
    """
    path = plan.file_of(setting)
    try:
        _write(path, setting.text)
        path = path.with_name(setting.reads_back_in or setting.file)
        seen = _read(path)
    except OSError as exc:
        raise NotSettable(f"cannot write {setting.text!r} to {path}: {exc.strerror}", _REMEDY) from exc
    expected = (setting.reads_back or setting.text).split()
    if not any(_in_order(expected, line.split()) for line in seen.splitlines()):
        raise InjectorError(f"{path} reads back {seen.strip()!r} after {setting.text!r} was written")


def _write(path: Path, text: str) -> None:
    """By one system call, as a control file wants it, and in a third of the time of a buffered one."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)


def _read(path: Path) -> str:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return b"".join(iter(lambda: os.read(descriptor, 65536), b"")).decode()
    finally:
        os.close(descriptor)


def _in_order(expected: Sequence[str], words: Sequence[str]) -> bool:
    """Whether all words expected are there, others between them or not: one file may hold several variables."""
    left = iter(words)
    return all(word in left for word in expected)


def snapshot(value: HostValue) -> str:
    """What a value of the host reads now, to be journalled; raises `InjectorError` if it cannot be read."""
    try:
        return host_value.read_value(value.path)
    except OSError as exc:
        raise NotSettable(f"cannot read {value.path}: {exc.strerror}", _REMEDY) from exc


def change_value(value: HostValue, prior: str) -> None:
    """Write a value of the host, if it still is what the journal says that it was.

    Raises
    ------
    ForeignState
        If somebody else has changed it since; it is left alone.
    InjectorError
        If the kernel refuses it, or makes something else of it: then it is written back at once, since whoever
        recovers could not tell that what it reads is due to us.
    """
    try:
        if (now := host_value.read_value(value.path)) != prior:
            raise ForeignState(
                f"{value.path} reads {now.strip()!r}, but {prior.strip()!r} a moment ago: somebody else sets it",
                "end what sets it, such as a power manager",
            )
        host_value.write_value(value.path, value.text)
        seen = host_value.read_value(value.path)
        fits = seen.split() == (value.reads_back or value.text).split()
        if not fits:
            host_value.write_value(value.path, prior)
    except OSError as exc:
        raise NotSettable(f"cannot write {value.text!r} to {value.path}: {exc.strerror}", _REMEDY) from exc
    if not fits:
        raise InjectorError(f"{value.path} reads back {seen.strip()!r} after {value.text!r} was written")
