#!/usr/bin/python
# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: nccl_test
short_description: Let the GPUs work together and judge results and bandwidth
version_added: 0.1.0
author:
  - Kentino (@kentino)
description:
  - Runs a program of nccl-tests over all GPUs of the node, or through C(mpirun) over those of several nodes, and judges whether the
    results are right and how fast they came.
  - A run without its closing figures failed, whatever its table says. A run whose results were not checked is no proof.
  - The bandwidth is held against O(floor) at one message size. The average of the tool mixes it with sizes that are slow by nature.
  - On nodes whose GPUs are joined by PCIe only it is run with and without peer-to-peer transfers. The better setting is kept in
    RV(facts.nccl.best_environment), for the environment of the jobs. Peer-to-peer that hangs while it works without is a warning.
  - Over several nodes O(halve) looks for the node that makes it slow or fail.
  - A bad GPU never fails this task. Gate on RV(verdict), with the P(kentino.gpu.healthy#test) test or with the
    M(kentino.gpu.gate) action.
extends_documentation_fragment:
  - kentino.gpu._load.attributes
  - kentino.gpu._load.options
  - kentino.gpu._checks.gpu
options:
  collective:
    description: What to run. The program is this word with C(_perf) behind it.
    type: str
    choices: [all_reduce, all_gather, reduce_scatter, alltoall, broadcast, reduce, sendrecv, gather, scatter]
    default: all_reduce
  binary:
    description: The program. By default it is looked for on the PATH, in C(/opt/nccl-tests/build) and in C(/opt/nccl-tests).
    type: path
  min_bytes:
    description: Smallest message, a number of bytes or one with V(K), V(M) or V(G) behind it.
    type: str
    default: "8"
  max_bytes:
    description: Largest message.
    type: str
    default: 1G
  factor:
    description: Each message is so many times as large as the one before.
    type: int
    default: 2
  iterations:
    description: How often each message is measured. By default as the tool does, 20 times.
    type: int
  check:
    description: Whether results are compared with what they should be. Without it the verdict is a warning at best.
    type: bool
    default: true
  p2p:
    description:
      - Whether GPUs may read each other's memory. V(on) is NCCL's own choice, V(off) sets C(NCCL_P2P_DISABLE=1), V(both) tries both.
      - V(auto) tries both where all GPUs are PCIe cards without NVLink, and is V(on) elsewhere.
    type: str
    choices: [auto, 'on', 'off', both]
    default: auto
  floor:
    description: The bus bandwidth that must be reached.
    type: dict
    suboptions:
      value_gbps:
        description: GB/s.
        type: float
        required: true
      message_bytes:
        description: The message size that it holds for. It must be one of the sizes that are run.
        type: int
        required: true
      gpus:
        description: The number of GPUs that it holds for. With another number of ranks the verdict is V(unknown).
        type: int
      source:
        description: Where the figure comes from.
        type: str
      date:
        description: When it was read or measured.
        type: str
  run_seconds:
    description: Longest time for each run. Then it is ended and counts as hung.
    type: float
    default: 600
  hosts:
    description:
      - Nodes to run over through MPI, as C(name) or C(name:slots). Without slots each has as many ranks as this node has GPUs.
      - This node should be the first of them. Only its own GPUs are looked at, so check the others beforehand.
    type: list
    elements: str
    default: []
  mpirun:
    description: The launcher, of Open MPI.
    type: str
    default: mpirun
  mpi_arguments:
    description: More arguments for it, such as V([--mca, btl_tcp_if_include, eth0]).
    type: list
    elements: str
    default: []
  halve:
    description: Whether to run it over halves of O(hosts) when it is slow or fails, to find the bad node. Takes up to 24 runs more.
    type: bool
    default: false
requirements:
  - nccl-tests (https://github.com/NVIDIA/nccl-tests), built for the GPUs of the node, with MPI for O(hosts)
seealso:
  - module: kentino.gpu.gpu_burn
  - module: kentino.gpu.gate
"""

EXAMPLES = r"""
- name: Measure the all-reduce of eight H100
  kentino.gpu.nccl_test:
    max_bytes: 16G
    floor:
      value_gbps: 440
      message_bytes: 17179869184
      gpus: 8
      source: oracle-quickstart/oci-hpc, active_healthcheck.py
      date: "2026-11-29"
  register: nccl

- name: Find the slow node of four
  kentino.gpu.nccl_test:
    hosts: ["node1:8", "node2:8", "node3:8", "node4:8"]
    max_bytes: 16G
    floor: {value_gbps: 300, message_bytes: 17179869184}
    halve: true
  run_once: true
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
  description: One entry, V(nccl).
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Name of the check.
      type: str
      sample: nccl
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
      sample: "1 runs, 28 message sizes measured and their results checked"
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
      sample: nccl
    code:
      description: Stable name of the kind of finding.
      type: str
      sample: nccl.slow
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
      sample: {kind: node, label: node}
    message:
      description: One line, with the measured and the allowed value.
      type: str
      sample: "bus bandwidth 237.3 GB/s, at least 440 GB/s at 17179869184 bytes expected"
    action:
      description: What to do.
      type: str
      sample: look_at_code
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
  description: Of V(nccl) the bus bandwidth at the size of O(floor) or at the largest one, and its peak.
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
    nccl:
      description: Of this check.
      type: dict
      contains:
        argv:
          description: The better run, or what would be run in check mode.
          type: list
          elements: str
        gpus:
          description: Indexes of the GPUs of this node.
          type: list
          elements: int
        best_p2p:
          description: The better setting, V(on) or V(off).
          type: str
          sample: 'on'
        best_environment:
          description: Variables that jobs should have for it.
          type: dict
          sample: {NCCL_P2P_DISABLE: "1"}
        runs:
          description:
            - Each setting with C(p2p), C(argv), C(outcome), C(exit_status), C(wall_seconds), C(works), C(format), C(nccl_version),
              C(busbw_gbps), C(rows), and C(output_tail) where it does not work.
          type: list
          elements: dict
        search:
          description: The runs over parts of the nodes, with C(nodes), C(busbw_gbps) and C(good).
          type: list
          elements: dict
        simulated:
          description: Whether the GPUs are simulated ones.
          type: bool
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.kentino.gpu.plugins.module_utils._check import gpu, nccl, nccl_run, under_load
from ansible_collections.kentino.gpu.plugins.module_utils._report.model import report


def main() -> None:
    floor = {
        "value_gbps": {"type": "float", "required": True},
        "message_bytes": {"type": "int", "required": True},
        "gpus": {"type": "int"},
        "source": {"type": "str"},
        "date": {"type": "str"},
    }
    module = AnsibleModule(
        argument_spec={
            "collective": {"type": "str", "choices": list(nccl_run.COLLECTIVES), "default": "all_reduce"},
            "binary": {"type": "path"},
            "min_bytes": {"type": "str", "default": "8"},
            "max_bytes": {"type": "str", "default": "1G"},
            "factor": {"type": "int", "default": 2},
            "iterations": {"type": "int"},
            "check": {"type": "bool", "default": True},
            "p2p": {"type": "str", "choices": list(nccl_run.P2P), "default": "auto"},
            "floor": {"type": "dict", "options": floor},
            "run_seconds": {"type": "float", "default": 600},
            "hosts": {"type": "list", "elements": "str", "default": []},
            "mpirun": {"type": "str", "default": "mpirun"},
            "mpi_arguments": {"type": "list", "elements": "str", "default": []},
            "halve": {"type": "bool", "default": False},
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
        options = nccl.options_from(module.params)
        check, facts = nccl.plan(options) if module.check_mode else nccl.run(options)
    except ValueError as exc:
        module.fail_json(msg=str(exc))
    module.exit_json(**report([check], simulated=facts["simulated"], facts={nccl.NAME: facts}))


if __name__ == "__main__":
    main()
