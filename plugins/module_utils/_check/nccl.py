# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The check C(nccl): let the GPUs work together, of one node or of several, and judge results and bandwidth. Private to kentino.gpu."""

from __future__ import annotations

import dataclasses
import typing as t

from .._judge import halving
from .._judge import nccl as judge
from .._knowledge.platforms import platform
from .._report.model import NODE, Check, Finding, Subject
from . import nccl_run, under_load
from .nccl_run import Outcome, Plan, Runner
from .under_load import Session

NAME = judge.NAME
PACKAGE = "nccl-tests (https://github.com/NVIDIA/nccl-tests, built where it runs), on the PATH or in /opt/nccl-tests"

ON: t.Mapping[str, str] = {}
OFF: t.Mapping[str, str] = {"NCCL_P2P_DISABLE": "1"}
_WORDS = {"on": "with peer-to-peer", "off": "with NCCL_P2P_DISABLE=1"}
# Two runs of the same differ by this much; less is no reason to leave the default.
_NO_DIFFERENCE = 0.98
_MUCH_BETTER = 1.1
_P2P_ADVICE = (
    "run jobs with NCCL_P2P_DISABLE=1, which best_environment holds; to mend it look at IOMMU (off, or in pass-through), ACS, and a BAR as "
    "large as the memory"
)
_TAIL_CHARACTERS = 3000


@dataclasses.dataclass(frozen=True)
class Options(under_load.Options):
    plan: Plan = dataclasses.field(default_factory=Plan)
    p2p: str = "auto"
    floor: t.Optional[t.Mapping[str, t.Any]] = None  # value_gbps, message_bytes, gpus, source, date
    run_seconds: float = 600  # longest time for each run
    halve: bool = False

    def __post_init__(self) -> None:
        if self.p2p not in nccl_run.P2P:
            raise ValueError("p2p is %r, expected one of %s" % (self.p2p, ", ".join(nccl_run.P2P)))
        if self.run_seconds <= 0:
            raise ValueError("run_seconds is %r, expected a number of seconds above 0" % self.run_seconds)
        if self.plan.hosts and self.gpus:
            raise ValueError("gpus chooses GPUs of this node and hosts names several nodes; give one of them")
        if self.floor is not None:
            _check_floor(self.floor, self.plan)


def options_from(values: t.Mapping[str, t.Any]) -> Options:
    """From one flat mapping, those of the plan among them."""
    names = {field.name for field in dataclasses.fields(Plan)}
    parts: t.Dict[str, t.Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in values.items() if name in names
    }
    return Options(plan=Plan(**parts), **{name: value for name, value in values.items() if name not in names})


def _check_floor(floor: t.Mapping[str, t.Any], plan: Plan) -> None:
    for key, what in (("value_gbps", "GB/s of bus bandwidth, such as 440"), ("message_bytes", "the message size it holds for, in bytes")):
        value = floor.get(key)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or value <= 0:
            raise ValueError("floor.%s is %r, expected %s" % (key, value, what))
    if floor["message_bytes"] not in plan.sizes():
        ask = (floor["message_bytes"], plan.min_bytes, plan.max_bytes, plan.factor)
        raise ValueError("floor.message_bytes is %s, which is no size of a run from %s to %s by factor %s; change one of them" % ask)


def plan(options: Options) -> t.Tuple[Check, t.Dict[str, t.Any]]:
    """For check mode: what would be run, on as many GPUs as were named."""
    gpus = len(options.gpus) or options.expected.get("count") or "(number of GPUs)"
    argv = nccl_run.command(options.plan, gpus, options.plan.slots(1))
    modes = ["on", "off"] if options.p2p == "both" else [options.p2p]
    words = "check mode, it would run: %s (peer-to-peer: %s)" % (" ".join(argv), ", ".join(modes))
    return Check(NAME, "", skipped=words), _facts(options, None, argv=argv)


def run(options: Options) -> t.Tuple[Check, t.Dict[str, t.Any]]:
    """The check, and the facts it rests on."""
    with Session(NAME, options, options.run_seconds) as session:
        refused = session.refusal()
        if refused:
            return Check(NAME, "", refused), _facts(options, session)
        gpus = len(session.gpus)
        slots = options.plan.slots(gpus)
        modes = _modes(options, session)
        runner = Runner(options.plan, session, gpus, options.run_seconds, len(modes))
        outcomes = _measure(runner, modes, slots, session)
        best = _best(outcomes, options)
        policy = {"expected_ranks": sum(slots.values()) or gpus, "floor": _floor(options)}
        findings = [*_judge(session, outcomes, best, policy), *_compared(outcomes, best, options)]
        found = None
        if options.halve and len(slots) > 1 and not session.stopped and _is_bad(findings):
            found = _halve(runner, slots, outcomes[best].variables, options)
            findings += _judge_search(found, len(slots))
        findings += session.findings()
        judged = judge.check(outcomes[best].record, policy)
        evidence = judged.evidence if outcomes[best].done.outcome == "ended" else ""
        check = Check(NAME, evidence, tuple(findings), metrics=_metrics(judged, outcomes, best, options))
        return check, _facts(options, session, outcomes, best, found)


def _modes(options: Options, session: Session) -> t.List[str]:
    """Off comes first: a run that hangs with peer-to-peer may leave GPUs in a state in which nothing works."""
    if options.p2p in ("on", "off"):
        return [options.p2p]
    if options.p2p == "both":
        return ["off", "on"]
    known = [platform(gpu.device_id) for gpu in session.gpus]
    on_pcie = all(one is not None and one.form == "pcie" for one in known)
    bridged = any(link.active for gpu in session.gpus for link in gpu.nvlinks)
    several = len(session.gpus) > 1 and not options.plan.hosts
    return ["off", "on"] if on_pcie and not bridged and several else ["on"]


def _measure(runner: Runner, modes: t.Sequence[str], slots: t.Mapping[str, int], session: Session) -> t.Dict[str, Outcome]:
    outcomes: t.Dict[str, Outcome] = {}
    for mode in modes:
        outcomes[mode] = runner.run(ON if mode == "on" else OFF, slots)
        if session.stopped or outcomes[mode].done.outcome in ("missing", "denied"):
            break
    return outcomes


def _floor(options: Options) -> t.Optional[t.Dict[str, t.Any]]:
    return {**options.floor, "value": options.floor["value_gbps"]} if options.floor else None


def _bytes(options: Options) -> t.Optional[int]:
    return int(options.floor["message_bytes"]) if options.floor else None


def _works(outcome: Outcome) -> bool:
    """Whether it came to its end and its results are right; slow is another question."""
    found = judge.judge(outcome.record, {})
    return outcome.done.outcome == "ended" and not any(finding.verdict in ("fail", "unknown") for finding in found)


def _best(outcomes: t.Mapping[str, Outcome], options: Options) -> str:
    """The setting to run jobs with: the default, unless only the other works or is better."""
    if "on" not in outcomes or "off" not in outcomes:
        return next(iter(outcomes))
    on, off = outcomes["on"], outcomes["off"]
    if _works(on) != _works(off):
        return "on" if _works(on) else "off"
    rates = [outcome.rate(_bytes(options)) or 0.0 for outcome in (on, off)]
    return "off" if _works(off) and rates[0] < rates[1] * _NO_DIFFERENCE else "on"


def _judge(session: Session, outcomes: t.Mapping[str, Outcome], best: str, policy: t.Mapping[str, t.Any]) -> t.Iterator[Finding]:
    outcome = outcomes[best]
    problem = under_load.outcome_finding(outcome.done, PACKAGE)
    if problem:
        yield problem
    if outcome.done.outcome in ("missing", "denied"):
        return
    if session.stopped:
        about, why = session.stopped
        yield Finding("nccl.stopped", "critical", about, "the test was stopped early: %s: %s" % (about.label(), why))
    for finding in judge.judge(outcome.record, policy):
        if not (session.stopped and finding.undetermined):
            yield finding
    for code, severity, message in outcome.notes:
        unknown = severity == "unknown"
        yield Finding(code, "warning" if unknown else severity, NODE, message, undetermined=unknown)


def _compared(outcomes: t.Mapping[str, Outcome], best: str, options: Options) -> t.Iterator[Finding]:
    """What the two settings say of each other."""
    if len(outcomes) < 2:
        return
    other = "on" if best == "off" else "off"
    outcome = outcomes[other]
    if not _works(outcomes[best]):
        return
    if not _works(outcome):
        yield from _judge_broken(outcome, other)
        return
    rates = {mode: outcomes[mode].rate(_bytes(options)) for mode in ("on", "off")}
    on, off = rates["on"], rates["off"]
    if best == "off" and on and off and off > on * _MUCH_BETTER:
        message = "peer-to-peer makes it slower: %.1f GB/s, %.1f GB/s without" % (on, off)
        yield Finding("nccl.p2p_slow", "info", NODE, message, advice=_P2P_ADVICE)


def _judge_broken(outcome: Outcome, mode: str) -> t.Iterator[Finding]:
    found = [finding for finding in judge.judge(outcome.record, {}) if finding.verdict in ("fail", "unknown")]
    if mode == "off":
        why = outcome.done.problem() or found[0].message
        yield Finding("nccl.p2p_off", "info", NODE, "without peer-to-peer it does not work: %s" % why)
        return
    wrong = [finding for finding in found if finding.code == "nccl.wrong"]
    for finding in wrong:
        # The default of every job, and no error message: this must not pass for a matter of settings.
        message = "%s with peer-to-peer, none with NCCL_P2P_DISABLE=1" % finding.message
        yield dataclasses.replace(finding, message=message, advice=_P2P_ADVICE)
    if outcome.hung:
        message = "with peer-to-peer it had not ended after %.0f s, without it works" % outcome.done.seconds
        yield Finding("nccl.p2p_hang", "warning", NODE, message, "look_at_code", advice=_P2P_ADVICE)
    elif not wrong:
        why = outcome.done.problem() or found[0].message
        message = "with peer-to-peer it fails, without it works: %s" % why
        yield Finding("nccl.p2p_failed", "warning", NODE, message, "look_at_code", advice=_P2P_ADVICE)


def _is_bad(findings: t.Iterable[Finding]) -> bool:
    return any(finding.verdict in ("fail", "unknown") and finding.code.startswith(("nccl.", "tool.timeout")) for finding in findings)


def _halve(runner: Runner, slots: t.Mapping[str, int], variables: t.Mapping[str, str], options: Options) -> halving.Found:
    def measure(nodes: t.Tuple[str, ...]) -> t.Optional[float]:
        outcome = runner.run(variables, {name: slots[name] for name in nodes})
        return outcome.rate(_bytes(options)) if _works(outcome) else None

    return halving.search(list(slots), measure, float(options.floor["value_gbps"]) if options.floor else None)


def _judge_search(found: halving.Found, nodes: int) -> t.Iterator[Finding]:
    for name in found.bad:
        evidence = tuple(_words(tried) for tried in found.tried if name in tried.nodes)
        message = "every group of nodes with %s in it is slow or fails; others do not" % name
        advice = "look at its network cards, their cables and its PCIe links, and run the checks of one node there"
        yield Finding("nccl.slow_node", "critical", Subject("node", name), message, "look_at_code", evidence, advice)
    for group in found.together:
        evidence = tuple(_words(tried) for tried in found.tried)
        message = "%s are slow or fail together, and none of them is bad by itself: the way between them" % ", ".join(group)
        advice = "look at the switches and cables between them; with two nodes only it cannot be told which of them it is"
        yield Finding("nccl.between_nodes", "critical", NODE, message, "look_at_code", evidence, advice)
    if not found.complete:
        message = "the search for the bad one of %d nodes was ended after %d runs" % (nodes, len(found.tried))
        yield Finding("nccl.search", "info", NODE, message)


def _words(tried: halving.Tried) -> str:
    figure = "failed" if tried.gbps is None else "%.1f GB/s" % tried.gbps
    return "%s: %s%s" % (", ".join(tried.nodes), figure, "" if tried.good or tried.gbps is None else ", too slow")


def _metrics(judged: Check, outcomes: t.Mapping[str, Outcome], best: str, options: Options) -> t.Dict[str, t.Any]:
    numbers = dict(judged.metrics)
    numbers["busbw_gbps"] = outcomes[best].rate(_bytes(options))
    numbers["message_bytes"] = _bytes(options) or max(options.plan.sizes())
    numbers["floor_gbps"] = options.floor["value_gbps"] if options.floor else None
    return numbers


def _facts(
    options: Options,
    session: t.Optional[Session],
    outcomes: t.Optional[t.Mapping[str, Outcome]] = None,
    best: str = "",
    found: t.Optional[halving.Found] = None,
    argv: t.Sequence[str] = (),
) -> t.Dict[str, t.Any]:
    outcomes = outcomes or {}
    works = best in outcomes and _works(outcomes[best])
    return {
        "argv": list(outcomes[best].argv) if best in outcomes else list(argv),
        "gpus": [gpu.index for gpu in session.gpus] if session else list(options.gpus),
        "best_p2p": best or None,
        "best_environment": dict(outcomes[best].variables) if works else {},
        "runs": [_told(mode, outcome, options) for mode, outcome in outcomes.items()],
        "search": [{"nodes": list(tried.nodes), "busbw_gbps": tried.gbps, "good": tried.good} for tried in found.tried] if found else [],
        "simulated": session.simulated if session else False,
    }


def _told(mode: str, outcome: Outcome, options: Options) -> t.Dict[str, t.Any]:
    runs = [run for run in outcome.record.runs if run.rows]
    works = _works(outcome)
    return {
        "p2p": mode,
        "argv": list(outcome.argv),
        "outcome": outcome.done.outcome,
        "exit_status": outcome.done.rc,
        "wall_seconds": round(outcome.done.seconds, 1),
        "works": works,
        "format": runs[-1].format if runs else None,
        "nccl_version": runs[-1].nccl_version if runs else None,
        "busbw_gbps": outcome.rate(_bytes(options)),
        "rows": [{"size": row.size, "busbw_gbps": judge.busbw(row)} for row in runs[-1].rows] if runs else [],
        "output_tail": "" if works else outcome.text[-_TAIL_CHARACTERS:],
    }
