#!/usr/bin/python
# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: training_env_info
short_description: Tell with which environment training starts on a node
version_added: 0.1.0
author:
  - Kentino (@kentino)
description:
  - Works out which variables of PyTorch, NCCL and CUDA a training process on this node should start with, by the version of PyTorch, and
    holds them against what login shells, systemd units and containers are given.
  - Finds old names (such as C(NCCL_ASYNC_ERROR_HANDLING)), misspelt ones, what somebody set to look for a fault and forgot, and settings
    that win over ours, in profiles, environment files, units, C(nccl.conf), the homes of the users and the running processes.
  - With O(ask) it starts a login shell and a transient unit that do nothing but print their environment. Nothing is changed on the node.
  - A finding never fails this task. Gate on RV(verdict), with the P(kentino.gpu.healthy#test) test or with the
    M(kentino.gpu.gate) action.
extends_documentation_fragment:
  - kentino.gpu._attributes.info
options:
  torch_version:
    description:
      - The version of PyTorch that the names are for. An empty string asks O(torch_python).
      - Where neither tells, every name is taken that a release from 2.2 on reads.
    type: str
    default: ""
  torch_python:
    description: A Python whose installed PyTorch decides about the names.
    type: str
    default: ""
  dump_path:
    description: Folder for the dumps of the flight recorder. An empty string leaves the place to PyTorch.
    type: str
    default: /var/lib/kentino-gpu/flight-recorder
  buffer_size:
    description: How many collectives the flight recorder of each rank keeps.
    type: int
    default: 20000
  ranks:
    description: How many ranks of one job run on this node. With V(0) as many as it has GPUs.
    type: int
    default: 0
  allocator:
    description: Settings of PyTorch's allocator. An empty string leaves them alone.
    type: str
    default: expandable_segments:True
  nccl:
    description: 'More variables for NCCL, such as V({NCCL_SOCKET_IFNAME: "=eth0"}).'
    type: dict
    default: {}
  p2p:
    description:
      - Whether NCCL may use peer-to-peer transfers. V(measured) takes what O(nccl_result) or else the last preflight of this node found
        to work better, and sets nothing where that is not known.
      - V(default) leaves it to NCCL, V(off) sets C(NCCL_P2P_DISABLE=1), the others are values of C(NCCL_P2P_LEVEL).
    type: str
    choices: [measured, default, 'off', LOC, NVL, PIX, PXB, PHB, SYS]
    default: measured
  nccl_result:
    description: A registered result of M(kentino.gpu.nccl_test).
    type: dict
    default: {}
  preflight_path:
    description: Where the preflight keeps its results on the node.
    type: path
    default: /var/lib/kentino-gpu/preflight
  extra:
    description: Variables that win over all others. With null a variable is left out.
    type: dict
    default: {}
  profile_path:
    description: The profile of login shells that holds the variables.
    type: path
    default: /etc/profile.d/kentino-gpu.sh
  unit_environment_path:
    description: The environment file for systemd units.
    type: path
    default: /etc/kentino-gpu/training.env
  container_environment_path:
    description: The environment file for containers.
    type: path
    default: /etc/kentino-gpu/container.env
  units:
    description: The units that get the environment file.
    type: list
    elements: str
    default: []
  paths:
    description: More files to look at, such as job scripts and compose files, patterns allowed.
    type: list
    elements: str
    default: []
  users:
    description: Whether to look at the profiles in the homes of the users.
    type: bool
    default: true
  processes:
    description: Whether to look at the environments of running processes. That of other users is only seen by root.
    type: bool
    default: true
  ask:
    description: What to start, to see what it gets.
    type: list
    elements: str
    choices: [login_shell, unit]
    default: []
  user:
    description: The user whose login shell is started.
    type: str
    default: root
  memlock:
    description: How much memory a process must be allowed to lock, in kB, or V(unlimited). An empty string does not judge it.
    type: str
    default: ""
  shm_bytes:
    description: How large /dev/shm must be at least. V(0) does not judge it.
    type: int
    default: 0
  deadline_seconds:
    description:
      - Longest time for each thing asked of the node. What has not answered by then is killed with all its children.
      - The verdict is then V(unknown) and the finding names it.
    type: float
    default: 20
seealso:
  - module: kentino.gpu.nccl_test
  - module: kentino.gpu.gate
"""

EXAMPLES = r"""
- name: Look for old names in profiles and job scripts
  kentino.gpu.training_env_info:
    torch_version: 2.9.1
    paths: [/srv/jobs/*.sbatch]
  register: training_env

- name: Stop unless login shells and units have the profile
  kentino.gpu.training_env_info:
    ask: [login_shell, unit]
    memlock: unlimited
  register: training_env
  failed_when: training_env is not kentino.gpu.healthy(worst='warn')
"""

RETURN = r"""
verdict:
  description: The worst verdict among RV(checks). V(unknown) means that it could not be told, and opens no gate.
  returned: success
  type: str
  choices: [skip, pass, warn, unknown, fail]
  sample: warn
action:
  description: What to do first, V(none) when nothing is to be done.
  returned: success
  type: str
  sample: look_at_code
checks:
  description: One entry, V(training_env).
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Name of the check.
      type: str
      sample: training_env
    verdict:
      description: What it concluded.
      type: str
      sample: warn
    action:
      description: What to do first.
      type: str
      sample: look_at_code
    evidence:
      description: What was really seen, in words. Empty when nothing was.
      type: str
      sample: 8 variables for PyTorch 2.9.1; 1 files and processes that set others
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
      sample: training_env
    code:
      description: Stable name of the kind of finding.
      type: str
      sample: training_env.deprecated
    severity:
      description: V(info), V(warning) or V(critical).
      type: str
      sample: warning
    verdict:
      description: What this finding alone would make of the verdict.
      type: str
      sample: warn
    subject:
      description: What it is about. C(label) is for people, C(keys) are the names that a waiver may use.
      type: dict
      sample: {kind: file, name: "/etc/profile.d/nccl.sh:3", label: "file /etc/profile.d/nccl.sh:3"}
    message:
      description: One line.
      type: str
      sample: NCCL_ASYNC_ERROR_HANDLING is an old name since PyTorch 2.2; the new one is TORCH_NCCL_ASYNC_ERROR_HANDLING
    action:
      description: What to do.
      type: str
      sample: look_at_code
    advice:
      description: The next step in words.
      type: str
    evidence:
      description: The setting that was seen.
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
  description: Of V(training_env) the number of variables and of old names.
  returned: success
  type: dict
simulated:
  description: Whether the node is a simulated one.
  returned: success
  type: bool
  sample: false
facts:
  description: What it rests on.
  returned: success
  type: dict
  contains:
    training_env:
      description: Of this check.
      type: dict
      contains:
        variables:
          description: The variables that training should start with, by name.
          type: dict
          sample: {CUDA_DEVICE_ORDER: PCI_BUS_ID, TORCH_NCCL_ASYNC_ERROR_HANDLING: "1"}
        torch_version:
          description: The version of PyTorch that the names are for.
          type: str
          sample: 2.9.1
        torch_source:
          description: V(given), or the Python that told it.
          type: str
        notes:
          description: What to know of the choice of names.
          type: list
          elements: str
        p2p:
          description: The setting, what was measured, in which run, and the variables that come of it.
          type: dict
        files:
          description: The three files of ours, whether each is V(same), V(differs) or V(absent), and how it differs.
          type: list
          elements: dict
        dump:
          description: The folder for dumps, its free room and what one dump of all ranks takes.
          type: dict
        shm_bytes:
          description: The size of /dev/shm.
          type: int
        elsewhere:
          description: Every setting that others made.
          type: list
          elements: dict
        asked:
          description: What the started processes have.
          type: list
          elements: dict
        simulated:
          description: Whether the node is a simulated one.
          type: bool
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.kentino.gpu.plugins.module_utils._check import training_env
from ansible_collections.kentino.gpu.plugins.module_utils._knowledge.training_env import P2P
from ansible_collections.kentino.gpu.plugins.module_utils._report.model import report


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "torch_version": {"type": "str", "default": ""},
            "torch_python": {"type": "str", "default": ""},
            "dump_path": {"type": "str", "default": "/var/lib/kentino-gpu/flight-recorder"},
            "buffer_size": {"type": "int", "default": 20000},
            "ranks": {"type": "int", "default": 0},
            "allocator": {"type": "str", "default": "expandable_segments:True"},
            "nccl": {"type": "dict", "default": {}},
            "p2p": {"type": "str", "choices": list(P2P), "default": "measured"},
            "nccl_result": {"type": "dict", "default": {}},
            "preflight_path": {"type": "path", "default": "/var/lib/kentino-gpu/preflight"},
            "extra": {"type": "dict", "default": {}},
            "profile_path": {"type": "path", "default": "/etc/profile.d/kentino-gpu.sh"},
            "unit_environment_path": {"type": "path", "default": "/etc/kentino-gpu/training.env"},
            "container_environment_path": {"type": "path", "default": "/etc/kentino-gpu/container.env"},
            "units": {"type": "list", "elements": "str", "default": []},
            "paths": {"type": "list", "elements": "str", "default": []},
            "users": {"type": "bool", "default": True},
            "processes": {"type": "bool", "default": True},
            "ask": {"type": "list", "elements": "str", "choices": list(training_env.ASK), "default": []},
            "user": {"type": "str", "default": "root"},
            "memlock": {"type": "str", "default": ""},
            "shm_bytes": {"type": "int", "default": 0},
            "deadline_seconds": {"type": "float", "default": 20},
        },
        supports_check_mode=True,
    )
    try:
        check, facts = training_env.run(training_env.Options(**module.params))
    except ValueError as exc:
        module.fail_json(msg=str(exc))
    module.exit_json(**report([check], simulated=facts["simulated"], facts={training_env.NAME: facts}))


if __name__ == "__main__":
    main()
