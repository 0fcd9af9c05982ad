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

LINES = (
    "3090+2080Ti, 64GB ddr4-3600",
    "2x RTX 5060 Ti 16GB, 64 GB DDR5-5600",
    "RTX 3090 x16, RTX 3090 x4, GTX 1660 Super x1, PCIe 3, 128GB ddr4-3867 4 channels",
    "2x 3090 PCIe 4.0 x8 nvlink, EPYC 7742, 512GB, quad channel",
    "Ryzen AI Max+ 395 128GB",
    "M4 Max 40-core; 64GB",
)
"""Machines in a line."""
