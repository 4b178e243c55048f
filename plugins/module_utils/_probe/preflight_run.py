# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a preflight leaves on the node: a folder for each run, with the progress and the result of each step. Private to kentino.gpu."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import time
import typing as t

from . import lease, state
from .root import under_root

STATE_PATH = "/var/lib/kentino-gpu/preflight"

# What of a job's answer is the module's own.
RESULT_KEYS = ("changed", "verdict", "action", "checks", "findings", "metrics", "simulated", "facts")
# A verdict that says something: a step with one of these has come to its end and need not be repeated.
SETTLED = ("pass", "warn", "fail")

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}\Z")
_KEPT_RUNS = 30
# A module tells its progress every ten seconds at least; its result is written a moment after it has gone.
_SILENT_SECONDS = 20.0
_TERM_SECONDS = 15.0
_KILL_SECONDS = 5.0
_POLL_SECONDS = 0.1


class Run:
    """One run of a preflight on this node."""

    def __init__(self, state_path: str, run_id: str) -> None:
        self.run_id = name("run_id", run_id)
        self.folder = os.path.join(state_path, self.run_id)

    def progress_path(self, step: str) -> str:
        return os.path.join(self.folder, name("step", step) + ".progress.json")

    def _record_path(self, step: str) -> str:
        return os.path.join(self.folder, name("step", step) + ".result.json")

    def progress(self, step: str) -> t.Dict[str, t.Any]:
        """As the step last told it; empty where it did not."""
        return _read_object(under_root(self.progress_path(step)))

    def record(self, step: str, result: t.Mapping[str, t.Any]) -> t.Optional[str]:
        complaint = state.save(self._record_path(step), dict(result))
        _prune(os.path.dirname(self.folder), self.run_id)
        return complaint

    def collect(self, step: str, job_path: str) -> t.Tuple[t.Dict[str, t.Any], t.List[str]]:
        """What the job of C(step) has left, and complaints. A result that settles the step is kept for a run that goes on later.

        The job's file is removed. Empty where there is no result: no such file, or a job that still runs.
        """
        left = _read_object(job_path)
        if not left or (left.get("started") and not left.get("finished")):
            return {}, []
        complaint = self.record(step, {key: left[key] for key in RESULT_KEYS if key in left}) if left.get("verdict") in SETTLED else None
        with contextlib.suppress(OSError):
            os.unlink(job_path)
        return left, [complaint] if complaint else []

    def records(self) -> t.Tuple[t.Dict[str, t.Dict[str, t.Any]], t.List[str]]:
        """The results of the steps that are done, by name, and what is wrong with those that cannot be read."""
        found, complaints = {}, []
        for file in _names(under_root(self.folder)):
            if file.endswith(".result.json"):
                step = file[: -len(".result.json")]
                stored, complaint = state.load(self._record_path(step))
                complaints += [complaint] if complaint else []
                if stored:
                    found[step] = stored
        return found, complaints

    def steps(self) -> t.List[str]:
        """Those that have told their progress."""
        return [file[: -len(".progress.json")] for file in _names(under_root(self.folder)) if file.endswith(".progress.json")]

    def watch(self, seconds: float) -> t.Optional[str]:
        return lease.renew(self.folder, seconds)

    def status(self, step: str, job_path: t.Optional[str] = None) -> t.Tuple[str, t.Dict[str, t.Any]]:
        """How C(step) stands, and its progress. C(job_path): the file in which Ansible keeps its asynchronous job.

        C(absent), C(starting), C(running), C(finished), or C(lost): it is gone and has left no result.
        """
        # The job last: what a process leaves that ends meanwhile is seen.
        told, now = self.progress(step), time.time()
        alive = _is_running(told)
        job, begun = _job(job_path)
        return standing(told, job, begun, alive, now, bool(job_path))

    def running(self) -> t.List[t.Dict[str, t.Any]]:
        told = {step: self.progress(step) for step in self.steps()}
        return [{"step": step, "pid": progress["pid"]} for step, progress in told.items() if _is_running(progress)]

    def stop(self) -> t.Tuple[t.List[t.Dict[str, t.Any]], t.List[t.Dict[str, t.Any]]]:
        """End what runs; what was ended, and what is still there. A step ends its tool itself, also when it is killed."""
        left = running = self.running()
        for number, patience in ((signal.SIGTERM, _TERM_SECONDS), (signal.SIGKILL, _KILL_SECONDS)):
            for item in left:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(item["pid"], number)
            until = time.monotonic() + patience
            while left and time.monotonic() < until:
                time.sleep(_POLL_SECONDS)
                left = [item for item in left if _is_running(self.progress(item["step"]))]
        return [item for item in running if item not in left], left


def name(option: str, value: str) -> str:
    """C(value), where it can be the name of a file and nothing else."""
    if not _NAME.match(value):
        raise ValueError("%s is %r, expected letters, digits, dots, dashes and underscores only, such as 2026-11-29" % (option, value))
    return value


def runs(state_path: str) -> t.List[str]:
    """The runs that are known, the newest last."""
    folder = under_root(state_path)
    found = [entry for entry in _names(folder) if _NAME.match(entry) and os.path.isdir(os.path.join(folder, entry))]
    return sorted(found, key=lambda entry: (_changed(os.path.join(folder, entry)) or 0.0, entry))


def _prune(state_path: str, current: str) -> None:
    for old in [run for run in runs(state_path) if run != current][: -_KEPT_RUNS + 1]:
        if not any(_is_running(Run(state_path, old).progress(step)) for step in Run(state_path, old).steps()):
            shutil.rmtree(os.path.join(under_root(state_path), old), ignore_errors=True)


def standing(
    told: t.Dict[str, t.Any], job: t.Optional[str], begun: t.Optional[float], alive: bool, now: float, with_job: bool
) -> t.Tuple[str, t.Dict[str, t.Any]]:
    """C(Run.status) of what was read: the progress, the state of the job and when it began, and whether the process is there."""
    if told and begun is not None and _seconds(told) < begun:
        told = {}  # of an earlier attempt
    if job == "finished":
        return "finished", told
    if job == "running" and not told:
        return "starting", told
    if not told:
        return ("lost" if with_job else "absent"), told
    if alive:
        return "running", told
    if not with_job and told.get("state") == "finished":
        return "finished", told
    # It may have told it a moment after C(now).
    return ("running" if with_job and abs(now - _seconds(told)) < _SILENT_SECONDS else "lost"), told


def _job(path: t.Optional[str]) -> t.Tuple[t.Optional[str], t.Optional[float]]:
    """C(running) or C(finished), and when it began while it runs; neither where there is no such job."""
    if not path or not os.path.exists(path):
        return None, None
    content = _read_object(path)
    state = job_state(content)
    return state, _changed(path) if content and state == "running" else None


def job_state(content: t.Mapping[str, t.Any]) -> str:
    """Of the file of a job that is there; empty C(content) where it holds nothing yet."""
    # The module's own result replaces what Ansible wrote at the start, and carries none of these words.
    return "running" if not content or (content.get("started") and not content.get("finished")) else "finished"


def _is_running(told: t.Mapping[str, t.Any]) -> bool:
    """Whether the process that told this is still there, and not another one with its number."""
    pid = told.get("pid")
    if not isinstance(pid, int) or isinstance(pid, bool) or pid < 2:
        return False
    try:
        with open("/proc/%d/stat" % pid, "rb") as handle:
            stat = handle.read()
    except OSError:
        return False
    return is_alive(told, stat, time.time(), time.clock_gettime(time.CLOCK_BOOTTIME), os.sysconf("SC_CLK_TCK"))


def is_alive(told: t.Mapping[str, t.Any], stat: bytes, now: float, boot_seconds: float, ticks: int) -> bool:
    """The same of the process with the line C(stat), at the time C(now), which is C(boot_seconds) after the boot."""
    if told.get("state") != "running":
        return False
    try:
        words = stat.rpartition(b")")[2].split()
        began_seconds = int(words[19]) / ticks
    except (ValueError, IndexError):
        return False
    # In the time of the boot, by how long ago it was told: a clock that was set meanwhile moves it by as much.
    return words[0] != b"Z" and began_seconds <= boot_seconds - (now - _seconds(told)) + 1


def _seconds(told: t.Mapping[str, t.Any]) -> float:
    value = told.get("updated_usec")
    return value / 1e6 if isinstance(value, (int, float)) and not isinstance(value, bool) else 0.0


def _changed(path: str) -> t.Optional[float]:
    try:
        return os.stat(path).st_mtime
    except OSError:
        return None


def _read_object(path: str) -> t.Dict[str, t.Any]:
    try:
        with open(path, encoding="utf-8") as handle:
            content = json.load(handle)
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def _names(folder: str) -> t.List[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []
