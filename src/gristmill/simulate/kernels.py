"""The clock of a node, compiled: requests that share a network, threads that wait for them. Importing it imports Numba.

Every rank does what `loader.fetchahead` and `loader.readahead` do. Groups of steps are asked for in order, while fewer
bytes than its read-ahead are on their way beyond the group that is being built; requests go out 32 at a time, and
16 where no thread waits for the next one. On a fast network one that goes out takes along its neighbours that wait,
once 16 have come. Threads build groups in order, a few ahead of the loop; what has not gone out of a group then goes
out in the order of its places, where it would have in the order of use. A group is built when all that it asked for has
come. The ranks step together: a step begins when all of them have its batch.

A request waits for the latency (twice on a new connection, for the handshake). Answers share the bandwidth in parts of
64 KiB, in turn, of which the last is shorter, each by another length: else answers that began together would end
together for ever, all waiting or all sending. The first that comes of a shard has its sums fetched behind it, for which
all others of that shard wait.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from gristmill.core.arrays import Ints, Mask
from gristmill.core.compiled import compiled, entry
from gristmill.simulate.course import Figures
from gristmill.store.supply import LAST_ANSWERS, TOGETHER_BYTES, TOGETHER_REQUESTS, TOGETHER_SPEED

_INTS, _FLOATS, _TABLE = types.int64[::1], types.float64[::1], types.int64[:, ::1]
_NEVER = 1e300
# What connections send in turn, and what the last parts of answers differ by, as a share of it.
_PART = 64.0 * 1024
_STRIDE = 0.6180339887498949
# Of the state of a rank: groups that the loop has taken, that threads have begun, that were asked for; bytes that these
# are ahead; the requests that wait, from the first to the one after the last; and how many have come.
_TAKEN, _BEGUN, _ASKED, _AHEAD, _NEXT, _END, _CAME = range(7)
# Of the state of a connection: the request that it serves, whether that is for sums, and whether it was ever used.
_REQUEST, _FOR_SUMS, _OPEN = range(3)
# Of the network: bytes a second, latency, when the next request may be made, and seconds between two.
_BANDWIDTH, _LATENCY, _GATE, _INTERVAL = range(4)
# Of requests: their bytes, shards and groups, those of a group by their places, and where they begin. They wait in a
# queue until they are marked as sent, alone or along with another, which names the first of those that it takes along.
_SIZES, _SHARDS, _GROUPS, _PLACED, _STARTS, _QUEUE, _SENT, _ALONG = range(8)
# Of the sums of a shard.
_ABSENT, _COMING, _THERE = range(3)
_NONE, _ALONE, _TAKEN_ALONG = -1, 1, 2


@compiled
def _ask(state: Any, edges: Any, sizes: Any) -> None:
    """Put the requests of a rank's next group behind those that wait."""
    first, end = edges[state[_ASKED]], edges[state[_ASKED] + 1]
    for request in range(first, end):
        state[_AHEAD] += sizes[request]
    state[_ASKED] += 1
    state[_END] = end


@compiled
def _begin_group(state: Any, edges: Any, requests: Any) -> None:
    """Begin to build a rank's next group: what was asked for before it is ahead no longer, what it lacks is urgent."""
    group, place = state[_BEGUN], max(state[_NEXT], edges[state[_BEGUN]])
    if group:
        for request in range(edges[group - 1], edges[group]):
            state[_AHEAD] -= requests[_SIZES, request]
    if state[_ASKED] == group:
        _ask(state, edges, requests[_SIZES])
    for i in range(edges[group], edges[group + 1]):
        request = requests[_PLACED, i]
        if not requests[_SENT, request]:
            requests[_QUEUE, place] = request
            place += 1
    state[_BEGUN] += 1


@compiled
def _advance(state: Any, threads: Any, edges: Any, requests: Any, missing: Any, limits: Any) -> None:
    """Let a rank's threads build what they may, and have the next groups asked for."""
    groups = edges.size - 1
    for i in range(threads.size):
        while threads[i] == _NONE or missing[threads[i]] == 0:
            threads[i] = _NONE
            if state[_BEGUN] >= min(groups, state[_TAKEN] + limits[1]):
                break
            threads[i] = state[_BEGUN]
            _begin_group(state, edges, requests)
    while state[_ASKED] < groups and state[_AHEAD] < limits[0]:
        _ask(state, edges, requests[_SIZES])


@compiled
def _take(state: Any, missing: Any, group: Any, ready: Any) -> Any:
    """Whether a rank has built a group; one that it has, the loop takes as soon as it is ready."""
    has = state[_BEGUN] > group and missing[group] == 0
    if has and ready and state[_TAKEN] == group:
        state[_TAKEN] += 1
    return has


@compiled
def _request(link: Any, network: Any, now: Any) -> Any:
    """Begin a request of a connection: when it will be answered."""
    network[_GATE] = max(network[_GATE], now)
    answered_at = network[_GATE] + (network[_LATENCY] if link[_OPEN] else 2 * network[_LATENCY])
    network[_GATE] += network[_INTERVAL]
    link[_OPEN] = 1
    return answered_at


@compiled
def _take_along(state: Any, requests: Any, request: Any) -> Any:
    """Let a request that goes out bring its neighbours that wait, too: how many bytes they are in all."""
    shard, first = requests[_SHARDS, request], requests[_STARTS, request]
    end, last, found = first + requests[_SIZES, request], request, True
    while found:
        found = False
        for i in range(state[_NEXT], state[_END]):
            other = requests[_QUEUE, i]
            start, stop = requests[_STARTS, other], requests[_STARTS, other] + requests[_SIZES, other]
            beside = start <= end < stop or start < first <= stop
            size = max(end, stop) - min(first, start)
            if requests[_SHARDS, other] == shard and not requests[_SENT, other] and beside and size <= TOGETHER_BYTES:
                requests[_SENT, other], requests[_ALONG, last], last = _TAKEN_ALONG, other, other
                first, end, found = min(first, start), max(end, stop), True
    return end - first


@compiled
def _may_take_along(state: Any, links: Any, requests: Any, bandwidth: Any) -> Any:
    """Whether neighbours come together: answers are fast, and not too many requests bring some already."""
    taking = 0
    for i in range(len(links)):
        taking += links[i, _REQUEST] != _NONE and requests[_ALONG, links[i, _REQUEST]] != _NONE
    return bandwidth >= TOGETHER_SPEED and state[_CAME] > LAST_ANSWERS and taking < TOGETHER_REQUESTS


@compiled
def _send(state: Any, links: Any, times: Any, left: Any, requests: Any, fewer: Any, network: Any, now: Any) -> None:
    """Let a rank's free connections take what waits: `fewer` of them, where no thread builds what it is for."""
    busy = 0
    for i in range(times.size):
        busy += links[i, _REQUEST] != _NONE
    for i in range(times.size):
        while state[_NEXT] < state[_END] and requests[_SENT, requests[_QUEUE, state[_NEXT]]]:
            state[_NEXT] += 1
        if state[_NEXT] == state[_END]:
            return
        request = requests[_QUEUE, state[_NEXT]]
        if busy >= fewer and requests[_GROUPS, request] >= state[_BEGUN]:
            return
        if links[i, _REQUEST] == _NONE:
            busy += 1
            links[i, _REQUEST], links[i, _FOR_SUMS], requests[_SENT, request] = request, 0, _ALONE
            state[_NEXT] += 1
            together = _may_take_along(state, links, requests, network[_BANDWIDTH])
            left[i] = _take_along(state, requests, request) if together else requests[_SIZES, request]
            times[i] = _request(links[i], network, now)


@compiled
def _next_turn(links: Any, times: Any, left: Any, turns: Any, now: Any) -> Any:
    """The connection that has waited longest to send a part of its answer."""
    found = _NONE
    for i in range(times.size):
        if links[i, _REQUEST] != _NONE and times[i] <= now and left[i] > 0 and (found < 0 or turns[i] < turns[found]):
            found = i
    return found


@compiled
def _part(request: Any, left: Any) -> Any:
    """What a connection sends next of an answer of which so much is left."""
    odd = (left - _PART * (request * _STRIDE % 1.0)) % _PART
    return min(left, odd if odd > 0 else _PART)


@compiled
def _transfer(links: Any, times: Any, left: Any, turns: Any, sent: Any, bandwidth: Any, now: Any, upcoming: Any) -> Any:
    """Let the network go on until something is new, or until `upcoming`: when that is.

    turns: since when each connection waits for its turn. sent: until when the network is busy, and with whom.
    """
    if sent[1] < 0:
        sent[1] = _next_turn(links, times, left, turns, now)
        if sent[1] >= 0:
            sender = np.int64(sent[1])
            sent[0] = now + _part(links[sender, _REQUEST], left[sender]) / bandwidth
    for i in range(times.size):
        if links[i, _REQUEST] != _NONE and times[i] > now:
            upcoming = min(upcoming, times[i])
    if sent[1] < 0 or sent[0] > upcoming:
        return upcoming
    sender, now = np.int64(sent[1]), sent[0]
    left[sender] = max(left[sender] - _part(links[sender, _REQUEST], left[sender]), 0.0)
    turns[sender], sent[1] = now, _NONE
    return now


@compiled
def _finish(link: Any, request: Any, shard: Any, sums: Any, known: Any) -> Any:
    """What follows when a connection has brought all bytes: whether it is free, or has to ask for sums, or waits."""
    if link[_FOR_SUMS]:
        known[shard] = _THERE
    elif known[shard] == _ABSENT and sums[shard]:
        known[shard], link[_FOR_SUMS] = _COMING, 1
        return False
    if known[shard] == _COMING:
        return False
    link[_REQUEST] = _NONE
    return True


@entry(
    types.float64(
        _TABLE, _INTS, _TABLE, _INTS, _TABLE, _FLOATS, _INTS, types.float64, _FLOATS, _FLOATS,
        _TABLE, _TABLE, _TABLE, types.float64[:, ::1], _FLOATS, _TABLE,
    )
)  # fmt: skip
def _pass(
    edges: Any, groups: Any, requests: Any, sums: Any, known: Any, network: Any, limits: Any, step_seconds: Any,
    begins: Any, waits: Any, states: Any, threads: Any, links: Any, clocks: Any, sent: Any, missing: Any,
) -> Any:  # fmt: skip
    """`pass_time` with the state of all ranks, threads and connections as it is before the first step."""
    shards, of_group = requests[_SHARDS], requests[_GROUPS]
    times, left, turns = clocks[0], clocks[1], clocks[2]
    ranks, connections = edges.shape[0], limits[3]
    now, asked_at, step = 0.0, 0.0, 0
    for r in range(ranks):  # what is asked for when a loader is made, before there are readers
        own = slice(r * connections, (r + 1) * connections)
        _ask(states[r], edges[r], requests[_SIZES])
        _send(states[r], links[own], times[own], left[own], requests, limits[4], network, now)
    while True:
        group, ready, built = groups[step], now >= asked_at, True
        for r in range(ranks):
            _advance(states[r], threads[r], edges[r], requests, missing[r], limits)
            if not _take(states[r], missing[r], group, ready):
                built = False
            elif ready:
                _advance(states[r], threads[r], edges[r], requests, missing[r], limits)
            own = slice(r * connections, (r + 1) * connections)
            _send(states[r], links[own], times[own], left[own], requests, limits[4], network, now)
        for i in range(times.size):
            if times[i] > now:
                turns[i] = times[i]
        if ready and built:
            begins[step], waits[step] = now, now - asked_at
            asked_at = now + step_seconds
            step += 1
            if step == begins.size:
                return asked_at
            continue
        now = _transfer(links, times, left, turns, sent, network[_BANDWIDTH], now, asked_at if built else _NEVER)
        for sums_first in (1, 0):  # for what waits for them is done with, too
            for i in range(times.size):
                request, r = links[i, _REQUEST], i // connections
                if request != _NONE and times[i] <= now and left[i] <= 0 and links[i, _FOR_SUMS] == sums_first:
                    if _finish(links[i], request, shards[request], sums, known[r]):
                        states[r, _CAME] += 1
                        while request != _NONE:
                            missing[r, of_group[request]] -= 1
                            request = requests[_ALONG, request]
                    elif links[i, _FOR_SUMS] and not sums_first:
                        times[i], left[i] = _request(links[i], network, now), sums[shards[request]]


def pass_time(
    edges: Ints, groups: Ints, requests: Ints, sums: Ints, known: Ints, network: Figures,
    limits: Ints, step_seconds: float, begins: Figures, waits: Figures, along: Mask,
) -> float:  # fmt: skip
    """When each step begins and how long it was waited for before; gives the time at which the last one ends.

    Step s is of group groups[s], for which rank r makes the requests [edges[r, g], edges[r, g + 1]). requests: their
    bytes, shards and groups, those of each group in the order of their places, and where they begin; `along` is told
    which of them another took along. sums: the bytes of each shard's sums, which rank r has of those in known[r].
    limits: bytes ahead, groups ahead, threads, connections, and how many of these are used for what no thread waits
    for.
    """
    ranks, connections = len(edges), int(limits[3])
    states, threads = np.zeros((ranks, 7), np.int64), np.full((ranks, int(limits[2])), _NONE)
    states[:, [_NEXT, _END]] = edges[:, :1]
    links = np.zeros((ranks * connections, 3), np.int64)
    links[:, _REQUEST] = _NONE
    links[::connections, _OPEN] = 1  # by which the store was opened
    count = requests.shape[1]
    requests = np.concatenate([requests, [np.arange(count), np.zeros(count, np.int64), np.full(count, _NONE)]])
    clocks, sent, missing = np.zeros((3, len(links))), np.array([0.0, _NONE]), np.diff(edges, axis=1)
    end = _pass(
        edges, groups, requests, sums, known, network, limits, step_seconds, begins, waits,
        states, threads, links, clocks, sent, missing,
    )  # fmt: skip
    along[:] = requests[_SENT] == _TAKEN_ALONG
    return float(end)
