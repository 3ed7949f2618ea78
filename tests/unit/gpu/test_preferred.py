"""Preferred allocation: the original's optimum, with stable ties; case C17 over all orderings."""

from __future__ import annotations

import itertools
import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuready.gpu.sharing import device_of, expand
from gpuready.gpu.topology.preferred import Topology, distributed

RECORDED = Path(__file__).parents[2] / "fixtures/originals/plugin"
ISLANDS = [[0 if i == j else (50 if i // 4 == j // 4 else 10) for j in range(8)] for i in range(8)]
NAMES = [f"GPU-{number}" for number in range(8)]


def topology(scores: list[list[int]] = ISLANDS) -> Topology:
    return Topology([f"GPU-{number}" for number in range(len(scores))], scores)


def best_by_brute_force(
    scores: list[list[int]], free: list[int], must: set[int], size: int
) -> tuple[int, int]:
    """(sum of the best division with a full set holding `must`, score of its best such set)."""

    def score(chosen: tuple[int, ...]) -> int:
        return sum(scores[i][j] for i, j in itertools.combinations(chosen, 2))

    def divisions(left: tuple[int, ...]) -> list[list[tuple[int, ...]]]:
        if len(left) <= size:
            return [[left]] if left else [[]]
        found = []
        sizes = {size, len(left) % size} - {0}
        for part in sizes:
            for extra in itertools.combinations(left[1:], part - 1):
                chosen = (left[0], *extra)
                rest = tuple(x for x in left if x not in chosen)
                if part != size and len(rest) % size:
                    continue
                found += [[chosen, *more] for more in divisions(rest)]
        return found

    best = (-1, -1)
    for division in divisions(tuple(free)):
        fitting = [s for s in division if len(s) == size and must <= set(s)]
        if fitting:
            best = max(best, (sum(map(score, division)), max(map(score, fitting))))
    return best


@settings(max_examples=80, deadline=None)
@given(data=st.data())
def test_the_answer_is_the_optimum_of_all_divisions(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 7))
    levels = st.sampled_from([10, 20, 30, 50, 150, 250])
    scores = [[0] * count for _ in range(count)]
    for i, j in itertools.combinations(range(count), 2):
        scores[i][j] = scores[j][i] = data.draw(levels)
    free = data.draw(st.lists(st.integers(0, count - 1), unique=True, min_size=1).map(sorted))
    size = data.draw(st.integers(1, len(free)))
    must = set(data.draw(st.lists(st.sampled_from(free), unique=True, max_size=size)))

    names = [f"GPU-{n}" for n in range(count)]
    answer = topology(scores).aligned([names[n] for n in free], [names[n] for n in sorted(must)], size)

    chosen = [names.index(name) for name in answer]
    assert len(chosen) == size
    assert must <= set(chosen) <= set(free)
    rest = [n for n in free if n not in chosen]
    own = sum(scores[i][j] for i, j in itertools.combinations(chosen, 2))
    others = best_by_brute_force(scores, rest, set(), size)[0] if len(rest) >= size else _sum(scores, rest)
    assert (own + others, own) == best_by_brute_force(scores, free, must, size)


def _sum(scores: list[list[int]], members: list[int]) -> int:
    return sum(scores[i][j] for i, j in itertools.combinations(members, 2))


def test_the_order_of_the_question_does_not_matter() -> None:
    shuffled = list(NAMES)
    answers = set()
    for seed in range(30):
        random.Random(seed).shuffle(shuffled)
        answers.add(tuple(topology().aligned(shuffled, [], 3)))

    assert answers == {("GPU-0", "GPU-1", "GPU-2")}


def test_a_single_gpu_comes_from_the_island_that_is_broken_already() -> None:
    assert topology().aligned(NAMES[:5] + NAMES[6:], [], 1) == ["GPU-4"]


@pytest.mark.parametrize(
    ("available", "required", "size"),
    [
        pytest.param(NAMES[:2], [], 3, id="too few"),
        pytest.param(NAMES, [], 0, id="none asked for"),
        pytest.param(NAMES[:2], ["GPU-7"], 2, id="required is not free"),
        pytest.param(NAMES, NAMES[:3], 2, id="more required than asked for"),
        pytest.param(NAMES, ["GPU-unknown"], 2, id="required is unknown"),
    ],
)
def test_a_question_without_an_answer_gets_none(available: list[str], required: list[str], size: int) -> None:
    assert topology().aligned(available, required, size) == []


# --- shared GPUs ------------------------------------------------------------------------------------------
def test_c17_two_shares_are_two_cards_over_all_orderings() -> None:
    ids = expand(["A", "B"], 4)
    for free in (ids, ids[1:], ids[:5]):
        answers = {
            tuple(distributed(list(order), [], 2, {"A": 4, "B": 4}))
            for order in itertools.islice(itertools.permutations(free), 0, None, 97)
        }
        assert len(answers) == 1
        assert len({device_of(device_id) for device_id in answers.pop()}) == 2


def test_c17_all_orderings_of_a_small_list_give_one_answer() -> None:
    answers = {
        tuple(distributed(order, [], 2, {"A": 3, "B": 3}))
        for order in itertools.permutations(["A::0", "A::1", "A::2", "B::1", "B::2"])
    }
    assert answers == {("A::0", "B::1")}


def test_one_card_left_gives_both_shares_of_it() -> None:
    assert distributed(["B::3", "B::2"], [], 2, {"A": 4, "B": 4}) == ["B::2", "B::3"]


def test_the_least_used_card_comes_first() -> None:
    free = ["A::2", "A::3", *expand(["B"], 4)]
    assert distributed(free, [], 1, {"A": 4, "B": 4}) == ["B::0"]


def test_a_card_already_required_for_the_container_comes_last() -> None:
    free = expand(["A", "B"], 4)
    assert distributed(free, ["A::0"], 2, {"A": 4, "B": 4}) == ["A::0", "B::0"]


def test_too_few_shares_have_no_answer() -> None:
    assert distributed(["A::0"], [], 2, {"A": 4}) == []


@given(
    st.dictionaries(st.sampled_from("ABCD"), st.integers(2, 5), min_size=1),
    st.randoms(use_true_random=False),
    st.integers(1, 6),
)
def test_shares_are_spread_as_evenly_as_possible(
    replicas: dict[str, int], shuffle: random.Random, size: int
) -> None:
    replicas = dict(sorted(replicas.items()))
    free = [f"{uuid}::{n}" for uuid, count in replicas.items() for n in range(count)]
    shuffle.shuffle(free)
    answer = distributed(free, [], size, replicas)

    if size > len(free):
        assert answer == []
        return
    assert len(set(answer)) == size
    assert set(answer) <= set(free)
    assert len({device_of(i) for i in answer}) == min(size, len(replicas))


# --- recorded answers of the original ---------------------------------------------------------------------
def recorded() -> list[Any]:
    found = []
    for name in ("a100", "h100", "t4"):
        data = json.loads((RECORDED / f"{name}.json").read_text())
        for case, row in data["cases"].items():
            if isinstance(row.get("preferred"), list):
                found.append(pytest.param(data, case, id=f"{name}-{case}"))
    return found


@pytest.mark.parametrize(("data", "case"), recorded())
def test_the_original_would_accept_our_answer(data: dict[str, Any], case: str) -> None:
    """Same score as its answers for whole GPUs, same number of cards for shared ones."""
    levels = {None: 0, 10: 50, 20: 40, 30: 30, 40: 20, 50: 10}
    matrix = data["inputs"]["topologyCommonAncestor"]
    scores = [[levels[value] for value in line] for line in matrix]
    order = [str(gpu["index"]) for gpu in data["inputs"]["gpus"]]
    for question in data["cases"][case]["preferred"]:
        available, must, size = question["available"], question["mustInclude"], question["size"]
        theirs = question.get("answersSeenInGivenOrder", [[]])[0]
        if any("::" in device_id for device_id in available):
            ours = distributed(available, must, size, dict.fromkeys(order, 4))
            assert len({device_of(i) for i in ours}) == len({device_of(i) for i in theirs})
        else:
            ours = Topology(order, scores).aligned(available, must, size)
            assert _score(scores, ours) == _score(scores, theirs)
        assert len(ours) == len(theirs)


def _score(scores: list[list[int]], ids: list[str]) -> int:
    return sum(scores[int(i)][int(j)] for i, j in itertools.combinations(ids, 2))
