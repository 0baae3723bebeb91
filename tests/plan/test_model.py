"""What a model file can say beside its laws: categories, constants, bounds, hidden causes and priors."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING

import jsonschema
import pytest
import yaml

from insitu.orchestrator.causal.blueprint import build_blueprint
from insitu.orchestrator.errors import FaultyFile
from insitu.orchestrator.experiment import settable
from insitu.orchestrator.plan.json_schema import model_schema
from insitu.orchestrator.plan.law_kinds import Link, Method, Noise
from insitu.orchestrator.plan.loading import load_model, load_plan_text
from insitu.orchestrator.plan.types import Category, Given, ModelText, Plan, Role, Variable
from tests.plan.texts import MODEL, PLAN, SETTABLE, changed

if TYPE_CHECKING:
    from tests.plan.conftest import Faults

ROOT = Path(__file__).parents[2]
LAW = "c + a * input_size / disk_read_rate + b * input_size / cpu_cores"
KINDS = changed(
    MODEL,
    "laws:",
    "  disk_kind: {role: parameter, categories: [ssd, hdd]}\n"
    "  machine: {measured_by: node, categories: {large: [n1, n2], small: [n3]}}\nlaws:",
)


def load(text: str, folder: Path) -> ModelText:
    (folder / "model.yaml").write_text(text)
    return load_model(folder / "model.yaml", settable=SETTABLE)


def law(*lines: str) -> str:
    """The model with a law of several keys."""
    return changed(MODEL, f" {LAW}", "".join(f"\n    {line}" for line in lines))


def test_a_law_may_say_more_than_its_text(tmp_path: Path) -> None:
    model = load(law("law: c + a * input_size", "noise: gamma", "link: log", "fit: clustered"), tmp_path)
    (found,) = model.laws
    assert (found.variable, found.text, found.line, found.column) == ("runtime", "c + a * input_size", 8, 10)
    assert (found.link, found.noise, found.method) == (Link.LOG, Noise.GAMMA, Method.CLUSTERED)
    assert load(law(f"law: {LAW}", "fit: quantile", "quantile: 0.95"), tmp_path).laws[0].quantile == 0.95
    assert load(law(f"law: {LAW}"), tmp_path).laws[0].text == load(MODEL, tmp_path).laws[0].text


def test_bounds_and_constants_and_hidden_causes(tmp_path: Path) -> None:
    text = changed(
        MODEL, "b: {unit: core*s/GB}", "b: {unit: core*s/GB, low: 0, high: 1 core*s/MB}\n  c: {start: 2}"
    )
    text += "constants: {block: 128 MB, half: .5, slow: -2 1/s}\nconfounded: [[runtime, cpu_cores]]\n"
    model = load(text, tmp_path)
    assert model.parameters[0].low == Given("0", 9, 29)
    assert model.parameters[0].high == Given("1 core*s/MB", 9, 38)
    assert (model.parameters[1].unit, model.parameters[1].start) == (None, Given("2", 10, 14))
    assert {one.name: (one.value, one.dimension) for one in model.constants} == {
        "block": (128e6, (("B", 1.0),)),
        "half": (0.5, ()),
        "slow": (-2.0, (("s", -1.0),)),
    }
    assert model.confounded == (("runtime", "cpu_cores"),)
    assert build_blueprint(model).confounded == (("runtime", "cpu_cores"),)
    assert build_blueprint(model).laws["runtime"].bounds["b"].high == pytest.approx(1e-6)


def test_categories_are_words_with_numbers(tmp_path: Path) -> None:
    variables = load(KINDS, tmp_path).variables
    kind, machine = variables["disk_kind"], variables["machine"]
    assert kind.categories == (Category("ssd"), Category("hdd"))
    assert (kind.role, kind.unit) == (Role.PARAMETER, "")
    assert machine.categories == (Category("large", ("n1", "n2")), Category("small", ("n3",)))
    assert (machine.role, machine.source) == (Role.MEASURED, "node")
    assert [kind.spell(level) for level in (0.0, 1.0, 2.0, 0.5, -1.0, math.nan, math.inf)] == [
        "ssd",
        "hdd",
        *["no category"] * 5,
    ]
    assert [machine.code(seen) for seen in ("n1", "n2", "n3", "large", "n4")] == [0.0, 0.0, 1.0, 0.0, None]
    assert Variable("rate", "B/s", Role.SET).spell(1e7) == "10 MB/s"


def plan_of(plan: str, model: str) -> Plan:
    return load_plan_text(plan, model, plan_path=Path("p"), model_path=Path("m"), settable=SETTABLE)


KIND_PLAN = changed(
    changed(PLAN, "[4 MB, 8 MB]}\n", "[4 MB, 8 MB]}\n  disk_kind: {levels: [hdd, ssd]}\n"),
    '[sort, -o, "{scratch}/out"',
    '[sort, "--kind={disk_kind}", -o, "{scratch}/out"',
)


def test_levels_of_categories_are_their_words() -> None:
    from insitu.orchestrator.execution.orders import order_for
    from insitu.orchestrator.store.records import Assignment, PlannedTrial

    plan = plan_of(KIND_PLAN, KINDS)
    assert plan.factors[3].levels == (1.0, 0.0)
    levels = (("cpu_cores", 0.5), ("disk_kind", 1.0), ("disk_read_rate", 1e7), ("input_size", 4e6))
    order = order_for(plan, PlannedTrial(1, 1, Assignment(levels)))
    assert dict(order.command.values)["disk_kind"] == "hdd"


@pytest.mark.parametrize(
    ("levels", "expected"),
    [
        ("levels: [hdd, sdd]", "12:29 'disk_kind' has no category 'sdd' | did you mean"),
        ("levels: [0, hdd]", "12:24 'disk_kind' has no category '0' | valid here: ssd, hdd"),
        ("levels: [hdd, unlimited]", "12:29 'disk_kind' has no category 'unlimited'"),
        ("range: [ssd, hdd]", "12:15 'disk_kind' has categories, which have no range | list some as levels"),
    ],
)
def test_faults_of_levels(faults_of: Faults, levels: str, expected: str) -> None:
    (found,) = faults_of(changed(KIND_PLAN, "levels: [hdd, ssd]", levels), KINDS)
    message, _, hint = expected.partition(" | ")
    assert found.startswith(f"plan.yaml:{message}")
    assert hint in found


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        # categories
        (", categories: [ssd, hdd]", "", ["6:14 the key 'unit' is missing"]),
        ("[ssd, hdd]", "[ssd]", ["6:44 1 category is not 2 to 100"]),
        ("[ssd, hdd]", "[]", ["6:44 0 categories are not 2 to 100"]),
        ("[ssd, hdd]", f"[{', '.join(f'k{n}' for n in range(101))}]", ["6:44 101 categories are not 2 to 100"]),
        ("[ssd, hdd]", "[ssd, ssd]", ["6:50 'ssd' appears twice"]),
        ("[ssd, hdd]", "[ssd, 'a b']", ["6:50 'a b' is not a word for a category"]),
        ("[ssd, hdd]", "[ssd, [hdd]]", ["6:50 a list is not a word for a category"]),
        ("[ssd, hdd]", "[ssd, unlimited]", ["6:50 'unlimited' is not a word for a category"]),
        ("[ssd, hdd]", "{ssd: [n1], hdd: [n2]}", ["6:44 categories are a list, not a mapping"]),
        ("[ssd, hdd]", "ssd", ["6:44 categories are a list, not 'ssd'"]),
        ("[ssd, hdd]", "", ["6:43 categories are a list, not nothing"]),
        ("categories: [ssd", "unit: '', categories: [ssd", ["6:32 a variable with categories has no unit"]),
        ("role: parameter, cat", "role: latent, cat", ["6:29 this variable is latent, so it has numbers"]),
        ("measured_by: node", "measured_by: cpu_time", ["7:36 this variable is measured, so it has numbers"]),
        (
            "{measured_by: node, categories: {large: [n1, n2], small: [n3]}}",
            "{measured_by: node}",
            ["7:12 it is not"],
        ),
        ("categories: {large: [n1, n2], small: [n3]}", "unit: ''", ["7:32 it is not said which nodes there are"]),
        ("small: [n3]", "small: [n1]", ["7:70 'n1' appears twice"]),
        ("small: [n3]", "small: []", ["7:69 expected a list of nodes, found a list"]),
        ("small: [n3]", "small: n3", ["7:69 expected a list of nodes, found 'n3'"]),
        ("small: [n3]", "small: [[n3]]", ["7:70 expected the name of a node, found a list"]),
        ("measured_by: node", "measured_by: nodde", ["7:26 unknown measurement 'nodde'"]),
        ("unit: core, ", "unit: , ", ["4:15 'unit' has no value"]),
        # laws
        (f" {LAW}", "\n    text: a", ["10:5 the key 'law' is missing", "10:5 unknown key 'text'"]),
        (f" {LAW}", "\n    law: ''", ["10:10 the law of 'runtime' is empty"]),
        (f" {LAW}", "\n    law: [a]", ["10:10 expected text, found a list"]),
        (f" {LAW}", "", ["9:11 expected text, found nothing"]),
        (
            f" {LAW}",
            f"\n    law: {LAW}\n    noise: gama",
            ["11:12 'noise' must be 'normal', 'gamma' or 'lognormal'"],
        ),
        (f" {LAW}", f"\n    law: {LAW}\n    fit: quantile", ["11:10 it is not said which quantile the law gives"]),
        (f" {LAW}", f"\n    law: {LAW}\n    quantile: 0.5", ["11:5 a quantile belongs to fit: quantile"]),
        (
            f" {LAW}",
            f"\n    law: {LAW}\n    fit: quantile\n    quantile: 95",
            ["12:15 'quantile' must be below 1, not '95'"],
        ),
        (
            f"  runtime: {LAW}",
            f"  runtime: {LAW}\n  wait:\n    law: w\n    noise: gamma",
            ["13:5 'wait' is latent, so no trial shows how it spreads"],
        ),
        # constants
        ("parameters:", "constants: {b: 1}\nparameters:", ["10:13 'b' is a variable or a parameter already"]),
        ("parameters:", "constants: {runtime: 1}\nparameters:", ["10:13 'runtime' is a variable or a parameter"]),
        ("parameters:", "constants: {max: 1}\nparameters:", ["10:13 'max' is the name of a function of laws"]),
        ("parameters:", "constants: {is: 1}\nparameters:", ["10:13 'is' is the name of a function of laws"]),
        ("parameters:", "constants: {k: 5 furlong}\nparameters:", ["10:16 '5 furlong' is not a quantity"]),
        ("parameters:", "constants: {k: unlimited}\nparameters:", ["10:16 'unlimited' is not a quantity"]),
        ("parameters:", "constants: {k: MB}\nparameters:", ["10:16 'MB' is not a quantity"]),
        ("parameters:", "constants: {k: [1]}\nparameters:", ["10:16 expected text, found a list"]),
        # hidden causes
        (
            "parameters:",
            "confounded: [[runtime, runtme]]\nparameters:",
            ["10:24 the model has no variable 'runtme'"],
        ),
        (
            "parameters:",
            "confounded: [[runtime, runtime]]\nparameters:",
            ["10:14 'runtime' has no cause in common"],
        ),
        (
            "parameters:",
            "confounded: [[runtime, cpu_cores], [cpu_cores, runtime]]\nparameters:",
            ["10:36 'cpu_cores' and 'runtime' are a pair already"],
        ),
        (
            "parameters:",
            "confounded: [[runtime]]\nparameters:",
            ["10:14 'confounded' must have at least 2 values"],
        ),
        ("parameters:", "confounded: [runtime]\nparameters:", ["10:14 expected a list, found 'runtime'"]),
        # parameters
        ("unit: core*s/GB", "low: [1]", ["11:12 expected text, found a list"]),
    ],
)
def test_faults(faults_of: Faults, old: str, new: str, expected: list[str]) -> None:
    model = changed(KINDS, "laws:", "  wait: {unit: s, role: latent}\nlaws:") if "wait" in new else KINDS
    found = faults_of(model=changed(model, old, new))
    assert len(found) == len(expected), found
    for one, wanted in zip(found, expected, strict=True):
        assert one.startswith(f"model.yaml:{wanted}"), found


# ---- priors

FITTED = json.dumps({"format": "insitu-fit", "version": 1, "fits": [{"outcome": "runtime"}]})


def prior(path: str) -> str:
    return law(f"law: {LAW}", f"prior: {path}")


def test_a_prior_is_read_with_the_model(tmp_path: Path) -> None:
    run = tmp_path / "runs" / "old"
    run.mkdir(parents=True)
    (run / "fitted.json").write_text(FITTED)
    for named in ("runs/old", "runs/old/fitted.json", str(run)):
        (found,) = load(prior(named), tmp_path).laws
        assert found.prior is not None
        assert found.prior.path == run / "fitted.json"
        assert (found.prior.variable, found.prior.source) == ("runtime", FITTED)
        assert (found.prior.line, found.prior.column) == (9, 12)
    assert build_blueprint(load(prior("runs/old"), tmp_path)).laws["runtime"].priors == (found.prior,)


@pytest.mark.parametrize(
    ("named", "content", "expected"),
    [
        ("gone", None, "there is no {folder}/gone"),
        ("run", None, "{folder}/run has no fitted law yet"),
        ("run", "not json", "{folder}/run/fitted.json is not JSON"),
        ("run", "[" * 100_000, "{folder}/run/fitted.json is not JSON"),
        ("run", "[1]", "{folder}/run/fitted.json is not a file of fitted laws"),
        ("run", '{"format": "other", "fits": []}', "{folder}/run/fitted.json is not a file of fitted laws"),
        ("run", '{"format": "insitu-fit", "fits": 5}', "{folder}/run/fitted.json is not a file of fitted laws"),
        ("run", FITTED.replace("runtime", "cpu"), "{folder}/run/fitted.json has no fitted law of 'runtime'"),
        ('"run\\0"', None, "{folder}/run\\x00 cannot be read"),
        ("/dev/zero", None, "/dev/zero is not a regular file"),
    ],
)
def test_a_prior_that_cannot_be_read(tmp_path: Path, named: str, content: str | None, expected: str) -> None:
    (tmp_path / "run").mkdir()
    if content is not None:
        (tmp_path / "run" / "fitted.json").write_text(content)
    with pytest.raises(FaultyFile) as caught:
        load(prior(named), tmp_path)
    (fault,) = caught.value.faults
    assert (fault.line, fault.column) == (9, 12)
    assert fault.message.startswith(expected.format(folder=tmp_path))


def test_a_prior_of_a_run_directory_is_the_text_that_it_keeps() -> None:
    def from_texts(priors: dict[str, str] | None) -> Plan:
        return load_plan_text(
            PLAN,
            prior("../gone"),
            plan_path=Path("run/plan.yaml"),
            model_path=Path("run/model.yaml"),
            settable=SETTABLE,
            priors=priors,
        )

    found = from_texts({"runtime": FITTED}).model.laws[0].prior
    assert found is not None
    assert found.source == FITTED
    for priors in (None, {}, {"cpu": FITTED}):
        with pytest.raises(FaultyFile, match="9:12: the run keeps no copy of the prior of 'runtime'"):
            from_texts(priors)


# ---- the schema and the shipped models

SOUND = [
    MODEL,
    KINDS,
    law(f"law: {LAW}", "noise: lognormal", "prior: runs/old"),
    MODEL + "constants: {block: 128 MB, two: 2}\nconfounded: [[runtime, cpu_cores]]\n",
    changed(MODEL, "b: {unit: core*s/GB}", "b: {low: 0, high: 5 core*s/GB, start: 1}"),
]


@pytest.mark.parametrize("text", SOUND)
def test_the_schema_takes_what_the_loader_takes(text: str) -> None:
    assert jsonschema.Draft202012Validator(model_schema()).is_valid(yaml.safe_load(text))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (f" {LAW}", "\n    noise: gamma"),
        (f" {LAW}", f"\n    law: {LAW}\n    fit: magic"),
        (f" {LAW}", f"\n    law: {LAW}\n    quantile: 95"),
        (", categories: [ssd, hdd]", ""),
        ("[ssd, hdd]", "[ssd]"),
        ("[ssd, hdd]", "['a b', c]"),
        ("categories: [ssd", "unit: '', categories: [ssd"),
        ("parameters:", "confounded: [[runtime]]\nparameters:"),
        ("parameters:", "constants: {k: [1]}\nparameters:"),
    ],
)
def test_the_schema_refuses_what_the_loader_refuses(old: str, new: str) -> None:
    validator = jsonschema.Draft202012Validator(model_schema())
    assert not validator.is_valid(yaml.safe_load(changed(KINDS, old, new)))


@pytest.mark.parametrize("path", sorted((ROOT / "configs/models").glob("*.yaml")), ids=lambda path: path.stem)
def test_the_shipped_models_load(path: Path) -> None:
    blueprint = build_blueprint(load_model(path, settable=settable()))
    assert jsonschema.Draft202012Validator(model_schema()).is_valid(yaml.safe_load(path.read_text()))
    assert "runtime" in blueprint.reduced().laws
