#!/usr/bin/python
# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: torch_dryrun
short_description: Run a few training steps on all GPUs at once, through torchrun
version_added: 0.1.0
author:
  - Kentino (@kentino)
description:
  - Starts a small training job of its own with C(torchrun), one rank for each GPU. Transformer blocks of the given width, batch size
    and sequence length go through a warm-up and some steps, each with forward, backward, all-reduce of the gradients and optimiser.
  - Every rank computes the same batch with the same weights. A loss or gradient that is no number, or not that of the other ranks,
    names the rank. So do a sum that lacks a rank's part, a rank that computes longer than the others, one that dies and one that
    hangs. A rank that only failed because it waited for another one is not blamed.
  - An allocation that fails is told by its cause. It may be larger than the card, or refused for activations, for another
    process on the GPU, or for fragmentation.
  - The verdict is V(pass) only when every rank finished every step and all agree. With O(device=cpu) it says nothing about GPUs.
  - While it runs, the GPUs' state and the kernel log are followed. What they tell is part of the verdict.
  - The environment variable E(KENTINO_DRYRUN_FAULT) makes a rank fail, for tests and drills only. V(die:rank=2,step=1) kills rank 2
    in step 1. The other kinds are V(hang), V(deaf) (hangs and ignores SIGTERM), V(slow) (with V(seconds=0.5)), V(wrong), V(nan) and
    V(oom). Such a run is never V(pass).
  - A bad GPU never fails this task. Gate on RV(verdict), with the P(kentino.gpu.healthy#test) test or with the
    M(kentino.gpu.gate) action.
extends_documentation_fragment:
  - kentino.gpu._load.attributes
  - kentino.gpu._load.options
  - kentino.gpu._checks.gpu
options:
  python:
    description:
      - The Python that has PyTorch, a path or a name on the PATH.
      - Without it the first C(python3) with PyTorch 2.0 or newer on the PATH, in C(/opt/conda), C(/opt/venv) or C(/opt/pytorch).
    type: str
  device:
    description: What to compute on. V(cuda) with NCCL; V(cpu) with Gloo, for rehearsals.
    type: str
    choices: [cuda, cpu]
    default: cuda
  ranks:
    description: How many ranks to start, and to expect. Without it one for each GPU. Required with O(device=cpu).
    type: int
  steps:
    description: Steps to measure after the warm-up.
    type: int
    default: 3
  width:
    description: Width of the transformer blocks.
    type: int
    default: 4096
  heads:
    description: Attention heads. They must divide O(width).
    type: int
    default: 32
  layers:
    description: Number of transformer blocks.
    type: int
    default: 2
  vocabulary:
    description: Size of the vocabulary. The scores over it are often the largest tensor of a step.
    type: int
    default: 32000
  batch_size:
    description: Sequences for each rank and step. Give that of the run that is to come.
    type: int
    default: 1
  sequence_length:
    description: Tokens in each sequence. Give that of the run that is to come.
    type: int
    default: 4096
  dtype:
    description: Precision of weights, activations and gradients. V(auto) is bfloat16 from Ampere on, else float16, and float32 on a CPU.
    type: str
    choices: [auto, bfloat16, float16, float32]
    default: auto
  timeout_seconds:
    description: How long a rank waits for the others in a collective before the run counts as hung.
    type: float
    default: 60
  run_seconds:
    description: Longest time for the whole run, the start of PyTorch from a cold disk included. Then it is ended.
    type: float
    default: 600
  results_path:
    description:
      - Folder on the node below which the records and logs of the ranks and the dumps of NCCL's flight recorder are kept, each run in
        a folder of its own. Without it they are removed at the end.
    type: path
requirements:
  - PyTorch 2.0 or newer on the node, in any Python there
notes:
  - The limits of this check may be overridden in O(limits) by C(dryrun_slow_tolerance_pct), C(dryrun_slow_floor_seconds),
    C(dryrun_loss_tolerance_pct), C(dryrun_gradient_tolerance_pct) and C(dryrun_foreign_memory_pct).
seealso:
  - module: kentino.gpu.gpu_info
  - module: kentino.gpu.gate
  - plugin: kentino.gpu.healthy
    plugin_type: test
"""

EXAMPLES = r"""
- name: Try the size of the run that is to come on all GPUs
  kentino.gpu.torch_dryrun:
    python: /opt/train/bin/python
    batch_size: 4
    sequence_length: 8192
    expected:
      count: 8
  register: dryrun

- name: Stop unless all ranks finished and agree
  kentino.gpu.gate:
    results: "{{ [dryrun] }}"
    required: [dryrun]

- name: Rehearse a rank that dies, without a GPU
  kentino.gpu.torch_dryrun:
    device: cpu
    ranks: 4
    width: 64
    heads: 4
    vocabulary: 64
    sequence_length: 32
  environment:
    KENTINO_DRYRUN_FAULT: die:rank=2,step=1
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
  description: One entry, V(dryrun).
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Name of the check.
      type: str
      sample: dryrun
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
      sample: 8 ranks on cuda went through a warm-up and 3 steps with PyTorch 2.9.1
    skipped:
      description: Why the check did not run, empty when it did.
      type: str
      sample: ""
    metrics:
      description: Numbers read by the check.
      type: dict
findings:
  description: What was found, worst first.
  returned: success
  type: list
  elements: dict
  contains:
    check:
      description: The check that found it.
      type: str
      sample: dryrun
    code:
      description: Stable name of the kind of finding.
      type: str
      sample: dryrun.rank_hung
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
      sample: {kind: rank, index: 3, pci: "0000:c1:00", label: "rank 3 0000:c1:00"}
    message:
      description: One line, with the measured and the allowed value.
      type: str
      sample: rank 3 (GPU 3 0000:c1:00, pid 4711 on gpu-07) did not enter allreduce of step 1, where 7 ranks waited
    action:
      description: What to do.
      type: str
      sample: reset_gpu
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
  description:
    - Numbers by check. Of V(dryrun) the seconds of a step, of forward and backward by rank and of the all-reduce, medians without the
      warm-up, the tokens per second and the peak of reserved GPU memory.
  returned: success
  type: dict
simulated:
  description: Whether the node is a simulated one.
  returned: success
  type: bool
  sample: false
facts:
  description: What was run and what each rank recorded.
  returned: success
  type: dict
  contains:
    dryrun:
      description: Of this check.
      type: dict
      contains:
        argv:
          description: What was run, or would be in check mode.
          type: list
          elements: str
        python:
          description: The Python that ran it.
          type: str
        torch_version:
          description: Its PyTorch.
          type: str
        outcome:
          description: How the launcher ended, V(ended) by itself.
          type: str
          sample: ended
        exit_status:
          description: Its exit status. It proves nothing alone.
          type: int
          sample: 0
        wall_seconds:
          description: How long it took.
          type: float
        settings:
          description: The size of model and batch, which must be the same where two runs are compared.
          type: dict
        results_path:
          description: Where the records are kept, with O(results_path).
          type: str
        ranks:
          description: Of each rank its host, process, GPU, phases, steps, memory and end.
          type: list
          elements: dict
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.kentino.gpu.plugins.module_utils._check import dryrun, gpu, under_load
from ansible_collections.kentino.gpu.plugins.module_utils._report.model import report


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "python": {"type": "str"},
            "device": {"type": "str", "choices": list(dryrun.DEVICES), "default": "cuda"},
            "ranks": {"type": "int"},
            "steps": {"type": "int", "default": 3},
            "width": {"type": "int", "default": 4096},
            "heads": {"type": "int", "default": 32},
            "layers": {"type": "int", "default": 2},
            "vocabulary": {"type": "int", "default": 32000},
            "batch_size": {"type": "int", "default": 1},
            "sequence_length": {"type": "int", "default": 4096},
            "dtype": {"type": "str", "choices": list(dryrun.DTYPES), "default": "auto"},
            "timeout_seconds": {"type": "float", "default": 60},
            "run_seconds": {"type": "float", "default": 600},
            "results_path": {"type": "path"},
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
        required_if=[("device", "cpu", ["ranks"])],
        supports_check_mode=True,
    )
    try:
        options = dryrun.Options(**module.params)
        check, facts = dryrun.plan(options) if module.check_mode else dryrun.run(options)
    except ValueError as exc:
        module.fail_json(msg=str(exc))
    module.exit_json(**report([check], simulated=facts["simulated"], facts={dryrun.NAME: facts}))


if __name__ == "__main__":
    main()
