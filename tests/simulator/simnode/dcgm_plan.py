# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a diagnostic of DCGM runs, how long that takes, and what it finds on the simulated node.

Faults of the node that DCGM would see are found: persistence mode off, a narrow link, a lost GPU, uncorrectable errors. What only
DCGM sees stands in the scenario under C(dcgm).
"""

from __future__ import annotations

from . import load
from .state import Gpu, Node

# Names in 4.4 and 3.3, category, level from which on, seconds for a node of eight, share of the full load.
_TESTS = (
    ("memory", "GPU Memory", "Hardware", 2, 16, 0.5),
    ("pcie", "PCIe", "Integration", 2, 76, 0.3),
    ("diagnostic", "Diagnostic", "Hardware", 3, 186, 1.0),
    ("nvbandwidth", "", "Hardware", 3, 52, 0.4),
    ("memory_bandwidth", "Memory Bandwidth", "Stress", 3, 14, 0.7),
    ("targeted_stress", "Targeted Stress", "Stress", 3, 126, 1.0),
    ("targeted_power", "Targeted Power", "Stress", 3, 128, 1.0),
    ("memtest", "Memtest", "Hardware", 4, 2710, 0.6),
    ("pulse_test", "Pulse Test", "Hardware", 4, 1480, 1.0),
)
_OLD_DEPLOYMENT = (
    "Denylist", "NVML Library", "CUDA Main Library", "Permissions and OS Blocks", "Persistence Mode", "Environment Variables",
    "Page Retirement/Row Remap", "Graphics Processes", "Inforom",
)  # fmt: skip
_SOFTWARE_SECONDS = 2.6
_CONFIGURE = "Please check the configuration of the GPU and the parameters of the test."
# Number to severity, category and text, with %d for the GPU; dcgm_errors.h.
_ERRORS = {
    4: (2, 10, "Detected 3 volatile double-bit ECC error(s) in GPU %d. Drain the GPU and reset it or reboot the node."),
    29: (5, 8, "Persistence mode for GPU %d is disabled. Enable persistence mode by running \"nvidia-smi -i <gpuId> -pm 1 \" as root."),
    30: (4, 13, "Bandwidth of GPU %d in direction d2h of 5.21 did not exceed minimum required bandwidth of 20.00."),
    46: (5, 13, "GPU %d is running at PCI link width 4X, which is below the minimum allowed link generation of 16 (parameter "
                "'min_pci_width'). " + _CONFIGURE),
    52: (2, 10, "Found 17 faulty memory elements on GPU %d Run a field diagnostic on the GPU."),
    56: (4, 8, "Couldn't allocate at least 75.0%% of GPU memory on GPU %d"),
    60: (5, 10, "ECC Memory is not turned on or is unsupported. Skipping test."),
    63: (4, 14, "Max power of 311.0 did not reach desired power minimum target_power_min_ratio of 525.0 for GPU %d. Verify that the "
                "clock speeds and GPU utilization are high."),
    80: (6, 10, "GPU %d had uncorrectable memory errors and row remapping failed. Run a field diagnostic on the GPU."),
    85: (6, 10, "GPU %d had memory errors and row remappings are pending"),
}  # fmt: skip
_ISOLATE = 2
OK, NVVS_ERROR, ISOLATE, NO_TEST = 0, -30, -51, -58


class Error:
    def __init__(self, number: int, gpu: int) -> None:
        self.number = number
        self.severity, self.category, text = _ERRORS.get(number, (3, 0, "Error %d on GPU %%d" % number))
        self.text = text % gpu if "%d" in text else text


class Outcome:
    """Of one test on one GPU."""

    def __init__(self, gpu: int, status: str = "Pass", errors: tuple[Error, ...] = (), info: tuple[str, ...] = ()) -> None:
        self.gpu = gpu
        self.status = status
        self.errors = errors
        self.info = info


class Test:
    def __init__(self, key: str, name: str, category: str, seconds: float, share: float) -> None:
        self.key = key
        self.name = name
        self.category = category
        self.seconds = seconds
        self.share = share
        self.ran = True
        self.outcomes: list[Outcome] = []

    @property
    def status(self) -> str:
        statuses = {outcome.status for outcome in self.outcomes}
        return next((word for word in ("Fail", "Pass", "Skip") if word in statuses), "Pass")


class Diagnostic:
    def __init__(self, node: Node, gpus: list[Gpu], wanted: str, parameters: str) -> None:
        self.node = node
        self.gpus = gpus
        self.version = node.get("dcgm.version")
        self.new = not self.version.startswith("3.")
        self.driver = node.get("driver")
        self.parameters = dict(part.split("=", 1) for part in parameters.split(";") if "=" in part)
        self.tests = self._tests(wanted)
        for test in self.tests:
            self._judge(test)

    @property
    def found(self) -> bool:
        """Whether anything was asked for that exists."""
        return bool(self.tests)

    def _tests(self, wanted: str) -> list[Test]:
        level = {"1": 1, "2": 2, "3": 3, "4": 4, "short": 1, "quick": 1, "medium": 2, "long": 3, "xlong": 4}.get(wanted.lower(), 0)
        names = [_folded(name) for name in wanted.split(",")]
        known = [row for row in _TESTS if self.new or row[1]]
        if not level and not any(name in (_folded(row[0]), _folded(row[1]), "software") for name in names for row in known):
            return []
        if self.new:
            tests = [Test("software", "software", "Deployment", _SOFTWARE_SECONDS, 0)]
        else:
            each = _SOFTWARE_SECONDS / len(_OLD_DEPLOYMENT)
            tests = [Test("software", name, "Deployment", each, 0) for name in _OLD_DEPLOYMENT]
        for key, old, category, since, seconds, share in known:
            if since <= level or (not level and (_folded(key) in names or _folded(old) in names)):
                duration = float(self.parameters.get(key + ".test_duration", seconds))
                tests.append(Test(key, key if self.new else old, category, duration, share))
        return tests

    def _judge(self, test: Test) -> None:
        if test.key in self.node.get("dcgm.not_run").split():
            test.ran = False
            return
        for gpu in self.gpus:
            test.outcomes.append(self._outcome(test, gpu))

    def _outcome(self, test: Test, gpu: Gpu) -> Outcome:
        errors = self._errors(test, gpu)
        if errors:
            return Outcome(gpu.index, "Fail", tuple(errors))
        if self.node.number("dcgm.skip_all") or test.key in self.node.get("dcgm.skips").split():
            return Outcome(gpu.index, "Skip", (), ("The %s test is skipped." % test.name,))
        if test.key == "memory" and gpu.number("ecc.current") != 1:
            return Outcome(gpu.index, "Skip", (), (_ERRORS[60][2],))
        recorded = self._recorded(test, gpu, "pass_error")
        return Outcome(gpu.index, "Pass", tuple(recorded), self._info(test, gpu))

    def _errors(self, test: Test, gpu: Gpu) -> list[Error]:
        numbers = []
        deployment = test.key == "software"
        if deployment and (self.new or test.name == "Persistence Mode") and gpu.number("persistence") == 0:
            numbers.append(29)
        if deployment and (self.new or test.name.startswith("Page")):
            for name, number in (("remap.failure", 80), ("remap.pending", 85), ("ecc.volatile.dram_uncorrectable", 4)):
                if gpu.number(name):
                    numbers.append(number)
        width = gpu.number("pcie.width")
        if test.key == "pcie" and width is not None and width < (gpu.number("pcie.width_max") or 0):
            numbers.append(46)
        return [Error(number, gpu.index) for number in numbers] + self._recorded(test, gpu, "error")

    def _recorded(self, test: Test, gpu: Gpu, kind: str) -> list[Error]:
        """What the scenario lets this test say of this GPU: C(fail) and C(error), C(pass_error) inside a pass."""
        place = self.node.get("dcgm.fails"), self.node.number("dcgm.gpu")
        if place != (test.key, gpu.index) or not self.node.number("dcgm." + kind):
            return []
        return [Error(self.node.number("dcgm." + kind), gpu.index)]

    def _info(self, test: Test, gpu: Gpu) -> tuple[str, ...]:
        if test.key == "memory":
            free = (gpu.number("memory.total") or 0) * 0.974
            return ("GPU %d Allocated %d bytes (97.4%%)" % (gpu.index, free * 1048576),)
        if test.key == "pcie":
            rate = 54.6 if gpu.number("pcie.gen_max") == 5 else 25.3
            rate *= 1 + 0.01 * load.jitter(gpu.raw("uuid"), "pcie")
            form = "GPU %d %s bandwidth:\t\t%.2f GB/s"
            return tuple(form % (gpu.index, way, rate) for way in ("GPU to Host", "Host to GPU"))
        if test.key == "diagnostic":
            rate = load.whole(gpu, "load.gflops") * load.whole(gpu, "load.rate_pct", 100) / 100 * 0.93
            rate *= 1 + 0.01 * load.jitter(gpu.raw("uuid"), "diagnostic")
            return ("GPU %d calculated at approximately %.2f gigaflops during this test" % (gpu.index, rate),)
        if test.key == "targeted_power":
            draw = load.whole(gpu, "load.power") / 1000
            return ("GPU %d max power: %.1f W average power usage: %.1f W" % (gpu.index, draw, draw * 0.97),)
        return ()

    def result(self) -> int:
        """dcgmReturn_t. From 4.0 on every error counts, before that only those of a test that failed."""
        code = OK
        for test in self.tests:
            for outcome in test.outcomes:
                for error in outcome.errors:
                    if not self.new and outcome.status != "Fail":
                        continue
                    if error.severity == _ISOLATE:
                        return ISOLATE
                    code = NVVS_ERROR
        return code


def _folded(name: str) -> str:
    return name.lower().replace(" ", "").replace("_", "")
