#!/usr/bin/python
# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: preflight_progress
short_description: Print how far a preflight is on all hosts, and wait
version_added: 0.1.0
author:
  - Kentino (@kentino)
description:
  - Prints one line for each host of the play that runs the step. It tells how far it is, the hottest GPU and the errors so far.
  - Then it waits until it is time to ask the hosts again, unless none of them runs the step any more.
  - Give the task C(run_once).
extends_documentation_fragment:
  - kentino.gpu._attributes.action
options:
  variable:
    description: Name under which each host registered the result of M(kentino.gpu.preflight_status_info).
    type: str
    required: true
  step:
    description: The step that is told.
    type: str
    required: true
  every_seconds:
    description: Longest time from one print to the next, what it takes to ask the hosts included. Never more than 30 are waited.
    type: float
    default: 20
  last:
    description: When this task last ended, as in RV(at).
    type: float
    default: 0
seealso:
  - module: kentino.gpu.preflight_status_info
"""

EXAMPLES = r"""
- name: Show how far all are
  kentino.gpu.preflight_progress:
    variable: burn_status
    step: burn
  run_once: true
"""

RETURN = r"""
lines:
  description: What was printed.
  returned: success
  type: list
  elements: str
running:
  description: How many hosts still run the step.
  returned: success
  type: int
at:
  description: When this task ended, in seconds since 1970.
  returned: success
  type: float
"""
