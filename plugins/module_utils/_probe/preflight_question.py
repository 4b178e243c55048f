# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How far a step is, asked with a shell and nothing else. Private to kentino.gpu.

While long steps run, every node is asked every 20 seconds. To copy a module there and start Python for it costs some ten times
as much as to read three small files, and with 200 nodes and five forks it would take longer than the 20 seconds.
"""

from __future__ import annotations

import json
import re
import shlex
import typing as t

from . import lease, preflight_run

# More than Ansible writes at the start of a job; a module's whole result is not wanted.
_HEAD_BYTES = 2000
_TOLD = ("percent", "elapsed_seconds", "total_seconds", "hottest_c", "hottest_gpu", "errors", "pid")
_MARK = re.compile(r"^@@([a-z]+) ?(.*)$", re.MULTILINE)
_END = "@@end"

_SCRIPT = r"""
folder=${KENTINO_GPU_ROOT:-}%(folder)s
read -r up rest </proc/uptime || exit 9
if [ -n "%(lease)s" ]; then
    { mkdir -p "$folder" && new=$(mktemp "$folder/.progress-XXXXXX") &&
        printf '{"renewed_seconds": %%s, "seconds": %%s}' "$up" "%(lease)s" >"$new" && chmod 644 "$new" &&
        mv -f "$new" "$folder/%(lease_file)s"; } 2>/dev/null || echo "@@complaint the lease cannot be written to $folder"
fi
for file in "$folder"/*.progress.json; do
    [ -f "$file" ] || continue
    echo "@@progress ${file##*/}"
    cat "$file"
    pid=$(sed -n 's/.*"pid": \([0-9][0-9]*\).*/\1/p' "$file")
    echo
    echo "@@stat $(cat "/proc/${pid:-none}/stat" 2>/dev/null)"
done
now=$(date +%%s.%%N)
read -r up rest </proc/uptime
echo "@@now $now $up $(getconf CLK_TCK)"
# The job last: what a process leaves that ends meanwhile is seen.
if [ -e %(job)s ]; then
    echo "@@job $(stat -c %%.3Y %(job)s)"
    head -c %(bytes)d %(job)s
    echo
fi
echo %(end)s
"""


def script(state_path: str, run_id: str, job_path: str, lease_seconds: t.Optional[float]) -> str:
    """For C(sh -c); the paths as they are on the node, absolute."""
    run = preflight_run.Run(state_path, run_id)
    values = {
        "folder": shlex.quote(run.folder),
        "lease": "%g" % lease_seconds if lease_seconds else "",
        "lease_file": lease.FILE,
        "job": shlex.quote(job_path),
        "bytes": _HEAD_BYTES,
        "end": _END,
    }
    return _SCRIPT % values


def answer(text: str, step: str) -> t.Optional[t.Dict[str, t.Any]]:
    """What C(preflight_status_info) returns of a step, out of what the script printed; None where that is not whole."""
    if _END not in text.splitlines():
        return None
    parts = _parts(text)
    try:
        now, boot_seconds, ticks = (float(word) for word in next(words for mark, words, _body in parts if mark == "now").split())
        told, alive = _progress(parts, now, boot_seconds, int(ticks))
        job, begun = _job(parts)
    except (StopIteration, ValueError):
        return None
    state, of_step = preflight_run.standing(told.get(step, {}), job, begun, step in alive, now, True)
    found: t.Dict[str, t.Any] = {key: of_step.get(key) for key in _TOLD}
    complaints = [words for mark, words, _body in parts if mark == "complaint"]
    return {**found, "state": state, "running": state in ("starting", "running"), "open": sorted(alive), "complaints": complaints}


_Part = t.Tuple[str, str, str]


def _parts(text: str) -> t.List[_Part]:
    marks = list(_MARK.finditer(text))
    ends = [mark.start() for mark in marks[1:]] + [len(text)]
    return [(mark[1], mark[2].strip(), text[mark.end() : end].strip()) for mark, end in zip(marks, ends)]


def _progress(
    parts: t.Sequence[_Part], now: float, boot_seconds: float, ticks: int
) -> t.Tuple[t.Dict[str, t.Dict[str, t.Any]], t.Set[str]]:
    """What each step tells, and those whose process is there."""
    told: t.Dict[str, t.Dict[str, t.Any]] = {}
    alive = set()
    step = ""
    for mark, words, body in parts:
        if mark == "progress":
            step = words[: -len(".progress.json")]
            told[step] = _object(body)
        elif mark == "stat" and preflight_run.is_alive(told.get(step, {}), words.encode("utf-8", "replace"), now, boot_seconds, ticks):
            alive.add(step)
    return told, alive


def _job(parts: t.Sequence[_Part]) -> t.Tuple[t.Optional[str], t.Optional[float]]:
    for mark, words, body in parts:
        if mark == "job":
            content = _object(body)
            # What is longer than its head is a result.
            state = "finished" if len(body) > _HEAD_BYTES // 2 and not content else preflight_run.job_state(content)
            return state, float(words) if content and state == "running" else None
    return None, None


def _object(text: str) -> t.Dict[str, t.Any]:
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}
