#!/usr/bin/python
# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: dcgm_diag
short_description: Run NVIDIA's diagnostic and judge each test on each GPU
version_added: 0.1.0
author:
  - Kentino (@kentino)
description:
  - Runs C(dcgmi diag) of DCGM 2, 3 or 4 and judges the result of each test on each GPU by the numbers of its errors, not by its exit
    status. That status is the same for a setting and for a fault.
  - What was skipped or did not run is told as such. What O(required_tests) names and did not run is V(unknown), and so is a run that
    tested fewer GPUs than there are. An error that is recorded inside a pass is a warning.
  - The exporter's profiling metrics are paused meanwhile and resumed in any case, also when the module is killed.
  - A test that is known to fail right after another one is run once more, alone, after a pause. Both results are kept.
  - With MIG on any GPU of the node nothing is run, because the diagnostic would refuse.
  - A bad GPU never fails this task. Gate on RV(verdict), with the P(kentino.gpu.healthy#test) test or with the
    M(kentino.gpu.gate) action.
extends_documentation_fragment:
  - kentino.gpu._load.attributes
  - kentino.gpu._load.options
  - kentino.gpu._checks.gpu
options:
  level:
    description:
      - How much to test. On eight GPUs 1 takes seconds, 2 some minutes, 3 about 15 minutes, 4 one to two hours.
    type: int
    choices: [1, 2, 3, 4]
    default: 3
  run_seconds:
    description:
      - Longest time for the diagnostic. Then it is ended and the verdict is V(unknown).
      - By default C(dcgm_seconds_level1) to C(dcgm_seconds_level4) of O(limits), 300, 1800, 3600 and 10800 seconds.
    type: float
  required_tests:
    description:
      - Tests that must have run, by the name that any version of DCGM gives them, such as V(memory) or V(GPU Memory).
      - By default every test that DCGM names must have run, and not most of them may be skipped.
    type: list
    elements: str
  errors:
    description:
      - 'Overrides of the table of DCGM errors, by number, for example V({63: {severity: warning, action: none}}).'
      - Each value may hold C(severity) (V(info), V(warning), V(critical)) and C(action).
    type: dict
    default: {}
  pause_profiling:
    description: Whether to pause the exporter's profiling metrics, which hold a lock on what some tests need.
    type: bool
    default: true
  retry:
    description: Whether to run a test once more that is known to fail right after another one.
    type: bool
    default: true
  cool_down_seconds:
    description: The pause before that. By default what is known to be enough for that test.
    type: float
requirements:
  - dcgmi (package datacenter-gpu-manager), and a host engine that runs or that it can start
seealso:
  - module: kentino.gpu.gpu_burn
  - module: kentino.gpu.gate
"""

EXAMPLES = r"""
- name: Run the medium diagnostic on all GPUs
  kentino.gpu.dcgm_diag:
    level: 2
    required_tests: [software, memory, pcie]
    expected:
      count: 8
  register: diag

- name: Stop unless it is clean
  kentino.gpu.gate:
    results: "{{ [diag] }}"
    required: [dcgm]
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
  description: One entry, V(dcgm).
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Name of the check.
      type: str
      sample: dcgm
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
      sample: 8 tests ran on 8 GPUs
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
      sample: dcgm
    code:
      description: Stable name of the kind of finding.
      type: str
      sample: dcgm.52
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
      sample: "memory on GPU 3 failed: Found 17 faulty memory elements (FAULTY_MEMORY)"
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
  description: Of V(dcgm) how many tests ran and how many GPUs were tested.
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
    dcgm:
      description: Of this check.
      type: dict
      contains:
        argv:
          description: What was run, or would be in check mode.
          type: list
          elements: str
        level:
          description: How much was tested.
          type: int
        gpus:
          description: Indexes of the GPUs that were to be tested.
          type: list
          elements: int
        runs:
          description:
            - The run and, where a test was run again, that one. Each with C(argv), C(outcome), C(exit_status), C(wall_seconds),
              C(dcgm_version), C(tests) with the status by GPU, and C(output_tail) where the answer could not be read.
          type: list
          elements: dict
        simulated:
          description: Whether the GPUs are simulated ones.
          type: bool
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.kentino.gpu.plugins.module_utils._check import dcgm, gpu, under_load
from ansible_collections.kentino.gpu.plugins.module_utils._report.model import report


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "level": {"type": "int", "choices": list(dcgm.LEVELS), "default": 3},
            "run_seconds": {"type": "float"},
            "required_tests": {"type": "list", "elements": "str"},
            "errors": {"type": "dict", "default": {}},
            "pause_profiling": {"type": "bool", "default": True},
            "retry": {"type": "bool", "default": True},
            "cool_down_seconds": {"type": "float"},
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
        options = dcgm.Options(**module.params)
        check, facts = dcgm.plan(options) if module.check_mode else dcgm.run(options)
    except ValueError as exc:
        module.fail_json(msg=str(exc))
    module.exit_json(**report([check], simulated=facts["simulated"], facts={dcgm.NAME: facts}))


if __name__ == "__main__":
    main()
