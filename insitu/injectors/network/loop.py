"""An event loop for many sockets: edge-triggered, and fair to the small ones."""

from __future__ import annotations

import heapq
import select
import time
from collections import deque
from collections.abc import Callable

_EVENTS = select.EPOLLIN | select.EPOLLOUT | select.EPOLLRDHUP | select.EPOLLET


class Loop:
    """Calls back when a socket may be read or written, when a time has come, and when a turn was used up.

    A callback must go on until the kernel has no more for it, or ask for another turn with `again`.
    """

    def __init__(self) -> None:
        self._poller = select.epoll()
        self._ready: dict[int, Callable[[], None]] = {}
        self._again: deque[Callable[[], None]] = deque()
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._number = 0

    def watch(self, descriptor: int, callback: Callable[[], None]) -> None:
        """Call back whenever something happens to a socket."""
        self._ready[descriptor] = callback
        self._poller.register(descriptor, _EVENTS)

    def forget(self, descriptor: int) -> None:
        """Stop watching; before the socket is closed."""
        if self._ready.pop(descriptor, None) is not None:
            self._poller.unregister(descriptor)

    def again(self, callback: Callable[[], None]) -> None:
        """Call back after everyone else had a turn."""
        self._again.append(callback)

    def at(self, when: float, callback: Callable[[], None]) -> None:
        """Call back at a time of the monotonic clock."""
        self._number += 1
        heapq.heappush(self._timers, (when, self._number, callback))

    def turn(self, patience_s: float | None = None) -> bool:
        """Wait until something happens, for so long at most, and serve it; gives whether something did."""
        longest_s = self._patience_s() if patience_s is None else patience_s
        events, rounds = self._poller.poll(longest_s, 256), len(self._again)
        for descriptor, _ in events:
            if callback := self._ready.get(descriptor):
                callback()
        for _ in range(rounds):
            self._again.popleft()()
        now = time.monotonic()
        while self._timers and self._timers[0][0] <= now:
            heapq.heappop(self._timers)[2]()
        return bool(events or rounds)

    def _patience_s(self) -> float | None:
        if self._again:
            return 0.0
        if not self._timers:
            return None
        return max(0.0, self._timers[0][0] - time.monotonic())
