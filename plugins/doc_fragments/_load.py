# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Options and attributes of the modules that load the GPUs. Private to kentino.gpu."""

from __future__ import annotations


class ModuleDocFragment:
    OPTIONS = r"""
options:
  gpus:
    description:
      - Indexes of the GPUs to load, as NVML and C(nvidia-smi) number them. All of them by default.
      - Variables of the caller such as C(CUDA_VISIBLE_DEVICES) do not choose them.
    type: list
    elements: int
    default: []
  source:
    description: Where to read the GPUs, see O(kentino.gpu.gpu_info#module:source).
    type: str
    choices: [auto, nvml, nvidia_smi]
    default: auto
  sample_seconds:
    description: How often the GPUs are looked at while they are loaded. At first they are looked at more often.
    type: float
    default: 5
  kernel_log_source:
    description:
      - Where to read what the kernel logs meanwhile. V(auto) takes the journal, or C(/dev/kmsg) where there is none.
      - V(none) does not read it. An Xid during the run is then not seen.
    type: str
    choices: [auto, journal, kmsg, none]
    default: auto
  xid_policy:
    description: 'Overrides of the Xid catalogue, by number, see O(kentino.gpu.kernel_log_info#module:xid_policy).'
    type: dict
    default: {}
  progress_path:
    description:
      - File on the node that is replaced every few seconds while something runs, with one JSON object that tells how far it is.
      - Its keys are C(step), C(state) (V(running), V(finished), V(interrupted)), C(percent), C(elapsed_seconds), C(total_seconds),
        C(hottest_c), C(hottest_gpu), C(errors), C(pid) and C(updated_usec).
    type: path
  deadline_seconds:
    description: Longest time for each thing asked of the node beside the run itself.
    type: float
    default: 20
notes:
  - Nothing is run while a GPU that is to be loaded is in use, or while it cannot be told whether it is. The finding names the processes.
    Processes in C(allowed_processes) of O(expected) are accepted.
  - When the module is interrupted, killed, or its connection is lost, everything that it started is ended.
  - For long runs use C(async) with C(poll=0), so that all nodes run at the same time. Give C(async) some minutes more than the run takes.
requirements:
  - pynvml (from nvidia-ml-py) or nvidia-smi on the node
"""

    ATTRIBUTES = r"""
options: {}
attributes:
  async:
    description: Supports being used with the C(async) keyword.
    support: full
  check_mode:
    description: Can run in C(check_mode) and return changed status prediction without modifying target.
    support: full
    details:
      - Nothing is run. The check is skipped and says what would be run.
  diff_mode:
    description: Will return details on what has changed (or possibly needs changing in C(check_mode)), when in diff mode.
    support: N/A
    details:
      - This module does not change state.
"""
