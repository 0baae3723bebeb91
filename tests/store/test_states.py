from itertools import product

import pytest

from insitu.orchestrator.store.records import TrialState
from insitu.orchestrator.store.states import FINISHED, SPOILT, IllegalTransition, transition

LEGAL = {
    ("planned", "running"),
    ("running", "planned"),
    ("running", "valid"),
    ("running", "invalid"),
    ("running", "failed"),
    ("running", "aborted"),
}


@pytest.mark.parametrize(("current", "following"), list(product(TrialState, TrialState)))
def test_only_the_documented_steps_exist(current: TrialState, following: TrialState) -> None:
    if (current.value, following.value) in LEGAL:
        assert transition(current, following) is following
    else:
        with pytest.raises(IllegalTransition, match=f"{current}.*{following}"):
            transition(current, following)


def test_finished_states_are_those_with_a_record() -> None:
    assert {TrialState.VALID, *SPOILT} == FINISHED
    assert SPOILT == (TrialState.INVALID, TrialState.FAILED, TrialState.ABORTED)
