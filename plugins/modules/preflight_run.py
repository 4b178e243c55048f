#!/usr/bin/python
# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: preflight_run
short_description: Collect and keep the results of a preflight on a node, or stop what it runs
version_added: 0.1.0
author:
  - Kentino (@kentino)
description:
  - With O(state=collected) it returns what the asynchronous job of a step has left, keeps the result as with O(state=recorded) where the
    step came to a verdict, and removes the file of the job. C(async_status) would be asked twice for the same.
  - With O(state=recorded) it keeps the result of a step, so that a run that was interrupted goes on where it was.
  - With O(state=stopped) it ends every step of a preflight that still runs on the node. Each ends its tool with all its children. A
    process is only ended when it is the one that told its progress, and not another one that has its number by now.
  - The newest 30 runs are kept.
options:
  state:
    description: What to do.
    type: str
    choices: [collected, recorded, stopped]
    required: true
  state_path:
    description: Folder on the node with one folder for each run.
    type: path
    default: /var/lib/kentino-gpu/preflight
  run_id:
    description: The run. Required with O(state=collected) and O(state=recorded). With O(state=stopped) all runs without it.
    type: str
  step:
    description: The step whose result is kept. Required with O(state=collected) and O(state=recorded).
    type: str
  job_path:
    description: The C(results_file) of the asynchronous task that ran O(step). Required with O(state=collected).
    type: path
  result:
    description: The result, as the module of the step returned it. Required with O(state=recorded).
    type: dict
attributes:
  check_mode:
    description: Can run in C(check_mode) and return changed status prediction without modifying target.
    support: full
  diff_mode:
    description: Will return details on what has changed (or possibly needs changing in C(check_mode)), when in diff mode.
    support: none
requirements:
  - Linux on the node
seealso:
  - module: kentino.gpu.preflight_status_info
"""

EXAMPLES = r"""
- name: Fetch what the burn-in found
  kentino.gpu.preflight_run:
    state: collected
    run_id: intake-7
    step: burn
    job_path: "{{ job.results_file }}"
  register: burn

- name: Keep what a burn-in found that was not started asynchronously
  kentino.gpu.preflight_run:
    state: recorded
    run_id: intake-7
    step: burn
    result: "{{ burn }}"

- name: Stop every preflight on the node
  kentino.gpu.preflight_run:
    state: stopped
"""

RETURN = r"""
stopped:
  description: The steps that were ended, or would be in check mode.
  returned: with O(state=stopped)
  type: list
  elements: dict
  sample: [{run_id: intake-7, step: burn, pid: 4711}]
result:
  description: What the job has left. Empty where it left nothing or still runs.
  returned: with O(state=collected)
  type: dict
complaints:
  description: What could not be written.
  returned: with O(state=collected)
  type: list
  elements: str
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.kentino.gpu.plugins.module_utils._probe import preflight_run


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["collected", "recorded", "stopped"], "required": True},
            "state_path": {"type": "path", "default": preflight_run.STATE_PATH},
            "run_id": {"type": "str"},
            "step": {"type": "str"},
            "job_path": {"type": "path"},
            "result": {"type": "dict"},
        },
        required_if=[("state", "recorded", ["run_id", "step", "result"]), ("state", "collected", ["run_id", "step", "job_path"])],
        supports_check_mode=True,
    )
    params = module.params
    try:
        if params["state"] == "recorded":
            _record(module)
        if params["state"] == "collected":
            _collect(module)
        wanted = [params["run_id"]] if params["run_id"] else preflight_run.runs(params["state_path"])
        _stop(module, [preflight_run.Run(params["state_path"], run_id) for run_id in wanted])
    except ValueError as exc:
        module.fail_json(msg=str(exc))


def _collect(module: AnsibleModule) -> None:
    params = module.params
    run = preflight_run.Run(params["state_path"], params["run_id"])
    preflight_run.name("step", params["step"])
    result, complaints = ({}, []) if module.check_mode else run.collect(params["step"], params["job_path"])
    module.exit_json(changed=bool(result), result=result, complaints=complaints)


def _record(module: AnsibleModule) -> None:
    params = module.params
    run = preflight_run.Run(params["state_path"], params["run_id"])
    changed = run.records()[0].get(preflight_run.name("step", params["step"])) != params["result"]
    complaint = run.record(params["step"], params["result"]) if changed and not module.check_mode else None
    if complaint:
        module.fail_json(msg=complaint)
    module.exit_json(changed=changed)


def _stop(module: AnsibleModule, runs: t.List[preflight_run.Run]) -> None:
    stopped, left = [], []
    for run in runs:
        ended, still_there = (run.running(), []) if module.check_mode else run.stop()
        stopped += [dict(item, run_id=run.run_id) for item in ended]
        left += [dict(item, run_id=run.run_id) for item in still_there]
    if left:
        names = ", ".join("%s of %s (pid %d)" % (item["step"], item["run_id"], item["pid"]) for item in left)
        module.fail_json(msg="still running after SIGKILL: %s; a process that waits for the driver ends with a reboot only" % names)
    module.exit_json(changed=bool(stopped), stopped=stopped)


if __name__ == "__main__":
    main()
