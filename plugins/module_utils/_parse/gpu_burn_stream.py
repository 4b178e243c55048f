# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read gpu-burn's output while it comes, and keep of it what the verdict needs. Private to kentino.gpu.

The tool redraws its progress record with every line that its own nvidia-smi prints, some hundred times in five seconds on eight
GPUs: an hour makes 40 MB. Of records that differ in nothing but percentage and temperature the first and the last are kept.
"""

from __future__ import annotations

import typing as t

from . import gpu_burn
from .gpu_burn import GpuBurn, Progress
from .lazy_pattern import lazy

# Far above what hours of real records come to; a tool that prints something else without end is not stored without end.
MAX_KEPT_BYTES = 16 << 20

_BREAK = lazy(rb"[\r\n]")
_MARK = b"proc'd:"


class BurnStream:
    """C(feed) takes the output as it comes; C(record) is the whole run, C(text) what was kept of it."""

    def __init__(self) -> None:
        self._kept: t.List[bytes] = []
        self._keys: t.List[bytes] = []  # of each kept line what makes it a record of its own; empty for other lines
        self._rest = b""
        self._size = 0

    @property
    def overflow(self) -> bool:
        return self._size + len(self._rest) > MAX_KEPT_BYTES

    def feed(self, chunk: bytes) -> t.List[Progress]:
        """The whole progress records in it that say something new; one that is still growing comes with a later chunk."""
        lines = _BREAK.split(self._rest + chunk)
        self._rest = lines.pop()
        fresh = [line for line in lines if self._keep(line)]
        return [record for line in fresh for record in gpu_burn.parse(line.decode("utf-8", "replace")).progress if record.whole]

    def text(self) -> str:
        return b"\n".join([*self._kept, self._rest]).decode("utf-8", "replace")

    def record(self, stderr: str = "", exit_status: t.Optional[int] = None) -> GpuBurn:
        # The children complain on stderr, and the parent's last lines must stay the last.
        return gpu_burn.parse("%s\n%s" % (stderr, self.text()), exit_status)

    def _keep(self, line: bytes) -> bool:
        """Whether it says something new."""
        key = line.partition(_MARK)[2].partition(b"temps:")[0] if line.count(_MARK) == 1 else b""
        same = bool(key) and self._keys[-1:] == [key]
        if same and self._keys[-2:] == [key, key]:
            self._size += len(line) - len(self._kept[-1])
            self._kept[-1] = line
            return False
        if not self.overflow:
            self._kept.append(line)
            self._keys.append(key)
            self._size += len(line) + 1
        return bool(key) and not same
