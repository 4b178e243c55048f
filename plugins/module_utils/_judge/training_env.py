# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is wrong with the environment that training starts with. Private to kentino.gpu."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from .._knowledge import training_env as knowledge
from .._knowledge import training_env_names as names
from .._knowledge.platforms import platform
from .._knowledge.torch_environment import version
from .._parse.training_env import Assignment
from .._report.model import NODE, Finding, Subject

_MIB = 1 << 20
_EXTRA_ADVICE = "put the value into training_env_extra, which wins in shells, units and containers alike, or take it out here"


@dataclass(frozen=True)
class Place:
    """Where an assignment stands. C(place) as in C(_probe.training_env.Source)."""

    path: str
    place: str
    later: bool = False  # what it sets comes after ours
    unit: str = ""
    kind: str = "shell"
    processes: int = 0

    def subject(self, line: int) -> Subject:
        if self.place == "process":
            return Subject("process", self.path)
        return Subject("file", "%s:%d" % (self.path, line) if line else self.path)

    def words(self) -> str:
        if self.place == "process":
            return "%d running %s" % (self.processes, self.path)
        return self.path


@dataclass(frozen=True)
class Expected:
    """What the profile says."""

    variables: t.Mapping[str, str]
    torch_version: t.Optional[str] = None
    units: t.Collection[str] = ()  # those that get it
    profile_path: str = knowledge.PROFILE_PATH


def assignment(place: Place, found: Assignment, expected: Expected) -> t.Iterator[Finding]:
    """Of one assignment that somebody else made."""
    if not names.is_about_training(found.name):
        return
    subject = place.subject(found.line)
    evidence = ("%s%s" % (found.name, "" if found.value is None else "=" + found.value),)
    old = names.deprecated(found.name)
    applies = old.applies(expected.torch_version, found.value) if old and found.how != "unset" else False
    if old and applies is not False:
        yield _deprecated(old, applies, subject, evidence, place, expected)
    right = names.meant(found.name)
    if right and found.how != "unset":
        message = "%s is no variable that PyTorch or NCCL reads; %s was probably meant" % (found.name, right)
        yield Finding(
            "training_env.misspelt", "warning", subject, message, "look_at_code", evidence, "correct the name in %s" % place.words()
        )
    for left in names.leftovers(found.name) if found.how != "unset" else ():
        if found.value in left.values:
            message = "%s=%s is still set: %s" % (found.name, found.value, left.effect)
            advice = "take it out of %s unless you are looking for a fault just now" % place.words()
            yield Finding("training_env.leftover", left.severity, subject, message, "look_at_code", evidence, advice)
    yield from _conflict(place, found, expected, subject, evidence)


def _deprecated(
    old: names.Deprecated, applies: t.Optional[bool], subject: Subject, evidence: t.Tuple[str, ...], place: Place, expected: Expected
) -> Finding:
    read = "is read by no release any more" if old.dead else "is an old name" if not old.value else "is an old value"
    what = "%s%s" % (old.name, "=" + old.value if old.value else "")
    message = "%s %s since %s; the new one is %s" % (what, read, old.since, old.replacement)
    if not old.replacement:
        message = "%s %s since %s" % (what, read, old.since)
    if applies is None:
        message += ", where PyTorch is that new: its version is not known here"
    if not old.replacement:
        advice = "take it out of %s" % place.words()
    elif old.replacement in expected.variables:
        advice = "take it out of %s: the profile sets %s" % (place.words(), old.replacement)
    else:
        advice = "write %s in %s" % (old.replacement, place.words())
    return Finding("training_env.deprecated", "info" if applies is None else "warning", subject, message, "look_at_code", evidence, advice)


def _conflict(place: Place, found: Assignment, expected: Expected, subject: Subject, evidence: t.Tuple[str, ...]) -> t.Iterator[Finding]:
    ours = expected.variables.get(found.name)
    if ours is None or (found.how != "unset" and found.value == ours) or place.place in ("process", "other"):
        return
    if place.place == "unit" and place.unit not in expected.units:
        return  # not ours to decide
    says = "takes it away" if found.how == "unset" else "sets something" if found.value is None else "sets %s" % (found.value or "nothing")
    wins, why = _wins(place, found)
    message = "the profile says %s=%s, and %s %s; %s" % (found.name, ours, place.words(), says, why)
    severity, action = ("warning", "look_at_code") if wins else ("info", "none")
    yield Finding("training_env.conflict", severity, subject, message, action, evidence, _EXTRA_ADVICE)


def _wins(place: Place, found: Assignment) -> t.Tuple[bool, str]:
    if found.how == "default":
        return False, "that is only taken where nothing is set, so the profile wins"
    if place.place == "login":
        return place.later, "that is read later and wins" if place.later else "that is read earlier, so the profile wins"
    if place.place == "session":
        return True, "that holds wherever no login shell reads the profile, such as in cron and in commands over ssh"
    if place.place == "nccl":
        return False, "NCCL takes that only where the environment says nothing, so the profile wins"
    if place.place == "unit":
        if found.how == "unset":
            return True, "that wins over every environment file"
        if place.kind == "unit":
            return False, "an environment file wins over that, so the profile wins"
        return place.later, "that is read later and wins" if place.later else "that is read earlier, so the profile wins"
    return True, "that wins in what it starts"


def own_file(path: str, found: t.Optional[t.Sequence[Assignment]], variables: t.Mapping[str, str], how: str) -> t.Iterator[Finding]:
    """One of the files that the role writes; None: it is not there."""
    subject = Subject("file", path)
    if found is None:
        message = "%s is not there: %s start without the profile" % (path, how)
        yield Finding("training_env.absent", "warning", subject, message, "none", (), "run the role training_env on this node")
        return
    has = {item.name: item.value for item in found if item.how == "set"}
    wrong = ["%s is not set, %s expected" % (name, value) for name, value in variables.items() if name not in has]
    wrong += ["%s is %s, %s expected" % (name, has[name], value) for name, value in variables.items() if has.get(name, value) != value]
    wrong += ["%s is set and does not belong there" % name for name in has if name not in variables]
    if wrong:
        message = "%s is not what the role would write: %s" % (path, "; ".join(wrong[:3]) + ("; ..." if len(wrong) > 3 else ""))
        advice = "run the role training_env again; what should stay belongs into training_env_extra"
        yield Finding("training_env.differs", "warning", subject, message, "none", tuple(wrong), advice)


def effect(
    what: str, variables: t.Mapping[str, str], problem: str, expected: Expected, conflicts: t.Sequence[Finding]
) -> t.Iterator[Finding]:
    """Of a process that was started to see what it gets. C(problem): why it could not tell."""
    subject = Subject("process", what)
    if problem:
        yield Finding("training_env.not_asked", "warning", subject, problem, advice="ask by hand: env", undetermined=True)
        return
    wrong = []
    for name, value in expected.variables.items():
        if variables.get(name) != value:
            has = "is not set" if name not in variables else "is %s" % (variables[name] or "empty")
            wrong.append("%s %s, %s expected" % (name, has, value))
    if not wrong:
        return
    named = {line.split(" ", 1)[0] for line in wrong}
    because = sorted({finding.subject.name for finding in conflicts if finding.evidence[0].partition("=")[0] in named})
    message = "%s does not have the profile: %s" % (what, "; ".join(wrong[:3]) + ("; ..." if len(wrong) > 3 else ""))
    if because:
        message += "; set in " + ", ".join(because)
    # Of somebody's own setting a person should know; without a reason that is found, the profile does not work.
    explained = named <= {finding.evidence[0].partition("=")[0] for finding in conflicts}
    severity = "warning" if explained else "critical"
    advice = _EXTRA_ADVICE if explained else "look at what the shell of that user reads, or at the unit's drop-ins"
    yield Finding("training_env.not_in_effect", severity, subject, message, "look_at_code", tuple(wrong), advice)


def memlock(what: str, limit: t.Optional[str], wanted: str, ceiling: t.Optional[str], rdma: bool) -> t.Iterator[Finding]:
    """C(limit) and C(wanted): kB, or C(unlimited). C(ceiling): that of the first process, above which only the kernel's host can go."""
    if limit is None or not wanted or _kilobytes(limit) >= _kilobytes(wanted):
        return
    message = "%s may lock %s kB of memory, %s expected" % (what, limit, wanted)
    # The driver pins memory for CUDA itself; what counts against the limit is memory registered with a network adapter.
    message += ": NCCL cannot register its buffers with the RDMA adapters" if rdma else ": RDMA needs it, and this node has no such adapter"
    advice = "look at what sets limits besides /etc/security/limits.d, and at LimitMEMLOCK of the unit"
    if ceiling is not None and _kilobytes(ceiling) < _kilobytes(wanted):
        advice = (
            "the first process of this node may lock %s kB itself: a container has to be started with more (--ulimit memlock=-1)" % ceiling
        )
    severity = "critical" if rdma else "warning"
    yield Finding("training_env.memlock", severity, Subject("process", what), message, "look_at_code", (limit,), advice)


def _kilobytes(limit: str) -> float:
    try:
        return float("inf") if limit in ("unlimited", "infinity", "-1") else float(limit)
    except ValueError:
        return 0.0


@dataclass(frozen=True)
class Dump:
    """The folder for the flight recorder's dumps."""

    path: str
    exists: bool
    on: str
    free_bytes: t.Optional[int]
    read_only: bool
    mode: t.Optional[int]
    dumps: int = 0  # of earlier runs
    owners: t.Sequence[str] = ()
    problem: str = ""


def dump(folder: Dump, needed_bytes: int, ranks: int) -> t.Iterator[Finding]:
    subject = Subject("filesystem", folder.on)
    if folder.problem or folder.free_bytes is None:
        message = "the room in %s for the flight recorder's dumps could not be read: %s" % (folder.on, folder.problem)
        yield Finding("training_env.dump_space", "warning", subject, message, undetermined=True)
        return
    kept = int(knowledge.DUMPS_KEPT.value)
    figures = "%d MiB are free on %s, %%s (%d MiB for each dump of %d ranks)" % (
        folder.free_bytes // _MIB, folder.on, -(-needed_bytes // _MIB), ranks,
    )  # fmt: skip
    advice = "make room, or name another folder in training_env_dump_path"
    if folder.read_only:
        message = "%s is mounted read-only: no dump of the flight recorder can be written to %s" % (folder.on, folder.path)
        yield Finding("training_env.dump_space", "critical", subject, message, "look_at_code", (), advice)
    elif folder.free_bytes < needed_bytes:
        message = "the dumps of the flight recorder would not fit into %s: %s" % (
            folder.path,
            figures % ("%d needed" % -(-needed_bytes // _MIB)),
        )
        yield Finding("training_env.dump_space", "critical", subject, message, "look_at_code", (), advice)
    elif folder.free_bytes < needed_bytes * kept:
        message = "%s has room for a few dumps only: %s" % (folder.path, figures % ("%d wanted" % (needed_bytes * kept // _MIB)))
        yield Finding("training_env.dump_space", "warning", subject, message, "look_at_code", (), advice)
    if not folder.exists:
        message = "%s is not there, and PyTorch does not make it: dumps of the flight recorder are lost" % folder.path
        yield Finding("training_env.dump_path", "warning", Subject("file", folder.path), message, advice="run the role training_env")
    elif folder.mode is not None and not folder.mode & 0o022:
        message = "only its owner may write to %s (mode %04o): the dumps of training users are lost" % (folder.path, folder.mode)
        advice = "run the role training_env; training_env_dump_mode and training_env_dump_group say who may write"
        yield Finding("training_env.dump_path", "critical", Subject("file", folder.path), message, "look_at_code", (), advice)
    if folder.dumps:
        words = (folder.dumps, folder.path, ", ".join(folder.owners))
        message = (
            "%d dumps of earlier runs lie in %s (of %s): nobody else's job can write over them, and after the next hang they would be "
        )
        message = message % words + "taken for its own"
        advice = "read them, then move them away"
        yield Finding("training_env.dump_left", "warning", Subject("file", folder.path), message, "look_at_code", (), advice)


def p2p(mode: str, best: t.Optional[str], run_id: str, gpu_ids: t.Sequence[str]) -> t.Iterator[Finding]:
    """C(best): what the last NCCL test measured, C(on) or C(off)."""
    if best == "off" and mode in ("default", *knowledge.P2P_LEVELS):
        message = "the NCCL test of run %s was better without peer-to-peer, and training_env_nccl_p2p is %s" % (run_id, mode)
        yield Finding("training_env.p2p", "warning", NODE, message, "look_at_code", (), "set training_env_nccl_p2p to measured or off")
    known = [platform(device) for device in gpu_ids]
    cards = len(known) > 1 and all(one is not None and one.form == "pcie" for one in known)
    if mode == "measured" and best is None and cards:
        message = "peer-to-peer between the PCIe cards of this node was not measured yet: NCCL decides by itself"
        advice = "run the preflight with its step nccl, or nccl_test, then the role training_env again"
        yield Finding("training_env.p2p_unmeasured", "info", NODE, message, advice=advice)


def shm(size_bytes: t.Optional[int], wanted_bytes: int) -> t.Iterator[Finding]:
    if not wanted_bytes or (size_bytes is not None and size_bytes >= wanted_bytes):
        return
    has = "cannot be read" if size_bytes is None else "holds %d MiB" % (size_bytes // _MIB)
    message = "/dev/shm %s, %d MiB expected: loaders of data and NCCL share memory through it" % (has, wanted_bytes // _MIB)
    advice = "set training_env_shm_size; in a container give it more (--shm-size)"
    yield Finding("training_env.shm", "critical", Subject("filesystem", "/dev/shm"), message, "look_at_code", (), advice)


def names_for_all(torch_version: t.Optional[str]) -> t.Iterator[Finding]:
    if not version(torch_version):
        advice = "set training_env_torch_version or training_env_torch_python"
        yield Finding("training_env.names_for_all", "info", NODE, knowledge.notes(torch_version)[0], advice=advice)
