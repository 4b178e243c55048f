# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The job that torchrun starts on the node: a few training steps of transformer blocks, once per rank. Private to kentino.gpu.

The module writes the text of this file to the node and torchrun runs it there, with a Python that has PyTorch and knows nothing of
us: nothing but the standard library and torch may be imported, and torch not by importing this file.

Every rank appends to a file of its own, one JSON object a line, and says what it is about to do before it does it. So the last line
of a rank that died or hangs tells where, and a rank that did not enter a collective is told from those that wait in it.
"""

from __future__ import annotations

import datetime
import json
import math
import os
import signal
import socket
import sys
import threading
import time
import traceback
import typing as t

# The order in which a rank passes through them. Those of a step come again in every step; step 0 is the warm-up.
BEFORE_STEPS = ("start", "import", "device", "group", "build", "broadcast")
IN_STEP = ("forward", "backward", "allreduce", "optimiser", "gather")
# In these a rank waits for all others.
COLLECTIVES = ("group", "broadcast", "allreduce", "gather")

FAULT_VARIABLE = "KENTINO_DRYRUN_FAULT"
FAULTS = ("die", "hang", "deaf", "slow", "wrong", "nan", "oom")

_SEED = 20
_LEARNING_RATE = 1e-4
_STACK_FRAMES = 8
_STACK_LINES = 40
# Every gradient begins on a multiple of this many elements: kernels are slow on odd addresses.
_ALIGNMENT = 64


class Fault(t.NamedTuple):
    """What C(KENTINO_DRYRUN_FAULT) asks for. For tests and drills only: C(die:rank=2,step=1,phase=allreduce).

    C(die) is killed; C(hang) stays; C(deaf) stays and ignores SIGTERM; C(slow) computes C(seconds) longer; C(wrong) multiplies its
    loss; C(nan) makes it NaN; C(oom) raises what PyTorch raises on a full GPU. Without C(step) it comes in every step.
    """

    kind: str
    rank: int
    step: t.Optional[int] = None
    phase: str = "allreduce"
    seconds: float = 1.0


def read_faults(text: str) -> t.Tuple[Fault, ...]:
    """Several are parted by semicolons. ValueError on what is none: a drill that does nothing would prove nothing."""
    faults = []
    for words in filter(None, (part.strip() for part in text.split(";"))):
        kind, _colon, rest = words.partition(":")
        values = dict(item.split("=", 1) for item in rest.split(",") if "=" in item)
        phase = values.get("phase", "allreduce")
        if kind not in FAULTS or "rank" not in values or phase not in BEFORE_STEPS + IN_STEP:
            raise ValueError("%s: '%s' is no fault; write one like die:rank=2,step=1" % (FAULT_VARIABLE, words))
        step = int(values["step"]) if "step" in values else None
        faults.append(Fault(kind, int(values["rank"]), step, phase, float(values.get("seconds", 1.0))))
    return tuple(faults)


class Records:
    """The file of one rank."""

    def __init__(self, folder: str, rank: int) -> None:
        self._file = os.open(os.path.join(folder, "rank_%d.jsonl" % rank), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self.phase = "start"
        self.step: t.Optional[int] = None
        self.since = time.monotonic()

    def write(self, kind: str, **values: t.Any) -> None:
        # One call for one line: what is there is whole, whatever kills us next.
        os.write(self._file, (json.dumps(_plain({"kind": kind, "usec": int(time.time() * 1e6), **values})) + "\n").encode())

    def enter(self, phase: str, step: t.Optional[int] = None) -> None:
        self.phase, self.step, self.since = phase, step, time.monotonic()
        self.write("phase", phase=phase, step=step)


def _plain(value: t.Any) -> t.Any:
    """Numbers that are none are no JSON: as words."""
    if isinstance(value, float) and not math.isfinite(value):
        return repr(value)
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, (list, tuple)) else value


def _watch(records: Records, patience_seconds: float) -> None:
    """Tell once of every phase that lasts: the stack says what the rank does there."""
    main = threading.main_thread().ident
    told = None
    while True:
        time.sleep(min(1.0, patience_seconds / 4))
        since, seconds = records.since, time.monotonic() - records.since
        if seconds < patience_seconds or since == told:
            continue
        told = since
        frame = sys._current_frames().get(main or 0)
        stack = ["%s:%d %s" % (item.filename, item.lineno or 0, item.name) for item in traceback.extract_stack(frame)]
        records.write("stuck", phase=records.phase, step=records.step, seconds=seconds, stack=stack[-_STACK_FRAMES:])


class Place(t.NamedTuple):
    rank: int
    local_rank: int
    world: int


class Job:
    """One rank's run. C(spec) is what the module asks for, see C(_check/dryrun.py)."""

    def __init__(self, spec: t.Mapping[str, t.Any], place: Place, records: Records, faults: t.Sequence[Fault]) -> None:
        self.spec = spec
        self.place = place
        self.records = records
        self.faults = [fault for fault in faults if fault.rank == place.rank]

    def run(self) -> None:
        self._import()
        self._choose_device()
        self._join()
        self._build()
        for step in range(self.spec["steps"] + 1):
            self._step(step)
        self.records.write("memory", **self._memory())
        self.records.write("finished")
        self.dist.destroy_process_group()

    def _enter(self, phase: str, step: t.Optional[int] = None) -> None:
        """Faults come before the line: the last thing on record is then the phase before, as with a real one."""
        for fault in self.faults:
            if fault.phase == phase and fault.step in (None, step):
                self._suffer(fault)
        self.records.enter(phase, step)

    def _suffer(self, fault: Fault) -> None:
        if fault.kind == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        if fault.kind == "deaf":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        while fault.kind in ("hang", "deaf"):
            time.sleep(3600)
        if fault.kind == "oom":
            raise MemoryError(
                "CUDA out of memory. Tried to allocate 2.00 GiB. GPU %d has a total capacity of 79.11 GiB of which 1.02 GiB is free. "
                "Including non-PyTorch memory, this process has 78.09 GiB memory in use. Of the allocated memory 76.40 GiB is allocated "
                "by PyTorch, and 310.55 MiB is reserved by PyTorch but unallocated. (a drill)" % self.place.local_rank
            )

    def _import(self) -> None:
        self._enter("import")
        import torch
        import torch.distributed

        self.torch: t.Any = torch
        self.dist: t.Any = torch.distributed
        versions = {"torch": torch.__version__, "cuda": torch.version.cuda}
        self.records.write("versions", **versions)

    def _choose_device(self) -> None:
        self._enter("device")
        torch, number = self.torch, self.place.local_rank
        self.cuda = self.spec["device"] == "cuda"
        if not self.cuda:
            self.device = torch.device("cpu")
            # All ranks share the cores.
            torch.set_num_threads(1)
        else:
            torch.cuda.init()
            if number >= torch.cuda.device_count():
                raise LookupError("PyTorch sees %d GPUs, rank %d has none" % (torch.cuda.device_count(), self.place.rank))
            torch.cuda.set_device(number)
            self.device = torch.device("cuda", number)
            self.records.write("device", **self._identity(number))
        self.dtype = getattr(torch, self._dtype())

    def _dtype(self) -> str:
        if self.spec["dtype"] != "auto":
            return str(self.spec["dtype"])
        if not self.cuda:
            return "float32"
        # Before Ampere bfloat16 is emulated.
        return "bfloat16" if self.torch.cuda.get_device_capability()[0] >= 8 else "float16"

    def _identity(self, number: int) -> t.Dict[str, t.Any]:
        found = self.torch.cuda.get_device_properties(number)
        # The UUID is there from PyTorch 2.4 on, the PCI address from 2.8 on.
        uuid = getattr(found, "uuid", None)
        bus: t.List[t.Any] = [getattr(found, "pci_%s_id" % part, None) for part in ("domain", "bus", "device")]
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        if visible is None:
            index: t.Optional[int] = number
        else:
            chosen = visible.split(",")
            index = int(chosen[number]) if number < len(chosen) and chosen[number].strip().isdigit() else None
        return {
            "index": index,
            "name": found.name,
            "uuid": None if uuid is None else str(uuid) if str(uuid).startswith("GPU-") else "GPU-%s" % uuid,
            "pci": None if None in bus else "%04x:%02x:%02x" % tuple(bus),
            "memory_bytes": found.total_memory,
        }

    def _join(self) -> None:
        self._enter("group")
        # Ranks may be long in coming, the first time from a cold disk; once all are here, nobody is.
        start, collective = (datetime.timedelta(seconds=self.spec[name]) for name in ("start_seconds", "timeout_seconds"))
        self.dist.init_process_group("nccl" if self.cuda else "gloo", timeout=start)
        self.group = self.dist.new_group(timeout=collective)

    def _build(self) -> None:
        self._enter("build")
        torch, spec = self.torch, self.spec
        if self.cuda:
            torch.cuda.reset_peak_memory_stats()
        torch.manual_seed(_SEED)
        self.model = _transformer(torch, spec, device=self.device, dtype=self.dtype)
        self._flatten()
        # The same on every rank, so that every rank must come to the same loss.
        numbers = torch.Generator().manual_seed(_SEED)
        shape = (spec["batch_size"], spec["sequence_length"] + 1)
        tokens = torch.randint(spec["vocabulary"], shape, generator=numbers).to(self.device)
        self.inputs, self.targets = tokens[:, :-1], tokens[:, 1:]
        self._enter("broadcast")
        self.dist.broadcast(self.weights, 0, group=self.group)
        self._wait()

    def _flatten(self) -> None:
        """All weights in one buffer, all gradients in another, that with a slot more for each rank: they show whose part is in a sum."""
        torch, places, length = self.torch, [], 0
        parameters = list(self.model.parameters())
        for parameter in parameters:
            places.append(length)
            length += -(-parameter.numel() // _ALIGNMENT) * _ALIGNMENT
        parts = [slice(place, place + parameter.numel()) for place, parameter in zip(places, parameters)]
        self.weights = torch.zeros(length, device=self.device, dtype=self.dtype)
        for parameter, part in zip(parameters, parts):
            weights = self.weights[part].view_as(parameter)
            weights.copy_(parameter.data)
            parameter.data = weights
        self.flat = torch.zeros(length + self.place.world, device=self.device, dtype=self.dtype)
        self.gradients, self.slots = self.flat[:length], self.flat[length:]
        # Adam's two moments.
        self.moments = torch.zeros(2, length, device=self.device, dtype=self.dtype)
        for parameter, part in zip(parameters, parts):
            parameter.grad = self.flat[part].view_as(parameter)

    def _optimise(self) -> None:
        """A step of Adam. The one of PyTorch loads its compiler first, which takes longer than all that is done here."""
        mean, square = self.moments
        mean.mul_(0.9).add_(self.gradients, alpha=0.1)
        square.mul_(0.95).addcmul_(self.gradients, self.gradients, value=0.05)
        self.weights.addcdiv_(mean, square.sqrt().add_(1e-6), value=-_LEARNING_RATE)

    def _step(self, step: int) -> None:
        torch = self.torch
        begin = time.monotonic()
        self._enter("forward", step)
        # Backward adds to what is there, and the buffer has to stay the same one.
        self.flat.zero_()
        self.slots[self.place.rank] = 1
        loss = self._distorted(self._loss(), step)
        self._enter("backward", step)
        loss.backward()
        self._wait()
        computed = time.monotonic()
        own = {"loss": float(loss.detach()), "gradient_norm": self._norm()}
        self._enter("allreduce", step)
        entered = time.monotonic()
        self.dist.all_reduce(self.flat, group=self.group)
        self._wait()
        reduced = time.monotonic()
        parts = self.slots.tolist()
        self.flat.div_(self.place.world)
        reduced_norm = self._norm()
        self._enter("optimiser", step)
        self._optimise()
        self._wait()
        self._enter("gather", step)
        mine = torch.tensor([own["loss"], own["gradient_norm"]], dtype=torch.float64, device=self.device)
        gathered = [torch.empty_like(mine) for _rank in range(self.place.world)]
        self.dist.all_gather(gathered, mine, group=self.group)
        self._wait()
        self.records.write(
            "step",
            step=step,
            compute_seconds=computed - begin,
            reduce_seconds=reduced - entered,
            step_seconds=time.monotonic() - begin,
            reduced_gradient_norm=reduced_norm,
            parts=parts,
            gathered_losses=[float(values[0]) for values in gathered],
            **own,
        )

    def _loss(self) -> t.Any:
        scores = self.model(self.inputs)
        return self.torch.nn.functional.cross_entropy(scores.flatten(0, 1).float(), self.targets.flatten())

    def _distorted(self, loss: t.Any, step: int) -> t.Any:
        for fault in self.faults:
            if fault.step in (None, step):
                if fault.kind == "slow":
                    time.sleep(fault.seconds)
                elif fault.kind in ("wrong", "nan"):
                    loss = loss * (float("nan") if fault.kind == "nan" else 1.5)
        return loss

    def _norm(self) -> float:
        return float(self.torch.linalg.vector_norm(self.gradients, dtype=self.torch.float32))

    def _wait(self) -> None:
        if self.cuda:
            self.torch.cuda.synchronize()

    def _memory(self) -> t.Dict[str, t.Any]:
        if not self.cuda:
            import resource

            # Linux counts in KiB.
            return {"peak_resident_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}
        cuda = self.torch.cuda
        free, total = cuda.mem_get_info()
        counts = cuda.memory_stats()
        return {
            "peak_allocated_bytes": cuda.max_memory_allocated(),
            "peak_reserved_bytes": cuda.max_memory_reserved(),
            "reserved_bytes": cuda.memory_reserved(),
            "free_bytes": free,
            "total_bytes": total,
            "alloc_retries": counts.get("num_alloc_retries"),
            "ooms": counts.get("num_ooms"),
        }

    def memory_at_failure(self) -> t.Dict[str, t.Any]:
        """What is left to be known where an allocation failed; nothing where even that fails."""
        try:
            return self._memory() if self.cuda else {}
        except Exception:
            return {}


def _transformer(torch: t.Any, spec: t.Mapping[str, t.Any], **where: t.Any) -> t.Any:
    nn, width, heads = torch.nn, spec["width"], spec["heads"]

    class Block(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.before_attention = nn.LayerNorm(width, **where)
            self.projections = nn.Linear(width, 3 * width, bias=False, **where)
            self.joined = nn.Linear(width, width, bias=False, **where)
            self.before_inner = nn.LayerNorm(width, **where)
            self.inner = nn.Sequential(
                nn.Linear(width, 4 * width, bias=False, **where), nn.GELU(), nn.Linear(4 * width, width, bias=False, **where)
            )

        def forward(self, x: t.Any) -> t.Any:
            batch, length, _width = x.shape
            parts = self.projections(self.before_attention(x)).view(batch, length, 3, heads, width // heads)
            query, key, value = parts.permute(2, 0, 3, 1, 4)
            attended = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
            x = x + self.joined(attended.transpose(1, 2).reshape(batch, length, width))
            return x + self.inner(self.before_inner(x))

    return nn.Sequential(
        nn.Embedding(spec["vocabulary"], width, **where),
        *(Block() for _layer in range(spec["layers"])),
        nn.LayerNorm(width, **where),
        nn.Linear(width, spec["vocabulary"], bias=False, **where),
    )


def main(arguments: t.Sequence[str]) -> int:
    """The specification is a file: its path is the only argument."""
    with open(arguments[0], encoding="utf-8") as handle:
        spec = json.load(handle)
    place = Place(*(int(os.environ[name]) for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE")))
    folder = spec["results_path"]
    # NCCL and CUDA write to the descriptor: what a rank says is kept apart from what the others say.
    log = os.open(os.path.join(folder, "rank_%d.log" % place.rank), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(log, 1)
    os.dup2(log, 2)
    records = Records(folder, place.rank)
    records.write("rank", pid=os.getpid(), host=socket.gethostname(), **place._asdict())
    records.enter("start")
    threading.Thread(target=_watch, args=(records, spec["patience_seconds"]), daemon=True).start()
    job = None
    try:
        job = Job(spec, place, records, read_faults(os.environ.get(FAULT_VARIABLE, "")))
        job.run()
    except BaseException as exc:
        traceback.print_exc()
        records.write(
            "error",
            phase=records.phase,
            step=records.step,
            type=type(exc).__name__,
            text=str(exc),
            stack=traceback.format_exc().splitlines()[-_STACK_LINES:],
            **(job.memory_at_failure() if job is not None and hasattr(job, "cuda") else {}),
        )
        # Not through the end of the interpreter: what is broken may hang there, and the others would wait for us.
        sys.stderr.flush()
        os._exit(1)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
