"""A plan whose trials cannot answer its goal is refused; what is only likely not meant is a warning."""

from __future__ import annotations

import dataclasses
import json
import platform
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from insitu.injectors import processors
from insitu.orchestrator import experiment
from insitu.orchestrator.doubts import doubts_of
from insitu.orchestrator.errors import InputError
from insitu.orchestrator.plan.inventory import Inventory
from tests import plans

MODEL = """\
variables:
  size: {unit: B, role: parameter}
  other: {unit: "", role: parameter}
  cores: {unit: core, set_by: cpu.cores}
  load: {unit: "", set_by: anomaly.cpu}
  faults: {unit: "", measured_by: major_faults}
  runtime: {unit: s, measured_by: wall_time}
laws:
  runtime: LAW
"""
PLAN = """\
name: doubtful
subject: {command: [echo, "{size}", "{other}"]}
model: model.yaml
factors:
FACTORS
goal: {effect: cores -> runtime}
design: {kind: factorial, replicates: 2, baseline_replicates: 1}
"""
CORES, SIZE, OTHER = "cores: {levels: [0.4, 0.8]}", "size: {levels: [2 MB, 4 MB]}", "other: {levels: [1, 3]}"


def doubts(
    folder: Path,
    law: str,
    *factors: str,
    goal: bool = True,
    inventory: Inventory | None = None,
    baselines: int = 1,
    replicates: int = 2,
) -> list[str]:
    named = {factor.partition(":")[0] for factor in factors}
    text = PLAN.replace("FACTORS", "\n".join(f"  {factor}" for factor in factors))
    text = text.replace(
        "replicates: 2, baseline_replicates: 1", f"replicates: {replicates}, baseline_replicates: {baselines}"
    )
    for name in ("size", "other"):
        text = text if name in named else text.replace(f', "{{{name}}}"', "")
    if not goal:
        text = text.replace("goal: {effect: cores -> runtime}\n", "")
    loaded, blueprint = experiment.read(plans.write(folder, text, MODEL.replace("LAW", law)))
    prepared = experiment.prepare(loaded, blueprint, folder)
    found = doubts_of(prepared, inventory)
    return [str(doubt).replace(f"{folder}/", "") for doubt in found]


def test_a_sound_plan_raises_none(tmp_path: Path) -> None:
    assert doubts(tmp_path, "c + a * size + b * size / cores", CORES, SIZE) == []


@pytest.mark.parametrize(
    ("law", "factors", "message", "hint"),
    [
        (
            "c + a * size + b * size / cores",
            (CORES, "size: {levels: [2 MB]}"),
            "the planned trials do not tell c and a apart, since size stands at one level",
            "give size another level",
        ),
        (
            "c + a * size + d * other + b / cores",
            (CORES, "size: {levels: [2 MB]}", "other: {levels: [1]}"),
            "the planned trials do not tell c, a and d apart, since size and other stand at one level each",
            "give size and other another level",
        ),
        (
            "c + a * size / cores + b * 2 * size / cores",
            (CORES, SIZE),
            "the planned trials do not tell a and b apart",
            "keep one of a and b in the law: no level of any variable separates them",
        ),
        (
            "c + b / cores + e * faults + f * 3 * faults",
            (CORES,),
            "the planned trials do not tell e and f apart",
            "keep one of e and f in the law: no level of any variable separates them",
        ),
        (
            "c + a * other + b * other^2 + d * size / cores + e * size * 2 / cores",
            (CORES, SIZE, OTHER),
            "the planned trials do not tell c, a and b apart; the planned trials do not tell d and e apart",
            "give other another level; keep one of d and e in the law",
        ),
    ],
)
def test_parameters_that_no_trial_tells_apart(
    tmp_path: Path, law: str, factors: tuple[str, ...], message: str, hint: str
) -> None:
    with pytest.raises(InputError) as caught:
        doubts(tmp_path, law, *factors)
    place, _, said = caught.value.message.partition(": ")
    assert place == f"{tmp_path}/plan.yaml:{5 + len(factors)}:16"
    assert said == f"the law of runtime cannot be fitted: {message}"
    assert (caught.value.hint or "").startswith(hint)
    assert (caught.value.hint or "").endswith("without `goal`, the trials run and are not fitted")
    assert doubts(tmp_path, law, *factors, goal=False)[0].startswith(f"{said}\n  hint: {hint}")


def test_too_few_trials(tmp_path: Path) -> None:
    law = "c + b / cores + d / cores^2"
    with pytest.raises(InputError) as caught:
        doubts(tmp_path, law, CORES, replicates=1)
    assert "3 trials cannot fit the law of runtime, which has 3 parameters (c, b and d)" in caught.value.message
    assert caught.value.message.endswith(": at least 4 are needed, 1 more")
    assert (caught.value.hint or "").startswith("add levels, or raise design.replicates; ")
    assert doubts(tmp_path, law, CORES, replicates=2) == []


def test_what_is_measured_may_take_any_value(tmp_path: Path) -> None:
    assert doubts(tmp_path, "c + e * faults + b / cores", CORES) == []


def test_a_term_that_is_zero_in_every_trial_is_not_estimated(tmp_path: Path) -> None:
    (found,) = doubts(tmp_path, "c + b / cores + d * load", CORES)
    assert found == "d of the law of runtime is not estimated: load is zero in every trial"


def test_a_cause_at_one_level_has_no_effect_to_see(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        doubts(tmp_path, "b * size / cores", "cores: {levels: [0.4]}", SIZE, baselines=0)
    assert caught.value.message.endswith("cores is 0.4 core in every trial, so they show no effect of it")
    assert caught.value.hint == "give cores another level"


def test_a_cap_that_is_never_applied_is_a_doubt_only(tmp_path: Path) -> None:
    """What the machine gives may differ between trials, so nobody knows in advance."""
    first, second = doubts(tmp_path, "c + b / cores", "cores: {levels: [unlimited]}")
    assert "do not tell c and b apart, since cores stands at one level\n  hint: give cores another level" in first
    assert second.startswith("cores is unlimited in every trial")


LATE = "load: {levels: [0, 2], with: {windows: WINDOWS}}"
LAW = "c + b / cores + d * load"


def windows(folder: Path, text: str, inventory: Inventory | None = None) -> list[str]:
    return doubts(folder, LAW, CORES, LATE.replace("WINDOWS", text), inventory=inventory)


def test_windows_that_open(tmp_path: Path) -> None:
    assert windows(tmp_path, "[[1 s, 2 s]]") == []
    assert windows(tmp_path, f"{{{platform.node()}: [[1 s, 90 s]]}}") == []


def test_a_window_after_the_end_of_every_trial(tmp_path: Path) -> None:
    (found,) = windows(tmp_path, "[[1 s, 2 s], [60 s, 61 s]]")
    assert found.startswith(
        "plan.yaml:6:3: the window 60 to 61 s of load never opens: a trial is ended after 60 s"
    )


def test_windows_of_an_unknown_node(tmp_path: Path) -> None:
    unknown, none_here = windows(tmp_path, "{nowhere: [[1 s, 2 s]]}")
    assert unknown.startswith("plan.yaml:6:3: the windows of load never open: no node is named 'nowhere'")
    assert none_here.startswith("plan.yaml:6:3: load has no window on this node")
    known = Inventory(tmp_path, {"nowhere": experiment.read(tmp_path / "plan.yaml")[0].blast_radius})
    (none_here,) = windows(tmp_path, "{nowhere: [[1 s, 2 s]]}", known)
    assert none_here.startswith("plan.yaml:6:3: load has no window on this node")


def insitu(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "insitu", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd)


def test_check_repeats_what_it_was_told(tmp_path: Path) -> None:
    plans.write(tmp_path)
    (tmp_path / "nodes.yaml").write_text("nodes: {default: {blast_radius: {trials: 1}}}\n")
    for options in (
        [],
        ["--out", "a b"],
        ["--inventory", "nodes.yaml"],
        ["--out", "x", "--inventory", "nodes.yaml"],
    ):
        done = insitu("check", "plan.yaml", *options, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        said = done.stdout.splitlines()[-1].partition("would run with: ")[2]
        assert shlex.split(said) == ["insitu", "run", "plan.yaml", *options]
    (tmp_path / "runs" / "earlier").mkdir(parents=True)
    done = insitu("check", "plan.yaml", "--out", "runs", cwd=tmp_path)
    assert shlex.split(done.stdout.splitlines()[-1])[-1].startswith("runs/small-")


def test_check_warns_where_no_trial_would_start_now(tmp_path: Path) -> None:
    guards = "guards: {trial_timeout: 20 s, abort_when: ['host.disk.free < 1000000 GB']}\n"
    text = plans.PLAN.replace("guards: {trial_timeout: 20 s}\n", guards + "blast_radius: {memory: 900000 GB}\n")
    plan = plans.write(tmp_path, text)
    done = insitu("check", str(plan), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "warning: no trial would start now: host.disk.free is " in done.stdout
    assert "this can pass; a run waits for 60 s (guards.node_wait)" in done.stdout
    assert "the blast radius has memory 900 TB, more than the " in done.stdout
    assert "nothing wrong found" not in done.stdout
    assert done.stdout.splitlines()[-1].startswith("2 warnings; 10 trials would run with: ")
    document = json.loads(insitu("check", str(plan), "--json", cwd=tmp_path).stdout)
    assert len(document["warnings"]) == 2


@pytest.mark.parametrize("command", [["check"], ["run"], ["run", "--dry-run"]])
def test_every_command_refuses_a_goal_out_of_reach(tmp_path: Path, command: list[str]) -> None:
    one_size = plans.PLAN.replace("[2 MB, 4 MB]", "[2 MB]")
    plan = plans.write(tmp_path, one_size, plans.MODEL.replace("c + b", "c + a * input_size + b"))
    done = insitu(*command, str(plan), "--out", str(tmp_path / "run"), cwd=tmp_path)
    assert done.returncode == 2
    assert "do not tell c and a apart, since input_size stands at one level" in done.stderr
    assert not (tmp_path / "run").exists()


@pytest.mark.root
def test_a_machine_that_shows_its_threads_does_not_tell_how_fast_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "tolerated_slowdown: 15 %\n" + SEQUENTIAL_PLAN.replace("TRIALS", "30")
    asked = prepared_from(tmp_path, text, MODEL.replace("LAW", "c + a * size + b / cores"))
    for threads, expected in ((1, 0), (2, 1)):
        monkeypatch.setattr(processors, "siblings", lambda cpu, root, n=threads: frozenset(range(n)))
        found = [str(one) for one in doubts_of(asked, None) if "tolerated_slowdown" in str(one)]
        assert len(found) == expected


SEQUENTIAL_PLAN = """\
name: simulated
subject: {command: [sleep, "{size}"]}
model: model.yaml
factors:
  cores: {levels: [0.5, 1]}
  size: {levels: [1, 2]}
goal: {effect: cores -> runtime, relative_half_width: 0.1}
budget: {trials: TRIALS}
"""


def prepared_from(folder: Path, plan: str, model: str) -> experiment.Experiment:
    loaded, blueprint = experiment.read(plans.write(folder, plan, model))
    return experiment.prepare(loaded, blueprint, folder)


@pytest.mark.root
def test_a_budget_too_small_for_the_first_look(tmp_path: Path) -> None:
    model = MODEL.replace("LAW", "c + a * size / cores")
    small = prepared_from(tmp_path, SEQUENTIAL_PLAN.replace("TRIALS", "5"), model)
    with pytest.raises(InputError) as caught:
        doubts_of(small, None)
    assert caught.value.message.endswith(
        "plan.yaml:7:16: a budget of 5 trials is too few for a law of 2 parameters: "
        "the first look at its precision takes 7"
    )
    assert caught.value.hint == "raise budget.trials to 7 or more"
    doubts_of(prepared_from(tmp_path, SEQUENTIAL_PLAN.replace("TRIALS", "7"), model), None)


@pytest.mark.root
def test_a_hidden_cause_of_a_mediator_and_the_outcome(tmp_path: Path) -> None:
    laws = "c + b * work\n  work: d + e * size / cores\nconfounded: [[work, runtime]]"
    model = MODEL.replace("LAW", laws).replace(
        "variables:\n", "variables:\n  work: {unit: s, measured_by: cpu_time}\n"
    )
    mixed = prepared_from(tmp_path, SEQUENTIAL_PLAN.replace("TRIALS", "30"), model)
    with pytest.raises(InputError) as caught:
        doubts_of(mixed, None)
    assert "'work' and 'runtime' share a hidden cause" in caught.value.message
    assert caught.value.hint == "give 'runtime' a law in what trials set, without 'work'"


@pytest.mark.root
@pytest.mark.parametrize(
    ("goal", "asked"),
    [
        (
            "effect: cores -> runtime, between: [0.1, 0.8]",
            "cores = 0.1 core, beyond the levels of the trials, 0.4",
        ),
        (
            "effect: cores -> runtime, at: {size: 100 MB}",
            "size = 100 MB, beyond the levels of the trials, 2 MB to",
        ),
        ("prediction: runtime, at: [{size: 3 MB}, {size: 1 MB}]", "size = 1 MB, beyond the levels of the trials"),
    ],
)
def test_a_goal_beyond_the_levels_of_its_factors_is_a_doubt(tmp_path: Path, goal: str, asked: str) -> None:
    text = PLAN.replace("FACTORS", f"  {CORES}\n  {SIZE}").replace(', "{other}"', "")
    model = MODEL.replace("LAW", "c + a * size / cores")
    (found,) = doubts_of(prepared_from(tmp_path, text.replace("effect: cores -> runtime", goal), model), None)
    assert found.message.startswith(f"{tmp_path}/plan.yaml:7:")
    assert asked in found.message
    among = text.replace("effect: cores -> runtime", "prediction: runtime, at: {cores: 5, size: 3 MB}")
    assert (
        doubts_of(prepared_from(tmp_path, among, model), None) == ()
    )  # a cap above what is used is without effect


def test_a_law_without_a_value_at_the_levels_of_the_factors(tmp_path: Path) -> None:
    (found,) = doubts(tmp_path, "c + b * log(other - 2) / cores + a * other", CORES, "other: {levels: [1, 3, 4]}")
    assert "the law of runtime is not finite at the levels of 6 of the 14 trials that the plan allows" in found
    with pytest.raises(InputError, match="not finite at the levels of any trial that the plan allows"):
        doubts(tmp_path, "c + b * log(other - 9) / cores", CORES, OTHER)


@pytest.mark.root
def test_a_sequential_design_may_repeat_its_few_trials(tmp_path: Path) -> None:
    model = MODEL.replace("LAW", "c + a * size + b / cores")
    text = SEQUENTIAL_PLAN.replace("TRIALS", "30").replace("[1, 2]", "[1]")
    with pytest.raises(InputError) as caught:
        doubts_of(prepared_from(tmp_path, text, model), None)
    assert caught.value.message.endswith("do not tell c and a apart, since size stands at one level")
    as_many_as_parameters = MODEL.replace("LAW", "c + b * size / cores + d * size / cores^2")
    assert doubts_of(prepared_from(tmp_path, text, as_many_as_parameters), None) == ()


def crowded(measured: int, parents: int) -> str:
    """A model in which each measured variable follows from those just before it."""
    sources = ("wall_time", "cpu_time", "user_time", "system_time")
    names = ["cores", *(f"v{index}" for index in range(measured - 1)), "runtime"]
    lines = ["variables:", "  cores: {unit: core, set_by: cpu.cores}"]
    lines += [f"  {name}: {{unit: s, measured_by: {sources[at % 4]}}}" for at, name in enumerate(names[1:])]
    lines.append("laws:")
    for at, name in enumerate(names[1:], start=1):
        terms = [f"p{at}_{other} * {names[other]}" for other in range(max(0, at - parents), at)]
        lines.append(f"  {name}: c{at} + {' + '.join(terms)}")
    return "\n".join(lines) + "\n"


@pytest.mark.root
def test_a_graph_of_200_variables_and_2000_edges_is_answered_or_refused(tmp_path: Path) -> None:
    model = crowded(199, 10)
    assert model.count(" * ") > 1900
    factorial = PLAN.replace("FACTORS", f"  {CORES}").replace('[echo, "{size}", "{other}"]', "[echo]")
    factorial = factorial.replace("replicates: 2", "replicates: 9")
    assert doubts_of(prepared_from(tmp_path, factorial, model), None) == ()
    few = factorial.replace("replicates: 9, baseline_replicates: 1", "replicates: 2, baseline_replicates: 0")
    with pytest.raises(
        InputError, match=r"which has 11 parameters \(c199, p199_189, .* and 6 more\): at least 12"
    ):
        doubts_of(prepared_from(tmp_path, few, model), None)
    sequential = SEQUENTIAL_PLAN.replace("TRIALS", "300").replace("  size: {levels: [1, 2]}\n", "")
    sequential = sequential.replace('"{size}"', '"1"')
    with pytest.raises(InputError, match="goes through 199 laws with 2144 parameters, and a sequential design"):
        doubts_of(prepared_from(tmp_path, sequential, model), None)


KIND_PLAN = """\
name: kinds
subject: {command: [sleep, "{size}", "{other}"]}
model: model.yaml
factors:
  size: {levels: [1 B, 2 B]}
  other: {levels: [-1, 1]}
  cores: {levels: [0.5, 1]}
goal: {effect: cores -> runtime}
design: {kind: fractional, resolution: 3, replicates: 4}
"""


@pytest.mark.root
def test_a_trial_that_the_design_leaves_out_and_that_would_separate_is_named(tmp_path: Path) -> None:
    """In this half of the combinations, cores is high where size and other are alike."""
    model = MODEL.replace("LAW", "c + a * size + b * (cores - mid) * other") + "constants: {mid: 0.75 core}\n"
    half = KIND_PLAN.replace("4}", "4, baseline_replicates: 0}")
    with pytest.raises(InputError) as caught:
        doubts_of(prepared_from(tmp_path, half, model), None)
    assert "do not tell c, a and b apart" in caught.value.message
    hint = caught.value.hint or ""
    assert hint.startswith("add the trial (size = ")
    assert "which the plan allows and its design leaves out" in hint
    whole = half.replace("fractional, resolution: 3", "factorial")
    assert doubts_of(prepared_from(tmp_path, whole, model), None) == ()


@pytest.mark.root
def test_what_is_hard_to_change_is_a_warning(tmp_path: Path) -> None:
    plan = KIND_PLAN.replace("fractional, resolution: 3", "factorial")
    plan = plan.replace("[1 B, 2 B]}", "[1 B, 2 B], hard_to_change: true}")
    model = MODEL.replace("LAW", "c + a * size + b / cores + d * other")
    (doubt,) = doubts_of(prepared_from(tmp_path, plan, model), None)
    assert doubt.message.startswith("size changes between groups of trials only")
    assert doubt.hint == "write `fit: mixed` for the law of runtime, which allows for that"
    mixed = MODEL.replace("LAW", "{law: c + a * size + b / cores + d * other, fit: mixed}")
    assert doubts_of(prepared_from(tmp_path, plan, mixed), None) == ()


@pytest.mark.root
def test_too_few_trials_of_a_design_that_is_told_how_many(tmp_path: Path) -> None:
    plan = KIND_PLAN.replace("{kind: fractional, resolution: 3, replicates: 4}", "{kind: d_optimal, trials: 2}")
    model = MODEL.replace("LAW", "c + a * size + b / cores + d * other")
    with pytest.raises(InputError) as caught:
        doubts_of(prepared_from(tmp_path, plan, model), None)
    assert "2 trials cannot fit the law of runtime" in caught.value.message
    assert (caught.value.hint or "").startswith("raise design.trials by 3 or more; without `goal`")


@pytest.mark.root
def test_a_latin_hypercube_over_a_range_of_whole_loads_has_whole_loads(tmp_path: Path) -> None:
    plan = KIND_PLAN.replace("cores: {levels: [0.5, 1]}", "cores: {range: [0.5, 1]}\n  load: {range: [0, 4]}")
    plan = plan.replace("{kind: fractional, resolution: 3, replicates: 4}", "{kind: latin_hypercube, trials: 11}")
    model = MODEL.replace("LAW", "c + a * size + b / cores + d * other + e * load")
    prepared = prepared_from(tmp_path, plan, model)
    levels = [one.assignment.as_dict() for one in experiment.design_trials(prepared.plan, prepared.blueprint)]
    assert {one["load"] for one in levels} <= {0.0, 1.0, 2.0, 3.0, 4.0}
    assert len({one["cores"] for one in levels}) > 10


CHAIN = """\
variables:
  size: {unit: B, role: parameter}
  cores: {unit: core, set_by: cpu.cores}
  freq: {unit: Hz, set_by: cpu.frequency}
  work: {unit: s, measured_by: cpu_time}
  runtime: {unit: s, measured_by: wall_time}
laws:
  work: WORK
  runtime: LAW
parameters:
  d: {unit: s}
"""
"""What is set, a law on the way, and the outcome's."""
THROUGH = "c + b * work / cores"


def through(folder: Path, work: str, sizes: str, kind: str, goal: str = "") -> experiment.Experiment:
    text = SEQUENTIAL_PLAN.replace("TRIALS", "40").replace("[1, 2]", sizes) + f"design: {{kind: {kind}}}\n"
    text = text.replace("effect: cores -> runtime", goal) if goal else text
    model = (
        CHAIN.replace("WORK", work)
        .replace("LAW", THROUGH)
        .replace("  d: {unit: s}\n", "")
        .replace("parameters:\n", "")
        .replace("  freq: {unit: Hz, set_by: cpu.frequency}\n", "")
    )
    return prepared_from(folder, text, model)


@pytest.mark.root
@pytest.mark.parametrize("kind", ["sequential", "factorial", "d_optimal", "c_optimal"])
def test_every_law_on_the_way_to_the_outcome_has_to_be_told(tmp_path: Path, kind: str) -> None:
    for work, mixed in (("k + w * size + z * size", "w and z"), ("k + k2 + w * size", "k and k2")):
        with pytest.raises(InputError) as caught:
            doubts_of(through(tmp_path, work, "[1, 2, 4]", kind), None)
        said = f"plan.yaml:7:16: the law of work cannot be fitted: the planned trials do not tell {mixed} apart"
        assert caught.value.message.endswith(said)
        assert (caught.value.hint or "").startswith(
            f"keep one of {mixed} in the law: no level of any variable separates them; without `goal`"
        )
    assert doubts_of(through(tmp_path, "k + w * size", "[1, 2, 4]", kind), None) == ()


PRECISE = ("kind: sequential", "kind: factorial", "kind: c_optimal, trials: 8")


@pytest.mark.root
@pytest.mark.parametrize("kind", PRECISE)
def test_a_number_that_depends_on_no_parameter_is_refused(tmp_path: Path, kind: str) -> None:
    text = SEQUENTIAL_PLAN.replace("TRIALS", "40") + f"design: {{{kind}}}\n"
    for law in ("c + d * work / cores * 0", "c + d * max(0, 0 * work / cores)"):
        model = CHAIN.replace("WORK", "k + w * size").replace("LAW", law)
        model = model.replace("  freq: {unit: Hz, set_by: cpu.frequency}\n", "")
        with pytest.raises(InputError) as caught:
            doubts_of(prepared_from(tmp_path, text, model), None)
        assert caught.value.message.endswith(
            "plan.yaml:7:16: by the laws, what cores does to runtime from 0.5 core to 1 core is the same whatever "
            "their parameters are, so no trial tells anything of it"
        )
        assert "laws on the way to runtime" in (caught.value.hint or "")


@pytest.mark.root
@pytest.mark.parametrize("kind", PRECISE)
def test_a_number_of_a_cause_that_cannot_be_set_is_refused(tmp_path: Path, kind: str) -> None:
    text = SEQUENTIAL_PLAN.replace("TRIALS", "40").replace("[0.5, 1]", "[unlimited]") + f"design: {{{kind}}}\n"
    found = prepared_from(tmp_path, text, MODEL.replace("LAW", "c + a * size / cores"))
    with pytest.raises(InputError, match="cores is unlimited in every trial, so they show no effect of it"):
        doubts_of(found, None)
    left = experiment.LeftUnset("cores", "this machine shows no control groups", "mount them")
    with pytest.raises(InputError) as caught:
        doubts_of(dataclasses.replace(found, left_unset=(left,)), None)
    assert caught.value.message.endswith(
        "plan.yaml:7:16: cores is left as it is in every trial, since this machine shows no control groups: "
        "they show no effect of it"
    )
    assert caught.value.hint == "mount them; or ask for the effect of a variable that can be set here"


@pytest.mark.root
@pytest.mark.parametrize("kind", PRECISE)
def test_a_number_that_needs_what_no_trial_tells_is_refused(tmp_path: Path, kind: str) -> None:
    text = SEQUENTIAL_PLAN.replace("TRIALS", "40") + f"design: {{{kind}}}\n"
    text = text.replace("effect: cores -> runtime", "prediction: runtime, at: {load: 2, cores: 1, size: 1 B}")
    model = MODEL.replace("LAW", "c + a * size / cores + d * load")
    with pytest.raises(InputError) as caught:
        doubts_of(prepared_from(tmp_path, text, model), None)
    said = "plan.yaml:7:20: no trial that the plan allows tells d, and the goal needs it"
    assert caught.value.message.endswith(said)
    (doubt,) = doubts_of(prepared_from(tmp_path, text.replace("load: 2", "load: 0"), model), None)
    assert doubt.message.startswith("d of the law of runtime is not estimated")


@pytest.mark.root
@pytest.mark.parametrize("kind", [*PRECISE, "kind: d_optimal, trials: 8"])
def test_a_cause_at_one_level_beside_none_at_all_is_a_doubt(tmp_path: Path, kind: str) -> None:
    """Trials at rest have no cap, and what the machine gives there is known when they have run."""
    text = SEQUENTIAL_PLAN.replace("TRIALS", "40").replace("[0.5, 1]", "[0.5]") + f"design: {{{kind}}}\n"
    found = prepared_from(tmp_path, text, MODEL.replace("LAW", "c + a * size / cores"))
    (doubt,) = doubts_of(found, None)
    assert (
        "plan.yaml:7:16: cores has the one level 0.5 core: its effect will be that of lifting it" in doubt.message
    )
    assert doubt.hint == "give cores another level"
    assert experiment.design_trials(found.plan, found.blueprint)
    with_two = prepared_from(
        tmp_path, text.replace("[0.5]", "[0.5, unlimited]"), MODEL.replace("LAW", "c + a * size / cores")
    )
    assert doubts_of(with_two, None) == ()


@pytest.mark.root
def test_a_number_that_needs_parameters_only_together_can_do_with_one_of_them(tmp_path: Path) -> None:
    """At one size k and w are mixed up: an effect at that size needs k + w * size, one at another both."""
    why = "do not tell k and w apart, since size stands at one level"
    with pytest.raises(InputError, match=why) as caught:
        doubts_of(through(tmp_path, "k + w * size", "[2]", "sequential"), None)
    hint = caught.value.hint or ""
    assert hint.startswith("give size another level; or keep one of k and w in the law: the goal needs them only ")
    elsewhere = "effect: cores -> runtime, at: {size: 4}"
    with pytest.raises(InputError, match=why) as caught:
        doubts_of(through(tmp_path, "k + w * size", "[2]", "sequential", elsewhere), None)
    assert "keep one of" not in (caught.value.hint or "")
