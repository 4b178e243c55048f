#!/usr/bin/python
# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: driver_info
short_description: Read which GPUs, kernels and NVIDIA driver a node has, and whether they fit together
version_added: 0.1.0
author:
  - Kentino (@kentino)
description:
  - Reads the PCI bus, the kernel module that is loaded and those that are built, the version of the user-space library, the headers
    of the running kernel and of the one that boots next, Secure Boot and the keys enrolled for it, and traces of a driver that no
    package brought.
  - The driver itself is not asked, so that it answers on a bare node and on one whose driver hangs.
  - A driver that was updated and not yet loaded is reported as a reboot that is pending, not as a bad GPU.
  - A bad node never fails this task. Gate on RV(verdict), with the P(kentino.gpu.healthy#test) test or with the
    M(kentino.gpu.gate) action.
extends_documentation_fragment:
  - kentino.gpu._attributes.info
options:
  deadline_seconds:
    description: Longest time for each tool that is asked (C(modinfo), C(dpkg-query), C(rpm)).
    type: float
    default: 20
seealso:
  - module: kentino.gpu.gpu_info
  - plugin: kentino.gpu.healthy
    plugin_type: test
"""

EXAMPLES = r"""
- name: See what the node has
  kentino.gpu.driver_info:
  register: driver

- name: Reboot where a new driver waits for it
  ansible.builtin.reboot:
  when: driver.reboot_required

- name: Say what is wrong
  ansible.builtin.debug:
    msg: "{{ driver.findings | map(attribute='message') }}"
"""

RETURN = r"""
verdict:
  description: The worst verdict among RV(checks). V(unknown) means that it could not be told, V(skip) that there is no GPU.
  returned: success
  type: str
  choices: [skip, pass, warn, unknown, fail]
  sample: pass
action:
  description: What to do first, V(none) when nothing is to be done.
  returned: success
  type: str
  sample: reboot_node
checks:
  description: One entry, C(driver).
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Name of the check.
      type: str
      sample: driver
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
      sample: 8 GPUs on the PCI bus; module 580.95.05, library 580.95.05
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
      sample: driver
    code:
      description: Stable name of the kind of finding.
      type: str
      sample: driver.version_mismatch
    severity:
      description: V(info), V(warning) or V(critical).
      type: str
      sample: critical
    verdict:
      description: What this finding alone would make of the verdict.
      type: str
      sample: fail
    subject:
      description: What it is about, here always the node.
      type: dict
      sample: {kind: node, label: node}
    message:
      description: One line, with what was found and what was expected.
      type: str
      sample: "reboot pending: the module 580.95.05 is loaded, the library is 580.105.08"
    action:
      description: What to do.
      type: str
      sample: reboot_node
    advice:
      description: The next step in words.
      type: str
    evidence:
      description: The files or lines seen.
      type: list
      elements: str
    count:
      description: How often it was seen.
      type: int
      sample: 1
    first:
      description: Always V(null) here.
      type: str
    last:
      description: Always V(null) here.
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
gpus:
  description: NVIDIA GPUs on the PCI bus, without those that are handed to virtual machines.
  returned: success
  type: list
  elements: dict
  contains:
    bus_id:
      description: PCI address without the function.
      type: str
      sample: "0000:17:00"
    device_id:
      description: Vendor and device.
      type: str
      sample: "10de:2330"
    driver:
      description: The kernel module that holds it, if any.
      type: str
      sample: nvidia
nvswitches:
  description: PCI addresses of NVSwitches. Empty where the switches are reached over NVLink 5 only, see RV(nvlink5).
  returned: success
  type: list
  elements: str
  sample: ["0000:07:00"]
nvlink5:
  description: Whether the GPUs are joined by NVLink 5, whose switches are no PCI devices of the host.
  returned: success
  type: bool
  sample: false
compute_capabilities:
  description: Of the GPUs on the bus, each once, by their PCI ids.
  returned: success
  type: list
  elements: str
  sample: ["9.0"]
unknown_devices:
  description: PCI ids of GPUs that this version does not know; RV(compute_capabilities) says nothing of them.
  returned: success
  type: list
  elements: str
  sample: []
flavour:
  description: The kernel modules that fit all GPUs, V(open) or V(proprietary); V(null) where there is no GPU or none fits all.
  returned: success
  type: str
  sample: open
needs:
  description: Flavours of kernel modules without which one of the GPUs does not work.
  returned: success
  type: list
  elements: str
  sample: [open]
module:
  description: What is loaded, as C(loaded) (a version or V(null)) and C(flavour) (V(open), V(proprietary) or V(null)).
  returned: success
  type: dict
  sample: {loaded: 580.95.05, flavour: open}
library:
  description: Version of the user-space library, V(null) where there is none.
  returned: success
  type: str
  sample: 580.95.05
kernels:
  description: Releases of the kernel that is C(running) and of the one that C(next_boot) starts.
  returned: success
  type: dict
  sample: {running: 6.1.0-13-amd64, next_boot: 6.1.0-15-amd64}
headers:
  description: For each of RV(kernels) whether its headers are there to build modules with.
  returned: success
  type: dict
  sample: {6.1.0-13-amd64: true, 6.1.0-15-amd64: false}
built:
  description: For each of RV(kernels) the version of the module that is built for it, V(null) where none is.
  returned: success
  type: dict
  sample: {6.1.0-13-amd64: 580.95.05, 6.1.0-15-amd64: null}
signed:
  description: For each of RV(kernels) whether the module is signed, whoever's key that is; V(null) where it cannot be told.
  returned: success
  type: dict
  sample: {6.1.0-13-amd64: true, 6.1.0-15-amd64: null}
secure_boot:
  description: Whether Secure Boot is on; V(null) where it cannot be told.
  returned: success
  type: bool
  sample: false
mok_enrolled:
  description: Whether the key with which DKMS signs is enrolled; V(null) on a machine without UEFI.
  returned: success
  type: bool
  sample: null
mok_certificate:
  description: The certificate of that key, V(null) where there is none.
  returned: success
  type: str
  sample: /var/lib/dkms/mok.pub
nouveau:
  description: Whether the module nouveau is loaded.
  returned: success
  type: bool
  sample: false
foreign:
  description: V(runfile), V(library) or V(module) where a driver is there that no package brought, V(null) otherwise.
  returned: success
  type: str
  sample: null
foreign_traces:
  description: The files that tell so.
  returned: success
  type: list
  elements: str
  sample: []
reboot_required:
  description: Whether the module that is loaded is another than the one that is installed.
  returned: success
  type: bool
  sample: false
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.kentino.gpu.plugins.module_utils._check import driver
from ansible_collections.kentino.gpu.plugins.module_utils._report.model import report


def main() -> None:
    module = AnsibleModule(argument_spec={"deadline_seconds": {"type": "float", "default": 20}}, supports_check_mode=True)
    try:
        check, facts = driver.run(module.params["deadline_seconds"])
    except ValueError as exc:
        module.fail_json(msg=str(exc))
    module.exit_json(**report([check], **facts))


if __name__ == "__main__":
    main()
