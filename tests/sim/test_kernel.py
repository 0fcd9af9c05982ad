"""The steps of a simulation, by hand; what they make together is compared with the plain-Python simulators."""

from __future__ import annotations

import numpy as np
from steps import callable_step

from hetgym import Problem
from hetgym.sim.kernel import ENDPOINT, FIFO, FREE, book_transfer, way_free

book, look = callable_step(book_transfer), callable_step(way_free)
ARRAYS = Problem.from_arrays([[1.0] * 3], [], latency=1.0, bandwidth=2.0).arrays


def booked(communication: int, *pairs: tuple[int, int]) -> list[tuple[float, float]]:
    """Transfers of 4 bytes, 3 s each, that are all asked for at time 0."""
    links, channels = np.zeros(len(ARRAYS.link_bandwidth)), np.zeros((2, 3))
    found = []
    for a, b in pairs:
        free = look(ARRAYS, communication, links, channels, a, b, 0.0)
        found.append(book(ARRAYS, communication, links, channels, a, b, 4.0, 0.0))
        assert found[-1][0] == free
    return found


def test_transfers_that_are_free_do_not_wait() -> None:
    assert booked(FREE, (0, 1), (0, 1), (2, 1)) == [(0.0, 3.0)] * 3


def test_a_link_carries_one_transfer_at_a_time() -> None:
    assert booked(FIFO, (0, 1), (0, 1), (1, 0), (0, 2)) == [(0.0, 3.0), (3.0, 6.0), (0.0, 3.0), (0.0, 3.0)]


def test_a_device_sends_and_receives_one_transfer_at_a_time() -> None:
    assert booked(ENDPOINT, (0, 1), (0, 2), (1, 0), (2, 1)) == [(0.0, 3.0), (3.0, 6.0), (0.0, 3.0), (3.0, 6.0)]


def test_a_device_is_no_way_from_itself() -> None:
    for communication in (FREE, FIFO):
        assert booked(communication, (1, 1)) == [(0.0, 0.0)]
