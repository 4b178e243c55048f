#!/usr/bin/python
# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: health_info
short_description: Run the passive health checks of a GPU node in one call
version_added: 0.1.0
author:
  - Kentino (@kentino)
description:
  - Runs the chosen checks that read and do not load the node, so that a run over many nodes costs about what a ping costs.
  - V(gpu) reads and judges every GPU (see M(kentino.gpu.gpu_info)), V(kernel_log) the kernel's lines
    (see M(kentino.gpu.kernel_log_info)).
  - A bad GPU never fails this task. Gate on RV(verdict), with the P(kentino.gpu.healthy#test) test or with the
    M(kentino.gpu.gate) action.
extends_documentation_fragment:
  - kentino.gpu._attributes.info
  - kentino.gpu._checks.common
  - kentino.gpu._checks.gpu
  - kentino.gpu._checks.kernel_log
options:
  checks:
    description: The checks to run. One that is left out is reported as V(skip).
    type: list
    elements: str
    choices: [gpu, kernel_log]
    default: [gpu, kernel_log]
  gpu_source:
    description: Where to read the GPUs, see O(kentino.gpu.gpu_info#module:source).
    type: str
    choices: [auto, nvml, nvidia_smi]
    default: auto
  kernel_log_source:
    description: Where to read the kernel log, see O(kentino.gpu.kernel_log_info#module:source).
    type: str
    choices: [auto, journal, kmsg, file]
    default: auto
  kernel_log_paths:
    description: Files to read with O(kernel_log_source=file).
    type: list
    elements: str
    default: []
  details:
    description:
      - Whether RV(facts) also holds every value of every GPU and every event of the log.
      - Findings carry their own evidence without it, and a run over many nodes is quicker.
    type: bool
    default: false
requirements:
  - pynvml (from nvidia-ml-py) or nvidia-smi on the node
seealso:
  - module: kentino.gpu.gate
  - plugin: kentino.gpu.healthy
    plugin_type: test
"""

EXAMPLES = r"""
- name: Check the node
  kentino.gpu.health_info:
    expected:
      count: 8
    state_path: /var/lib/kentino-gpu/state.json
  register: health

- name: Stop unless it is fit
  kentino.gpu.gate:
    results: "{{ [health] }}"
    required: [gpu, kernel_log]
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
  sample: reseat
checks:
  description: One entry per check.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Name of the check.
      type: str
      sample: gpu
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
      sample: 8 GPUs read through nvml
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
      sample: gpu
    code:
      description: Stable name of the kind of finding.
      type: str
      sample: xid.79
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
      sample: Xid 79, GPU has fallen off the bus
    action:
      description: What to do.
      type: str
      sample: reseat
    advice:
      description: The next step in words.
      type: str
    evidence:
      description: The lines or numbers seen.
      type: list
      elements: str
    count:
      description: How often it was seen; a lower bound where the kernel suppressed lines.
      type: int
      sample: 1
    first:
      description: When it was first seen.
      type: str
    last:
      description: When it was last seen.
      type: str
metrics:
  description: Numbers by check.
  returned: success
  type: dict
simulated:
  description: Whether the node is a simulated one.
  returned: success
  type: bool
  sample: false
facts:
  description: What each check rests on, by its name.
  returned: success
  type: dict
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.kentino.gpu.plugins.module_utils._check import gpu, health, kernel_log


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "checks": {"type": "list", "elements": "str", "choices": list(health.CHECKS), "default": list(health.CHECKS)},
            "gpu_source": {"type": "str", "choices": list(gpu.SOURCES), "default": "auto"},
            "expected": {"type": "dict", "default": {}},
            "limits": {"type": "dict", "default": {}},
            "kernel_log_source": {"type": "str", "choices": list(kernel_log.SOURCES), "default": "auto"},
            "kernel_log_paths": {"type": "list", "elements": "str", "default": []},
            "details": {"type": "bool", "default": False},
            "xid_policy": {"type": "dict", "default": {}},
            "warning_hours": {"type": "float", "default": 24},
            "state_path": {"type": "path"},
            "deadline_seconds": {"type": "float", "default": 20},
        },
        supports_check_mode=True,
    )
    params = module.params
    shared = {
        "state_path": params["state_path"],
        "deadline_seconds": params["deadline_seconds"],
        "save_state": not module.check_mode,
    }
    try:
        result = health.run(
            params["checks"],
            gpu.Options(source=params["gpu_source"], expected=params["expected"], limits=params["limits"], **shared),
            kernel_log.Options(
                source=params["kernel_log_source"],
                paths=params["kernel_log_paths"],
                policy={name: params[name] for name in ("xid_policy", "warning_hours")},
                **shared,
            ),
            details=params["details"],
        )
    except ValueError as exc:
        module.fail_json(msg=str(exc))
    module.exit_json(**result)


if __name__ == "__main__":
    main()
