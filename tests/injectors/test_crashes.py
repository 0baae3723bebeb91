"""Every interleaving of crashes: of the writer, of recoveries, of both, with torn lines and failing power.

After a recovery that reports clean, nothing marked is left, and what belongs to others is untouched. At no moment
is there an effect of an intent without its record.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    precondition,
    rule,
    run_state_machine_as_test,
)

from insitu.injectors.recovery import Fate
from insitu.injectors.undo import UndoKind
from tests.injectors.stepped import Stepped
from tests.injectors.world import NOBODY, Pop, Push, Step, World

PUSHES = st.builds(
    Push,
    st.sampled_from([UndoKind.FOLDER, UndoKind.VALUE, UndoKind.VALUE, UndoKind.PROCESS]),
    st.integers(0, 1),
    st.integers(1, 9),
)
PROGRAMS: st.SearchStrategy[list[Step]] = st.lists(PUSHES | st.just(Pop()), min_size=1, max_size=6)
FIXED: tuple[Step, ...] = (
    Push(UndoKind.FOLDER),
    Push(UndoKind.VALUE, length=9),
    Push(UndoKind.VALUE, length=1),
    Pop(),
    Push(UndoKind.PROCESS),
)
"""Nested changes of one value, to a longer and to a shorter text; what is left is undone in order at the end."""


@contextmanager
def world() -> Iterator[World]:
    one = World()
    try:
        yield one
    finally:
        one.close()


def recover_to_the_end(one: World) -> list[str]:
    result = one.recoverer().finish()
    assert isinstance(result, list)
    return result


def crash_at(stepped: Stepped, call: int, one: World | None = None) -> bool:
    """Let it make so many calls, and kill it; whether it got that far."""
    for _ in range(call):
        if not stepped.alive:
            return False
        name = stepped.waits_for
        stepped.go()
        if one is not None:
            one.saw(name)
            one.assert_journalled()
    if not stepped.alive:
        return False
    if stepped.waits_for == "write":
        stepped.tear(7)
    else:
        stepped.kill()
    return True


def calls_of_the_writer() -> int:
    with world() as one:
        writer, calls = one.writer(FIXED), 0
        while writer.alive:
            writer.go()
            calls += 1
        assert writer.result == "done"
        one.assert_clean()
        assert one.journal_path() is None
        return calls


def test_every_crash_of_the_writer_with_every_crash_of_the_recovery_after_it() -> None:
    crashes_of_recovery = 0
    for moment in range(calls_of_the_writer()):
        for crash in count():
            with world() as one:
                assert crash_at(one.writer(FIXED), moment, one)
                one.assert_journalled()
                crashed = crash_at(one.recoverer(), crash)
                one.assert_journalled()
                assert set(recover_to_the_end(one)) <= {Fate.CLEAN}
                one.assert_clean()
                one.assert_others_untouched()
            if not crashed:
                break
            crashes_of_recovery += 1
    assert crashes_of_recovery > 200


@pytest.mark.parametrize("values_reset", [True, False])
def test_every_power_failure(values_reset: bool) -> None:
    for moment in range(calls_of_the_writer()):
        with world() as one:
            assert crash_at(one.writer(FIXED), moment, one)
            one.power_failure(lambda durable, _: durable, values_reset=values_reset)
            assert set(recover_to_the_end(one)) <= {Fate.CLEAN}
            one.assert_clean()
            one.assert_others_untouched()


class Crashes(RuleBasedStateMachine):
    """A writer, up to two recoverers at a time, somebody else, and no mercy."""

    actors: Bundle[Stepped] = Bundle("actors")

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.recoverers: list[Stepped] = []
        self.writer: Stepped | None = None
        self.rebooted = False

    @initialize(target=actors, steps=PROGRAMS, orphaned=st.booleans())
    def begin(self, steps: list[Step], orphaned: bool) -> Stepped:
        self.writer = self.world.writer(steps, NOBODY if orphaned else None)
        return self.writer

    @rule(actor=actors, calls=st.integers(1, 12))
    def let_go(self, actor: Stepped, calls: int) -> None:
        for _ in range(calls):
            actor.notice()
            if actor.alive:
                self._step(actor)

    @rule(actor=actors)
    def kill(self, actor: Stepped) -> None:
        assume(actor.alive)
        actor.kill()

    @rule(actor=actors, size=st.integers(0, 60))
    def tear(self, actor: Stepped, size: int) -> None:
        assume(actor.waits_for == "write")
        actor.tear(size)

    @precondition(lambda self: sum(one.alive for one in self.recoverers) < 2)
    @rule(target=actors)
    def recover(self) -> Any:
        if self.writer is None:
            return multiple()
        self.recoverers.append(self.world.recoverer())
        return self.recoverers[-1]

    @precondition(lambda self: not self.rebooted)
    @rule(data=st.data(), values_reset=st.booleans())
    def fail_power(self, data: st.DataObject, values_reset: bool) -> None:
        for actor in self._all():
            actor.kill()
        self.world.power_failure(lambda low, high: data.draw(st.integers(low, high)), values_reset=values_reset)
        self.rebooted = True

    @rule(number=st.integers(0, 1))
    def somebody_changes_a_value(self, number: int) -> None:
        assume(not any(one.alive for one in self._all()))  # nobody can read and write a file in one step
        self.world.change_by_somebody_else(number)

    @invariant()
    def every_effect_is_on_record(self) -> None:
        for actor in self._all():
            actor.notice()
        if not self.world.foreign_changes:
            self.world.assert_journalled()

    @invariant()
    def nothing_of_others_is_touched(self) -> None:
        self.world.assert_others_untouched()

    def teardown(self) -> None:
        try:
            for actor in self._all():
                actor.kill()
            fates = set(recover_to_the_end(self.world))
            self.world.assert_others_untouched()
            if self.world.foreign_changes and Fate.DIRTY in fates:
                path = self.world.journal_path()
                assert path is not None, "what could not be undone stays on record"
                assert self.world.marked_folders() == []
                assert self.world.marked_processes() == []
                assert self.world.changed_values() == []
            else:
                assert fates <= {Fate.CLEAN}
                self.world.assert_clean()
        finally:
            self.world.close()

    def _all(self) -> list[Stepped]:
        return [*([self.writer] if self.writer else []), *self.recoverers]

    def _step(self, actor: Stepped) -> None:
        name = actor.waits_for
        actor.go()
        if actor is self.writer:
            self.world.saw(name)
        elif not actor.alive and self.writer is not None:
            self.writer.notice()
            clean = isinstance(actor.result, list) and set(actor.result) <= {Fate.CLEAN}
            others_at_work = any(one.alive for one in self._all())
            if clean and not others_at_work:
                self.world.assert_clean()


def test_any_interleaving() -> None:
    run_state_machine_as_test(
        Crashes,
        settings=settings(
            max_examples=150, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
