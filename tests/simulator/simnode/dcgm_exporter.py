# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The stand-in for dcgm-exporter 4.7: reads a file of counters, asks the host engine and serves what the simulated GPUs say.

As with the real one a name that is no field ends it, and a field that a GPU does not have is left out.
"""

from __future__ import annotations

import csv
import http.server
import re
import socket
import sys
import time
import typing as t

from .dcgm_installed import hostengine_version
from .state import NOT_AVAILABLE, Gpu, Node, folder, layer

_VALUED = {"-f": "collectors", "-a": "address", "-c": "collect-interval", "-r": "remote-hostengine-info", "-x": "xid-count-window-size"}
_LONG = (*_VALUED.values(), "clock-events-count-window-size")
_TYPES = ("gauge", "counter", "histogram", "summary", "label")
_XID = re.compile(r"NVRM: Xid \(PCI:([0-9a-f:.]+)\): (\d+)", re.IGNORECASE)


def _fact(name: str, factor: float = 1) -> t.Callable[[Gpu], t.Optional[float]]:
    def read(gpu: Gpu) -> t.Optional[float]:
        value = gpu.number(name)
        return None if value is None else value * factor

    return read


def _sum(*names: str) -> t.Callable[[Gpu], t.Optional[float]]:
    def read(gpu: Gpu) -> t.Optional[float]:
        values = [gpu.number(name) for name in names]
        return None if None in values else sum(value for value in values if value is not None)

    return read


def _links(name: str) -> t.Callable[[Gpu], t.Optional[float]]:
    def read(gpu: Gpu) -> t.Optional[float]:
        count = gpu.number("nvlink.count")
        return sum(gpu.number("nvlink.%d.%s" % (link, name)) or 0 for link in range(count)) if count else None

    return read


def _ecc(kind: str, word: str) -> t.Callable[[Gpu], t.Optional[float]]:
    parts = ("sram_correctable", "dram_correctable") if word == "correctable" else ("sram_parity", "sram_secded", "dram_uncorrectable")
    return _sum(*("ecc.%s.%s" % (kind, part) for part in parts))


def _nothing(_gpu: Gpu) -> t.Optional[float]:
    """A field of DCGM that the simulated GPUs do not have."""
    return None


_FIELDS: t.Dict[str, t.Callable[[Gpu], t.Optional[float]]] = {
    "DCGM_FI_DEV_SM_CLOCK": _fact("clock.sm"),
    "DCGM_FI_DEV_MEM_CLOCK": _fact("clock.memory"),
    "DCGM_FI_DEV_CLOCKS_EVENT_REASONS": _fact("reasons"),
    "DCGM_FI_DEV_GPU_TEMP": _fact("temp.gpu"),
    "DCGM_FI_DEV_MEMORY_TEMP": _fact("temp.memory"),
    "DCGM_FI_DEV_POWER_USAGE": _fact("power.draw", 0.001),
    "DCGM_FI_DEV_ENFORCED_POWER_LIMIT": _fact("power.limit", 0.001),
    "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": _fact("energy"),
    "DCGM_FI_DEV_PCIE_REPLAY_COUNTER": _fact("pcie.replays"),
    "DCGM_FI_DEV_PCIE_LINK_GEN": _fact("pcie.gen"),
    "DCGM_FI_DEV_PCIE_LINK_WIDTH": _fact("pcie.width"),
    "DCGM_FI_DEV_GPU_UTIL": _fact("util.gpu"),
    "DCGM_FI_DEV_MEM_COPY_UTIL": _fact("util.memory"),
    "DCGM_FI_DEV_FB_FREE": _fact("memory.free"),
    "DCGM_FI_DEV_FB_USED": _fact("memory.used"),
    "DCGM_FI_DEV_FB_RESERVED": _fact("memory.reserved"),
    "DCGM_FI_DEV_POWER_VIOLATION": _fact("counter.sw_power_cap", 1000),
    "DCGM_FI_DEV_THERMAL_VIOLATION": _fact("counter.sw_thermal", 1000),
    "DCGM_FI_DEV_SYNC_BOOST_VIOLATION": _fact("counter.sync_boost", 1000),
    "DCGM_FI_DEV_CLOCKS_EVENT_REASON_SW_POWER_CAP_NS": _fact("counter.sw_power_cap", 1000),
    "DCGM_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN_NS": _fact("counter.sw_thermal", 1000),
    "DCGM_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN_NS": _fact("counter.hw_thermal", 1000),
    "DCGM_FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN_NS": _fact("counter.power_brake", 1000),
    "DCGM_FI_DEV_CLOCKS_EVENT_REASON_SYNC_BOOST_NS": _fact("counter.sync_boost", 1000),
    "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL": _ecc("volatile", "correctable"),
    "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL": _ecc("volatile", "uncorrectable"),
    "DCGM_FI_DEV_ECC_SBE_AGG_TOTAL": _ecc("aggregate", "correctable"),
    "DCGM_FI_DEV_ECC_DBE_AGG_TOTAL": _ecc("aggregate", "uncorrectable"),
    "DCGM_FI_DEV_THRESHOLD_SRM": _fact("ecc.threshold"),
    "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS": _fact("remap.uncorrectable"),
    "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS": _fact("remap.correctable"),
    "DCGM_FI_DEV_ROW_REMAP_FAILURE": _fact("remap.failure"),
    "DCGM_FI_DEV_ROW_REMAP_PENDING": _fact("remap.pending"),
    **{"DCGM_FI_DEV_BANKS_REMAP_ROWS_AVAIL_" + word: _fact("remap." + word.lower()) for word in ("MAX", "HIGH", "PARTIAL", "LOW", "NONE")},
    "DCGM_FI_DEV_RETIRED_SBE": _fact("retired.single_bit"),
    "DCGM_FI_DEV_RETIRED_DBE": _fact("retired.double_bit"),
    "DCGM_FI_DEV_RETIRED_PENDING": _fact("retired.pending"),
    "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL": _links("crc"),
    "DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL": _links("crc"),
    "DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL": _links("replay"),
    "DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL": _links("recovery"),
    "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL": _fact("nvlink.count", 0),
    "DCGM_FI_DEV_FABRIC_MANAGER_STATUS": _fact("fabric.state"),
    **dict.fromkeys(
        (
            "DCGM_FI_DEV_BOARD_LIMIT_VIOLATION", "DCGM_FI_DEV_LOW_UTIL_VIOLATION", "DCGM_FI_DEV_RELIABILITY_VIOLATION",
            "DCGM_FI_DEV_FABRIC_MANAGER_ERROR_CODE", "DCGM_FI_DEV_NVLINK_COUNT_EFFECTIVE_ERRORS",
            "DCGM_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_FAILED_EVENTS", "DCGM_FI_PROF_GR_ENGINE_ACTIVE", "DCGM_FI_PROF_SM_ACTIVE",
            "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "DCGM_FI_PROF_DRAM_ACTIVE", "DCGM_FI_PROF_PCIE_TX_BYTES", "DCGM_FI_PROF_PCIE_RX_BYTES",
        ),
        _nothing,
    ),
}  # fmt: skip
_LABELS = {
    "DCGM_FI_DRIVER_VERSION": lambda gpu: gpu.node.get("driver"),
    "DCGM_FI_DEV_SERIAL": lambda gpu: gpu.get("serial"),
    "DCGM_FI_DEV_VBIOS_VERSION": lambda gpu: gpu.get("vbios"),
}
_EXPORTER = ("DCGM_EXP_XID_ERRORS_COUNT", "DCGM_EXP_CLOCK_EVENTS_COUNT", "DCGM_FI_DEV_XID_ERRORS")


class Exporter:
    def __init__(self, options: t.Dict[str, str]) -> None:
        self.path = folder()
        self.window = int(options.get("xid-count-window-size", "300000"))
        self.hostname = "" if "no-hostname" in options else "localhost" if "remote-hostengine-info" in options else socket.gethostname()
        with open(options.get("collectors", "/etc/dcgm-exporter/default-counters.csv"), encoding="utf-8") as handle:
            rows = [[word.strip() for word in row] for row in csv.reader(line for line in handle if not line.startswith("#"))]
        self.rows = [row for row in rows if row]
        for number, row in enumerate(self.rows):
            if len(row) != 3:
                raise SystemExit("malformed CSV record; err: failed to parse line %d (`%s`), expected 3 fields" % (number, row))
            if row[0] not in _FIELDS and row[0] not in _LABELS and row[0] not in _EXPORTER:
                raise SystemExit("could not find DCGM field; err: unknown ExporterCounter field '%s'" % row[0])
            if row[1] not in _TYPES:
                raise SystemExit("could not find Prometheus metric type '%s'" % row[1])

    def text(self) -> str:
        node = Node(self.path)
        gpus = [] if node.number("nvml.init") else [gpu for gpu in node.gpus() if not gpu.steer("handle_error") and not gpu.steer("error")]
        xids = self._xids()
        lines = ["# SIMULATED: no GPU is used."]
        for name, kind, about in self.rows:
            if kind == "label":
                continue
            series = [line for gpu in gpus for line in self._series(name, gpu, xids)]
            if series:
                lines += ["# HELP %s %s" % (name, about), "# TYPE %s %s" % (name, kind), *series]
        return "\n".join(lines) + "\n"

    def _series(self, name: str, gpu: Gpu, xids: t.Dict[str, t.List[int]]) -> t.Iterator[str]:
        own = xids.get(gpu.raw("bus_id").lower(), [])
        if name == "DCGM_EXP_XID_ERRORS_COUNT":
            for xid in sorted(set(own)):
                yield self._line(name, gpu, own.count(xid), {"window_size_in_ms": str(self.window), "xid": str(xid)})
            if not own:
                yield self._line(name, gpu, 0, {"window_size_in_ms": str(self.window)})
        elif name == "DCGM_EXP_CLOCK_EVENTS_COUNT":
            yield self._line(name, gpu, 0, {"window_size_in_ms": "300000"})
        elif name == "DCGM_FI_DEV_XID_ERRORS":
            yield self._line(name, gpu, own[-1] if own else 0, {"err_code": str(own[-1] if own else 0)})
        else:
            value = _FIELDS[name](gpu)
            if value is not None:
                yield self._line(name, gpu, value, {})

    def _line(self, name: str, gpu: Gpu, value: float, more: t.Dict[str, str]) -> str:
        labels = {"gpu": str(gpu.index), "UUID": gpu.get("uuid"), "pci_bus_id": gpu.bus_id, "device": "nvidia%d" % gpu.index}
        labels["modelName"] = gpu.get("name")
        if self.hostname:
            labels["Hostname"] = self.hostname
        for label, kind, _about in self.rows:
            if kind == "label" and label in _LABELS and _LABELS[label](gpu) != NOT_AVAILABLE:
                labels[label] = _LABELS[label](gpu)
        labels.update(more)
        return "%s{%s} %s" % (name, ",".join('%s="%s"' % item for item in labels.items()), ("%f" % value).rstrip("0").rstrip("."))

    def _xids(self) -> t.Dict[str, t.List[int]]:
        """Xids of the last window, by bus id: what tools and scenarios let the kernel log, not what the node's own journal has."""
        found: t.Dict[str, t.List[int]] = {}
        try:
            with open(self.path + "/kernel.log", encoding="utf-8") as handle:
                rows = [line.rstrip("\n").split("\t", 5) for line in handle]
        except FileNotFoundError:
            return found
        since = (time.time() - self.window / 1000) * 1e6
        for row in rows:
            match = _XID.search(row[5]) if row[0] == "0" and since < int(row[1]) < time.time() * 1e6 else None
            if match:
                bus_id = match.group(1).lower()
                found.setdefault(bus_id if "." in bus_id else bus_id + ".0", []).append(int(match.group(2)))
        return found


def main(argv: list[str], version: str) -> int:
    options: t.Dict[str, str] = {}
    words = list(argv)
    while words:
        word, _equals, value = words.pop(0).partition("=")
        name = _VALUED.get(word, word.lstrip("-"))
        if name in ("version", "v"):
            sys.stdout.write("DCGM Exporter version 4.4.2-%s [simulated]\n" % version)
            return 0
        if name in ("no-hostname", "n"):
            options["no-hostname"] = ""
        elif name in _LONG:
            options[name] = value or words.pop(0)
        else:
            sys.stderr.write("flag provided but not defined: %s\n" % word)
            return 1
    if "remote-hostengine-info" in options and not hostengine_version():
        sys.stderr.write("Error connecting to nv-hostengine: Host engine connection invalid/disconnected\n")
        return 1
    if layer(folder() + "/node")[0].get("nvml.init"):
        sys.stderr.write("NVML could not be initialized [simulated]\n")
        return 1
    exporter = Exporter(options)

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path not in ("/metrics", "/health"):
                self.send_error(404)
                return
            body = (exporter.text() if self.path == "/metrics" else "KO" * (not hostengine_version()) or "OK").encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_words: object) -> None:
            """The real one is silent too."""

    host, _colon, port = options.get("address", ":9400").rpartition(":")
    server = http.server.ThreadingHTTPServer((host, int(port)), Handler)
    sys.stderr.write("Starting webserver at %s [simulated]\n" % options.get("address", ":9400"))
    server.serve_forever()
    return 0
