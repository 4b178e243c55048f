# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Options shared by the check modules. Private to kentino.gpu."""

from __future__ import annotations


class ModuleDocFragment:
    COMMON = r"""
options:
  state_path:
    description:
      - File on the node in which a run leaves what the next one needs, the journal's cursor and the error counters among it.
      - Faults of the running boot that an earlier run saw stay in the verdict until a reboot or until the driver says that the GPU
        has recovered, although their lines are not read again.
      - Without it every run reads the whole boot and knows nothing of earlier counters. In check mode the file is read, not written.
    type: path
  deadline_seconds:
    description:
      - Longest time for each thing asked of the node. A tool that has not answered by then is killed with all its children.
      - The verdict is then V(unknown) and the finding names the tool.
    type: float
    default: 20
"""

    GPU = r"""
options:
  expected:
    description:
      - What this node should be. Whatever is not given is not judged, apart from what the GPU's own PCI id or its siblings tell.
      - See the guide in the collection's README for every key.
    type: dict
    default: {}
  limits:
    description: 'Overrides of single thresholds, by key, for example V({temperature_c: 83}).'
    type: dict
    default: {}
"""

    KERNEL_LOG = r"""
options:
  xid_policy:
    description:
      - 'Overrides of the Xid catalogue, by number, for example V({63: {severity: info}}).'
      - Each value may hold C(severity) (V(info), V(warning), V(critical)), C(action) and C(advice).
    type: dict
    default: {}
  warning_hours:
    description: A warning in the log that is older than this many hours no longer counts; a critical event counts until the reboot.
    type: float
    default: 24
"""
