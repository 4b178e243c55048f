# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What opens the gate: positive evidence, and nothing else. Private to kentino.gpu.

The gate action, the healthy test and the command line all decide here. Nothing in this file raises on a result.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field, replace

from .model import ACTIONS, VERDICTS, Finding, worst
from .result import CheckResult, Result, one_line, problem, rank, read
from .table import sentence
from .waiver import Waiver

WORST = ("pass", "warn")

_AGAIN = "run the check again"
_Findings = t.List[t.Dict[str, t.Any]]


@dataclass(frozen=True)
class Policy:
    """What is asked of the evidence: the worst verdict to accept, the checks that must have run, the findings accepted."""

    worst: str = "pass"
    required: t.Tuple[str, ...] = ()
    waivers: t.Tuple[Waiver, ...] = ()

    def accepts(self, verdict: str) -> bool:
        return verdict in ("pass", self.worst) and verdict in WORST


STRICT = Policy()


@dataclass(frozen=True)
class Decision:
    """Open or shut, and why.

    C(findings) are those of all results and the gate's own about the results (code C(gate.*)), worst first, the waived ones
    last. C(reasons) are sentences for people, one for each thing that keeps the gate shut; none when it is open.
    """

    open: bool
    verdict: str
    action: str
    reasons: t.Tuple[str, ...]
    findings: t.Tuple[t.Dict[str, t.Any], ...]
    notes: t.Tuple[str, ...] = ()
    simulated: bool = False
    ran: t.Tuple[str, ...] = ()  # names of the checks that measured something
    used: t.FrozenSet[int] = field(default_factory=frozenset)  # numbers of the waivers that met a finding

    def message(self) -> str:
        """One sentence, the action first."""
        if not self.open:
            more = len(self.reasons) - 1
            return "gate shut: " + self.reasons[0] + ("; and %d more" % more if more else "")
        waived = sum("waived" in finding for finding in self.findings)
        warned = sum("waived" not in finding and finding["verdict"] == "warn" for finding in self.findings)
        words = [", ".join(self.ran) + " ran"]
        words += [_count(warned, "warning") + " accepted"] if warned else []
        words += [_count(waived, "finding") + " waived"] if waived else []
        return "gate open: " + "; ".join(words)


@dataclass(frozen=True)
class Common:
    """A finding that keeps several hosts shut."""

    code: str
    message: str  # of the first of them
    hosts: t.Tuple[str, ...]

    def sentence(self) -> str:
        names = ", ".join(self.hosts[:5]) + (" and %d more" % (len(self.hosts) - 5) if len(self.hosts) > 5 else "")
        return "%s on %d hosts (%s): %s" % (self.code, len(self.hosts), names, self.message)


@dataclass(frozen=True)
class Fleet:
    """The decision about the hosts of a play together."""

    open: bool
    verdict: str
    action: str
    reasons: t.Tuple[str, ...]
    hosts: t.Mapping[str, Decision]
    bad: t.Tuple[str, ...]
    common: t.Tuple[Common, ...]
    findings: t.Tuple[t.Dict[str, t.Any], ...] = ()
    notes: t.Tuple[str, ...] = ()
    simulated: bool = False

    def message(self) -> str:
        return self.reasons[0] if self.reasons else "fleet: %s" % _share(self.bad, self.hosts)


def decide(given: t.Any, policy: Policy = STRICT, host: str = "", label: str = "result") -> Decision:
    """Judge C(given): one registered result, a list of them, or anything else, which is then C(unknown)."""
    return _with_waiver_notes(_decide(read(given, label), policy, host), policy, host)


def decide_named(given: t.Mapping[str, t.Any], policy: Policy = STRICT, host: str = "") -> Decision:
    """The same for results that have names, so that the sentences can tell them by these."""
    return _with_waiver_notes(_decide(_read_named(given), policy, host), policy, host)


def decide_fleet(given: t.Mapping[str, t.Mapping[str, t.Any]], policy: Policy, max_bad_pct: float = 25, min_bad_hosts: int = 2) -> Fleet:
    """Judge the hosts together: host -> name of a result -> result. Shut when too many of them are bad at the same time.

    Many bad hosts at once are seldom many faults: a driver update, a switch or the air conditioning is the better guess, and
    carrying on would act on all of them.
    """
    hosts = {host: _decide(_read_named(results), policy, host) for host, results in given.items()}
    bad = tuple(host for host, decision in hosts.items() if not decision.open)
    common = _common([hosts[host] for host in bad], policy)
    reasons: t.Tuple[str, ...] = ()
    if not hosts:
        reasons = ("brake: there is no host to judge",)
    elif len(bad) >= min_bad_hosts and not 100 * len(bad) <= max_bad_pct * len(hosts):
        reasons = (_brake(bad, hosts, max_bad_pct, common), *(shared.sentence() for shared in common))
    used = frozenset(number for decision in hosts.values() for number in decision.used)
    findings = [found for decision in hosts.values() for found in decision.findings]
    return Fleet(
        not reasons,
        worst(decision.verdict for decision in hosts.values()) if hosts else "unknown",
        max((hosts[host].action for host in bad), key=ACTIONS.index, default="none"),
        reasons,
        hosts,
        bad,
        common,
        tuple(sorted(findings, key=rank, reverse=True)),
        (*_shared_notes(hosts), *_waiver_notes(policy.waivers, used, list(hosts))),
        any(decision.simulated for decision in hosts.values()),
    )


def _read_named(given: t.Mapping[str, t.Any]) -> t.List[Result]:
    return [result for name, value in given.items() for result in read(value, one_line(name))]


def _decide(results: t.Sequence[Result], policy: Policy, host: str) -> Decision:
    findings: _Findings = []
    problems: t.List[Finding] = []
    notes: t.Dict[str, None] = {}
    used: t.Set[int] = set()
    for result in results:
        own = [dict(found, **({"host": host} if host else {})) for found in result.findings]
        _waive(own, policy.waivers, host, used, notes)
        findings += own
        problems += result.problems or _contradictions(result, own)
    checks = [check for result in results for check in result.checks]
    problems += _required(policy.required, checks)
    skips = ["check %s did not run: %s" % (check.name, check.skipped or "skipped") for check in checks if check.verdict == "skip"]
    ran = tuple(dict.fromkeys(check.name for check in checks if check.verdict != "skip" and check.evidence))
    findings += [_from_gate(found, host) for found in problems]
    if not ran and not any(_blocks(found, policy) for found in findings):
        message = "; ".join(["nothing was measured", *skips])
        findings.append(_from_gate(problem("gate.nothing_ran", message, "ask for one check at least"), host))
    findings.sort(key=rank, reverse=True)
    standing = [found for found in findings if "waived" not in found]
    blocking = [found for found in standing if _blocks(found, policy)]
    return Decision(
        bool(ran) and not blocking,
        worst([found["verdict"] for found in standing] + ["pass" if ran else "unknown"]),
        standing[0]["action"] if standing else "none",
        tuple(sentence(found) for found in blocking),
        tuple(findings),
        (*skips, *notes),
        any(result.simulated for result in results),
        ran,
        frozenset(used),
    )


def _from_gate(found: Finding, host: str) -> t.Dict[str, t.Any]:
    return dict(found.as_dict(), check="", **({"host": host} if host else {}))


def _with_waiver_notes(decision: Decision, policy: Policy, host: str) -> Decision:
    return replace(decision, notes=(*decision.notes, *_waiver_notes(policy.waivers, decision.used, [host])))


def _contradictions(result: Result, findings: _Findings) -> t.Iterator[Finding]:
    """Where a result does not agree with itself, its better word is not believed and its worse word stands.

    C(findings) are its findings, those that are waived marked.
    """
    told = [item["verdict"] for item in findings]
    for check in result.checks:
        told.append(check.verdict)
        own = [item for item in findings if item["check"] == check.name]
        yield from _check_contradictions(check, own, "%s, check %s" % (result.label, check.name))
    yield from _compare(result.verdict, worst(told), result.label, "its checks and findings")


def _check_contradictions(check: CheckResult, findings: _Findings, label: str) -> t.Iterator[Finding]:
    found = worst(["pass", *(item["verdict"] for item in findings)])
    if check.verdict == "skip":
        if found != "pass":
            yield problem("gate.contradiction", "%s says skip and yet has a finding that says %s" % (label, found), _AGAIN)
        return
    if check.skipped:
        yield problem("gate.contradiction", "%s says %s and yet was skipped: %s" % (label, check.verdict, check.skipped), _AGAIN)
    if check.evidence:
        yield from _compare(check.verdict, found, label, "its findings")
    elif all("waived" in item or item["verdict"] not in ("unknown", "fail") for item in findings):
        # the finding that says why nothing was measured may be waived; the missing measurement may not
        yield problem("gate.no_evidence", "%s measured nothing" % label, _AGAIN)


def _compare(said: str, found: str, label: str, whose: str) -> t.Iterator[Finding]:
    if _worse(found, said):
        yield problem("gate.contradiction", "%s says %s and yet %s say %s" % (label, said, whose, found), _AGAIN)
    elif _worse(said, found) and said != "pass":
        yield problem("gate.unexplained", "%s says %s and no finding says why" % (label, said), _AGAIN, said)


def _required(required: t.Iterable[str], checks: t.Sequence[CheckResult]) -> t.Iterator[Finding]:
    for name in dict.fromkeys(required):
        named = [check for check in checks if check.name == name]
        if not named:
            has = ", ".join(sorted({check.name for check in checks})) or "no check at all"
            yield problem("gate.required_missing", "the required check %s is in none of the results, which hold %s" % (name, has), "run it")
        for check in named:
            if check.verdict == "skip":
                why = check.skipped or "no reason was given"
                yield problem("gate.required_skipped", "the required check %s was skipped: %s" % (name, why), "run it")


def _waive(findings: _Findings, waivers: t.Sequence[Waiver], host: str, used: t.Set[int], notes: t.Dict[str, None]) -> None:
    """Mark the findings that a waiver covers; the waivers that met a finding go to C(used)."""
    for found in findings:
        if found["verdict"] == "pass":
            continue
        for waiver in waivers:
            if not waiver.covers(found, host):
                continue
            used.add(waiver.number)
            if found["verdict"] == "unknown" and not waiver.unknown:
                what = "%s on %s" % (found["code"], found["subject"]["label"])
                notes["%s does not cover %s, which could not be told: say unknown: true to accept that" % (waiver.label(), what)] = None
            elif waiver.expired:
                found["waiver_expired"] = waiver.until
            else:
                found["waived"] = waiver.mark()
                found.pop("waiver_expired", None)
                break


def _waiver_notes(waivers: t.Iterable[Waiver], used: t.FrozenSet[int], hosts: t.Sequence[str]) -> t.List[str]:
    notes = []
    for waiver in waivers:
        if waiver.number not in used and any(waiver.on_host(host) for host in hosts):
            ended = "; it expired on " + waiver.until if waiver.expired else ""
            notes.append("%s is unused: it covers no finding%s" % (waiver.label(), ended))
        if waiver.far:
            notes.append("%s runs until %s, more than a year ahead" % (waiver.label(), waiver.until))
    return notes


def _blocks(found: t.Mapping[str, t.Any], policy: Policy) -> bool:
    return "waived" not in found and not policy.accepts(found["verdict"])


def _worse(one: str, other: str) -> bool:
    return VERDICTS.index(one) > VERDICTS.index(other)


def _shared_notes(hosts: t.Mapping[str, Decision]) -> t.Iterator[str]:
    by_note: t.Dict[str, t.List[str]] = {}
    for host, decision in hosts.items():
        for note in decision.notes:
            by_note.setdefault(note, []).append(host)
    for note, named in by_note.items():
        yield "%s: %s" % (named[0] if len(named) == 1 else _count(len(named), "host"), note)


def _common(bad: t.Iterable[Decision], policy: Policy) -> t.Tuple[Common, ...]:
    """What keeps two hosts or more shut, that on the most hosts first."""
    by_code: t.Dict[str, t.Dict[str, t.Dict[str, t.Any]]] = {}
    for decision in bad:
        for found in decision.findings:
            if _blocks(found, policy):
                by_code.setdefault(found["code"], {}).setdefault(found.get("host", ""), found)
    shared = [(code, named) for code, named in by_code.items() if len(named) > 1]
    shared.sort(key=lambda pair: (len(pair[1]), *rank(next(iter(pair[1].values())))), reverse=True)
    return tuple(Common(code, next(iter(named.values()))["message"], tuple(named)) for code, named in shared)


def _brake(bad: t.Sequence[str], hosts: t.Sized, max_bad_pct: float, common: t.Sequence[Common]) -> str:
    first = "what they share"
    if common:
        first = "%s, on %d of them: %s" % (common[0].code, len(common[0].hosts), common[0].message)
    allowed = "%s, at most %s %% allowed" % (_share(bad, hosts), _number(max_bad_pct))
    guess = "a common cause is more likely than %d separate faults" % len(bad)
    return "brake: %s; %s; nothing was changed; look first at %s" % (allowed, guess, first)


def _share(bad: t.Sized, hosts: t.Sized) -> str:
    verb = "is" if len(bad) == 1 else "are"
    return "%d of %s (%s %%) %s bad" % (len(bad), _count(len(hosts), "host"), _number(100 * len(bad) / len(hosts)), verb)


def _number(value: float) -> str:
    return ("%.1f" % value).rstrip("0").rstrip(".")


def _count(number: int, word: str) -> str:
    return "%d %s%s" % (number, word, "" if number == 1 else "s")
