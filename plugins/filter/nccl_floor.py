# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t
from collections.abc import Mapping

from ansible_collections.kentino.gpu.plugins.module_utils._knowledge import floors


def nccl_floor(result: t.Any) -> t.Dict[str, t.Any]:
    """The least bus bandwidth of the GPUs that a result read, as the NCCL test takes it; empty where no trustworthy one is known."""
    facts: t.Any = result
    for key in ("facts", "gpu", "gpus"):
        facts = facts.get(key) if isinstance(facts, Mapping) else None
    gpus = [gpu for gpu in facts if isinstance(gpu, Mapping)] if isinstance(facts, (list, tuple)) else []
    links = [_least(gpus, key) for key in ("pcie_gen_max", "pcie_width_max")]
    found = floors.floor([gpu.get("device_id") for gpu in gpus], *links)
    return found.option() if found else {}


def _least(gpus: t.Sequence[t.Mapping[str, t.Any]], key: str) -> t.Optional[int]:
    values = [gpu.get(key) for gpu in gpus]
    known = [value for value in values if isinstance(value, int)]
    return min(known) if known and len(known) == len(values) else None


class FilterModule:
    def filters(self) -> t.Dict[str, t.Callable[..., t.Any]]:
        return {"nccl_floor": nccl_floor}
