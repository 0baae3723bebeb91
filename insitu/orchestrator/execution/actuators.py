"""What brings about the parts of treatments that are more than a value in a file."""

from __future__ import annotations

from pathlib import Path

from insitu.injectors.actuator import Actuator
from insitu.injectors.anomalies.actuator import LoadActuator
from insitu.injectors.contract import Node
from insitu.injectors.journal import Journal
from insitu.injectors.network.actuator import LinkActuator
from insitu.injectors.placement import Placements
from insitu.injectors.steps import Actuators


def actuators_for(node: Node, folder: Path, journal: Journal) -> Actuators:
    """One actuator of each kind; none makes or starts anything before it is needed.

    Parameters
    ----------
    folder
        On the disk that loads of the disk are to use.
    """
    all_kinds: tuple[Actuator, ...] = (Placements(), LoadActuator(node, folder, journal), LinkActuator(journal))
    return {actuator.part: actuator for actuator in all_kinds}
