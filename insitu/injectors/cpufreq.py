"""The frequency domains of a machine, as the kernel's cpufreq shows them; changes nothing."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

CPUFREQ = Path("/sys/devices/system/cpu/cpufreq")


@dataclass(frozen=True, slots=True)
class FrequencyPolicy:
    """Processors that have one frequency together.

    Attributes
    ----------
    path
        Its directory.
    low_hz, high_hz
        What the hardware can do.
    least_hz, most_hz
        Bounds in which the governor chooses now.
    steps_hz
        The only frequencies that there are; empty where the driver does not say.
    """

    path: str
    low_hz: float
    high_hz: float
    least_hz: float
    most_hz: float
    steps_hz: tuple[float, ...] = ()


def policies(processors: Collection[int], root: Path = CPUFREQ) -> tuple[FrequencyPolicy, ...]:
    """The policies of these processors; none in most virtual machines."""
    found = (_policy(path, processors) for path in sorted(root.glob("policy*")))
    return tuple(policy for policy in found if policy is not None)


def _policy(path: Path, processors: Collection[int]) -> FrequencyPolicy | None:
    try:
        affected = {int(word) for word in (path / "affected_cpus").read_text().split()}
        if affected.isdisjoint(processors):
            return None
        low, high, least, most = (
            _hz(path / name)[0]
            for name in ("cpuinfo_min_freq", "cpuinfo_max_freq", "scaling_min_freq", "scaling_max_freq")
        )
    except (OSError, IndexError):  # a policy whose processors are offline
        return None
    steps = path / "scaling_available_frequencies"
    return FrequencyPolicy(str(path), low, high, least, most, tuple(sorted(_hz(steps))) if steps.exists() else ())


def _hz(file: Path) -> list[float]:
    """The kernel writes kHz."""
    return [1e3 * int(word) for word in file.read_text().split()]
