# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The check C(training_env): with which environment training starts on this node. Private to kentino.gpu."""

from __future__ import annotations

import dataclasses
import os
import typing as t

from .._judge import training_env as judge
from .._knowledge import training_env as knowledge
from .._knowledge import training_env_names as names
from .._knowledge.torch_environment import version
from .._parse.training_env import Assignment, parse
from .._probe import command, dryrun
from .._probe import training_env as probe
from .._report.model import Check, Finding, Subject

NAME = "training_env"
ASK = ("login_shell", "unit")
_EXTRA = "training_env_extra"
_MOST_FACTS = 500


@dataclasses.dataclass(frozen=True)
class Options:
    torch_version: str = ""
    torch_python: str = ""
    dump_path: str = knowledge.DUMP_PATH
    buffer_size: int = knowledge.BUFFER_SIZE
    ranks: int = 0  # of this node; 0: as many as it has GPUs, or eight
    allocator: str = knowledge.ALLOCATOR
    nccl: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    p2p: str = "measured"
    nccl_result: t.Mapping[str, t.Any] = dataclasses.field(default_factory=dict)
    preflight_path: str = "/var/lib/kentino-gpu/preflight"
    extra: t.Mapping[str, t.Optional[str]] = dataclasses.field(default_factory=dict)
    profile_path: str = knowledge.PROFILE_PATH
    unit_environment_path: str = knowledge.UNIT_ENVIRONMENT_PATH
    container_environment_path: str = knowledge.CONTAINER_ENVIRONMENT_PATH
    units: t.Sequence[str] = ()
    paths: t.Sequence[str] = ()
    users: bool = True
    processes: bool = True
    ask: t.Sequence[str] = ()
    user: str = "root"
    memlock: str = ""
    shm_bytes: int = 0
    deadline_seconds: float = 20

    def __post_init__(self) -> None:
        if self.p2p not in knowledge.P2P:
            raise ValueError("p2p is %r, expected one of %s" % (self.p2p, ", ".join(knowledge.P2P)))
        if self.torch_version and not version(self.torch_version):
            raise ValueError("torch_version is %r, expected a version such as 2.9.1" % self.torch_version)
        if self.buffer_size < 1:
            raise ValueError("buffer_size is %r, expected the number of collectives to keep, such as 20000" % self.buffer_size)


def run(options: Options) -> t.Tuple[Check, t.Dict[str, t.Any]]:
    """The check, and what it rests on. ValueError where an option is wrong."""
    command.check_deadline(options.deadline_seconds)
    findings: t.List[Finding] = []
    torch_version, told = _torch(options, findings)
    measured = probe.from_result(options.nccl_result, "given") or probe.measured(options.preflight_path)
    gpus = probe.gpu_ids()
    more = {**_p2p(options, measured), **options.nccl}
    variables = knowledge.profile(
        torch_version, options.dump_path or None, options.buffer_size, options.allocator, more, _text_values(options.extra)
    )
    expected = judge.Expected(variables, torch_version, tuple(options.units), options.profile_path)
    findings += judge.names_for_all(torch_version)
    findings += judge.p2p(options.p2p, measured.best if measured else None, measured.run_id if measured else "", gpus)
    facts: t.Dict[str, t.Any] = {
        "variables": variables,
        "torch_version": torch_version,
        "torch_source": told,
        "notes": knowledge.notes(torch_version),
        "p2p": {
            "setting": options.p2p,
            "measured": measured.best if measured else None,
            "run_id": measured.run_id if measured else None,
            "variables": _p2p(options, measured),
        },
        "simulated": bool(os.environ.get("KENTINO_SIM_STATE")),
    }
    facts["files"] = _own_files(options, variables, findings)
    facts["dump"] = _dump(options, len(gpus), findings) if options.dump_path else None
    places = _places(options, findings)
    conflicts = _settings(places, expected, findings)
    facts["elsewhere"] = [
        {"place": place.place, "path": place.path, "line": item.line, "name": item.name, "value": item.value, "how": item.how}
        for place, item in places
        if names.is_about_training(item.name)
    ][:_MOST_FACTS]
    facts["shm_bytes"] = probe.size_of("/dev/shm")
    findings += judge.shm(facts["shm_bytes"], options.shm_bytes)
    facts["asked"] = _ask(options, expected, conflicts, findings)
    evidence = "%d variables for %s; %d files and processes that set others" % (
        len(variables),
        "PyTorch " + torch_version if torch_version else "every PyTorch from 2.2 on",
        len({place.path for place, item in places if names.is_about_training(item.name)}),
    )
    metrics = {"variables": len(variables), "deprecated": sum(finding.code == "training_env.deprecated" for finding in findings)}
    return Check(NAME, evidence, tuple(findings), metrics=metrics), facts


def _torch(options: Options, findings: t.List[Finding]) -> t.Tuple[t.Optional[str], str]:
    if options.torch_version:
        return options.torch_version, "given"
    if not options.torch_python:
        return None, ""
    found = dryrun.ask(options.torch_python, options.deadline_seconds)
    if found.torch is not None and version(found.torch):
        return found.torch, options.torch_python
    why = found.problem or ("it has a PyTorch of version %s" % found.torch if found.torch else "it has no PyTorch")
    message = "%s does not tell the version of PyTorch: %s" % (options.torch_python, why)
    findings.append(Finding("training_env.torch", "warning", Subject("tool", options.torch_python), message, undetermined=True))
    return None, ""


def _p2p(options: Options, measured: t.Optional[probe.Measured]) -> t.Dict[str, str]:
    if options.p2p == "off":
        return {"NCCL_P2P_DISABLE": "1"}
    if options.p2p == "measured":
        return dict(measured.environment) if measured else {}
    return {} if options.p2p == "default" else {"NCCL_P2P_LEVEL": options.p2p}


def _text_values(extra: t.Mapping[str, t.Any]) -> t.Dict[str, t.Optional[str]]:
    """YAML makes numbers and booleans of what is text to a program."""
    for name, value in extra.items():
        if isinstance(value, (dict, list)):
            raise ValueError("the value of %s is %r, expected text, or null to leave it out" % (name, value))
    return {
        str(name): None if value is None else str(int(value)) if isinstance(value, bool) else str(value) for name, value in extra.items()
    }


def _own_files(options: Options, variables: t.Mapping[str, str], findings: t.List[Finding]) -> t.List[t.Dict[str, t.Any]]:
    told = []
    for path, kind, how in (
        (options.profile_path, "shell", "login shells"),
        (options.unit_environment_path, "env", "systemd units"),
        (options.container_environment_path, "env", "containers"),
    ):
        text = probe.content(path)
        found = None if text is None else parse(text, kind).assignments
        wrong = list(judge.own_file(path, found, variables, how))
        findings += wrong
        state = "same" if not wrong else "absent" if text is None else "differs"
        told.append({"path": path, "state": state, "differences": [line for finding in wrong for line in finding.evidence]})
    return told


def _dump(options: Options, gpus: int, findings: t.List[Finding]) -> t.Dict[str, t.Any]:
    ranks = options.ranks or gpus or 8
    needed = knowledge.dump_bytes(options.buffer_size, ranks)
    found, problem = probe.read(
        "the file system of %s" % options.dump_path, lambda: dataclasses.asdict(probe.folder(options.dump_path)), options.deadline_seconds
    )
    found = found or {"path": options.dump_path, "exists": False, "on": options.dump_path, "free_bytes": None, "problem": problem}
    fields = {field.name for field in dataclasses.fields(judge.Dump)}
    folder = judge.Dump(**{"read_only": False, "mode": None, **{key: value for key, value in found.items() if key in fields}})
    findings += judge.dump(folder, needed, ranks)
    return {
        "path": folder.path,
        "on": folder.on,
        "exists": folder.exists,
        "free_bytes": folder.free_bytes,
        "needed_bytes": needed,
        "mode": None if folder.mode is None else "%04o" % folder.mode,
    }


def _places(options: Options, findings: t.List[Finding]) -> t.List[t.Tuple[judge.Place, Assignment]]:
    """Every assignment that is not ours, with where it stands."""
    readers: t.List[t.Tuple[str, t.Callable[[], t.Any]]] = [
        ("the files of the system", lambda: _plain(probe.files(profile_path=options.profile_path))),
        ("the unit files", lambda: _plain(probe.unit_files())),
    ]
    if options.users:
        readers.append(("the homes of the users", lambda: _plain(probe.users_files())))
    if options.processes:
        readers.append(("the running processes", lambda: _plain(probe.processes())))
    if options.paths:
        readers.append(("the files that were named", lambda: _given(options)))
    sources: t.List[probe.Source] = []
    for what, function in readers:
        found, problem = probe.read(what, function, options.deadline_seconds)
        if problem:
            findings.append(Finding("training_env.unreadable", "warning", Subject("tool", what), problem, undetermined=True))
        for item in found or ():
            if "missing" in item:
                message = "%s was named to be looked at and is not there" % item["missing"]
                findings.append(Finding("training_env.unreadable", "info", Subject("file", item["missing"]), message))
            else:
                sources.append(probe.Source(**item))
    ours = {options.profile_path, options.unit_environment_path, options.container_environment_path}
    places = []
    for source in sources:
        if source.path in ours or os.path.basename(source.path) == knowledge.DROP_IN:
            continue
        place = judge.Place(source.path, source.place, source.later, source.unit, source.kind, source.processes)
        places += [(place, item) for item in parse(source.text, source.kind).assignments if item.name]
    extra = judge.Place(_EXTRA, "extra", kind="inventory")
    places += [(extra, Assignment(str(name), str(value), 0)) for name, value in options.extra.items() if value is not None]
    return places


def _plain(sources: t.Sequence[probe.Source]) -> t.List[t.Dict[str, t.Any]]:
    return [dataclasses.asdict(source) for source in sources]


def _given(options: Options) -> t.List[t.Dict[str, t.Any]]:
    sources, missing = probe.given_files(options.paths)
    return [*_plain(sources), *({"missing": pattern} for pattern in missing)]


def _settings(places: t.Sequence[t.Tuple[judge.Place, Assignment]], expected: judge.Expected, findings: t.List[Finding]) -> t.List[Finding]:
    """Judges them all; gives those that win over ours."""
    conflicts = []
    for place, item in places:
        for finding in judge.assignment(place, item, expected):
            findings.append(finding)
            if finding.code == "training_env.conflict" and finding.severity == "warning":
                conflicts.append(finding)
    return conflicts


def _ask(
    options: Options, expected: judge.Expected, conflicts: t.Sequence[Finding], findings: t.List[Finding]
) -> t.List[t.Dict[str, t.Any]]:
    asked = []
    for what in options.ask:
        if what == "login_shell":
            words = "a login shell of %s" % options.user
            answer = probe.login_shell(options.user, options.deadline_seconds)
        else:
            words = "a transient unit"
            answer = probe.transient_unit(options.unit_environment_path, options.memlock, options.deadline_seconds)
        findings += judge.effect(words, answer.variables, answer.problem, expected, conflicts)
        if not answer.problem:
            findings += judge.memlock(words, answer.memlock, options.memlock, probe.memlock_ceiling(), probe.has_rdma())
        has = {name: answer.variables[name] for name in sorted(answer.variables) if names.is_about_training(name)}
        asked.append({"what": what, "variables": has, "memlock": answer.memlock, "problem": answer.problem})
    return asked
