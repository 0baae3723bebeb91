"""A program that finds its groups, makes one, puts a process into it, removes it, and tells how it went."""

from __future__ import annotations

import json
import subprocess
import sys

from insitu.injectors.cgroups import create, discover, plan_group, remove

_JOIN_AND_TELL = """
import sys
for path in sys.argv[1:]:
    with open(f"{path}/cgroup.procs", "w") as file:
        file.write("0")
print(open("/proc/self/cgroup").read().split("::")[1].strip())
"""
CONTROLLERS = ("cpu", "io", "memory", "pids")


def main(name: str) -> None:
    found = discover()
    plan = plan_group(found, name, CONTROLLERS)
    member = ""
    if plan.paths:
        create(plan)
        try:
            command = [sys.executable, "-c", _JOIN_AND_TELL, *map(str, plan.paths)]
            member = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
        finally:
            for path in plan.paths:
                remove(path)
    parents = {controller: str(path) for controller, path in found.parents.items()}
    problems = {controller: problem.reason for controller, problem in found.problems.items()}
    sys.stdout.write(json.dumps({"parents": parents, "problems": problems, "member": member}))


if __name__ == "__main__":
    main(sys.argv[1])
