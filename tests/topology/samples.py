"""Descriptions of machines in the forms of the programs that write them."""

from __future__ import annotations

from pathlib import Path

LSTOPO = (Path(__file__).parent / "lstopo.xml").read_bytes()
"""What ``lstopo --of xml`` of hwloc 2.9 wrote on a virtual machine of two cores, but for names of host and kernel."""

_LEGEND = """
Legend:

  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)
  NV#  = Connection traversing a bonded set of # NVLinks
"""


def _matrix(entry: str, count: int, tail: str = "") -> str:
    """``nvidia-smi topo -m`` of a machine whose GPUs are all linked alike, on two sockets."""
    head = "".join(f"\tGPU{k}" for k in range(count)) + "\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n"
    rows = ""
    for row in range(count):
        cells = [" X " if k == row else entry for k in range(count)]
        socket = 2 * row // count
        rows += (
            "\t".join([f"GPU{row}", *cells, "SYS", f"{52 * socket}-{52 * socket + 51}", str(socket), "", "N/A"]) + "\n"
        )
    return head + rows + "NIC0\t" + "SYS\t" * count + " X \n" + _LEGEND + tail


NAMES = "".join(f"GPU {k}: NVIDIA A100-SXM4-80GB (UUID: GPU-{k:08x}-0000-0000-0000-000000000000)\n" for k in range(8))
"""``nvidia-smi -L`` of a DGX A100."""

DGX = NAMES + _matrix("NV12", 8)
"""A DGX A100: the matrix names all twelve NVLinks for each pair, since they end at switches."""

H100 = _matrix("NV18", 8)
"""A DGX H100, without the names of its GPUs."""

PCIE = """\tGPU0\tGPU1\tGPU2\tGPU3\tCPU Affinity\tNUMA Affinity
GPU0\t X \tNV12\tSYS\tSYS\t0-23\t0
GPU1\tNV12\t X \tSYS\tSYS\t24-47\t1
GPU2\tSYS\tSYS\t X \tNV12\t48-71\t2
GPU3\tSYS\tSYS\tNV12\t X \t72-95\t3
"""
"""Four A100 on PCIe, two pairs of which are bridged by NVLink."""

OLD = """      GPU0 GPU1 GPU2 GPU3 mlx5_0 CPU Affinity
GPU0\t X \tNV1\tNV2\tSOC\tPIX\t0-19,40-59
GPU1\tNV1\t X \tSOC\tNV2\tPIX\t0-19,40-59
GPU2\tNV2\tSOC\t X \tNV1\tSOC\t20-39,60-79
GPU3\tSOC\tNV2\tNV1\t X \tSOC\t20-39,60-79
mlx5_0\tPIX\tPIX\tSOC\tSOC\t X
"""
"""A ring of four V100 on two sockets, by an old driver that says no NUMA affinity."""


def _nccl_gpu(number: int, links: str, speed: str = "", width: int = 0) -> str:
    return f"""  <cpu numaid="{number}" affinity="ffffff" arch="x86_64" vendor="AuthenticAMD">
    <pci busid="000{number + 1}:00:00.0" class="0x030200" vendor="0x10de" device="0x20b5" subsystem_vendor="0x10de"
         subsystem_device="0x1533" link_speed="{speed}" link_width="{width}">
      <gpu dev="{number}" sm="80" rank="{number}" gdr="1">
        {links}
      </gpu>
    </pci>
  </cpu>
"""


NCCL = (
    '<system version="1">\n'
    + "".join(
        _nccl_gpu(k, f'<nvlink target="000{(k ^ 1) + 1}:00:00.0" count="12" tclass="0x030200"/>') for k in range(4)
    )
    + "</system>\n"
)
"""The same machine as NCCL sees it, the form of ``NCCL_TOPO_DUMP_FILE``."""

NCCL_SWITCH = (
    '<system version="1">\n'
    + "".join(
        _nccl_gpu(
            k,
            "".join(f'<nvlink target="0000:c{s}:00.0" count="6" tclass="0x068000"/>' for s in range(2)),
            "16.0 GT/s PCIe",
            16,
        )
        for k in range(4)
    )
    + "</system>\n"
)
"""Four GPUs with six NVLinks to each of two switches."""

NCCL_C2C = NCCL_SWITCH.replace("      </gpu>", '        <c2c bw="44712" count="5"/>\n      </gpu>')
"""The same GPUs, each with five links of 44.712 GB/s to its processor besides PCIe."""

HWLOC = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE topology SYSTEM "hwloc2.dtd">
<topology version="2.0">
 <object type="Machine" os_index="0" nodeset="0x00000003" gp_index="1">
  <object type="Package" os_index="0" nodeset="0x00000001" gp_index="2">
   <info name="CPUModel" value="AMD EPYC 7742 64-Core Processor"/>
   <object type="NUMANode" os_index="0" nodeset="0x00000001" gp_index="3" local_memory="270000000000"/>
   <object type="Core" os_index="0" nodeset="0x00000001" gp_index="4"/>
   <object type="Bridge" gp_index="5" bridge_type="0-1" depth="0" bridge_pci="0000:[00-09]">
    <object type="PCIDev" gp_index="6" pci_busid="0000:07:00.0" pci_type="0302 [10de:20b2] [10de:1463] a1"
            pci_link_speed="31.507692">
     <info name="PCIVendor" value="NVIDIA Corporation"/>
     <object type="OSDev" gp_index="7" name="cuda0" subtype="CUDA" osdev_type="5">
      <info name="GPUModel" value="NVIDIA A100-SXM4-80GB"/>
     </object>
    </object>
    <object type="PCIDev" gp_index="8" pci_busid="0000:08:00.0" pci_type="0108 [144d:a824] [144d:a801] 00"/>
   </object>
  </object>
  <object type="Package" os_index="1" nodeset="0x00000002" gp_index="9">
   <info name="CPUModel" value="AMD EPYC 7742 64-Core Processor"/>
   <object type="NUMANode" os_index="1" nodeset="0x00000002" gp_index="10" local_memory="270000000000"/>
   <object type="Bridge" gp_index="11" bridge_type="0-1" depth="0" bridge_pci="0000:[80-89]">
    <object type="PCIDev" gp_index="12" pci_busid="0000:87:00.0" pci_type="0302 [10de:20b2] [10de:1463] a1"
            pci_link_speed="15.753846"/>
   </object>
  </object>
 </object>
</topology>
"""
"""Two sockets with a GPU each, in the form of hwloc 2; the second GPU is known by its PCI numbers alone."""

SWITCHES = (
    "".join(f"GPU {k}: NVIDIA A100-PCIE-40GB (UUID: GPU-{k})\n" for k in range(8))
    + "".join(f"\tGPU{k}" for k in range(8))
    + "\tCPU Affinity\tNUMA Affinity\n"
    + "".join(
        f"GPU{k}\t"
        + "\t".join(" X " if j == k else "PIX" if j // 4 == k // 4 else "NODE" for j in range(8))
        + "\t0-47\t0\n"
        for k in range(8)
    )
)
"""Eight GPUs on one socket, four behind each of two PCIe switches."""


def nvidia_query(bus: str, name: str, device: str, generation: str, width: str, memory: str) -> str:
    """A GPU's section of ``nvidia-smi -q``, shortened, in the form of driver 535."""
    return f"""GPU 00000000:{bus}:00.0
    Product Name                          : {name}
    Product Brand                         : GeForce
    MIG Mode
        Current                           : N/A
    PCI
        Bus                               : 0x{bus}
        Device Id                         : 0x{device}10DE
        Bus Id                            : 00000000:{bus}:00.0
        GPU Link Info
            PCIe Generation
                Max                       : {generation}
                Current                   : 1
                Device Current            : 1
                Device Max                : 4
                Host Max                  : 4
            Link Width
                Max                       : {width}
                Current                   : 4x
        Bridge Chip
            Type                          : N/A
    Fan Speed                             : 35 %
    FB Memory Usage
        Total                             : {memory}
        Reserved                          : 569 MiB
        Used                              : 0 MiB
    BAR1 Memory Usage
        Total                             : 256 MiB
    Processes                             : None
"""


NVIDIA_QUERY = (
    "==============NVSMI LOG==============\n\nTimestamp                                 : Thu Jun 20 07:17:53 2024\n"
    "Driver Version                            : 535.99\nAttached GPUs                             : 2\n"
    + nvidia_query("18", "NVIDIA GeForce RTX 4060 Ti", "2805", "3", "8x", "16380 MiB")
    + nvidia_query("3B", "NVIDIA GeForce RTX 3090", "2204", "4", "16x", "24576 MiB")
)
"""``nvidia-smi -q`` of a card of 16 GB in a slot of PCIe 3, and of a second card."""

ROCM = """
============================ ROCm System Management Interface ============================
====================================== Product Info ======================================
GPU[0]\t\t: Card Series: \t\tNavi 31 [Radeon RX 7900 XT/7900 XTX/7900M]
GPU[0]\t\t: Card Model: \t\t0x744c
GPU[0]\t\t: Card Vendor: \t\tAdvanced Micro Devices, Inc. [AMD/ATI]
GPU[0]\t\t: Card SKU: \t\tD70401XT
GPU[1]\t\t: Card Series: \t\tAMD Radeon RX 9070 XT
GPU[1]\t\t: Card Model: \t\t0x7550
GPU[2]\t\t: Card Series: \t\tRaphael
GPU[2]\t\t: Card Model: \t\t0x164e
==========================================================================================
================================== Memory Usage (Bytes) ==================================
GPU[0]\t\t: VRAM Total Memory (B): 25753026560
GPU[0]\t\t: VRAM Total Used Memory (B): 27856896
GPU[1]\t\t: VRAM Total Memory (B): 17163091968
GPU[1]\t\t: VRAM Total Used Memory (B): 8581545984
GPU[2]\t\t: VRAM Total Memory (B): 67108864
GPU[2]\t\t: VRAM Total Used Memory (B): 26079232
==========================================================================================
=============================== Link Type between two GPUs ===============================
       GPU0         GPU1         GPU2
GPU0   0            PCIE         PCIE
GPU1   PCIE         0            PCIE
GPU2   PCIE         PCIE         0

======================================= Numa Nodes =======================================
GPU[0]\t\t: (Topology) Numa Node: 0
GPU[0]\t\t: (Topology) Numa Affinity: 0
GPU[1]\t\t: (Topology) Numa Node: 1
GPU[1]\t\t: (Topology) Numa Affinity: 1
GPU[2]\t\t: (Topology) Numa Node: 0
================================== End of ROCm SMI Log ===================================
"""
"""Two cards, one of them named by all products of its chip, and the graphics of the processor."""

MAC = """Hardware:

    Hardware Overview:

      Model Name: MacBook Pro
      Model Identifier: Mac16,5
      Chip: Apple M4 Max
      Total Number of Cores: 16 (12 performance and 4 efficiency)
      Memory: 64 GB
      System Firmware Version: 11881.101.1

Graphics/Displays:

    Apple M4 Max:

      Chipset Model: Apple M4 Max
      Type: GPU
      Bus: Built-In
      Total Number of Cores: 40
      Vendor: Apple (0x106b)
      Metal Support: Metal 3
      Displays:
        Color LCD:
          Resolution: 3456 x 2234 Retina
"""
"""``system_profiler SPHardwareDataType SPDisplaysDataType`` of a notebook."""

TABLE = """Sat Nov 28 02:00:00 2026
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 550.54.15              Driver Version: 550.54.15      CUDA Version: 12.4     |
|-----------------------------------------+------------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |
|                                         |                        |               MIG M. |
|=========================================+========================+======================|
|   0  NVIDIA GeForce RTX 3090        Off |   00000000:01:00.0  On |                  N/A |
| 30%   41C    P8             23W /  350W |    2345MiB /  24576MiB |      0%      Default |
|                                         |                        |                  N/A |
+-----------------------------------------+------------------------+----------------------+
|   1  NVIDIA GeForce RTX 2080 Ti     Off |   00000000:02:00.0 Off |                  N/A |
| 22%   35C    P8              5W /  250W |       1MiB /  11264MiB |      0%      Default |
+-----------------------------------------+------------------------+----------------------+

+-----------------------------------------------------------------------------------------+
| Processes:                                                                              |
|    0   N/A  N/A      1234      G   /usr/lib/xorg/Xorg                             345MiB |
+-----------------------------------------------------------------------------------------+
"""
"""Plain ``nvidia-smi``: a card that also drives a display, and a free one."""

LLAMA_LIST = """ggml_cuda_init: found 2 CUDA devices:
  Device 0: NVIDIA GeForce RTX 3090, compute capability 8.6, VMM: yes
  Device 1: NVIDIA GeForce RTX 4090 Laptop GPU, compute capability 8.9, VMM: yes
Available devices:
  CUDA0: NVIDIA GeForce RTX 3090 (24124 MiB, 20124 MiB free)
  CUDA1: NVIDIA GeForce RTX 4090 Laptop GPU (16075 MiB, 15843 MiB free)
  Vulkan0: NVIDIA GeForce RTX 3090 (24576 MiB, 20300 MiB free)
  RPC0: RPC0[192.168.1.2:50052] (8192 MiB, 8192 MiB free)
"""
"""``llama-server --list-devices`` of a build with two backends."""

LLAMA_LOAD = """llama_model_load: using device CUDA0 (NVIDIA GeForce RTX 3090) (0000:01:00.0) - 22576 MiB free
llama_model_load_from_file_impl: using device CUDA1 (Tesla P40) (0000:02:00.0) - 24289 MiB free
"""
"""llama.cpp that loads a model."""

LLAMA_MAC = "llama_model_load_from_file_impl: using device Metal (Apple M2 Max) - 53083 MiB free\n"
"""The same on a Mac of 64 GB."""

LLAMA_AMD = """ggml_cuda_init: found 1 ROCm devices:
  Device 0: AMD Radeon RX 7900 XTX, gfx1100 (0x1100), VMM: no, Wave Size: 32
"""
"""llama.cpp with ROCm."""

LLAMA_VULKAN = """ggml_vulkan: Found 2 Vulkan devices:
ggml_vulkan: 0 = AMD Radeon RX 6800 XT (RADV NAVI21) (radv) | uma: 0 | fp16: 1 | warp size: 32
ggml_vulkan: 1 = Intel(R) Arc(TM) A770 Graphics (DG2) (Intel open-source Mesa driver) | uma: 0 | fp16: 1
"""
"""llama.cpp with Vulkan."""

VULKANINFO = """Devices:
========
GPU0:
\tapiVersion         = 1.3.277
\tvendorID           = 0x1002
\tdeviceType         = PHYSICAL_DEVICE_TYPE_DISCRETE_GPU
\tdeviceName         = AMD Radeon RX 7800 XT (RADV NAVI32)
\tdriverID           = DRIVER_ID_MESA_RADV
GPU1:
\tapiVersion         = 1.3.277
\tdeviceType         = PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU
\tdeviceName         = AMD Radeon Graphics (RADV RAPHAEL_MENDOCINO)
GPU2:
\tdeviceType         = PHYSICAL_DEVICE_TYPE_CPU
\tdeviceName         = llvmpipe (LLVM 17.0.6, 256 bits)
"""
"""``vulkaninfo --summary``, shortened."""

ROCMINFO = """*******
Agent 1
*******
  Name:                    AMD Ryzen 9 7950X 16-Core Processor
  Marketing Name:          AMD Ryzen 9 7950X 16-Core Processor
  Vendor Name:             CPU
  Feature:                 None specified
  Node:                    0
  Device Type:             CPU
*******
Agent 2
*******
  Name:                    gfx1100
  Uuid:                    GPU-f7bc38db1b06ac4e
  Marketing Name:          AMD Radeon RX 7900 XTX
  Vendor Name:             AMD
  Feature:                 KERNEL_DISPATCH
  Node:                    1
  Device Type:             GPU
*******
Agent 3
*******
  Name:                    gfx1036
  Marketing Name:          AMD Radeon Graphics
  Vendor Name:             AMD
  Device Type:             GPU
"""
"""``rocminfo``, shortened: a processor with graphics, and a card."""

LISTS = (TABLE, NAMES, LLAMA_LIST, LLAMA_LOAD, LLAMA_MAC, LLAMA_AMD, LLAMA_VULKAN, VULKANINFO, ROCMINFO)
"""Lists of devices."""

LINES = (
    "3090+2080Ti, 64GB ddr4-3600",
    "2x RTX 5060 Ti 16GB, 64 GB DDR5-5600",
    "RTX 3090 x16, RTX 3090 x4, GTX 1660 Super x1, PCIe 3, 128GB ddr4-3867 4 channels",
    "2x 3090 PCIe 4.0 x8 nvlink, EPYC 7742, 512GB, quad channel",
    "Ryzen AI Max+ 395 128GB",
    "M4 Max 40-core; 64GB",
    "7950X, 64GB ddr5-6000 | 2x M2 Ultra 192GB | 10GbE",
    "P40 x3 + RTX 4090 Laptop, EPYC 32-core, 12 channels, Thunderbolt 5",
)
"""Machines in a line."""
