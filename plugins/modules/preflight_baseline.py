#!/usr/bin/python
# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: preflight_baseline
short_description: Hold what a preflight measured against earlier good runs of the same hardware
version_added: 0.1.0
author:
  - Kentino (@kentino)
description:
  - For most GPUs nobody has published what a good one reaches. With O(mode=learn) the first good runs are kept on the controller, and
    with O(mode=compare) later ones are held against their median.
  - Runs are comparable when PCI device ids, number of GPUs, branch of the driver and settings are the same. A simulated node is never
    compared with a real one.
  - Only the slow side is judged. A baseline needs three runs before it judges anything. At most 20 are kept, three of one host.
  - Give the task C(run_once). It judges all hosts of the play together.
options:
  path:
    description: The file on the controller. Keep it under version control. Required unless O(mode=off).
    type: path
  mode:
    description:
      - V(learn) adds the figures of hosts whose results all pass, unless they are slower than the middle of all, and compares too.
      - V(compare) changes nothing. V(off) reports the check as skipped.
      - In check mode nothing is learned.
    type: str
    choices: [learn, compare, "off"]
    default: compare
  variable:
    description: Name of the variable of each host that holds its results by step (C(health), C(burn), C(nccl), C(dryrun)).
    type: str
    required: true
  tolerance_pct:
    description: How much slower than the median a run may be.
    type: float
    default: 10
  settings:
    description: What the dry run's time depends on beside the hardware, in words. Only equal ones are compared.
    type: str
    default: ""
attributes:
  action:
    description: Indicates this has a corresponding action plugin so some parts of the options can be executed on the controller.
    support: full
    details:
      - All of it runs on the controller. The host is not contacted.
  async:
    description: Supports being used with the C(async) keyword.
    support: none
  check_mode:
    description: Can run in C(check_mode) and return changed status prediction without modifying target.
    support: partial
    details:
      - It compares, and learns nothing.
  diff_mode:
    description: Will return details on what has changed (or possibly needs changing in C(check_mode)), when in diff mode.
    support: none
seealso:
  - module: kentino.gpu.gate
"""

EXAMPLES = r"""
- name: Compare with what was learned
  kentino.gpu.preflight_baseline:
    path: baseline.json
    variable: preflight_results
  run_once: true
  register: baseline

- name: Stop this host unless it is as fast as its like
  kentino.gpu.gate:
    results: "{{ [baseline.hosts[inventory_hostname]] }}"
"""

RETURN = r"""
hosts:
  description: A result for each host, as the check modules return it, with one check V(baseline).
  returned: success
  type: dict
"""
