# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How long a collective takes on the simulated node.

A latency, that grows until messages fill the pipeline, and the size over the platform's bandwidth: 8 H200 were measured with
1.4 GB/s at 32 KiB, 402 at 128 MiB, 450 at 512 MiB and 482 at 16 GiB. The platform's figures stand in its scenario.
"""

from __future__ import annotations

import os

from .load import jitter
from .state import Node

_FULL_PIPELINE = 64 << 20
# Bus bandwidth beside that of an all-reduce: there is no help from the switches, and only one direction at a time.
_BESIDE_ALL_REDUCE = {
    "all_reduce": 1.0,
    "all_gather": 0.79,
    "reduce_scatter": 0.78,
    "broadcast": 0.77,
    "reduce": 0.76,
    "sendrecv": 0.82,
    "alltoall": 0.71,
}
_COPY_GBPS = 1400.0  # one GPU within itself


class Model:
    """C(hosts): the nodes that take part, and how many ranks each of them has."""

    def __init__(self, node: Node, collective: str, hosts: list[tuple[str, int]]) -> None:
        self.node = node
        self.collective = collective
        self.ranks = sum(count for _host, count in hosts)
        several = len(hosts) > 1
        self.busbw = self._node_busbw(hosts) if not several else self._figure("busbw_nodes")
        self.latency_us = self._figure("latency_nodes_us" if several else "latency_us")
        self.busbw *= (self.node.number("nccl.bandwidth_pct") or 100) / 100
        slow = (os.environ.get("KENTINO_SIM_SLOW_HOST") or node.get("nccl.slow_hosts")).replace(",", " ").split()
        if node.number("nccl.slow_pct") and any(host in slow for host, _count in hosts):
            self.busbw *= node.number("nccl.slow_pct") / 100
        self.busbw *= _BESIDE_ALL_REDUCE[collective]

    def _figure(self, name: str) -> float:
        return float(self.node.get("nccl." + name, "0"))

    def _node_busbw(self, hosts: list[tuple[str, int]]) -> float:
        direct = peer_to_peer()
        busbw = self._figure("busbw" if direct else "busbw_p2p_off")
        if direct and self.node.number("nccl.p2p_pct"):
            busbw = self._figure("busbw_p2p_off") * self.node.number("nccl.p2p_pct") / 100
        elif direct and self.node.get("nccl.busbw_ring") and (os.environ.get("NCCL_NVLS_ENABLE") == "0" or self.ranks < 6):
            busbw = self._figure("busbw_ring")
        if not self.node.get("nccl.busbw_ring") and self.ranks <= 4 < len(self.node.gpus()):
            busbw *= 1.25  # fewer cards share the way over the CPU
        return busbw

    def factor(self) -> float:
        """Bus bandwidth over algorithm bandwidth."""
        if self.collective == "all_reduce":
            return 2 * (self.ranks - 1) / self.ranks
        if self.collective in ("all_gather", "reduce_scatter", "alltoall"):
            return (self.ranks - 1) / self.ranks
        return 1.0

    def seconds(self, size: int, *seed: object) -> float:
        """For one call with C(size) bytes; a little different for each C(seed)."""
        if self.ranks < 2:
            busy = size / _COPY_GBPS / 1e9
            latency = 4e-6
        else:
            latency = self.latency_us * 1e-6 * (1 + 1.5 * min(1.0, size / _FULL_PIPELINE))
            busy = size * self.factor() / self.busbw / 1e9
        return (latency + busy) * (1 + 0.006 * jitter(self.collective, size, *seed))

    def hangs(self) -> bool:
        return self.node.number("nccl.p2p_hangs") != 0 and self.ranks > 1 and peer_to_peer()


def peer_to_peer() -> bool:
    return os.environ.get("NCCL_P2P_DISABLE", "0") in ("", "0") and os.environ.get("NCCL_P2P_LEVEL", "") not in ("LOC", "0")
