# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where a node says which environment a training process starts with, and what it then really has. Private to kentino.gpu.

Homes may be on a file server that hangs: whatever reads files here is called in a child under a deadline.
"""

from __future__ import annotations

import contextlib
import dataclasses
import glob
import json
import os
import pwd
import re
import stat
import typing as t

from .._knowledge.training_env import DROP_IN, DUMP_PREFIX, PROFILE_PATH
from .._parse.training_env import parse
from . import command, pci, preflight_run
from .root import under_root

_MOST_BYTES = 1 << 20
_MOST_HOMES = 2000
_MOST_RUNS = 30
# What no file without a variable of training holds.
_ABOUT = re.compile(r"NCCL|CUDA|TORCH|EnvironmentFile")
_SHELL_FILES = (".bash_profile", ".bash_login", ".profile", ".bashrc", ".zshenv", ".zprofile", ".zshrc", ".zlogin", ".cshrc", ".tcshrc")
_UNIT_FOLDERS = ("/etc/systemd/system", "/run/systemd/system", "/usr/local/lib/systemd/system", "/usr/lib/systemd/system")
_SCRIPT = "printf '\\0'; env -0; printf 'KENTINO_MEMLOCK=%s\\0' \"$(ulimit -l)\""


@dataclasses.dataclass(frozen=True)
class Source:
    """One file that may set variables.

    C(place): C(login) shells read it; C(session): others than login shells do, too; C(nccl) itself; C(unit); C(given) by the caller;
    C(other): only its names are of interest; C(process).
    """

    path: str
    kind: str  # for the parser
    place: str
    text: str
    later: bool = False  # what it sets comes after ours
    unit: str = ""
    processes: int = 0


@dataclasses.dataclass(frozen=True)
class Answer:
    """What a process has that was started now."""

    variables: t.Mapping[str, str]
    problem: str = ""
    memlock: t.Optional[str] = None  # kB, or "unlimited"


@dataclasses.dataclass(frozen=True)
class Folder:
    path: str
    exists: bool
    on: str  # it, or the next folder above it that is there
    free_bytes: t.Optional[int] = None
    read_only: bool = False
    mode: t.Optional[int] = None
    dumps: int = 0  # of earlier runs
    owners: t.Sequence[str] = ()
    problem: str = ""


@dataclasses.dataclass(frozen=True)
class Measured:
    """What the last NCCL test on this node said about peer-to-peer."""

    run_id: str
    best: str
    environment: t.Mapping[str, str]
    compared: bool  # both were tried


def read(what: str, function: t.Callable[[], t.Any], deadline_seconds: float) -> t.Tuple[t.Any, str]:
    """What C(function) gives, as JSON has it, out of a child; or None and why not."""
    done = command.call(lambda: json.dumps(function()).encode(), what, deadline_seconds)
    if done.outcome == "ended":
        try:
            return json.loads(done.stdout), ""
        except ValueError:
            said = done.stderr.decode("utf-8", "replace").strip().splitlines()
            return None, "%s could not be read: %s" % (what, said[-1] if said else "status %s" % done.rc)
    return None, done.problem()


def files(root: str = "/", profile_path: str = PROFILE_PATH) -> t.List[Source]:
    """The system's own files."""
    found = [Source(path, "env", "session", "") for path in ("/etc/environment", *_named(root, "/etc/environment.d/*.conf"))]
    found += [Source(path, "env", "session", "") for path in _named(root, "/usr/lib/environment.d/*.conf")]
    found.append(Source("/etc/profile", "shell", "login", ""))
    found += [
        Source(path, "shell", "login", "", os.path.basename(path) > os.path.basename(profile_path))
        for path in _named(root, os.path.join(os.path.dirname(profile_path), "*.sh"))
    ]
    found += [Source(path, "shell", "other", "") for path in _named(root, "/etc/profile.d/*.csh")]
    for path in ("/etc/bash.bashrc", "/etc/bashrc", "/etc/zsh/zshenv", "/etc/zsh/zprofile", "/etc/zsh/zshrc", "/etc/csh.cshrc"):
        found.append(Source(path, "shell", "login", "", True))
    found.append(Source("/etc/nccl.conf", "nccl_conf", "nccl", ""))
    return _with_text(root, found)


def users_files(root: str = "/") -> t.List[Source]:
    found = []
    for home in _homes(root):
        found += [Source(os.path.join(home, name), "shell", "login", "", True) for name in _SHELL_FILES]
        found += [Source(os.path.join(home, ".pam_environment"), "env", "session", "")]
        found += [Source(path, "env", "session", "") for path in _named(root, os.path.join(home, ".config/environment.d/*.conf"))]
        found.append(Source(os.path.join(home, ".nccl.conf"), "nccl_conf", "nccl", ""))
    return _with_text(root, found)


def unit_files(root: str = "/") -> t.List[Source]:
    """Services, their drop-ins, and the environment files that they name."""
    found = [Source(path, "unit", "unit", "", unit="every unit") for path in _named(root, "/etc/systemd/system.conf")]
    found += [Source(path, "unit", "unit", "", unit="every unit") for path in _named(root, "/etc/systemd/system.conf.d/*.conf")]
    for folder in _UNIT_FOLDERS:
        for path in _named(root, folder + "/*.service"):
            # An alias is a link to the file that is read anyway; a masked unit to nothing.
            if not os.path.islink(_below(root, path)):
                found.append(Source(path, "unit", "unit", "", unit=os.path.basename(path)))
        for path in _named(root, folder + "/*service.d/*.conf"):
            unit = os.path.basename(os.path.dirname(path))[: -len(".d")]
            found.append(Source(path, "unit", "unit", "", os.path.basename(path) > DROP_IN, unit))
    found = _with_text(root, found)
    named = []
    for source in found:
        for item in parse(source.text, "unit").assignments:
            if item.how == "file" and item.value and "%" not in item.value:
                paths = _named(root, item.value.lstrip("-").strip("\"'"))
                named += [Source(path, "env", "unit", "", source.later, source.unit) for path in paths]
    return found + _with_text(root, list(dict.fromkeys(named)))


def given_files(paths: t.Sequence[str], root: str = "/") -> t.Tuple[t.List[Source], t.List[str]]:
    """Those that the caller names, patterns allowed; and the patterns that match none."""
    found, missing = [], []
    for pattern in paths:
        matched = _named(root, pattern)
        missing += [] if matched else [pattern]
        found += [Source(path, _kind(path), "given", "", True) for path in matched]
    return _with_text(root, list(dict.fromkeys(found))), missing


def processes() -> t.List[Source]:
    """The environments of running processes that have a variable of training, equal ones of one program once."""
    seen: t.Dict[t.Tuple[str, str], int] = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        try:
            with open("/proc/%s/environ" % entry, "rb") as handle:
                raw = handle.read(_MOST_BYTES).decode("utf-8", "replace")
            with open("/proc/%s/comm" % entry, encoding="utf-8", errors="replace") as handle:
                name = handle.read().strip()
        except OSError:
            continue
        about = sorted(item for item in raw.split("\0") if _ABOUT.search(item.partition("=")[0]))
        if about:
            key = (name, "\0".join(about))
            seen[key] = seen.get(key, 0) + 1
    return [Source(name, "environ", "process", text, processes=count) for (name, text), count in sorted(seen.items())]


def login_shell(user: str, deadline_seconds: float) -> Answer:
    return _asked(["su", "--login", user, "--command", _SCRIPT], "a login shell of %s" % user, deadline_seconds, "util-linux")


def transient_unit(environment_path: str, memlock: str, deadline_seconds: float) -> Answer:
    """What a unit has that is set up as the drop-in of the role sets up others."""
    argv = ["systemd-run", "--wait", "--pipe", "--quiet", "--collect", "--property=EnvironmentFile=" + environment_path]
    if memlock:
        argv.append("--property=LimitMEMLOCK=" + ("infinity" if memlock == "unlimited" else memlock + "K"))
    return _asked([*argv, "/bin/sh", "-c", _SCRIPT], "a transient unit", deadline_seconds, "systemd")


def _asked(argv: t.Sequence[str], what: str, deadline_seconds: float, package: str) -> Answer:
    done = command.run(argv, deadline_seconds, max_bytes=_MOST_BYTES)
    if done.outcome == "missing":
        return Answer({}, "%s could not be started: %s (package %s)" % (what, done.problem(), package))
    if done.outcome != "ended":
        return Answer({}, "%s told nothing: %s" % (what, done.problem()))
    # Before the first NUL stands whatever a profile prints.
    items = done.stdout.decode("utf-8", "replace").split("\0")[1:]
    pairs = [item.partition("=") for item in items if "=" in item]
    variables = {name: value for name, _equals, value in pairs}
    if "KENTINO_MEMLOCK" not in variables:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        return Answer({}, "%s told nothing: it ended with status %s%s" % (what, done.rc, ", " + said[-1] if said else ""))
    memlock = variables.pop("KENTINO_MEMLOCK")
    return Answer(variables, memlock=memlock)


def folder(path: str) -> Folder:
    """Room and rights of a folder that may not be there yet."""
    on = path
    while not os.path.isdir(on) and os.path.dirname(on) != on:
        on = os.path.dirname(on)
    try:
        room = os.statvfs(on)
        status = os.stat(path) if os.path.exists(path) else None
    except OSError as exc:
        return Folder(path, False, on, problem=str(exc))
    dumps, owners = _dumps(path)
    return Folder(
        path,
        os.path.isdir(path),
        on,
        # Root may use the reserve; training users may not.
        room.f_bavail * room.f_frsize,
        bool(room.f_flag & os.ST_RDONLY),
        stat.S_IMODE(status.st_mode) if status else None,
        dumps,
        owners,
    )


def _dumps(path: str) -> t.Tuple[int, t.List[str]]:
    count, owners = 0, set()
    with contextlib.suppress(OSError), os.scandir(path) as entries:
        for entry in entries:
            if re.fullmatch(DUMP_PREFIX + r"\d{1,6}", entry.name):
                count += 1
                owners.add(entry.stat(follow_symlinks=False).st_uid)
    return count, sorted(_user(number) for number in owners)


def _user(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def size_of(path: str) -> t.Optional[int]:
    """Of the file system at C(path), such as /dev/shm, in bytes."""
    try:
        room = os.statvfs(path)
    except OSError:
        return None
    return room.f_blocks * room.f_frsize


def memlock_ceiling() -> t.Optional[str]:
    """What the first process may allow itself, in kB, or C(unlimited)."""
    found = re.search(r"^Max locked memory +\S+ +(\S+)", _text("/proc/1/limits") or "", re.MULTILINE)
    if found is None:
        return None
    return str(int(found.group(1)) // 1024) if found.group(1).isdigit() else found.group(1)


def has_rdma() -> bool:
    """InfiniBand, RoCE or EFA."""
    try:
        return bool(os.listdir(under_root("/sys/class/infiniband")))
    except OSError:
        return False


def content(path: str) -> t.Optional[str]:
    """None where there is no such file."""
    return _text(path)


def measured(preflight_path: str) -> t.Optional[Measured]:
    """Of the newest run of a preflight that has a good NCCL test."""
    for run_id in reversed(preflight_run.runs(preflight_path)[-_MOST_RUNS:]):
        records, _complaints = preflight_run.Run(preflight_path, run_id).records()
        found = from_result(records.get("nccl"), run_id)
        if found is not None:
            return found
    return None


def from_result(result: t.Any, run_id: str) -> t.Optional[Measured]:
    """Of a registered result of nccl_test."""
    facts = result.get("facts") if isinstance(result, dict) else None
    nccl = facts.get("nccl") if isinstance(facts, dict) else None
    if not isinstance(nccl, dict) or nccl.get("best_p2p") not in ("on", "off"):
        return None
    runs = [run for run in nccl.get("runs") or () if isinstance(run, dict)]
    if not any(run.get("p2p") == nccl["best_p2p"] and run.get("works") for run in runs):
        return None
    environment = nccl.get("best_environment")
    pairs = environment.items() if isinstance(environment, dict) else ()
    return Measured(run_id, nccl["best_p2p"], {str(name): str(value) for name, value in pairs}, len(runs) > 1)


def gpu_ids() -> t.List[str]:
    """C(vvvv:dddd) of each GPU on the bus."""
    found = []
    for address in pci.nvidia_gpus() or ():
        device = _text(under_root("/sys/bus/pci/devices/%s.0/device" % address))
        if device:
            found.append("10de:" + device.strip()[2:].lower())
    return found


def _homes(root: str) -> t.List[str]:
    homes = ["/root"]
    for line in (_text(_below(root, "/etc/passwd")) or "").splitlines():
        fields = line.split(":")
        if len(fields) > 6 and fields[2].isdigit() and (fields[2] == "0" or 1000 <= int(fields[2]) < 60000) and fields[5] != "/":
            homes.append(fields[5])
    # Users of a directory service are in no file; their homes are mostly here.
    homes += _named(root, "/home/*")
    return list(dict.fromkeys(homes))[:_MOST_HOMES]


def _kind(path: str) -> str:
    name = os.path.basename(path)
    if name.endswith((".sh", ".bash", ".zsh", ".csh", ".sbatch", ".slurm")) or name in _SHELL_FILES:
        return "shell"
    if name.endswith(".env") or name == "environment":
        return "env"
    if name.endswith(".service"):
        return "unit"
    return "nccl_conf" if name.endswith("nccl.conf") else "text"


def _named(root: str, pattern: str) -> t.List[str]:
    """The paths that match, as the node calls them."""
    top = root.rstrip("/")
    return sorted(path[len(top) :] for path in glob.glob(top + pattern))


def _below(root: str, path: str) -> str:
    return root.rstrip("/") + path


def _with_text(root: str, sources: t.Sequence[Source]) -> t.List[Source]:
    found = []
    for source in sources:
        text = _text(_below(root, source.path))
        if text is not None and _ABOUT.search(text):
            kind = source.kind
            if kind == "text" and re.match(r"#!.*\b(ba|da|k|z|c|tc)?sh\b", text):
                kind = "shell"
            found.append(dataclasses.replace(source, text=text, kind=kind))
    return found


def _text(path: str) -> t.Optional[str]:
    """Of a plain file; a pipe would keep its reader for ever."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            return None
        with open(path, "rb") as handle:
            return handle.read(_MOST_BYTES).decode("utf-8", "replace")
    except OSError:
        return None
