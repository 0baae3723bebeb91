"""A program that finds its groups, makes one as a run does, puts a process into it, and tells how it went."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from insitu.injectors.cgroups import create, discover, plan_group, remove
from insitu.injectors.confinement import NO_CAPS, inside, steps_for
from insitu.injectors.contract import Node, Ownership
from insitu.injectors.writing import write_setting

_JOIN_AND_TELL = """
import sys
for path in sys.argv[1:]:
    with open(f"{path}/cgroup.procs", "w") as file:
        file.write("0")
print(open("/proc/self/cgroup").read().split("::")[1].strip())
"""
CONTROLLERS = ("cpu", "io", "memory", "pids")


def main(name: str, run: str) -> None:
    found = discover()
    node = Node(os.cpu_count() or 1, os.geteuid() == 0, found, None)
    steps = steps_for(node, NO_CAPS, Ownership(run))
    plan = plan_group(inside(node, NO_CAPS, steps).node.hierarchies, name, CONTROLLERS)
    member, limits = "", {}
    if plan.paths:
        try:
            create(steps.plan)
            for setting in steps.in_force:
                write_setting(setting, steps.plan)
                limits[setting.file] = setting.text
            create(plan)
            command = [sys.executable, "-c", _JOIN_AND_TELL, *map(str, plan.paths)]
            member = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
        finally:
            for path in (*plan.paths, *steps.plan.paths):
                remove(path)
    parents = {controller: str(path) for controller, path in found.parents.items()}
    problems = {controller: problem.reason for controller, problem in found.problems.items()}
    outcome = {"parents": parents, "problems": problems, "member": member, "limits": limits}
    sys.stdout.write(json.dumps(outcome))


if __name__ == "__main__":
    main(*sys.argv[1:])
