# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import re
import time
import typing as t
from pathlib import Path

import pytest
from ansible_collections.kentino.gpu.plugins.module_utils._parse import nvidia_smi
from ansible_collections.kentino.gpu.plugins.module_utils._parse.gpu_records import EccCounters, Gpu, GpuProcess, RowRemap

WHOLE = (Path(__file__).parent / "nvidia_smi" / "h100x2_570.xml").read_text(encoding="utf-8")


def nest(*tags: str) -> str:
    """The last word inside all the tags before it."""
    return tags[-1] if len(tags) == 1 else "<%s>%s</%s>" % (tags[0], nest(*tags[1:]), tags[0])


def one(inside: str) -> Gpu:
    """A whole report of one GPU that says C(inside)."""
    head = "<nvidia_smi_log><attached_gpus>1</attached_gpus><gpu id='00000000:3F:00.0'>"
    reading = nvidia_smi.parse(head + inside + "</gpu></nvidia_smi_log>")
    assert reading.complete
    return reading.gpus[0]


def test_whole_report_of_driver_570() -> None:
    reading = nvidia_smi.parse(WHOLE, 0)
    assert (reading.source, reading.complete, reading.error_kind, reading.attached) == ("nvidia-smi xml", True, None, 2)
    assert (reading.driver_version, reading.cuda_version, reading.unrecognised) == ("570.172.08", "12.8", ())
    first, second = reading.gpus
    assert (first.pci, first.index, first.minor, second.pci, second.index) == ("0000:2b:00", 0, 0, "0000:ab:00", 1)
    assert (first.device_id, first.subsystem_id, first.board_part) == ("10de:2330", "10de:16c1", "692-2G520-0280-501")
    assert (first.state, first.recovery_action, first.reset_required) == ("ok", "None", None)
    assert (first.memory_total_mib, first.memory_used_mib, first.memory_reserved_mib, first.bar1_total_mib) == (81559, 70123, 551, 131072)
    assert (first.temperature_c, first.memory_temperature_c, first.temperature_margin_c) == (61, 69, 26)
    assert (first.margin_slowdown_c, first.margin_shutdown_c) == (-2, -8)
    assert (first.power_watts, first.power_limit_watts, first.power_limit_default_watts) == (612.34, 650.0, 700.0)
    assert (first.clock_sm_mhz, first.clock_memory_mhz, first.clock_memory_max_mhz) == (1755, 2619, 2620)
    assert (first.pcie_gen, first.pcie_gen_max, first.pcie_width, first.pcie_width_max) == (4, 5, 8, 16)
    assert (first.pcie_replays, second.pcie_replays, first.pcie_replay_rollovers) == (10, 20, 1)
    assert first.ecc_volatile == EccCounters(1, 0, 2, 0)
    assert first.ecc_aggregate == EccCounters(5, 3, 40, 6)
    assert (first.ecc_layout, first.sram_threshold_exceeded, first.repair_pending) == ("ampere", False, ())
    assert first.remapped == RowRemap(3, 1, False, False, {"max": 2556, "high": 4, "partial": 0, "low": 0, "none": 0})
    assert (first.fabric_state, first.fabric_status, first.fabric_health) == ("Completed", "Success", "Healthy")
    assert (first.mig_mode, first.persistence_mode, first.compute_mode) == (False, True, "Default")
    assert first.processes == (GpuProcess(4711, "python3 train.py --lr 3e-4", "compute", 70000),)
    assert second.processes == ()
    assert {"retired", "fan_pct", "reset_required"} <= first.unsupported
    assert first.event_reasons["sw_power_cap"] is True
    assert first.event_reasons["hw_thermal_slowdown"] is False
    assert set(first.event_reasons.values()) == {True, False}


@pytest.mark.parametrize("prefix", ["clocks_throttle_reason", "clocks_event_reason"])
def test_old_and_new_names_of_a_clock_reason_are_one_fact(prefix: str) -> None:
    tags = "<%ss><%s_sw_power_cap>Active</%s_sw_power_cap><%s_display_clocks_setting>Not Active</%s_display_clocks_setting></%ss>"
    (gpu,) = nvidia_smi.parse(tags % ((prefix,) * 6)).gpus
    assert gpu.event_reasons == {"sw_power_cap": True, "display_clocks": False}
    assert gpu.pci is None
    assert gpu.state is None


def test_counters_of_the_reasons_are_no_reasons() -> None:
    gpu = one(nest("clocks_event_reasons_counters", "clocks_event_reasons_counters_sync_boost", "0 us"))
    assert gpu.event_reasons == {}


@pytest.mark.parametrize(
    ("inside", "field", "value"),
    [
        pytest.param(nest("mig_devices", "mig_device", "fb_memory_usage", "total", "5 MiB"), "memory_total_mib", None, id="MIG memory"),
        pytest.param(
            nest("mig_devices", "mig_device", "volatile_count", "sram_uncorrectable", "9"), "ecc_section_unknown", None, id="MIG ECC"
        ),
        pytest.param(nest("module_power_readings", "power_draw", "900 W"), "power_watts", None, id="power of the module"),
        pytest.param(
            nest("power_readings", nest("enforced_power_limit", "100 W") + nest("power_limit", "120 W")),
            "power_limit_watts",
            100.0,
            id="driver 470: the enforced limit counts",
        ),
        pytest.param(
            nest("gpu_power_readings", nest("average_power_draw", " N/A ") + nest("instant_power_draw", " 66.84 W ")),
            "power_watts",
            66.84,
            id="driver 580: average N/A, instant told",
        ),
        pytest.param(nest("temperature", "gpu_temp_max_threshold", "98 C"), "temperature_shutdown_c", 98, id="driver 418: absolute"),
        pytest.param(nest("ecc_errors", "unrepairable_memory", "Yes"), "unrepairable_memory", True, id="driver 590"),
        pytest.param(
            nest("ecc_errors", nest("channel_repair_pending", "Yes") + nest("tpc_repair_pending", "No")),
            "repair_pending",
            ("channel",),
            id="Blackwell",
        ),
        pytest.param(nest("remapped_rows", "N/A"), "remapped", None, id="remapped rows as one word"),
        pytest.param(nest("processes", ""), "processes", (), id="no processes"),
        pytest.param(nest("processes", "N/A"), "processes", None, id="processes not told"),
        pytest.param(nest("product_name", "A &amp; B &#65;"), "name", "A & B A", id="entities"),
    ],
)
def test_fields(inside: str, field: str, value: t.Any) -> None:
    assert getattr(one(inside), field) == value


def test_volta_counts_by_structure() -> None:
    names = ("device_memory", "register_file", "l1_cache", "l2_cache", "texture_memory", "texture_shm", "cbu", "total")
    single = "".join(nest(name, text) for name, text in zip(names, ("3", "0", "1", "2", "N/A", "N/A", "N/A", "6")))
    double = "".join(nest(name, text) for name, text in zip(names, ("0", "0", "1", "2", "N/A", "N/A", "0", "3")))
    gpu = one(nest("ecc_errors", "volatile", nest("single_bit", single) + nest("double_bit", double)))
    assert gpu.ecc_layout == "volta"
    assert gpu.ecc_volatile == EccCounters(3, 3, 3, 0, 6, 3)
    assert gpu.ecc_aggregate is None


def test_a_lost_gpu_has_a_block_of_errors() -> None:
    lost = WHOLE.replace("<gpu_temp>58 C", "<gpu_temp>GPU is lost").replace("<uuid>GPU-0a1b2c3d-0002", "<uuid>GPU is lost</uuid><x>")
    reading = nvidia_smi.parse(lost.replace("<x>-4000-8000-00000000c0de</uuid>", ""))
    assert [gpu.state for gpu in reading.gpus] == ["ok", "lost"]
    assert reading.lost == ("0000:ab:00",)
    assert reading.gpus[1].uuid is None
    assert reading.gpus[1].errors["uuid"] == "GPU is lost"


def test_a_message_between_the_gpus_tells_of_the_one_that_is_missing() -> None:
    start = WHOLE.rindex("\t<gpu id")
    message = "Unable to determine the device handle for GPU0000:AB:00.0: Unknown Error\n"
    reading = nvidia_smi.parse(WHOLE[:start] + message + "</nvidia_smi_log>\n")
    assert (len(reading.gpus), reading.lost, reading.complete) == (1, ("0000:ab:00",), True)


def test_attributes_written_twice_and_bytes_that_are_no_text_do_not_matter() -> None:
    spoilt = WHOLE.replace('<gpu id="00000000:AB:00.0">', '<gpu id="00000000:AB:00.0" id="00000000:AB:00.0">').encode()
    spoilt = spoilt.replace(b"train.py", b"tr\xff\xfein.py")
    reading = nvidia_smi.parse(spoilt)
    assert reading.complete
    assert reading.gpus[1] == nvidia_smi.parse(WHOLE).gpus[1]
    assert [process.name for process in reading.gpus[0].processes or ()] == ["python3 tr\ufffd\ufffdin.py --lr 3e-4"]


def test_entities_of_a_document_type_are_not_expanded() -> None:
    entities = ['<!ENTITY a "lol">', *('<!ENTITY %s "%s">' % (chr(98 + n), ("&%s;" % chr(97 + n)) * 10) for n in range(9))]
    inside = nest("attached_gpus", "1") + "<gpu id='0000:01:00.0'>" + nest("product_name", "&j;") + "</gpu>"
    reading = nvidia_smi.parse("<!DOCTYPE x [%s]>" % "".join(entities) + nest("nvidia_smi_log", inside))
    assert reading.complete
    assert reading.gpus[0].name == "&j;"


@pytest.mark.parametrize("piece", ["<", "<a", "<gpu>", "<!--", "<nvidia_smi_log>&#1;", "<gpu x=", "</gpu>", "<gpu id='0000:01:00.0'>"])
def test_hostile_text_is_read_in_time(piece: str) -> None:
    start = time.monotonic()
    assert not nvidia_smi.parse("<gpu>" + piece * 4000).complete
    assert time.monotonic() - start < 30


def test_a_cut_report_is_never_complete() -> None:
    whole = nvidia_smi.parse(WHOLE)
    end = len(WHOLE.rstrip()) - 1
    for at in (*range(0, end, 1499), *range(end - 20, end + 1)):
        reading = nvidia_smi.parse(WHOLE[:at])
        assert not reading.complete, WHOLE[max(0, at - 40) : at]
        assert not reading.gpus or reading.error_kind == "garbled"
        for gpu, same in zip(reading.gpus, whole.gpus):
            assert gpu.state in (None, same.state)
            for name in ("uuid", "temperature_c", "memory_used_mib", "power_watts", "pcie_replays", "recovery_action"):
                assert getattr(gpu, name) in (None, getattr(same, name))


def test_the_gpu_in_which_the_report_breaks_off_is_not_ok() -> None:
    reading = nvidia_smi.parse(WHOLE[: WHOLE.rindex("<fabric>")])
    assert [gpu.state for gpu in reading.gpus] == ["ok", None]
    assert reading.error_kind == "garbled"
    assert "block" in reading.gpus[1].errors


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda text: text.replace("</gpu>", "", 1), id="a closing tag is missing"),
        pytest.param(lambda text: text.replace("</temperature>", "</temper", 1), id="a tag is cut"),
        pytest.param(lambda text: re.sub(r"</gpu>\s*<gpu id=\"00000000:AB:00.0\">", "", text), id="two GPUs run into one"),
        pytest.param(lambda text: text.replace("<attached_gpus>2", "<attached_gpus>3"), id="one more is announced"),
        pytest.param(lambda text: text + "<nvidia_smi_log><attached_gpus>2</attached_gpus><gpu>", id="a second report is cut"),
    ],
)
def test_a_broken_report_is_not_complete(spoil: t.Callable[[str], str]) -> None:
    reading = nvidia_smi.parse(spoil(WHOLE))
    assert not reading.complete
    assert reading.error_kind in ("garbled", "other")


def test_simulated_is_told_by_name_or_comment() -> None:
    assert nvidia_smi.parse(WHOLE.replace("80GB HBM3<", "80GB HBM3 [simulated]<")).simulated
    assert nvidia_smi.parse("<!-- a simulated node -->\n" + WHOLE).simulated
    assert not nvidia_smi.parse(WHOLE).simulated
