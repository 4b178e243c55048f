#!/usr/bin/python
# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: gate
short_description: Stop the play unless the check modules proved the node fit
version_added: 0.1.0
author:
  - Kentino (@kentino)
description:
  - Takes the registered results of kentino.gpu check modules, one or many, and opens only on positive evidence. At least one check has
    measured something, every check has a verdict that O(worst) allows, every check named in O(required) has run.
  - Everything else fails the task, which stops the host. That includes the verdict V(unknown), a result without checks, a result that
    does not agree with itself, and whatever is no result at all, such as that of a task that failed, was skipped or still runs. The
    message names what is to be done first.
  - A check that was skipped because it was not asked for is ignored, unless it is in O(required) or no other check ran.
  - With O(fleet=true) it judges the hosts of the play together and brakes when too many are bad at the same time.
extends_documentation_fragment:
  - kentino.gpu._attributes.action
options:
  results:
    description:
      - Registered results of any kentino.gpu check modules, as a list. One result alone is taken as a list of one. The results of loops,
        and lists in lists, are taken apart.
      - A variable that is not defined fails the task before the gate sees it. Name such variables in O(variables) instead.
      - An item that defaults to C(omit) is dropped by Ansible, and the gate cannot miss what it was never shown. Name the check in
        O(required).
      - Exactly one of O(results) and O(variables) is needed.
    type: raw
  variables:
    description:
      - Names of registered variables that hold such results.
      - A variable that is not defined counts as V(unknown), because the task that registers it did not run.
      - With O(fleet=true) they are read from every host that is judged. They must then be registered or set as facts, or come from the
        inventory. Variables of the play or the task are not seen.
    type: list
    elements: str
  worst:
    description: The worst verdict to accept.
    type: str
    choices: [pass, warn]
    default: pass
  required:
    description: Names of checks that must have run and be acceptable, as in RV(kentino.gpu.health_info#module:checks).
    type: list
    elements: str
    default: []
  waivers:
    description:
      - Findings that are accepted, each with a reason and until a date. Keep them in the inventory, under version control.
      - A waiver that has expired leaves the gate shut and is named in the message. One that is unused or runs for more than a year is
        named in RV(notes). A waiver that is incomplete fails the task.
      - A check that measured nothing stays V(unknown) whatever is waived.
    type: list
    elements: dict
    default: []
    suboptions:
      code:
        description: The code of a finding. It may hold V(*), for example V(gpu.pcie_*).
        type: str
        required: true
      subject:
        description:
          - Serial, UUID, PCI address or name of what the finding is about, in upper or lower case, or V(*) for all.
          - Prefer a serial, because addresses and indexes move. Put it in quotes, because YAML reads some of these as numbers.
        type: str
        required: true
      reason:
        description: Why the finding is accepted.
        type: str
        required: true
      until:
        description:
          - The last day on which the waiver holds, as V(YYYY-MM-DD), or a time such as V(2026-12-31T18:00+01:00).
          - Without a time zone the controller's clock counts.
        type: str
        required: true
      host:
        description: Name of the host. It may hold V(*). Without it the waiver holds on all hosts.
        type: str
      by:
        description: Who accepted it.
        type: str
      unknown:
        description: Whether it may cover a finding whose verdict is V(unknown) too.
        type: bool
        default: false
  fleet:
    description:
      - Judge the hosts of the play together instead of this host. Meant for a task with C(run_once), whose failure stops all hosts.
      - Judged are the hosts of this batch (C(serial)), those that dropped out of the play, and those of earlier batches. A host without a
        result counts as bad.
      - O(worst), O(required) and O(waivers) are then those of the one host that runs the task. A waiver names its host in C(host).
      - As long as the brake is not reached the task passes and shows the table. Each bad host is then stopped by its own gate.
    type: bool
    default: false
  max_bad_pct:
    description: With O(fleet=true), the share of bad hosts in percent up to which the run goes on.
    type: float
    default: 25
  min_bad_hosts:
    description: With O(fleet=true), the number of bad hosts below which the run goes on whatever their share.
    type: int
    default: 2
seealso:
  - plugin: kentino.gpu.healthy
    plugin_type: test
  - module: kentino.gpu.health_info
"""

EXAMPLES = r"""
- name: Check the node
  kentino.gpu.health_info:
    expected:
      count: 8
  register: health

- name: Stop unless the node is fit
  kentino.gpu.gate:
    results: "{{ health }}"
    required: [gpu, kernel_log]

- name: Accept a slow link until the new riser is there
  kentino.gpu.gate:
    variables: [health, burn]
    worst: warn
    required: [gpu, gpu_burn]
    waivers:
      - code: gpu.pcie_width
        subject: "1654922003821"
        host: gpu-07
        reason: riser ordered, runs at x8 until then
        until: 2026-12-31
        by: operations

- name: Stop the whole run when too many nodes are bad at once
  kentino.gpu.gate:
    fleet: true
    variables: [health]
    max_bad_pct: 20
  run_once: true
"""

RETURN = r"""
open:
  description:
    - Whether the gate is open. The task fails when it is not.
    - With O(fleet=true), whether the run may go on. Single hosts may still be bad.
  returned: always
  type: bool
  sample: false
msg:
  description: One sentence, what is to be done first.
  returned: always
  type: str
  sample: "gate shut: reseat GPU 3 0000:c1:00 serial 1654922003821: it has fallen off the bus (reseat the card and its riser); and 1 more"
verdict:
  description: The worst verdict that is left after waivers.
  returned: always
  type: str
  choices: [pass, warn, unknown, fail]
  sample: fail
action:
  description: What to do first, V(none) when nothing is to be done.
  returned: always
  type: str
  sample: reseat
reasons:
  description: One sentence for each thing that keeps the gate shut, worst first. Empty when it is open.
  returned: always
  type: list
  elements: str
notes:
  description: What does not keep the gate shut and should be known, such as waivers that are unused and checks that were skipped.
  returned: always
  type: list
  elements: str
findings:
  description:
    - The findings of all results, worst first, those that are waived last. See RV(kentino.gpu.health_info#module:findings).
    - Each names its C(host). One that is waived has C(waived) with C(reason), C(until) and C(by). One whose waiver has expired has
      C(waiver_expired).
    - What is wrong with the results themselves stands here too, with codes that begin with C(gate.). These cannot be waived.
  returned: always
  type: list
  elements: dict
table:
  description: The table that was shown, line by line.
  returned: always
  type: list
  elements: str
simulated:
  description: Whether a result comes from a simulated node. The table then says so in its first line.
  returned: always
  type: bool
hosts:
  description: C(open), C(verdict) and C(action) of every host that was judged, by name.
  returned: with O(fleet=true)
  type: dict
bad_hosts:
  description: The hosts whose own gate is shut.
  returned: with O(fleet=true)
  type: list
  elements: str
"""
