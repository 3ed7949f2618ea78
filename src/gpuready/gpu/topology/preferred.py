"""Which of the free devices a container should rather get.

Pure, and the same answer for the same question: ties go by device index, never by the order of the list.
A preference only; the kubelet may choose otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations

from gpuready.gpu.sharing import device_of, replica_of


class Topology:
    """How well the GPUs of one node reach each other; remembers what it worked out.

    order   uuids in index order
    scores  scores[i][j] of order[i] and order[j]
    """

    def __init__(self, order: Sequence[str], scores: Sequence[Sequence[int]]) -> None:
        self._order = tuple(order)
        self._scores = scores
        self._place = {uuid: number for number, uuid in enumerate(order)}
        self._division_of: dict[tuple[int, int], int] = {}
        self._score_of: dict[int, int] = {}

    def aligned(self, available: Iterable[str], required: Sequence[str], size: int) -> list[str]:
        """Whole GPUs that reach each other well, so that what stays free is well connected too.

        The free GPUs are divided into sets of `size` (and one smaller rest) with the largest sum of pair
        scores; the answer is the best set of such a division that holds all of `required`. Among equals
        the one least connected to what stays free, then the lowest indexes.

        returns  `size` uuids in index order; [] when the question has no answer

        Source: go-gpuallocator v0.6.0, gpuallocator/besteffort_policy.go:36-304; same optimum, found over
        subsets instead of by listing every division.
        """
        free = {self._place[uuid] for uuid in available if uuid in self._place}
        must = {self._place.get(uuid, -1) for uuid in required}
        if size <= 0 or size > len(free) or len(must) > size or not must <= free:
            return []
        chosen = self._best_set(_mask(free), _mask(must), size)
        return [self._order[number] for number in _members(chosen)]

    def _best_set(self, free: int, must: int, size: int) -> int:
        sets = (
            must | _mask(extra) for extra in combinations(_members(free & ~must), size - must.bit_count())
        )
        return max(sets, key=lambda chosen: self._worth(chosen, free & ~chosen, size))

    def _worth(self, chosen: int, left: int, size: int) -> tuple[int, int, int]:
        """Sets come in index order and max() keeps the first, so equals go to the lowest indexes."""
        own = self._score(chosen)
        return own + self._division(left, size), own, -self._cut(chosen, left)

    def _division(self, free: int, size: int) -> int:
        """Largest sum of scores over divisions of `free` into sets of `size` and at most one smaller rest."""
        if size == 1 or free.bit_count() <= size:
            return self._score(free) if size > 1 else 0
        known = self._division_of.get((free, size))
        if known is None:
            known = self._division_of[free, size] = max(
                self._score(chosen) + self._division(free & ~chosen, size)
                for chosen in _sets_with_first(free, {size, free.bit_count() % size} - {0})
            )
        return known

    def _score(self, chosen: int) -> int:
        known = self._score_of.get(chosen)
        if known is None:
            pairs = combinations(_members(chosen), 2)
            known = self._score_of[chosen] = sum(self._scores[i][j] for i, j in pairs)
        return known

    def _cut(self, chosen: int, left: int) -> int:
        return self._score(chosen | left) - self._score(chosen) - self._score(left)


def distributed(
    available: Iterable[str], required: Sequence[str], size: int, replicas: Mapping[str, int]
) -> list[str]:
    """Shares of distinct GPUs where possible, from the least used ones.

    replicas  uuid -> number of its shares, in index order
    returns   `required`, then the picks; [] when there are too few

    Source: k8s-device-plugin v0.19.3, internal/rm/allocate.go:27; ties are by index here, and a GPU
    already picked for this container comes last.
    """
    free: dict[str, list[str]] = {uuid: [] for uuid in replicas}
    for device_id in sorted(set(available) - set(required), key=replica_of):
        free.setdefault(device_of(device_id), []).append(device_id)
    answer = list(required)
    if size - len(answer) > sum(map(len, free.values())) or size < len(answer):
        return []
    picked = dict.fromkeys(free, 0)
    for device_id in required:
        picked[device_of(device_id)] = picked.get(device_of(device_id), 0) + 1
    index = {uuid: number for number, uuid in enumerate(free)}
    used = {uuid: replicas.get(uuid, 1) - len(ids) for uuid, ids in free.items()}
    while len(answer) < size:
        uuid = min((u for u in free if free[u]), key=lambda u: (picked[u], used[u], index[u]))
        answer.append(free[uuid].pop(0))
        picked[uuid] += 1
        used[uuid] += 1
    return answer


def _sets_with_first(free: int, sizes: set[int]) -> Iterator[int]:
    """Subsets of `free` of these sizes that hold its lowest member: no division is met twice."""
    first, *others = _members(free)
    for size in sizes:
        for extra in combinations(others, size - 1):
            yield _mask((first, *extra))


def _mask(numbers: Iterable[int]) -> int:
    mask = 0
    for number in numbers:
        mask |= 1 << number
    return mask


def _members(mask: int) -> list[int]:
    return [number for number in range(mask.bit_length()) if mask >> number & 1]
