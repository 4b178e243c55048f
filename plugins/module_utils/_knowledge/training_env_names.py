# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The variables of NCCL and PyTorch: the names they read, those that are old, what should not stay. Private to kentino.gpu.

The names of NCCL were read off the sources of the releases up to 2.30.7 and its user guide (env.rst), those of PyTorch off the headers
and libraries of its wheels (ProcessGroupNCCL.hpp and FlightRecorder.hpp of 2.13), on 2026-11-30.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from .torch_environment import version

# Without the prefix NCCL_.
_NCCL = """
    ALGO ALLGATHERV_ENABLE ALLOC_P2P_NET_LL_BUFFERS BUFFSIZE CGA_CLUSTER_SIZE CHECKS_DISABLE CHECK_MODE CHECK_POINTERS CHUNK_SIZE
    COLLNET_ENABLE COLLNET_NODE_THRESHOLD COMM_BLOCKING COMM_ID COMM_SHRINK_SHARE_RESOURCES COMM_SPLIT_SHARE_RESOURCES CONF_FILE
    CONNECT_ROUND_MAX_PEERS CROSS_NIC CTA_POLICY CUDA_PATH CUMEM_ENABLE CUMEM_HOST_ENABLE DEBUG DEBUG_FILE DEBUG_SUBSYS
    DEBUG_TIMESTAMP_FORMAT DEBUG_TIMESTAMP_LEVELS DEV_API_JIT DISABLE_MEM_MANAGER DMABUF_ENABLE ELASTIC_BUFFER_REGISTER
    ENABLE_VERSION_CHECK ENV_PLUGIN GDAKI_USE_RELIABLE_DB GDRCOPY_ENABLE GDRCOPY_FIFO_ENABLE GDRCOPY_FLUSH_ENABLE GDRCOPY_SYNC_ENABLE
    GDRCOPY_TAIL_ENABLE GDR_FLUSH_DISABLE GIN_ENABLE GIN_ERROR_QUERY_SEC GIN_GDAKI_MAX_DEST_RD_ATOMIC GIN_GDAKI_MAX_QP_RD_ATOMIC
    GIN_GDAKI_NIC_HANDLER GIN_GDAKI_QP_DEPTH GIN_IB_TC GIN_NCONNECTIONS GIN_PLUGIN GIN_PLUGIN_REF_COUNT GIN_PROXY_QUEUE_SIZE GIN_TYPE
    GRAPH_DUMP_FILE GRAPH_DUMP_FILE_RANK GRAPH_FILE GRAPH_HELPER_DISABLE GRAPH_MIXING_SUPPORT GRAPH_REGISTER GRAPH_STREAM_ORDERING
    GROUP_CUDA_STREAM HOSTID IBVERBS_LIB IB_ADAPTIVE_ROUTING IB_ADDR_FAMILY IB_ADDR_RANGE IB_AR_THRESHOLD IB_CUDA_SUPPORT
    IB_DATA_DIRECT IB_DEVICE_PCI_ORDER IB_DISABLE IB_ECE_ENABLE IB_FIFO_TC IB_GDR_LEVEL IB_GID_INDEX IB_HCA IB_MERGE_NICS IB_MERGE_VFS
    IB_MQP_RETRY_ALL IB_MQP_RETRY_CNT IB_MQP_RETRY_SLEEP_MSEC IB_OOO_RQ IB_PCI_RELAXED_ORDERING IB_PKEY
    IB_PREPOST_RECEIVE_WORK_REQUESTS IB_QPS_PER_CONNECTION IB_QUERY_PORT_SPEED IB_RECEIVER_SIDE_MATCHING_SCHEME
    IB_RESILIENCY_PORT_FAILOVER IB_RESILIENCY_PORT_FAILOVER_MAX_ATTEMPTS IB_RESILIENCY_PORT_FAILOVER_PROBE_DELAY
    IB_RESILIENCY_PORT_RECOVERY IB_RESILIENCY_PORT_RECOVERY_ACK_TIMEOUT IB_RESILIENCY_PORT_RECOVERY_ALIVE_MSG_BATCH_INTERVAL
    IB_RESILIENCY_PORT_RECOVERY_ALIVE_MSG_BATCH_SIZE IB_RESILIENCY_PORT_RECOVERY_ALIVE_MSG_SEQUENCE_SIZE
    IB_RESILIENCY_PORT_RECOVERY_ALIVE_MSG_TIMEOUT IB_RESILIENCY_PORT_RECOVERY_ATTEMPTS_MAX IB_RESILIENCY_PORT_RECOVERY_START_DELAY
    IB_RETRY_CNT IB_RETURN_ASYNC_EVENTS IB_ROCE_VERSION_NUM IB_ROUTABLE_FLID_GID_INDEX IB_SL IB_SPLIT_DATA_ON_QPS
    IB_SUBNET_AWARE_ROUTING IB_SUBNET_PREFIX_LEN IB_TC IB_TIMEOUT IB_USE_INLINE IB_WARN_RAIL_LOCAL IGNORE_COLLNET_MISMATCH
    IGNORE_CPU_AFFINITY IGNORE_DISABLED_P2P IGNORE_NET_MISMATCH IPC_USE_ABSTRACT_SOCKET L1_SHARED_MEMORY_CARVEOUT LAUNCH_MODE
    LAUNCH_ORDER_IMPLICIT LAUNCH_RACE_FATAL LEGACY_CUDA_REGISTER LL128_BUFFSIZE LL128_C2C LL128_NTHREADS LL_BUFFSIZE LL_THRESHOLD
    LOCAL_REGISTER LSA_TEAM_SIZE MAX_CTAS MAX_NCHANNELS MAX_NRINGS MAX_P2P_NCHANNELS MEM_SYNC_DOMAIN MIN_CTAS MIN_NCHANNELS MIN_NRINGS
    MIN_P2P_NCHANNELS MLOPART_RDMA_ENABLE MNNVL_CLIQUE_ID MNNVL_CROSS_CLIQUE MNNVL_ENABLE MNNVL_RAIL_PER_HOST
    MNNVL_SCATTER_NETS_ENABLE MNNVL_UUID MULTI_RANK_GPU_ENABLE MULTI_SEGMENT_REGISTER NCHANNELS_PER_NET_PEER NET NETDEVS_POLICY
    NET_DISABLE_INTRA NET_FORCE_FLUSH NET_FORCE_MERGE NET_GDR_C2C NET_GDR_LEVEL NET_GDR_MLOPART NET_GDR_READ NET_MERGE_LEVEL
    NET_MERGE_POLICY NET_OPTIONAL_RECV_COMPLETION NET_OVERHEAD NET_PLUGIN NET_PLUGIN_REF_COUNT NET_SHARED_BUFFERS NET_SHARED_COMMS
    NO_CACHE NSOCKS_PERTHREAD NTHREADS NUM_RMA_CTX NVB_DISABLE NVB_PRECONNECT NVLINK_UTIL_CENTRIC_SCHED_ENABLE NVLSTREE_MAX_CHUNKSIZE
    NVLS_CHUNKSIZE NVLS_ENABLE NVLS_NCHANNELS NVTX_DISABLE OOB_NET_ENABLE OOB_NET_IFNAME P2P_DIRECT_DISABLE P2P_DISABLE
    P2P_EPOCH_ENABLE P2P_LEVEL P2P_LL_THRESHOLD P2P_MAX_PEERS P2P_NET_CHUNKSIZE P2P_NVL_CHUNKSIZE P2P_PCI_CHUNKSIZE
    P2P_PER_CHANNEL_NET_BW P2P_PXN_LEVEL P2P_READ_ENABLE P2P_SCHEDULE_GROUP_SIZE P2P_USE_CUDA_MEMCPY PAT_ENABLE PROFILER_PLUGIN
    PROGRESS_APPENDOP_FREQ PROTO PROXY_APPEND_BATCH_SIZE PROXY_CPUSET PROXY_DUMP_SIGNAL PROXY_PROFILE PXN_C2C PXN_DISABLE RAS_ADDR
    RAS_ENABLE RAS_TIMEOUT_FACTOR REPORT_CONNECT_PROGRESS RINGS RMA_DISABLE RMA_PLUGIN RMA_PLUGIN_REF_COUNT RMA_PROXY_DUMP_SIGNAL
    RMA_PROXY_QUEUE_SIZE RUNTIME_CONNECT SET_CPU_STACK_SIZE SET_STACK_SIZE SET_THREAD_NAME SHADOW_MEMPOOL_MAX_SIZE SHARED_BUFF_COUNT
    SHM_DISABLE SHM_LOCALITY SHM_MEMCPY_MODE SHM_USE_CUDA_MEMCPY SINGLE_PROC_MEM_REG_ENABLE SINGLE_RING_THRESHOLD SOCKET_FAMILY
    SOCKET_IFNAME SOCKET_INLINE SOCKET_MAGIC SOCKET_MIN_TASKSIZE SOCKET_NTHREADS SOCKET_POLL_TIMEOUT_MSEC SOCKET_RCVBUF
    SOCKET_RETRY_CNT SOCKET_RETRY_SLEEP_MSEC SOCKET_SNDBUF SYM_CE_THRESHOLD SYM_CTAS SYM_GIN_KERNELS_ENABLE SYM_KERNEL
    SYM_NOWIN_ENABLE SYM_REUSE_SYSMEM_HANDLES SYM_RS_GIN_CHUNK_SIZE SYM_TMA_ENABLE THREAD_THRESHOLD THREAD_THRESHOLDS TOPO_DUMP_FILE
    TOPO_DUMP_FILE_RANK TOPO_FILE TOPO_SPLIT_MLOPART TREE_THRESHOLD TUNER_PLUGIN UID_STAGGER_RATE UID_STAGGER_THRESHOLD
    UNPACK_DOUBLE_NCHANNELS WARN_ENABLE_DEBUG_INFO WIN_ENABLE WIN_STRIDE WORK_ARGS_BYTES WORK_FIFO_BYTES WORK_FIFO_DEPTH
"""

_TORCH = """
    TORCH_FR_BUFFER_SIZE TORCH_FR_CPP_STACK TORCH_FR_DUMP_DYNAMIC_FILE_NAME TORCH_FR_DUMP_TEMP_FILE TORCH_NCCL_ABORT_IN_DESTROY_PG
    TORCH_NCCL_ASYNC_ERROR_HANDLING TORCH_NCCL_AVOID_RECORD_STREAMS TORCH_NCCL_BCAST_UNIQUEID TORCH_NCCL_BLOCKING_WAIT
    TORCH_NCCL_COORD_CHECK_MILSEC TORCH_NCCL_CUDA_EVENT_CACHE TORCH_NCCL_DEBUG_INFO_PIPE_FILE TORCH_NCCL_DEBUG_INFO_TEMP_FILE
    TORCH_NCCL_DESYNC_DEBUG TORCH_NCCL_DUMP_ON_TIMEOUT TORCH_NCCL_ENABLE_MONITORING TORCH_NCCL_ENABLE_TIMING
    TORCH_NCCL_EXTRA_DUMP_ON_EXEC TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC TORCH_NCCL_HIGH_PRIORITY
    TORCH_NCCL_LOG_CPP_STACK_ON_UNCLEAN_SHUTDOWN TORCH_NCCL_NAN_CHECK TORCH_NCCL_PROPAGATE_ERROR TORCH_NCCL_RANKS_PER_ROOT
    TORCH_NCCL_RETHROW_CUDA_ERRORS TORCH_NCCL_SHOW_EAGER_INIT_P2P_SERIALIZATION_WARNING TORCH_NCCL_TRACE_BUFFER_SIZE
    TORCH_NCCL_TRACE_CPP_STACK TORCH_NCCL_USE_COMM_NONBLOCKING TORCH_NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK
    TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC TORCH_ENABLE_NCCL_HEALTH_CHECK TORCH_DISTRIBUTED_DEBUG TORCH_CPP_LOG_LEVEL
"""

_OTHER = """
    CUDA_DEVICE_MAX_CONNECTIONS CUDA_DEVICE_ORDER CUDA_LAUNCH_BLOCKING CUDA_VISIBLE_DEVICES GLOO_SOCKET_IFNAME PYTORCH_ALLOC_CONF
    PYTORCH_CUDA_ALLOC_CONF PYTORCH_HIP_ALLOC_CONF PYTORCH_NO_CUDA_MEMORY_CACHING
"""

KNOWN: t.FrozenSet[str] = frozenset(["NCCL_" + word for word in _NCCL.split()] + _TORCH.split() + _OTHER.split())

# Not ours to judge: plug-ins for NCCL and test programs read names of their own.
_FOREIGN = (
    "NCCL_OFI_",
    "NCCL_TESTS_",
    "NCCL_FASTRAK_",
    "NCCL_TUNER_CONFIG_",
    "NCCL_INSPECTOR_",
    "NCCL_PROFILE",
    "NCCL_SHARP_",
    "NCCL_GPUDIRECT",
)
PREFIXES = (
    "NCCL_",
    "TORCH_NCCL_",
    "TORCH_FR_",
    "PYTORCH_ALLOC",
    "PYTORCH_CUDA_ALLOC",
    "PYTORCH_HIP_ALLOC",
    "CUDA_DEVICE",
    "CUDA_LAUNCH_",
    "CUDA_VISIBLE_",
    "ENABLE_NCCL_",
)

_TORCH_RENAME = "PyTorch 2.2 (pytorch/pytorch#114077)"
_NCCL_GUIDE = "NCCL user guide, env.rst of 2.30.7"


@dataclass(frozen=True)
class Deprecated:
    name: str
    replacement: str  # another name, or what to do instead; empty where nothing is needed
    since: str  # which release made it old, for people
    source: str
    torch: t.Tuple[int, ...] = ()  # from this PyTorch on; empty: whatever the PyTorch
    dead: bool = False  # read by no current release at all
    value: str = ""  # only this value, a prefix

    def applies(self, torch_version: t.Optional[str], value: t.Optional[str]) -> t.Optional[bool]:
        """Whether it is old here; None where the version of PyTorch would have to be known."""
        if self.value and not (value or "").startswith(self.value):
            return False
        if not self.torch:
            return True
        known = version(torch_version)
        return known >= self.torch if known else None


def _renamed(name: str, replacement: str) -> Deprecated:
    return Deprecated(name, replacement, "PyTorch 2.2", _TORCH_RENAME, (2, 2))


def _gone(name: str, replacement: str, since: str) -> Deprecated:
    return Deprecated(name, replacement, since, _NCCL_GUIDE, dead=True)


def _old(name: str, replacement: str, since: str, value: str = "") -> Deprecated:
    return Deprecated(name, replacement, since, _NCCL_GUIDE, value=value)


DEPRECATED: t.Tuple[Deprecated, ...] = (
    _renamed("NCCL_ASYNC_ERROR_HANDLING", "TORCH_NCCL_ASYNC_ERROR_HANDLING"),
    _renamed("NCCL_BLOCKING_WAIT", "TORCH_NCCL_BLOCKING_WAIT"),
    _renamed("NCCL_DESYNC_DEBUG", "TORCH_NCCL_DESYNC_DEBUG"),
    _renamed("NCCL_ENABLE_TIMING", "TORCH_NCCL_ENABLE_TIMING"),
    _renamed("NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK", "TORCH_NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK"),
    _renamed("NCCL_USE_COMM_NONBLOCKING", "TORCH_NCCL_USE_COMM_NONBLOCKING"),
    _renamed("ENABLE_NCCL_HEALTH_CHECK", "TORCH_ENABLE_NCCL_HEALTH_CHECK"),
    # Tried with PyTorch 2.13 on a CPU: the recorder obeys the old name and prints a warning in every process.
    Deprecated("TORCH_NCCL_TRACE_BUFFER_SIZE", "TORCH_FR_BUFFER_SIZE", "PyTorch 2.8", "FlightRecorder.hpp", (2, 8)),
    Deprecated("TORCH_NCCL_TRACE_CPP_STACK", "TORCH_FR_CPP_STACK", "PyTorch 2.8", "FlightRecorder.hpp", (2, 8)),
    Deprecated("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "PyTorch 2.9", "libc10 of 2.8 and 2.9", (2, 9)),
    _gone("NCCL_IB_CUDA_SUPPORT", "NCCL_NET_GDR_LEVEL", "NCCL 2.4.0"),
    _old("NCCL_IB_GDR_LEVEL", "NCCL_NET_GDR_LEVEL", "NCCL 2.4.0"),
    _gone("NCCL_SINGLE_RING_THRESHOLD", "", "NCCL 2.3"),
    _gone("NCCL_LL_THRESHOLD", "NCCL_PROTO, if at all", "NCCL 2.5"),
    _gone("NCCL_TREE_THRESHOLD", "NCCL_ALGO, if at all", "NCCL 2.5"),
    _gone("NCCL_RINGS", "NCCL_GRAPH_FILE", "NCCL 2.5"),
    _gone("NCCL_CHECKS_DISABLE", "", "NCCL 2.2.12"),
    _old("NCCL_CHECK_POINTERS", "NCCL_CHECK_MODE=DEBUG_LOCAL", "NCCL 2.29.7"),
    _old("NCCL_MAX_NRINGS", "NCCL_MAX_CTAS", "NCCL 2.5"),
    _old("NCCL_MIN_NRINGS", "NCCL_MIN_CTAS", "NCCL 2.5"),
    _old("NCCL_MAX_NCHANNELS", "NCCL_MAX_CTAS", "NCCL 2.17"),
    _old("NCCL_MIN_NCHANNELS", "NCCL_MIN_CTAS", "NCCL 2.17"),
    _old("NCCL_LAUNCH_MODE", "NCCL_LAUNCH_MODE=PARALLEL, which is the default", "NCCL 2.9", value="GROUP"),
)


@dataclass(frozen=True)
class Leftover:
    """What somebody set to find a fault and forgot."""

    name: str
    values: t.Tuple[str, ...]
    effect: str
    severity: str = "warning"


_ON = ("1", "true", "True", "TRUE")
_OFF = ("0", "false", "False", "FALSE")
_DEBUGGING = "the user guide of NCCL wants it out of scripts once the fault is found"

LEFTOVERS: t.Tuple[Leftover, ...] = (
    Leftover("CUDA_LAUNCH_BLOCKING", _ON, "every kernel is waited for: training is slow and overlaps nothing"),
    Leftover("TORCH_NCCL_BLOCKING_WAIT", _ON, "every wait blocks the process, and errors are handled in another way"),
    Leftover("NCCL_BLOCKING_WAIT", _ON, "every wait blocks the process, and errors are handled in another way"),
    Leftover("NCCL_DEBUG", ("TRACE", "trace"), "NCCL writes a line for each call: logs fill disks and slow ranks down"),
    Leftover("NCCL_DEBUG", ("INFO", "info"), "NCCL is verbose; " + _DEBUGGING, "info"),
    Leftover("TORCH_DISTRIBUTED_DEBUG", ("DETAIL",), "PyTorch checks each collective across all ranks, which slows training down"),
    Leftover("TORCH_NCCL_ASYNC_ERROR_HANDLING", ("0",), "a collective that fails or hangs no longer ends the job"),
    Leftover("NCCL_ASYNC_ERROR_HANDLING", ("0",), "a collective that fails or hangs no longer ends the job"),
    Leftover("TORCH_NCCL_ENABLE_MONITORING", _OFF, "a watchdog that hangs is not noticed, and the flight recorder is not dumped"),
    Leftover("TORCH_NCCL_DUMP_ON_TIMEOUT", _OFF, "the flight recorder is not dumped when a collective times out"),
    Leftover("TORCH_FR_BUFFER_SIZE", ("0",), "the flight recorder is off"),
    Leftover("TORCH_NCCL_TRACE_BUFFER_SIZE", ("0",), "the flight recorder is off"),
    Leftover("TORCH_NCCL_DESYNC_DEBUG", _ON, "every collective is written to the store, which slows training down"),
    Leftover("NCCL_SHM_DISABLE", _ON, "GPUs without peer-to-peer talk through the network; " + _DEBUGGING),
    Leftover("NCCL_IB_DISABLE", _ON, "InfiniBand and RoCE are not used; " + _DEBUGGING),
    Leftover("PYTORCH_NO_CUDA_MEMORY_CACHING", _ON, "every allocation goes to the driver: training is slow"),
)

# Mistakes that are further from the right name than a slip of the finger.
_MISTAKES: t.Mapping[str, str] = {
    "NCCL_SOCKET_INTERFACE": "NCCL_SOCKET_IFNAME",
    "NCCL_SOCKET_IFACE": "NCCL_SOCKET_IFNAME",
    "NCCL_IFNAME": "NCCL_SOCKET_IFNAME",
    "NCCL_DISABLE_P2P": "NCCL_P2P_DISABLE",
    "NCCL_DISABLE_IB": "NCCL_IB_DISABLE",
    "NCCL_DISABLE_SHM": "NCCL_SHM_DISABLE",
    "NCCL_FR_BUFFER_SIZE": "TORCH_FR_BUFFER_SIZE",
    "TORCH_NCCL_FR_BUFFER_SIZE": "TORCH_FR_BUFFER_SIZE",
    "NCCL_TRACE_BUFFER_SIZE": "TORCH_FR_BUFFER_SIZE",
    "CUDA_DEVICES_ORDER": "CUDA_DEVICE_ORDER",
}
_NEAR = 0.87


def is_about_training(name: str) -> bool:
    """Whether a variable is any of our business."""
    return name in KNOWN or name.startswith(PREFIXES)


def deprecated(name: str) -> t.Optional[Deprecated]:
    return _BY_NAME.get(name)


def leftovers(name: str) -> t.Tuple[Leftover, ...]:
    return tuple(entry for entry in LEFTOVERS if entry.name == name)


def meant(name: str) -> t.Optional[str]:
    """The name that whoever wrote C(name) probably meant; None where it is right, somebody else's, or near to none."""
    if name in KNOWN or name in _BY_NAME or name.startswith(_FOREIGN) or not name.startswith(PREFIXES):
        return None
    if name in _MISTAKES:
        return _MISTAKES[name]
    for guess in ("TORCH_" + name, name[len("TORCH_") :] if name.startswith("TORCH_") else ""):
        if guess in KNOWN:
            return guess
    import difflib

    near = difflib.get_close_matches(name, sorted(KNOWN), 1, _NEAR)
    return near[0] if near else None


_BY_NAME = {entry.name: entry for entry in DEPRECATED}
