"""Where trials run, and what each takes there: known before anything is made, so that dry runs show the same."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from insitu.injectors import lifecycle
from insitu.injectors.contract import Node, StopAndGo, Treatment
from insitu.injectors.network.link import Link
from insitu.injectors.steps import Actuators, HoldSteps
from insitu.injectors.treatment import Intervention
from insitu.orchestrator.execution.ahead import controllers_for, node_limits
from insitu.orchestrator.execution.orders import Program, TrialOrder
from insitu.orchestrator.execution.sandbox.protocol import DutyCycle, Launch
from insitu.orchestrator.execution.workspace import Workspace
from insitu.orchestrator.plan.types import Guards


@dataclass(frozen=True, slots=True)
class Place:
    """A node as a run sees it.

    Attributes
    ----------
    prefix
        The run's mark, with which every name begins.
    """

    node: Node
    workspace: Workspace
    actuators: Actuators
    prefix: str

    def steps(
        self, name: str, interventions: Sequence[Intervention], guards: Guards, *, linked: bool = False
    ) -> HoldSteps:
        """What holding interventions takes, for a trial of this name.

        Parameters
        ----------
        linked
            Whether the subject has a network link in any case.

        Raises
        ------
        NotSettable
            If a level cannot be set, or two contradict each other.
        """
        return lifecycle.plan_hold(
            interventions,
            self.node,
            name=f"{self.prefix}-{name}",
            controllers=controllers_for(intervention.injector.variable for intervention in interventions),
            limits=node_limits(guards),
            folders=(self.workspace.scratch,),
            actuators=self.actuators,
            parts=(Link(),) if linked else (),
        )

    def subject(self, order: TrialOrder, stop_and_go: StopAndGo | None) -> Launch:
        """The launch of the program that is measured."""
        launch = self._launch(order.command, order.guards, order.environment)
        if stop_and_go is None:
            return launch
        cycle = DutyCycle(stop_and_go.period_s, stop_and_go.share, stop_and_go.cpus)
        return replace(launch, duty_cycle=cycle)

    @property
    def input(self) -> Path:
        """What the preparation's stdout goes to."""
        return self.workspace.scratch / "in"

    def preparation(self, order: TrialOrder) -> Launch | None:
        """The launch of the program that makes the input, if there is one."""
        if order.prepare is None:
            return None
        return self._launch(order.prepare, order.guards, order.environment, self.input)

    def input_share(self, order: TrialOrder, treatment: Treatment) -> float:
        """Share of the input whose pages are in memory when the subject starts."""
        if treatment.input_in_memory is not None:
            return treatment.input_in_memory
        return 0.0 if order.page_cache == "cold" else 1.0

    @property
    def made_data(self) -> Path:
        """Where a file of the run's data is made."""
        return self.workspace.scratch / "out"

    def data(self, program: Program, guards: Guards) -> Launch:
        """The launch of a program that makes a file of the run's data."""
        return self._launch(program, guards, (), self.made_data)

    @property
    def environment(self) -> dict[str, str]:
        """What every program in the sandbox finds in its environment."""
        home = str(self.workspace.scratch)
        return {"PATH": os.environ.get("PATH", os.defpath), "HOME": home, "LANG": "C.UTF-8"}

    def _launch(
        self,
        program: Program,
        guards: Guards,
        environment: tuple[tuple[str, str], ...],
        stdout: Path | None = None,
    ) -> Launch:
        scratch, data = str(self.workspace.scratch), str(self.workspace.data)
        return Launch(
            command=program.on_node(scratch, data),
            environment=self.environment | {name: program.fill(text, scratch, data) for name, text in environment},
            folder=scratch,
            stdout=str(stdout or ""),
            stderr=str(self.workspace.stderr),
            file_bytes=int(guards.scratch_bytes),
            processes=guards.processes,
        )
