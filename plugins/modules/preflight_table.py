#!/usr/bin/python
# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: preflight_table
short_description: Print what a preflight measured on all hosts, and what the gate says
version_added: 0.1.0
author:
  - Kentino (@kentino)
description:
  - Prints one table for all hosts of the play. It has a row for each step with its verdict, how long its tool ran and its key figures,
    and below them the gate's word. Of a host that is shut the reasons follow, with what to do first.
  - Of more than a dozen hosts, those that are open get one line each.
  - A host that dropped out of the play is told as such.
  - Give the task C(run_once), and put it before the task that stops hosts.
extends_documentation_fragment:
  - kentino.gpu._attributes.action
options:
  results:
    description: Name of the variable in which each host has the results of its steps, a dictionary by name of the step.
    type: str
    required: true
  gate:
    description: Name under which each host registered the result of M(kentino.gpu.gate).
    type: str
    required: true
seealso:
  - module: kentino.gpu.gate
  - module: kentino.gpu.preflight_progress
"""

EXAMPLES = r"""
- name: Judge this host
  kentino.gpu.gate:
    results: "{{ preflight_results.values() | list }}"
  register: preflight_gate
  failed_when: false

- name: Show what was measured
  kentino.gpu.preflight_table:
    results: preflight_results
    gate: preflight_gate
  run_once: true

- name: Stop this host unless it is fit
  ansible.builtin.assert:
    that: preflight_gate.open
    fail_msg: "{{ preflight_gate.msg }}"
"""

RETURN = r"""
lines:
  description: What was printed.
  returned: success
  type: list
  elements: str
"""
