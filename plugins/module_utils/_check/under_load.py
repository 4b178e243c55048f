# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Run something that loads the GPUs, and look at GPUs and kernel log while it runs. Private to kentino.gpu.

A C(Session) knows the GPUs before, during and after; whatever it runs, its findings name a GPU by what it was before.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import time
import typing as t

from .._judge import gpu as gpu_judge
from .._judge import gpu_use, kernel_log, load, load_shares
from .._judge.gpu_context import Context, subject
from .._knowledge import thresholds
from .._parse import kernel_log as log_parser
from .._parse import nvml
from .._parse.gpu_records import Gpu, GpuReading
from .._probe import gpu_samples, guard, lease, log_window, progress, watch
from .._report.model import NODE, Finding, Subject
from . import gpu as gpu_check

LOG_SOURCES = ("auto", "journal", "kmsg", "none")

# The order that gives CUDA's numbers the meaning of NVML's. One that the caller has for itself must not choose the GPUs.
ENVIRONMENT: t.Mapping[str, t.Optional[str]] = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": None}

_TICK_SECONDS = 5.0
_LOG_SECONDS = 10.0
# A tool that hung may have left a driver that hangs: no question is waited for so long after the tool's deadline, so that with the
# ends of what hangs all is over within five seconds.
_AFTER_SECONDS = 3.5
_LEAST_SECONDS = 0.5
# While the tool waits for us: what cannot be read by then is read when it has ended.
_LOG_DEADLINE_SECONDS = 3.0
# Of a reading after the load, what the load can have done. Heat and use are judged by the samples; the rest is the health check's.
_AFTERMATH = (
    *(
        "gpu.count",
        "gpu.ecc",
        "gpu.fabric",
        "gpu.incomplete",
        "gpu.lost",
        "gpu.none",
        "gpu.nvlink",
        "gpu.pcie_replays",
        "gpu.recovery_action",
    ),
    *("gpu.reboot_required", "gpu.repair", "gpu.reset_required", "gpu.retired", "gpu.row_remap", "gpu.sram", "gpu.unrepairable"),
    *("gpu.value_error", "tool.", "nvml.", "driver."),
)
# What killing a process on a GPU leaves in the log.
_OF_A_KILL = ("xid.43", "xid.45")


@dataclasses.dataclass(frozen=True)
class Options:
    """What every step that loads the GPUs takes."""

    gpus: t.Sequence[int] = ()  # NVML's indexes; none: all
    source: str = "auto"
    expected: t.Mapping[str, t.Any] = dataclasses.field(default_factory=dict)
    limits: t.Mapping[str, t.Any] = dataclasses.field(default_factory=dict)
    sample_seconds: float = 5
    kernel_log_source: str = "auto"
    xid_policy: t.Mapping[str, t.Any] = dataclasses.field(default_factory=dict)
    progress_path: t.Optional[str] = None
    deadline_seconds: float = 20  # for each thing asked beside the tool itself


@dataclasses.dataclass
class Standing:
    """How far the tool is, as far as its own output tells."""

    percent: t.Optional[float] = None
    errors: int = 0


class Session:
    """C(with Session(...) as session): C(refusal) first, then C(run) as often as needed, then C(findings)."""

    def __init__(self, step: str, options: Options, total_seconds: float) -> None:
        self.step = step
        self.options = options
        self.expected = gpu_judge.check_expected(options.expected)
        self.limits = thresholds.limits(options.limits)
        kernel_log.KernelPolicy.from_mapping({"xid_policy": options.xid_policy})  # a wrong one is told before anything runs
        self.standing = Standing()
        self.samples: t.List[load_shares.Sample] = []
        self.stopped: t.Optional[t.Tuple[Subject, str]] = None  # what the tool was stopped for
        self.first = GpuReading("")
        self.loaded_seconds = 0.0
        self._due = float("inf")  # when all must be over
        self._total_seconds = total_seconds
        self._begin = time.monotonic()
        self._begin_usec = int(time.time() * 1e6)
        self._hottest: t.Optional[t.Tuple[int, int]] = None  # degrees and GPU, so far
        self._killed = False
        self._complaints: t.List[str] = []
        self._log_read = 0.0
        self._mark: t.Optional[log_window.Mark] = None
        self._sampler: t.Optional[gpu_samples.Sampler] = None
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Session:
        self._stack.enter_context(guard.interruptible())
        self.first = gpu_check.read(self.options.source, self.options.deadline_seconds)
        return self

    def __exit__(self, kind: t.Any, _value: t.Any, _trace: t.Any) -> None:
        try:
            self._close_sampler()
            self._write_progress("finished" if kind is None else "interrupted")
        finally:
            self._stack.close()

    @property
    def gpus(self) -> t.Tuple[Gpu, ...]:
        """Those that are to be loaded, as they were before."""
        wanted = set(self.options.gpus)
        return tuple(gpu for gpu in self.first.gpus if not wanted or gpu.index in wanted)

    @property
    def simulated(self) -> bool:
        return self.first.simulated

    def refusal(self) -> t.Tuple[Finding, ...]:
        """Why nothing may be run: GPUs that are in use, that cannot be read, or that are not there."""
        findings = []
        if not self.first.gpus or not self.first.complete:
            errors = [one for one in gpu_judge.judge(self.first, {}, self.options.limits) if one.verdict in ("fail", "unknown")]
            message = "whether the GPUs are in use cannot be told: %s" % (self.first.error or "they could not all be read")
            return (*errors, self._busy(NODE, message, undetermined=True))
        known = {gpu.index for gpu in self.first.gpus}
        strange = sorted(set(self.options.gpus) - known)
        if strange:
            numbers, there = (", ".join(map(str, indexes)) for indexes in (strange, sorted(map(_whole, known))))
            raise ValueError("gpus: there is no GPU %s, expected indexes out of %s; correct the list" % (numbers, there))
        allowed = {gpu_use_name(name) for name in self.expected.get("allowed_processes", ())}
        context = Context(self.first, self.expected, self.limits)
        for gpu in self.gpus:
            if gpu.state == "lost":
                continue
            foreign = [one for one in gpu.processes or () if not (one.name and gpu_use_name(one.name) in allowed)]
            if foreign:
                words = ["pid %d %s" % (one.pid, one.name or "(name not told)") for one in foreign]
                findings.append(self._busy(subject(gpu), "in use by %s; nothing was run" % ", ".join(words[:3]), tuple(words)))
            elif gpu.processes is None:
                findings.append(self._busy(subject(gpu), "whether it is in use is not told; nothing was run", undetermined=True))
            for held in gpu_use.judge_held_memory(gpu, context) if not allowed else ():
                findings.append(self._busy(held.subject, held.message + "; nothing was run", undetermined=True))
        return tuple(findings)

    def _busy(self, about: Subject, message: str, evidence: t.Tuple[str, ...] = (), undetermined: bool = False) -> Finding:
        severity = "warning" if undetermined else "critical"
        advice = "end what uses the GPU, or name it in allowed_processes of gpu_expected"
        return Finding(self.step + ".busy", severity, about, message, "look_at_code", evidence, advice, undetermined)

    def environment(self) -> t.Dict[str, t.Optional[str]]:
        """Variables that show the tool the chosen GPUs, in the order of their indexes."""
        if not self.options.gpus:
            return dict(ENVIRONMENT)
        names = [gpu.uuid or str(gpu.index) for gpu in self.gpus]
        return dict(ENVIRONMENT, CUDA_VISIBLE_DEVICES=",".join(names))

    def run(
        self,
        argv: t.Sequence[str],
        deadline_seconds: float,
        on_stdout: t.Optional[watch.Listener] = None,
        variables: t.Optional[t.Mapping[str, t.Optional[str]]] = None,
        stops: bool = False,
        **more: t.Any,
    ) -> watch.Watched:
        """Run a tool and look around. C(stops): end it as soon as a GPU has failed for certain. C(more) as C(watch.watch) takes it."""
        if self._mark is None and self.options.kernel_log_source != "none":
            self._mark = log_window.mark(self.options.kernel_log_source, min(5.0, self.options.deadline_seconds))
        if self._sampler is None:
            self._begin = time.monotonic()
            self._sampler = gpu_samples.Sampler(self.options.sample_seconds, self.options.source)
        self._write_progress("running")
        self._log_read = time.monotonic()
        until = time.monotonic() + deadline_seconds
        self._due = until + _AFTER_SECONDS
        done = watch.watch(
            argv,
            deadline_seconds,
            on_stdout,
            lambda: self._tick(stops, until),
            _TICK_SECONDS,
            {self._sampler.descriptor: lambda chunk: self._sampled(chunk, stops)},
            variables=dict(self.environment(), **(variables or {})),
            **more,
        )
        self.loaded_seconds = time.monotonic() - self._begin
        self._killed = self._killed or done.outcome != "ended"
        return done

    def wait(self, seconds: float) -> None:
        """Between two runs; the progress goes on."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self._write_progress("running")
            time.sleep(max(0.0, min(_TICK_SECONDS, until - time.monotonic())))

    def stop(self, about: Subject, why: str) -> str:
        """Note what the tool is stopped for; what a listener returns to have it stopped."""
        self.stopped = self.stopped or (about, why)
        return "%s: %s" % (about.label(), why)

    def _sampled(self, chunk: bytes, stops: bool) -> t.Optional[str]:
        for raw in self._sampler.feed(chunk) if self._sampler is not None else ():
            reading = _reading(raw)
            self.samples.append(load_shares.Sample(time.monotonic() - self._begin, reading))
            heat = [(gpu.temperature_c, gpu.index) for gpu in reading.gpus if gpu.temperature_c is not None and gpu.index is not None]
            self._hottest = max([*heat, *([self._hottest] if self._hottest else [])], default=None)
            found = load.emergency(reading, self.first, [_whole(gpu.index) for gpu in self.gpus])
            if found and stops:
                return self.stop(*found)
        return None

    def _tick(self, stops: bool, until: float) -> t.Optional[str]:
        self._write_progress("running")
        unwatched = lease.expired(self.options.progress_path, time.monotonic() - self._begin)
        if unwatched:
            return self.stop(NODE, unwatched)
        now = time.monotonic()
        if not stops or now < self._log_read + _LOG_SECONDS or now > until - _LOG_DEADLINE_SECONDS:
            return None
        found = self._log_findings(_LOG_DEADLINE_SECONDS)
        self._log_read = time.monotonic()
        ours = {gpu.index for gpu in self.gpus}
        for finding in found:
            about = finding.subject
            if finding.verdict == "fail" and about.kind == "gpu" and (about.index is None or about.index in ours):
                return self.stop(about, finding.message)
        return None

    def _write_progress(self, state: str) -> None:
        if not self.options.progress_path:
            return
        elapsed = time.monotonic() - self._begin
        content = {
            "step": self.step,
            "state": state,
            "percent": 100.0 if state == "finished" else self.standing.percent,
            "elapsed_seconds": round(elapsed, 1),
            "total_seconds": self._total_seconds,
            "hottest_c": self._hottest[0] if self._hottest else None,
            "hottest_gpu": self._hottest[1] if self._hottest else None,
            "errors": self.standing.errors,
        }
        complaint = progress.write(self.options.progress_path, content)
        if complaint and complaint not in self._complaints:
            self._complaints.append(complaint)

    def _close_sampler(self) -> None:
        if self._sampler is not None:
            self._sampler.close()
            self._sampler = None

    def findings(self, **policy: t.Any) -> t.Tuple[Finding, ...]:
        """What GPUs and kernel log say after all runs; with C(policy), as C(load.judge) takes it, also of the load itself."""
        self._close_sampler()
        found = [Finding("load.progress", "info", NODE, complaint) for complaint in self._complaints]
        # The log comes first and is mostly there at once.
        found += self._log_findings(self._allowed(0.4))
        seen = list(load.judge(self.samples, self.load_policy(**policy))) if policy else []
        return (*found, *_distinct(self.named(finding) for finding in [*seen, *self._aftermath()]))

    def _allowed(self, part: float = 1.0) -> float:
        """How long a question may take: as long as any, but not beyond the time when all must be over."""
        return max(_LEAST_SECONDS, min(self.options.deadline_seconds, (self._due - time.monotonic()) * part))

    def load_policy(self, **policy: t.Any) -> t.Dict[str, t.Any]:
        gpus = [_whole(gpu.index) for gpu in self.gpus]
        return {"expected": self.expected, "limits": self.limits, "gpus": gpus, "end_seconds": self.loaded_seconds, **policy}

    def _aftermath(self) -> t.Iterator[Finding]:
        after = gpu_check.read(self.options.source, self._allowed())
        now_usec = int(time.time() * 1e6)
        earlier = gpu_judge.counters(self.first, self._begin_usec)
        expected = {key: value for key, value in self.options.expected.items() if key != "idle"}
        if self._killed:
            yield from self._left_running(after)
        for finding in gpu_judge.judge(after, expected, self.options.limits, earlier=earlier, now_usec=now_usec):
            ours = finding.subject.kind != "gpu" or finding.subject.index in {None, *(gpu.index for gpu in self.gpus)}
            if ours and finding.code.startswith(_AFTERMATH) and finding.verdict != "pass":
                yield finding

    def _left_running(self, after: GpuReading) -> t.Iterator[Finding]:
        """What a service started for the tool, and the end of the tool did not end."""
        allowed = {gpu_use_name(name) for name in self.expected.get("allowed_processes", ())}
        for gpu in after.gpus:
            left = ["pid %d %s" % (one.pid, one.name) for one in gpu.processes or () if one.name and gpu_use_name(one.name) not in allowed]
            if left and gpu.index in {one.index for one in self.gpus}:
                message = "still in use after the tool was killed: %s" % ", ".join(left[:3])
                yield Finding("load.left_running", "warning", subject(gpu), message, "look_at_code", tuple(left), "end it by hand")

    def _log_findings(self, deadline_seconds: float) -> t.List[Finding]:
        """What the kernel has logged since the start."""
        if self._mark is None:
            return []
        reading = log_window.read(self._mark, deadline_seconds)
        findings = []
        if reading.error and not reading.lines:
            code = {"missing_tool": "tool.missing", "timeout": "tool.timeout"}.get(reading.error_kind or "", "kernel_log.unread")
            message = "the kernel log of this run was not read: %s" % reading.error
            return [Finding(code, "warning", Subject("tool", name=reading.source), message, undetermined=True)]
        if reading.gap:
            message = "the %s no longer reaches back to the start of this run: older lines were judged with it" % reading.source
            findings.append(Finding("kernel_log.gap", "info", NODE, message))
        if reading.error:
            findings.append(Finding("kernel_log.unread", "warning", NODE, "the kernel log: %s" % reading.error, undetermined=True))
        policy = kernel_log.KernelPolicy.from_mapping(
            {
                "xid_policy": self.options.xid_policy,
                "power_domains": self.expected.get("power_domains"),
                "gpu_pci": [gpu.pci for gpu in self.first.gpus if gpu.pci],
                "driver_version": self.first.driver_version,
                "now_usec": int(time.time() * 1e6),
            }
        )
        moment = datetime.datetime.fromtimestamp(reading.reference or time.time(), datetime.timezone.utc)
        log = log_parser.parse_lines(reading.lines, reference=moment)
        # That nothing came is evidence where the place was found again.
        judged = [one for one in kernel_log.judge(log, policy) if one.code != "kernel_log.empty"]
        return findings + [self.named(self._excused(finding)) for finding in judged]

    def _excused(self, finding: Finding) -> Finding:
        if self._killed and finding.code in _OF_A_KILL:
            return dataclasses.replace(finding, severity="info", action="none", message=finding.message + " (the tool had been killed)")
        return finding

    def named(self, finding: Finding) -> Finding:
        """With every name that the GPU had before the load."""
        about = finding.subject
        if about.kind != "gpu":
            return finding
        same = [gpu for gpu in self.first.gpus if _is_same(gpu, about)]
        return dataclasses.replace(finding, subject=subject(same[0])) if len(same) == 1 else finding

    def of_number(self, number: t.Optional[int], seen: t.Optional[int]) -> Subject:
        """The GPU that a tool knows by C(number) out of the C(seen) that it has, in CUDA's order.

        Without a name where that cannot be told: CUDA leaves out a GPU that NVML still lists, and the numbers behind it shift.
        """
        answering = [gpu for gpu in self.gpus if gpu.state != "lost"]
        if number is not None and number < len(answering) and (self.options.gpus or seen == len(answering)):
            return subject(answering[number])
        return Subject("gpu", "number %s of the tool" % number)


def gpu_use_name(name: str) -> str:
    """A program by the last part of its path, without arguments."""
    words = name.strip().split()
    return words[0].rsplit("/", 1)[-1].lower() if words else ""


def _is_same(gpu: Gpu, about: Subject) -> bool:
    """By the surest name that both have."""
    for name in ("uuid", "serial", "pci", "index"):
        one, other = getattr(gpu, name), getattr(about, name)
        if one is not None and other is not None:
            return bool(one == other)
    return False


def _distinct(findings: t.Iterable[Finding]) -> t.Tuple[Finding, ...]:
    """One finding for each code and subject, the worst: samples and the reading afterwards see the same things."""
    kept: t.Dict[t.Tuple[t.Any, ...], Finding] = {}
    order = ("info", "warning", "critical")
    for finding in findings:
        about = finding.subject
        key = (finding.code, about.kind, about.uuid or about.serial or about.pci or about.index or about.name)
        before = kept.get(key)
        if before is None or (finding.undetermined, order.index(finding.severity)) > (before.undetermined, order.index(before.severity)):
            kept[key] = finding
    return tuple(kept.values())


def outcome_finding(done: watch.Watched, package: str = "") -> t.Optional[Finding]:
    """What kept a tool from its end, apart from what was seen meanwhile; None where it ended by itself or we stopped it."""
    about = Subject("tool", name=done.argv[0].rsplit("/", 1)[-1])
    if done.outcome in ("ended", "stopped"):
        return None
    if done.outcome == "missing":
        hint = "; install %s" % package if package else ""
        return Finding("tool.missing", "warning", about, done.problem() + hint, undetermined=True)
    if done.outcome in ("timeout", "unkillable"):
        hangs = done.outcome == "unkillable"
        message = done.problem() if hangs else "%s had not ended after %.0f s and was killed" % (about.name, done.seconds)
        advice = "read the kernel log of that time first; a GPU or driver that hangs holds its tools for ever"
        return Finding("tool.timeout", "warning", about, message, "reboot_node" if hangs else "none", (), advice, True)
    return Finding("tool.%s" % done.outcome, "warning", about, done.problem(), undetermined=True)


def _reading(raw: t.Mapping[str, t.Any]) -> GpuReading:
    if "raw" in raw:
        return nvml.parse(raw["raw"])
    from .._parse import nvidia_smi

    reading = nvidia_smi.parse(str(raw.get("text", "")), raw.get("rc"))
    return dataclasses.replace(reading, error=str(raw["problem"])) if raw.get("problem") else reading


def _whole(index: t.Optional[int]) -> int:
    return -1 if index is None else index
