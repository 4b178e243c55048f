#!/usr/bin/python
# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: preflight_status_info
short_description: Tell how far a preflight is on a node
version_added: 0.1.0
author:
  - Kentino (@kentino)
description:
  - Reads what the long steps of a preflight leave on the node while they run, and the results of those that are done. It asks no GPU and
    no tool, so that it costs about what a ping costs.
  - With O(job_path), as while a step runs, it is asked with a shell and no Python is started on the node. Where that does not work, or
    a step seems lost, and for everything else, the module is run.
  - With O(lease_seconds) it also notes that somebody watches. A step that nobody watches any more ends itself.
extends_documentation_fragment:
  - kentino.gpu._attributes.info
options:
  state_path:
    description: Folder on the node with one folder for each run.
    type: path
    default: /var/lib/kentino-gpu/preflight
  run_id:
    description: The run. Without it only RV(runs) is told.
    type: str
  step:
    description: The step, such as V(burn). Without it only the results are told.
    type: str
  job_path:
    description: The C(results_file) of the asynchronous task that runs O(step). It tells whether that has ended.
    type: path
  results:
    description: Whether RV(step_results) is wanted.
    type: bool
    default: false
  lease_seconds:
    description:
      - For how long from now on the run counts as watched. Without it nothing is noted.
      - In check mode nothing is written.
    type: float
requirements:
  - Linux on the node
seealso:
  - module: kentino.gpu.preflight_run
  - module: kentino.gpu.preflight_progress
"""

EXAMPLES = r"""
- name: Burn the GPUs in
  kentino.gpu.gpu_burn:
    seconds: 3600
    progress_path: /var/lib/kentino-gpu/preflight/intake-7/burn.progress.json
  async: 4000
  poll: 0
  register: job

- name: Ask how far it is
  kentino.gpu.preflight_status_info:
    run_id: intake-7
    step: burn
    job_path: "{{ job.results_file }}"
  register: burn
  until: not burn.running
  retries: 200
  delay: 20
"""

RETURN = r"""
run_id:
  description: The run that was asked for.
  returned: success
  type: str
step:
  description: The step that was asked for.
  returned: success
  type: str
state:
  description: How the step stands. V(lost) means that it is gone and has left no result.
  returned: success
  type: str
  choices: [absent, starting, running, finished, lost]
running:
  description: Whether it has to be asked again.
  returned: success
  type: bool
percent:
  description: How far it is, where its tool tells that.
  returned: success
  type: float
elapsed_seconds:
  description: How long it has been running.
  returned: success
  type: float
total_seconds:
  description: How long it runs at most.
  returned: success
  type: float
hottest_c:
  description: Temperature of the hottest GPU.
  returned: success
  type: int
hottest_gpu:
  description: Index of the hottest GPU.
  returned: success
  type: int
errors:
  description: Errors so far.
  returned: success
  type: int
pid:
  description: The process that runs it.
  returned: success
  type: int
open:
  description: The steps of the run whose processes are still there.
  returned: with O(run_id)
  type: list
  elements: str
step_results:
  description: The results of the steps that are done, by name.
  returned: with O(results)
  type: dict
runs:
  description: The runs that this node knows, the newest last.
  returned: without O(run_id)
  type: list
  elements: str
complaints:
  description: What could not be read or written.
  returned: success
  type: list
  elements: str
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.kentino.gpu.plugins.module_utils._probe import preflight_run

_TOLD = ("percent", "elapsed_seconds", "total_seconds", "hottest_c", "hottest_gpu", "errors", "pid")


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "state_path": {"type": "path", "default": preflight_run.STATE_PATH},
            "run_id": {"type": "str"},
            "step": {"type": "str"},
            "job_path": {"type": "path"},
            "results": {"type": "bool", "default": False},
            "lease_seconds": {"type": "float"},
        },
        required_by={"step": ["run_id"], "job_path": ["step"], "lease_seconds": ["run_id"]},
        supports_check_mode=True,
    )
    params = module.params
    answer = {"run_id": params["run_id"], "step": params["step"], "complaints": []}
    try:
        if params["run_id"] is None:
            answer["runs"] = preflight_run.runs(params["state_path"])
        else:
            run = preflight_run.Run(params["state_path"], params["run_id"])
            if params["lease_seconds"] and not module.check_mode:
                complaint = run.watch(params["lease_seconds"])
                answer["complaints"] += [complaint] if complaint else []
            standing, told = run.status(params["step"], params["job_path"]) if params["step"] else ("absent", {})
            answer.update({key: told.get(key) for key in _TOLD}, state=standing, running=standing in ("starting", "running"))
            answer["open"] = [item["step"] for item in run.running()]
            if params["results"]:
                answer["step_results"], complaints = run.records()
                answer["complaints"] += complaints
    except ValueError as exc:
        module.fail_json(msg=str(exc))
    module.exit_json(changed=False, **answer)


if __name__ == "__main__":
    main()
