#!/usr/bin/python
# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_burn
short_description: Load all GPUs with gpu-burn and judge what they do
version_added: 0.1.0
author:
  - Kentino (@kentino)
description:
  - Runs C(gpu_burn) on all GPUs at once for the given time. It multiplies matrices and compares every result.
  - While it runs the GPUs are sampled (temperature, power, clocks and why they were cut, PCIe link, memory errors) and the kernel log is
    read. What the tool prints, what the GPUs say and what the kernel logs make one verdict.
  - The exit status of C(gpu_burn) proves nothing, it is 0 on faulty GPUs. V(pass) needs work and the word OK for every GPU, no error on
    any line, all of the time, and a GPU that was seen under load.
  - It is stopped early when a GPU has failed for certain. This is a GPU whose process died or that computed wrong results, a critical
    Xid, uncorrectable memory errors, a lost GPU, or the temperature at which it shuts down.
  - A bad GPU never fails this task. Gate on RV(verdict), with the P(kentino.gpu.healthy#test) test or with the
    M(kentino.gpu.gate) action.
extends_documentation_fragment:
  - kentino.gpu._load.attributes
  - kentino.gpu._load.options
  - kentino.gpu._checks.gpu
options:
  seconds:
    description: How long to burn. 600 finds silent faults, a factory burns for an hour.
    type: int
    default: 600
  doubles:
    description: Compute in double precision. Consumer cards and some data centre cards then take minutes for each batch.
    type: bool
    default: false
  tensor_cores:
    description: Use the tensor cores, which draws the most power on data centre cards.
    type: bool
    default: false
  memory:
    description: How much memory to use on each GPU, a share of what is free such as V(90%), or a number of MB. The tool's own default is
      90%.
    type: str
  binary:
    description:
      - The program. By default C(gpu_burn) on the PATH, in C(/opt/gpu-burn) or in C(/usr/local/gpu-burn).
      - It is run in the folder that holds its C(compare.ptx) or C(compare.fatbin).
    type: path
  minimum_seconds:
    description:
      - A shorter run is V(unknown), because it proves nothing.
      - By default C(burn_seconds) or C(burn_doubles_seconds) of O(limits), 60 and 180 seconds.
    type: float
  floor_gflops:
    description: What each GPU must reach in the precision that is run. A GPU below it fails.
    type: dict
    suboptions:
      value:
        description: Gflop/s.
        type: float
        required: true
      source:
        description: Where the figure comes from.
        type: str
      date:
        description: When it was read or measured.
        type: str
  slow_tolerance_pct:
    description:
      - How far below the median of its siblings throughput and clock of a GPU may be. 0 does not compare them.
      - By default C(load_slow_tolerance_pct) of O(limits), 10.
    type: float
  power_share_pct:
    description:
      - The share of its power limit that each GPU must come to. 0 does not judge it.
      - By default C(load_power_share_pct) of O(limits), 70.
    type: float
requirements:
  - gpu_burn (https://github.com/wilicc/gpu-burn), built for the GPUs of the node
seealso:
  - module: kentino.gpu.dcgm_diag
  - module: kentino.gpu.gate
"""

EXAMPLES = r"""
- name: Burn all eight GPUs for ten minutes, on all nodes at the same time
  kentino.gpu.gpu_burn:
    tensor_cores: true
    expected:
      count: 8
    progress_path: /run/kentino-gpu/burn.json
  async: 900
  poll: 0
  register: started

- name: Wait for it
  ansible.builtin.async_status:
    jid: "{{ started.ansible_job_id }}"
  register: burn
  until: burn is finished
  delay: 10
  retries: 90

- name: Stop unless every GPU is sound
  kentino.gpu.gate:
    results: "{{ [burn] }}"
    required: [burn]
"""

RETURN = r"""
verdict:
  description: The worst verdict among RV(checks). V(unknown) means that it could not be told, and opens no gate.
  returned: success
  type: str
  choices: [skip, pass, warn, unknown, fail]
  sample: pass
action:
  description: What to do first, V(none) when nothing is to be done.
  returned: success
  type: str
  sample: none
checks:
  description: One entry, V(burn).
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Name of the check.
      type: str
      sample: burn
    verdict:
      description: What it concluded.
      type: str
      sample: pass
    action:
      description: What to do first.
      type: str
      sample: none
    evidence:
      description: What was really seen, in words. Empty when nothing was.
      type: str
      sample: 8 GPUs burnt, 435 progress records
    skipped:
      description: Why the check did not run, empty when it did.
      type: str
      sample: ""
findings:
  description: What was found, worst first.
  returned: success
  type: list
  elements: dict
  contains:
    check:
      description: The check that found it.
      type: str
      sample: burn
    code:
      description: Stable name of the kind of finding.
      type: str
      sample: burn.errors
    severity:
      description: V(info), V(warning) or V(critical).
      type: str
      sample: critical
    verdict:
      description: What this finding alone would make of the verdict.
      type: str
      sample: fail
    subject:
      description: What it is about. C(label) is for people, C(keys) are the names that a waiver may use.
      type: dict
      sample: {kind: gpu, index: 3, pci: "0000:c1:00", label: "GPU 3 0000:c1:00"}
    message:
      description: One line, with the measured and the allowed value.
      type: str
      sample: "GPU 3 computed wrong results: 3 of 147 records show errors, up to 3"
    action:
      description: What to do.
      type: str
      sample: replace
    advice:
      description: The next step in words.
      type: str
    evidence:
      description: The lines or numbers seen.
      type: list
      elements: str
    count:
      description: How often it was seen.
      type: int
      sample: 1
    first:
      description: When it was first seen.
      type: str
    last:
      description: When it was last seen.
      type: str
metrics:
  description:
    - Of V(burn) by GPU its Gflop/s, highest temperature and draw, median clock, and the share of the time for each reason to cut clocks.
  returned: success
  type: dict
simulated:
  description: Whether the node is a simulated one.
  returned: success
  type: bool
  sample: false
facts:
  description: What was run.
  returned: success
  type: dict
  contains:
    burn:
      description: Of this check.
      type: dict
      contains:
        argv:
          description: What was run, or would be in check mode.
          type: list
          elements: str
        folder:
          description: Where it was run.
          type: str
        seconds:
          description: How long it was to burn.
          type: int
        gpus:
          description: Indexes of the GPUs that were to be loaded.
          type: list
          elements: int
        outcome:
          description: How the tool ended. V(ended) by itself, V(stopped) by us, V(timeout), V(unkillable), V(missing) or V(not_run).
          type: str
          sample: ended
        exit_status:
          description: The tool's exit status.
          type: int
          sample: 0
        wall_seconds:
          description: How long the tool ran.
          type: float
          sample: 631.2
        stopped:
          description: What it was stopped early for.
          type: str
        output_tail:
          description: The end of what it printed.
          type: str
        simulated:
          description: Whether the GPUs are simulated ones.
          type: bool
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.kentino.gpu.plugins.module_utils._check import burn, gpu, under_load
from ansible_collections.kentino.gpu.plugins.module_utils._report.model import report


def main() -> None:
    floor = {"value": {"type": "float", "required": True}, "source": {"type": "str"}, "date": {"type": "str"}}
    module = AnsibleModule(
        argument_spec={
            "seconds": {"type": "int", "default": 600},
            "doubles": {"type": "bool", "default": False},
            "tensor_cores": {"type": "bool", "default": False},
            "memory": {"type": "str"},
            "binary": {"type": "path"},
            "minimum_seconds": {"type": "float"},
            "floor_gflops": {"type": "dict", "options": floor},
            "slow_tolerance_pct": {"type": "float"},
            "power_share_pct": {"type": "float"},
            "gpus": {"type": "list", "elements": "int", "default": []},
            "source": {"type": "str", "choices": list(gpu.SOURCES), "default": "auto"},
            "expected": {"type": "dict", "default": {}},
            "limits": {"type": "dict", "default": {}},
            "sample_seconds": {"type": "float", "default": 5},
            "kernel_log_source": {"type": "str", "choices": list(under_load.LOG_SOURCES), "default": "auto"},
            "xid_policy": {"type": "dict", "default": {}},
            "progress_path": {"type": "path"},
            "deadline_seconds": {"type": "float", "default": 20},
        },
        supports_check_mode=True,
    )
    try:
        options = burn.Options(**module.params)
        check, facts = burn.plan(options) if module.check_mode else burn.run(options)
    except ValueError as exc:
        module.fail_json(msg=str(exc))
    module.exit_json(**report([check], simulated=facts["simulated"], facts={burn.NAME: facts}))


if __name__ == "__main__":
    main()
