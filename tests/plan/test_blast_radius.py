"""Blast radii in plans and inventories, and the smaller of both."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import jsonschema
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from insitu.orchestrator.errors import FaultyFile, InputError
from insitu.orchestrator.plan import inventory as inventories
from insitu.orchestrator.plan.blast_radius import UNITS, BlastRadius, Cap, HostWide, Place, allowed
from insitu.orchestrator.plan.inventory import find_inventory, load_inventory
from insitu.orchestrator.plan.json_schema import inventory_schema
from insitu.orchestrator.plan.loading import load_plan
from tests.plan.texts import MODEL, PLAN, SETTABLE

if TYPE_CHECKING:
    from tests.plan.conftest import Faults

ROOT = Path(__file__).parents[2]


def radius_of(folder: Path, text: str) -> BlastRadius:
    (folder / "plan.yaml").write_text(PLAN + f"blast_radius: {text}\n")
    (folder / "model.yaml").write_text(MODEL)
    return load_plan(folder / "plan.yaml", settable=SETTABLE).blast_radius


def test_a_plan_says_what_it_may_take(tmp_path: Path) -> None:
    text = "{cores: 1.5, memory: 2 GiB, disk_rate: 50 MB/s, interfaces: 2, trials: 3, host_wide: [cpu.cores]}"
    radius = radius_of(tmp_path, text)
    assert {key: cap.value for key, cap in radius.caps.items()} == {
        "cores": 1.5,
        "memory": 2**31,
        "disk_rate": 50e6,
        "interfaces": 2,
        "trials": 3,
    }
    assert radius.host_wide == HostWide(frozenset({"cpu.cores"}))
    assert str(radius.caps["memory"].place) == f"{tmp_path / 'plan.yaml'}:16:36"


def test_a_plan_that_says_nothing(tmp_path: Path) -> None:
    (tmp_path / "plan.yaml").write_text(PLAN)
    (tmp_path / "model.yaml").write_text(MODEL)
    radius = load_plan(tmp_path / "plan.yaml", settable=SETTABLE).blast_radius
    assert radius == BlastRadius() == radius_of(tmp_path, "{}")
    assert allowed(radius, None).caps == {"trials": Cap(1)}
    assert allowed(radius, None).host_wide == (HostWide(),)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{core: 1}", "16:16 unknown key 'core' | did you mean 'cores'?"),
        ("{cores: 1 GB}", "16:23 '1 GB' is B, not core"),
        ("{cores: 0}", "16:23 '0' is not above zero and finite"),
        ("{cores: unlimited}", "16:23 'unlimited' is not above zero and finite"),
        ("{memory: 1 GB/s}", "16:24 '1 GB/s' is B/s, not B"),
        ("{disk_rate: 50 MB}", "16:27 '50 MB' is B, not B/s"),
        ("{interfaces: -1}", "16:28 'interfaces' must be at least 0, not '-1'"),
        ("{interfaces: 1.5}", "16:28 expected a whole number, found '1.5'"),
        ("{trials: 0}", "16:24 'trials' must be at least 1, not '0'"),
        ("{host_wide: cpu.cores}", "16:27 expected a list, found 'cpu.cores'"),
        ("{host_wide: [cpu.core]}", "16:28 no injector sets 'cpu.core' | did you mean 'cpu.cores'?"),
        ("[1]", "16:15 expected a mapping, found a list"),
    ],
)
def test_faults(faults_of: Faults, text: str, expected: str) -> None:
    (found,) = faults_of(PLAN + f"blast_radius: {text}\n")
    assert found.startswith(f"plan.yaml:{expected}")


INVENTORY = """\
version: 1
nodes:
  default:
    blast_radius: {cores: 1, trials: 2}
  big:
    blast_radius: {cores: 32, memory: 64 GB, host_wide: []}
  bare: {}
"""


def load(folder: Path, text: str = INVENTORY) -> inventories.Inventory:
    path = folder / "inventory.yaml"
    path.write_text(text)
    return load_inventory(path, SETTABLE)


def test_an_inventory_has_an_entry_per_host_or_a_default(tmp_path: Path) -> None:
    inventory = load(tmp_path)
    big = inventory.for_node("big")
    assert big is not None
    assert big == inventory.for_node("big.example.org")
    assert {key: cap.value for key, cap in big.caps.items()} == {"cores": 32, "memory": 64e9}
    assert big.host_wide == HostWide()
    place = big.caps["memory"].place
    assert place is not None
    assert place.inventory
    assert str(place) == f"{tmp_path / 'inventory.yaml'}:6:39"
    assert inventory.for_node("bare") == BlastRadius()
    other = inventory.for_node("elsewhere")
    assert other is not None
    assert {key: cap.value for key, cap in other.caps.items()} == {"cores": 1, "trials": 2}
    assert load(tmp_path, "nodes: {big: {}}").for_node("elsewhere") is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "the file is empty\n  hint: write `nodes: "),
        ("# nothing", "the file is empty\n  hint: write `nodes: "),
        ("nodes:", "1:1: 'nodes' has no value"),
        ("node: {a: {}}", "1:1: the key 'nodes' is missing"),
        ("nodes: {}", "1:8: 'nodes' must have at least 1 value"),
        ("- a", "1:1: an inventory is a mapping"),
        ("nodes: {a: 3}", "1:12: expected a mapping, found '3'"),
        ("nodes: {a: {blast_radios: {}}}", "1:13: unknown key 'blast_radios'"),
        ("nodes: {a: {blast_radius: {cores: 1 s}}}", "1:35: '1 s' is s, not core"),
        ("nodes: {a: {blast_radius: {host_wide: [disk.reed_rate]}}}", "1:40: no injector sets 'disk.reed_rate'"),
        ("nodes: {a: {}, a: {}}", "1:16: the key 'a' appears twice"),
        ("version: 2\nnodes: {a: {}}", "1:10: version '2' of this format is not known"),
        ("nodes: !!python/object:os.system {a: {}}", "the tag"),
    ],
)
def test_faults_of_inventories(tmp_path: Path, text: str, expected: str) -> None:
    with pytest.raises(FaultyFile) as caught:
        load(tmp_path, text)
    assert expected in str(caught.value)


def test_the_usual_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    system, own = tmp_path / "etc" / "inventory.yaml", tmp_path / "config" / "insitu" / "inventory.yaml"
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    assert inventories.usual_places() == (Path("/etc/insitu/inventory.yaml"), own)
    monkeypatch.setattr(inventories, "usual_places", lambda: (system, own))
    assert find_inventory(None, SETTABLE) is None
    for path in (own, system):
        path.parent.mkdir(parents=True)
        path.write_text(INVENTORY)
        found = find_inventory(None, SETTABLE)
        assert found is not None
        assert found.path == path
    system.unlink()
    system.symlink_to(tmp_path / "gone")
    with pytest.raises(InputError, match="there is no inventory file"):
        find_inventory(None, SETTABLE)
    chosen = tmp_path / "chosen.yaml"
    with pytest.raises(InputError, match="there is no inventory file"):
        find_inventory(chosen, SETTABLE)


def caps() -> st.SearchStrategy[dict[str, Cap]]:
    return st.dictionaries(st.sampled_from(sorted(UNITS)), st.floats(1, 100).map(Cap))


@given(caps(), caps() | st.none())
def test_the_smaller_of_both_counts(plan: dict[str, Cap], inventory: dict[str, Cap] | None) -> None:
    within = allowed(BlastRadius(plan), None if inventory is None else BlastRadius(inventory))
    for key in UNITS:
        stated = [one[key].value for one in (plan, inventory or {}) if key in one]
        if key == "trials" and key not in plan:
            stated.append(1.0)
        cap = within.cap(key)
        assert (None if cap is None else cap.value) == min(stated, default=None)


def test_who_wrote_the_smaller_one_is_remembered() -> None:
    ours, theirs = Cap(2, Place(Path("plan.yaml"))), Cap(1, Place(Path("inventory.yaml"), inventory=True))
    within = allowed(BlastRadius({"cores": ours}), BlastRadius({"cores": theirs}))
    cap = within.cap("cores")
    assert cap is not None
    assert cap.place == theirs.place
    equal = allowed(BlastRadius({"cores": ours}), BlastRadius({"cores": Cap(2, theirs.place)})).cap("cores")
    assert equal is not None
    assert equal.place == ours.place


def test_the_shipped_inventory() -> None:
    schema = inventory_schema()
    assert json.loads((ROOT / "configs/schema/inventory.schema.json").read_text()) == schema
    jsonschema.Draft202012Validator.check_schema(schema)
    shipped = ROOT / "configs/inventory.yaml"
    assert list(jsonschema.Draft202012Validator(schema).iter_errors(yaml.safe_load(shipped.read_text()))) == []
    radius = load_inventory(shipped, SETTABLE).for_node("any")
    assert radius is not None
    assert radius.caps.keys() == UNITS.keys()
