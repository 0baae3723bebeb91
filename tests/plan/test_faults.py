"""What is wrong with a plan or a model is said at its line and column, with a hint."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.plan.texts import MODEL, PLAN, changed

if TYPE_CHECKING:
    from tests.plan.conftest import Faults

PLAN_FAULTS = [
    # unknown keys
    (
        "name: sort",
        "nmae: sort",
        ["1:1 the key 'name' is missing", "1:1 unknown key 'nmae' | did you mean 'name'?"],
    ),
    (
        "  command:",
        "  comand:",
        ["3:3 the key 'command' is missing", "4:3 unknown key 'comand' | did you mean 'command'?"],
    ),
    ("seed: 7", "sed: 7", ["13:42 unknown key 'sed' | did you mean 'seed'?"]),
    ("trials: 40", "trial: 40", ["14:10 unknown key 'trial' | did you mean 'trials'?"]),
    ("[4 MB, 8 MB]", "[4 MB, 8 MB], step: 2", ["11:38 unknown key 'step'"]),
    # wrong types
    ("replicates: 3", "replicates: three", ["13:39 expected a whole number, found 'three'"]),
    ("replicates: 3", "replicates: 2.5", ["13:39 expected a whole number, found '2.5'"]),
    ("replicates: 3", "replicates: 0", ["13:39 'replicates' must be at least 1, not '0'"]),
    ("confidence: 0.9", "confidence: 95", ["12:50 'confidence' must be below 1, not '95'"]),
    ("confidence: 0.9", "confidence: 0.5", ["12:50 'confidence' must be above 0.5, not '0.5'"]),
    ("confidence: 0.9", "confidence: .nan", ["12:50 expected a number, found '.nan'"]),
    ("confidence: 0.9", "relative_half_width: 0", ["12:59 'relative_half_width' must be above 0"]),
    ("[sort, -o, ", "[sort, {-o: 1}, ", ["4:19 expected text, found a mapping"]),
    ("[sort, -o, ", "[sort, ~, ", ["4:19 expected text, found nothing"]),
    (
        '[sort, -o, "{scratch}/out", "{scratch}/in"]',
        "sort",
        ["4:12 expected a list, found 'sort' | a command is a list: [sort]"],
    ),
    (
        '[sort, -o, "{scratch}/out", "{scratch}/in"]',
        'sort -o "{scratch}/my out" {scratch}/in 8',
        ['4:12 expected a list | a command is a list: [sort, -o, "{scratch}/my out", "{scratch}/in", "8"]'],
    ),
    (
        '["{python}", -m, this]',
        "yes | head",
        ["6:11 expected a list, found 'yes | head' | a command is a list: [sh, -c, \"yes | head\"]"],
    ),
    (
        "trial_timeout: 30 s",
        'probe: {command: "true"}',
        ["15:27 expected a list, found 'true' | a command is a list: [\"true\"]"],
    ),
    (
        "trial_timeout: 30 s",
        'probe: {command: "it\'s"}',
        ["15:27 expected a list, found 'it's' | a command is a list of its arguments"],
    ),
    (
        '[sort, -o, "{scratch}/out", "{scratch}/in"]',
        "[]",
        ["4:12 'command' must have at least 1 value, not 0"],
    ),
    ("[sort, -o, ", '["", -o, ', ["4:13 the program's name is empty"]),
    ("[sort, -o, ", '[sort, "a\\0b", ', ["4:19 an argument must not contain a NUL"]),
    ("    text: [", "    ../text: [", ["6:5 '../text' is not a plain file name"]),
    ("name: sort-under-throttle", "name: a b", ["1:7 'name' must be letters"]),
    ("name: sort-under-throttle", "name:", ["1:1 'name' has no value"]),
    ("name: sort-under-throttle", "name: a\nversion: 2", ["2:10 version '2' of this format is not known"]),
    # units
    ("time: 3 min", "time: 3 MB", ["14:28 '3 MB' is B, not s"]),
    ("time: 3 min", "time: 3 parsec", ["14:28 '3 parsec' is not a quantity with a known unit"]),
    ("time: 3 min", "time: 0 s", ["14:28 '0 s' is not above zero and finite"]),
    ("trial_timeout: 30 s", "trial_timeout: unlimited", ["15:25 'unlimited' is not above zero and finite"]),
    ("[10 MB/s, 40 MB/s]", "[10 MB/s, 40 MB]", ["10:38 '40 MB' is B, not B/s | 'disk_read_rate' is in B/s"]),
    ("[10 MB/s, 40 MB/s]", "[10 MB/s, 1:30]", ["10:38 '1:30' is not a quantity with a known unit"]),
    # levels
    ("[0.5, 0.9, unlimited]", "[]", ["9:23 'levels' must have at least 1 value, not 0"]),
    (
        "[0.5, 0.9, unlimited]",
        "[0.5, 0, -1 core]",
        ["9:29 the level '0' of 'cpu_cores'", "9:32 the level '-1 core'"],
    ),
    (
        "[0.5, 0.9, unlimited]",
        "[0.5, [1], abc]",
        ["9:29 expected text, found a list", "9:34 'abc' is not a quantity"],
    ),
    ("[4 MB, 8 MB]", "[4 MB, unlimited]", ["11:31 'input_size' is a parameter, so it cannot be unlimited"]),
    ("[4 MB, 8 MB]", "[-4 MB]", ["11:25 the level '-4 MB' of 'input_size' is negative"]),
    ("[4 MB, 8 MB]", "[1.5 B]", ["11:25 the level '1.5 B' of 'input_size' is not a whole number of bytes"]),
    ("[4 MB, 8 MB]", "[8 MB, 8000 kB]", ["11:31 the level '8000 kB' appears twice"]),
    ("{levels: [4 MB, 8 MB]}", "{}", ["11:3 'input_size' has no levels"]),
    (
        "{levels: [4 MB, 8 MB]}",
        "{levels: [1 B], range: [1 B, 2 B]}",
        ["11:31 a factor has levels or a range"],
    ),
    ("[4 MB, 8 MB]", "[4 MB, 8 MB], points: 3", ["11:38 'points' belongs to a range"]),
    ("levels: [4 MB, 8 MB]", "range: [8 MB, 4 MB]", ["11:23 the range does not go up"]),
    ("levels: [4 MB, 8 MB]", "range: [8 MB]", ["11:23 'range' must have at least 2 values, not 1"]),
    ("levels: [4 MB, 8 MB]", "range: [0 B, 4 MB], scale: log", ["11:24 a log scale starts above zero"]),
    ("levels: [4 MB, 8 MB]", "range: [1 B, 3 B], points: 9", ["11:23 9 points do not fit into 1 B to 3 B"]),
    ("levels: [10 MB/s, 40 MB/s]", "range: [1 MB/s, unlimited]", ["10:36 a range has finite ends"]),
    # names
    (
        "  cpu_cores: {",
        "  cpu_core: {",
        ["9:3 the model has no variable 'cpu_core' | did you mean 'cpu_cores'?", "12:16 the cause"],
    ),
    (
        "  cpu_cores: {",
        "  runtime: {",
        ["9:3 'runtime' is measured, so trials cannot set it", "12:16 the cause 'cpu_cores' is not"],
    ),
    (
        "cpu_cores -> runtime",
        "cpu_cors -> runtim",
        [
            "12:16 the model has no variable 'cpu_cors' | did you mean 'cpu_cores'?",
            "12:28 the model has no variable 'runtim' | did you mean 'runtime'?",
        ],
    ),
    ("cpu_cores -> runtime", "cpu_cores", ["12:16 'effect' must read 'cause -> outcome'"]),
    ("cpu_cores -> runtime", "cpu_cores -> cpu_cores", ["12:29 'cpu_cores' is both cause and outcome"]),
    ("cpu_cores -> runtime", "cpu_cores -> input_size", ["12:29 the outcome 'input_size' is not measured"]),
    ("kind: factorial", "kind: factoral", ["13:16 unknown design 'factoral' | did you mean 'factorial'?"]),
    (
        '"{input_size}"',
        '"{input_siz}"',
        ["3:23 unknown placeholder '{input_siz}' | did you mean 'input_size'?"],
    ),
    ('"{scratch}/in"', '"{scrach}/in"', ["4:40 unknown placeholder '{scrach}' | did you mean 'scratch'?"]),
    ('"{scratch}/in"', '"{cpu_cores}"', ["4:40 '{cpu_cores}' is not a parameter of the subject"]),
    (
        "  data:\n",
        '  environment: {SIZE: "{input_siz}", HERE: "{scratch}"}\n  data:\n',
        ["5:23 unknown placeholder '{input_siz}' | did you mean 'input_size'?"],
    ),
    (
        "  data:\n",
        '  environment: {CORES: "{cpu_cores}"}\n  data:\n',
        ["5:24 '{cpu_cores}' is not a parameter of the subject, so it has no value here"],
    ),
    ("  data:\n", "  environment: {A=B: x}\n  data:\n", ["5:17 'A=B' is not a name for an environment variable"]),
    (
        '"{input_size}"',
        '"4000000"',
        ["4:12 nothing uses '{input_size}', so the factor 'input_size' would change nothing"],
    ),
    ("-m, this]", '-m, "{input_size}"]', ["6:28 '{input_size}' has no value here: data is made once"]),
    (
        "  input_size: {levels: [4 MB, 8 MB]}\n",
        "",
        ["3:23 '{input_size}' has no level: 'input_size' is not a factor"],
    ),
    ("model: model.yaml", "model: modle.yaml", ["7:8 there is no model file"]),
]

MODEL_FAULTS = [
    ("laws:", "law:", ["1:1 the key 'laws' is missing", "6:1 unknown key 'law' | did you mean 'laws'?"]),
    (
        "role: parameter",
        "role: paramter",
        ["2:31 'role' must be 'parameter' or 'latent', not 'paramter' | did you mean 'parameter'?"],
    ),
    (
        "disk.read_rate",
        "disk.reed_rate",
        ["3:39 unknown injector variable 'disk.reed_rate' | did you mean 'disk.read_rate'?"],
    ),
    (
        "set_by: disk.read_rate",
        "set_by: cpu.cores",
        ["3:26 'B/s' is B/s, but cpu.cores is in core | write unit: core"],
    ),
    ("unit: core, ", "unit: s, ", ["4:21 's' is s, but cpu.cores is in core"]),
    ("unit: core, ", "unit: corse, ", ["4:21 'corse' is not a unit"]),
    ("unit: core, ", "", ["4:14 the key 'unit' is missing"]),
    ("wall_time", "wal_time", ["5:35 unknown measurement 'wal_time' | did you mean 'wall_time'?"]),
    ("measured_by: wall_time", "measured_by: peak_memory", ["5:19 's' is s, but peak_memory is in B"]),
    (", measured_by: wall_time", "", ["5:12 it is not said how this variable gets its value"]),
    (
        ", measured_by: wall_time",
        ", role: latent, measured_by: wall_time",
        ["5:36 a variable has only one of role"],
    ),
    ("measured_by: wall_time", "measured_by:", ["5:22 'measured_by' has no value"]),
    (
        "  runtime: {",
        "  2nd: {unit: s, role: latent}\n  runtime: {",
        ["5:3 '2nd' is not a name for a variable"],
    ),
    ("  runtime: {", "  log: {unit: s, role: latent}\n  runtime: {", ["5:3 'log' is the name of a function"]),
    (
        "  runtime: {",
        "  more: {unit: core, set_by: cpu.cores}\n  runtime: {",
        ["5:3 'more' and 'cpu_cores' are both set by cpu.cores"],
    ),
    ("  b: {unit: core*s/GB}", "  runtime: {unit: s}", ["9:3 'runtime' is a variable, not a parameter"]),
    ("  b: {unit: core*s/GB}", "  b: {unit: cor*s/GB}", ["9:13 'cor*s/GB' is not a unit"]),
    ("  b: {unit: core*s/GB}", "  b: core*s/GB", ["9:6 expected a mapping, found 'core*s/GB'"]),
    (
        "c + a * input_size / disk_read_rate + b * input_size / cpu_cores",
        '" "',
        ["7:12 the law of 'runtime' is empty"],
    ),
    (
        "c + a * input_size / disk_read_rate + b * input_size / cpu_cores",
        "[1]",
        ["7:12 expected text, found a list"],
    ),
]

SYNTAX = [
    ("name: [a", "1:9 not valid YAML"),
    ("name: a\n\tb: c\n", "2:1 not valid YAML: while scanning for the next token, found character '\\t'"),
    ("a: b: c", "1:5 not valid YAML: mapping values are not allowed here"),
    ("name: a\nname: b", "2:1 the key 'name' appears twice | first on line 1; keep one"),
    ("name: a\n---\nname: b", "2:1 a second document starts here"),
    (
        "name: !!python/object/apply:os.system [exit]",
        "1:7 the tag 'tag:yaml.org,2002:python/object/apply:os.system'",
    ),
    ("name: *nobody", "1:7 the alias '*nobody' has no anchor"),
    ("name: &a [*a]", "1:11 the alias '*a' contains itself"),
    ("a: &x {name: b}\n<<: *x", "2:1 merge keys are not supported"),
    ("{a: b}: c", "1:1 a key must be a name, not a mapping"),
    ("- a", "1:1 a plan is a mapping of keys to values, not a list"),
    ("just text", "1:1 a plan is a mapping of keys to values, not 'just text'"),
    ("name: a\x07b", "1:8 the character"),
    ("[" * 2000, "1:33 nested more than 32 deep"),
    ("", "0:0 the file is empty"),
    ("# only a comment\n", "0:0 the file is empty"),
]


def matches(found: list[str], file: str, expected: list[str]) -> None:
    """Compare faults with ``line:column message | hint``, of which message and hint may be the beginning."""
    assert len(found) == len(expected), found
    for one, wanted in zip(found, expected, strict=True):
        place, _, rest = wanted.partition(" ")
        message, _, hint = rest.partition(" | ")
        assert one.startswith(f"{file}:{place} {message}"), found
        assert hint in one.partition(" | ")[2]


@pytest.mark.parametrize(("old", "new", "expected"), PLAN_FAULTS)
def test_fault_in_the_plan(faults_of: Faults, old: str, new: str, expected: list[str]) -> None:
    matches(faults_of(plan=changed(PLAN, old, new)), "plan.yaml", expected)


@pytest.mark.parametrize(("old", "new", "expected"), MODEL_FAULTS)
def test_fault_in_the_model(faults_of: Faults, old: str, new: str, expected: list[str]) -> None:
    matches(faults_of(model=changed(MODEL, old, new)), "model.yaml", expected)


@pytest.mark.parametrize(("text", "expected"), SYNTAX)
def test_text_that_is_not_a_plan(faults_of: Faults, text: str, expected: str) -> None:
    place, _, rest = expected.partition(" ")
    message, _, hint = rest.partition(" | ")
    found = faults_of(plan=text)
    assert any(one.startswith(f"plan.yaml:{place} {message}") and hint in one for one in found), found


def test_plan_and_model_are_reported_together_and_in_order(faults_of: Faults) -> None:
    plan = changed(changed(PLAN, "seed: 7", "sed: 7"), "time: 3 min", "time: 3 MB")
    model = changed(MODEL, "wall_time", "wal_time")
    assert [fault.split(" ")[0] for fault in faults_of(plan, model)] == [
        "model.yaml:5:35",
        "plan.yaml:13:42",
        "plan.yaml:14:28",
    ]


def test_a_model_path_that_is_a_folder(faults_of: Faults) -> None:
    (fault,) = faults_of(plan=changed(PLAN, "model: model.yaml", "model: ."))
    assert fault.startswith("plan.yaml:7:8 ")
    assert "is a directory, not a model file" in fault


def test_an_alias_bomb_is_refused_at_the_alias_that_is_too_much(faults_of: Faults) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    found = faults_of(plan="\n".join(lines))
    assert [fault.split(" | ")[0] for fault in found] == ["plan.yaml:4:25 more than 5000 values, counting aliases"]


def test_the_fault_of_an_anchor_is_reported_once(faults_of: Faults) -> None:
    plan = changed(PLAN, "[head, -c, ", "&c [head, -c, ")
    plan = changed(plan, '[sort, -o, "{scratch}/out", "{scratch}/in"]', "*c")
    plan = changed(plan, "{data}/text", "{date}/text")
    assert [fault.split(" ")[0] for fault in faults_of(plan=plan)] == ["plan.yaml:3:42"]


def test_a_fault_cannot_steer_the_terminal_or_flood_it(faults_of: Faults) -> None:
    plan = changed(PLAN, "name: sort-under-throttle", f'"\\e[2Jname": {"x" * 5000}\nname: {"y" * 5000}')
    found = faults_of(plan=plan)
    assert [fault.split(" ")[0] for fault in found] == ["plan.yaml:1:1", "plan.yaml:2:7"]
    assert found[0].startswith("plan.yaml:1:1 unknown key '\\x1b[2Jname'")
    assert all(len(fault) < 700 and fault.isprintable() for fault in found)


@pytest.mark.parametrize("law", ["", "  work: k + w * input_size\n"])
@pytest.mark.parametrize("more", ["", ", between: [1 s, 2 s]", ", relative_half_width: 0.1"])
def test_the_cause_of_a_goal_is_not_only_measured(faults_of: Faults, law: str, more: str) -> None:
    """Trials are chosen by the levels of the cause, and no trial chooses those of what is measured."""
    model = changed(MODEL, "  runtime: {", "  work: {unit: s, measured_by: cpu_time}\n  runtime: {")
    model = changed(model, "laws:\n", f"laws:\n{law}").replace("b * input_size", "b * work")
    model = changed(model, "parameters:\n  b: {unit: core*s/GB}\n", "")
    plan = changed(PLAN, "cpu_cores -> runtime, confidence: 0.9", f"work -> runtime{more}")
    (found,) = faults_of(plan, model)
    message, _, hint = found.partition(" | ")
    assert message == "plan.yaml:12:16 the cause 'work' is measured, so trials cannot set it"
    assert hint.startswith("ask for the effect of input_size, disk_read_rate or cpu_cores; once there are ")
    assert "`insitu effect RUN work runtime` tells of work" in hint
