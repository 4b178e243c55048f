#!/usr/bin/python
# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: kernel_log_info
short_description: Read the kernel log and judge what it says about GPUs, PCIe, memory and disks
version_added: 0.1.0
author:
  - Kentino (@kentino)
description:
  - Reads the kernel's own lines of the running boot and finds Xid and SXid events, GPUs lost without one, GSP time-outs, PCIe errors,
    the OOM killer, NVMe and file-system errors.
  - Events of one fault are folded into one incident. An Xid that an application alone can cause is reported and opens no incident
    against the GPU.
  - A bad GPU never fails this task. Gate on RV(verdict), with the P(kentino.gpu.healthy#test) test or with the
    M(kentino.gpu.gate) action.
extends_documentation_fragment:
  - kentino.gpu._attributes.info
  - kentino.gpu._checks.common
  - kentino.gpu._checks.kernel_log
options:
  source:
    description: Where to read. V(auto) takes the journal, or C(/dev/kmsg) where the journal cannot tell.
    type: str
    choices: [auto, journal, kmsg, file]
    default: auto
  paths:
    description: Files to read, patterns allowed, compressed ones too. Needed with O(source=file).
    type: list
    elements: str
    default: []
  rotated:
    description: Whether to read older generations of O(paths) too (C(.1), C(.2.gz)).
    type: bool
    default: false
  boot:
    description:
      - Which boots to read. Events of earlier boots are reported and do not fail the running one.
      - With O(source=file) the log may be of any machine and time. V(current) judges its last boot, V(all) each of them.
    type: str
    choices: [current, all]
    default: current
  since:
    description: Read no older lines than this, in the form that C(journalctl --since) takes.
    type: str
  cursor:
    description:
      - Read only what came after this place in the journal, as C(facts.kernel_log.cursor) of an earlier run gave it.
      - O(state_path) does the same without the caller having to keep the cursor.
    type: str
  power_domains:
    description:
      - Which PCI addresses hang on which power supply. When all GPUs of one are lost together, the power supply is named.
    type: dict
    default: {}
  driver_version:
    description: The NVIDIA driver's version, which tells how NVLink 5 errors are to be decoded. Without it the worse reading is taken.
    type: str
seealso:
  - module: kentino.gpu.health_info
  - plugin: kentino.gpu.healthy
    plugin_type: test
"""

EXAMPLES = r"""
- name: Read what is new in the kernel log
  kentino.gpu.kernel_log_info:
    state_path: /var/lib/kentino-gpu/state.json
  register: kernel_log

- name: Read a customer's log file, older generations too
  kentino.gpu.kernel_log_info:
    source: file
    paths: [/var/log/kern.log]
    rotated: true
    boot: all
  register: kernel_log

- name: Show the incidents
  ansible.builtin.debug:
    var: kernel_log.facts.kernel_log.incidents
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
      sample: kernel_log
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
      sample: 1432 kernel log lines read from journal
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
      sample: kernel_log
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
  description: Events, incidents and the cursor to go on from, under C(kernel_log).
  returned: success
  type: dict
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.kentino.gpu.plugins.module_utils._check import kernel_log
from ansible_collections.kentino.gpu.plugins.module_utils._report.model import report

POLICY = ("xid_policy", "warning_hours", "power_domains", "driver_version")


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "source": {"type": "str", "choices": list(kernel_log.SOURCES), "default": "auto"},
            "paths": {"type": "list", "elements": "str", "default": []},
            "rotated": {"type": "bool", "default": False},
            "boot": {"type": "str", "choices": ["current", "all"], "default": "current"},
            "since": {"type": "str"},
            "cursor": {"type": "str"},
            "power_domains": {"type": "dict", "default": {}},
            "driver_version": {"type": "str"},
            "xid_policy": {"type": "dict", "default": {}},
            "warning_hours": {"type": "float", "default": 24},
            "state_path": {"type": "path"},
            "deadline_seconds": {"type": "float", "default": 20},
        },
        supports_check_mode=True,
    )
    params = dict(module.params)
    policy = {name: params.pop(name) for name in POLICY}
    try:
        check, facts = kernel_log.run(kernel_log.Options(policy=policy, save_state=not module.check_mode, **params))
    except ValueError as exc:
        module.fail_json(msg=str(exc))
    module.exit_json(**report([check], simulated=facts["simulated"], facts={kernel_log.NAME: facts}))


if __name__ == "__main__":
    main()
