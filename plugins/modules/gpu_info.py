#!/usr/bin/python
# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_info
short_description: Read every GPU and judge it against what is expected
version_added: 0.1.0
author:
  - Kentino (@kentino)
description:
  - Reads identity, memory, temperature, power, clocks, PCIe link, ECC, row remapping, NVLink, fabric, MIG and processes of every
    NVIDIA GPU through NVML, or through C(nvidia-smi) where the Python bindings are not installed, and judges them.
  - A bad GPU never fails this task. Gate on RV(verdict), with the P(kentino.gpu.healthy#test) test or with the
    M(kentino.gpu.gate) action.
extends_documentation_fragment:
  - kentino.gpu._attributes.info
  - kentino.gpu._checks.common
  - kentino.gpu._checks.gpu
options:
  source:
    description: Where to read. V(auto) takes NVML where C(pynvml) is installed, else C(nvidia-smi).
    type: str
    choices: [auto, nvml, nvidia_smi]
    default: auto
requirements:
  - pynvml (from nvidia-ml-py) or nvidia-smi on the node
seealso:
  - module: kentino.gpu.health_info
  - plugin: kentino.gpu.healthy
    plugin_type: test
"""

EXAMPLES = r"""
- name: Read the GPUs of a node that should have eight of them
  kentino.gpu.gpu_info:
    expected:
      count: 8
      pcie_width: 16
  register: gpus

- name: Stop on a bad GPU
  ansible.builtin.assert:
    that: gpus is kentino.gpu.healthy
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
      sample: gpu.pcie_width
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
      sample: link width x4, x16 expected
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
  description: The reading itself under C(gpu), its C(gpus) with one entry per GPU.
  returned: success
  type: dict
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.kentino.gpu.plugins.module_utils._check import gpu
from ansible_collections.kentino.gpu.plugins.module_utils._report.model import report


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "source": {"type": "str", "choices": list(gpu.SOURCES), "default": "auto"},
            "expected": {"type": "dict", "default": {}},
            "limits": {"type": "dict", "default": {}},
            "state_path": {"type": "path"},
            "deadline_seconds": {"type": "float", "default": 20},
        },
        supports_check_mode=True,
    )
    try:
        check, facts = gpu.run(gpu.Options(save_state=not module.check_mode, **module.params))
    except ValueError as exc:
        module.fail_json(msg=str(exc))
    module.exit_json(**report([check], simulated=facts["simulated"], facts={gpu.NAME: facts}))


if __name__ == "__main__":
    main()
