"""Variables of the subject's network link, which it must have."""

from __future__ import annotations

from collections.abc import Collection

from insitu.orchestrator.plan import located
from insitu.orchestrator.plan.located import FaultList
from insitu.orchestrator.plan.resolve_model import ResolvedModel

_OF_THE_LINK = "net."


def check_network(
    subject: located.Node | None, factors: Collection[str], model: ResolvedModel, faults: FaultList
) -> None:
    """Report a factor that shapes the network of a subject that is to have none."""
    network = subject.entry("network") if isinstance(subject, located.Mapping) else None
    if network is None or located.plain(network.value) != "none":
        return
    for name in factors:
        variable = model.text.variables.get(name)
        if variable is not None and (variable.source or "").startswith(_OF_THE_LINK):
            faults.at(
                network.value,
                f"the subject has no network that the factor '{variable.name}' could shape",
                "remove 'network', or write network: host",
            )
