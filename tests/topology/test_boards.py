"""Data sheets: the law of rates of their series, and the products that they are and are not."""

from __future__ import annotations

import re

import pytest

from hetgym import PlatformError
from hetgym.topology.boards import Board, find_board, said_board, shipped_boards, words

GIB = 2**30
SHEETS = {board.name: board for board in shipped_boards()}

LAWS = {
    r"GTX 10\d0( TI)?|P40|P4|P[2456]000|TITAN X.*": {"float16": 1 / 64, "int8": 4},
    r"GTX 16\d0.*": {"float16": 2, "int8": 4},
    r"RTX 20[678]0.*": {"float16": 4, "int8": 16},
    r"RTX 30\d0.*": {"float16": 2, "bfloat16": 2, "int8": 8},
    r"RTX [45]0[5-9]0.*": {"float16": 2, "bfloat16": 2, "float8": 4, "int8": 8},
    r"L20|L40": {"float16": 2, "bfloat16": 2, "float8": 4, "int8": 4},
    r"A30|A800.*": {"float64": 0.5, "float16": 16, "bfloat16": 16, "int8": 32},
    r"H800.*": {"float16": 14.8, "bfloat16": 14.8, "float8": 29.6, "int8": 29.6},
    r"QUADRO RTX .*|RTX 8000|TITAN RTX": {"float16": 8, "int8": 16},
    r"RTX A\d000.*|RTX A[45]500|A10|A40|A2": {"float16": 4, "bfloat16": 4, "int8": 8},
    r"RTX \d{4} (SFF )?ADA|RTX PRO .*": {"float16": 4, "bfloat16": 4, "float8": 8, "int8": 8},
    r"RX 6\d[05]0( XT)?|PRO W6800|VII|MI60": {"float16": 2, "int8": 4},
    r"RX 7\d00( .*)?|PRO W7\d00": {"float16": 2, "bfloat16": 2, "int8": 2},
    r"RX 90\d0": {"float16": 4, "bfloat16": 4, "float8": 8, "int8": 8},
    r"MI3(00A|25X)": {"float16": 8, "bfloat16": 8, "float8": 16, "int8": 16},
    r"ARC (A380|A580|A750|B570|PRO B50)": {"float16": 8, "bfloat16": 8, "int8": 16},
    r"M[1-5]( .*)?": {"float16": 1},
}
"""Boards by name, and their dense rates as multiples of float32."""


@pytest.mark.parametrize("names", LAWS)
def test_rates_follow_the_law_of_the_series(names: str) -> None:
    found = [board for board in shipped_boards() if re.fullmatch(names, board.name)]
    assert found
    for board in found:
        rates = {dtype: float(rate) for dtype, rate in board.device["peak_flops"].items()}
        single = rates.pop("float32")
        assert rates == pytest.approx({dtype: times * single for dtype, times in LAWS[names].items()}, rel=2e-3), board


@pytest.mark.parametrize(
    ("name", "gib", "bandwidth", "single", "pcie", "lanes"),
    [
        ("RTX 2080 TI", 11, 616e9, 13.4e12, 15.75e9, 16),
        ("RTX 3090", 24, 936e9, 35.6e12, 31.5e9, 16),
        ("RTX 4060 TI 16GB", 16, 288e9, 22.1e12, 15.75e9, 8),
        ("RTX 5060 TI 16GB", 16, 448e9, 23.7e12, 31.5e9, 8),
        ("RTX 5090", 32, 1792e9, 104.8e12, 63e9, 16),
        ("RX 7900 XTX", 24, 960e9, 61.4e12, 31.5e9, 16),
        ("MI300X", 192, 5300e9, 163e12, 63e9, 16),
        ("ARC B580", 12, 456e9, 13.7e12, 15.75e9, 8),
        ("GB10", 128, 273e9, 31e12, 15.75e9, 16),
    ],
)
def test_figures_of_some_boards(name: str, gib: int, bandwidth: float, single: float, pcie: float, lanes: int) -> None:
    board, device = SHEETS[name], SHEETS[name].named("gpu")
    assert (device.memory_capacity, device.memory_bandwidth) == (gib * GIB, bandwidth)
    assert (device.peak_flops["float32"], board.pcie, board.pcie_lanes) == (single, pcie, lanes)


@pytest.mark.parametrize(
    ("name", "gib", "cores"),
    [("M3 Max", 36, 30), ("M3 Max", 64, 40), ("M3 Max", 96, 30), ("M4 Max", 0, 32), ("M4 Max", 36, 32)]
    + [("M4 Max", 48, 40), ("M4 Max", 128, 40), ("M5 Max", 128, 40), ("M4 Max 32 core", 128, 32)],
)
def test_the_memory_of_a_machine_tells_its_chip(name: str, gib: int, cores: int) -> None:
    board = said_board(name, (), gib * float(GIB))
    assert board is not None
    assert board.name == f"{' '.join(name.split()[:2]).upper()} {cores} CORE"


def test_nvlinks_of_boards_add_up_to_their_data_sheets() -> None:
    both_ways = {board.name: 2 * board.nvlinks * board.nvlink for board in shipped_boards() if board.nvlinks}
    for name, rate in {
        "RTX 2080": 50e9,
        "RTX 2080 TI": 100e9,
        "RTX 3090": 112.5e9,
        "A40": 112.5e9,
        "B200": 1.8e12,
    }.items():
        assert both_ways[name] == rate


PRODUCTS = {
    "NVIDIA GeForce RTX 3080 Ti": "RTX 3080 TI",
    "NVIDIA GeForce RTX 4070": "RTX 4070",
    "NVIDIA GeForce RTX 4070 SUPER": "RTX 4070 SUPER",
    "NVIDIA GeForce RTX 4070 Ti SUPER": "RTX 4070 TI SUPER",
    "NVIDIA GeForce RTX 4060 Ti": "RTX 4060 TI 8GB",
    "NVIDIA GeForce RTX 4060 Ti 16GB": "RTX 4060 TI 16GB",
    "NVIDIA RTX 6000 Ada Generation": "RTX 6000 ADA",
    "NVIDIA RTX PRO 6000 Blackwell Workstation Edition": "RTX PRO 6000",
    "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition": "RTX PRO 6000 MAX-Q",
    "AMD Radeon RX 7900 XTX": "RX 7900 XTX",
    "Apple M4 Max": "M4 MAX 32 CORE",
    "Apple M4 Max 40 core": "M4 MAX 40 CORE",
    "Intel(R) Arc(TM) A770 Graphics": "ARC A770",
    "NVIDIA GeForce RTX 4090 Laptop GPU": "RTX 4090 LAPTOP",
    "NVIDIA GeForce RTX 3070 Ti Laptop GPU": "RTX 3070 TI LAPTOP",
    "NVIDIA GeForce RTX 4090 D": "RTX 4090 D",
    "Quadro RTX 6000": "QUADRO RTX 6000",
    "Quadro RTX 8000": "RTX 8000",
    "NVIDIA TITAN X (Pascal)": "TITAN X PASCAL",
    "NVIDIA H100 NVL": "H100 NVL",
    "NVIDIA GH200 480GB": "GH200",
    "AMD Radeon PRO W7900": "PRO W7900",
    "12th Gen Intel(R) Core(TM) i7-12700K": "I7-12700K",
    "AMD Ryzen 9 7950X3D 16-Core Processor": "RYZEN 9 7950X3D",
    "AMD Ryzen Threadripper PRO 5975WX 32-Cores": "THREADRIPPER PRO 5975WX",
    "AMD EPYC 9454P 48-Core Processor": "EPYC 9454P",
    "Intel(R) Xeon(R) CPU E5-2680 v4 @ 2.40GHz": "XEON E5-2680 V4",
    "Intel(R) Core(TM) Ultra 9 285K": "ULTRA 9 285K",
}


@pytest.mark.parametrize("product", PRODUCTS)
def test_products_are_found_by_their_names(product: str) -> None:
    assert find_board(product, "", (), "f").name == PRODUCTS[product]


@pytest.mark.parametrize(
    "product",
    [
        "NVIDIA GeForce RTX 3050 Ti", "NVIDIA GeForce RTX 4060 Ti Laptop GPU", "NVIDIA GeForce RTX 4080 D",
        "NVIDIA RTX 6000", "NVIDIA L40G NVL", "Apple M9 Max", "Intel(R) Xeon(R) CPU E5-2697 v5",
        "NVIDIA GeForce RTX 4060 Ti 24GB", "Intel(R) Xeon(R) CPU @ 2.20GHz", "AMD Ryzen 5 PRO 3600",
    ],
)  # fmt: skip
def test_another_product_is_not_taken_for_a_board(product: str) -> None:
    with pytest.raises(PlatformError, match="no data sheet of the device"):
        find_board(product, "", (), "f")


def test_a_stated_memory_decides_between_sizes() -> None:
    assert find_board("NVIDIA GeForce RTX 5060 Ti", "", (), "f", 16311 << 20).name == "RTX 5060 TI 16GB"
    assert find_board("NVIDIA GeForce RTX 3080", "", (), "f", 12288 << 20).name == "RTX 3080 12GB"
    several = "Navi 31 [Radeon RX 7900 XT/7900 XTX/7900M]"
    assert find_board(several, "", (), "f", 25.7e9).name == "RX 7900 XTX"
    assert find_board(several, "", (), "f", 21.5e9).name == "RX 7900 XT"


def test_a_sheet_of_the_user_comes_before_that_of_the_package() -> None:
    own = Board("RTX 3090", {**SHEETS["RTX 3090"].device, "memory_capacity": 96e9})
    assert find_board("NVIDIA GeForce RTX 3090", "", [own], "f") is own and said_board("3090", [own]) is own
    assert find_board("NVIDIA GeForce RTX 3090 Ti", "", [own], "f").name == "RTX 3090 TI"


@pytest.mark.parametrize(
    ("said", "name"),
    [
        ("3090", "RTX 3090"), ("2080Ti", "RTX 2080 TI"), ("RTX4070TiSuper", "RTX 4070 TI SUPER"),
        ("7900xtx", "RX 7900 XTX"), ("H100", "H100 PCIE"), ("A100", "A100 PCIE 40GB"), ("B580", "ARC B580"),
        ("4090 turbo", None), ("30", None), ("", None), ("4090 mobile", "RTX 4090 LAPTOP"), ("Tesla P40", "P40"),
        ("RTX PRO 6000 Blackwell", "RTX PRO 6000"), ("RTX 6000 Blackwell", None), ("RTX 6000", None),
        ("Quadro RTX 6000", "QUADRO RTX 6000"), ("RTX 6000 Ada", "RTX 6000 ADA"), ("A100 SXM 80GB", "A100 SXM4 80GB"),
        ("H100 SXM5", "H100 HBM3"), ("AI MAX 395", "RYZEN AI MAX 395"), ("Jetson Orin", "JETSON AGX ORIN"),
        ("Orin NX", "JETSON ORIN NX"), ("2060", "RTX 2060"), ("W7900", "PRO W7900"), ("9070", "RX 9070"),
        ("i9-10900X", "I9-10900X"), ("7950X", "RYZEN 9 7950X"), ("Ryzen 7 7950X", None), ("14900K", "I9-14900K"),
        ("12700", "I7-12700"), ("i5-12700", None), ("EPYC 7402", "EPYC 7402"), ("9454P", "EPYC 9454P"),
        ("Threadripper 3960X", "THREADRIPPER 3960X"), ("E5-2680 v4", "XEON E5-2680 V4"), ("E5-2680 v9", None),
        ("Ryzen 7 5800X3D", "RYZEN 7 5800X3D"), ("3600", None), ("Ryzen 5 3600", "RYZEN 5 3600"), ("7600", "RX 7600"),
        ("9900X", "RYZEN 9 9900X"), ("i9-9900X", "I9-9900X"), ("285K", "ULTRA 9 285K"),
        ("Core i7-12700KF", "I7-12700KF"), ("7402", None), ("Ryzen 7402", None), ("9654 EPYC", "EPYC 9654"),
    ],
)  # fmt: skip
def test_people_leave_out_the_series(said: str, name: str | None) -> None:
    found = said_board(said, ())
    assert (found.name if found else None) == name


def test_every_board_is_found_by_its_own_name_and_none_is_named_twice() -> None:
    assert len(SHEETS) == len(shipped_boards())
    for board in shipped_boards():
        assert said_board(board.name, ()) is board and said_board(board.name.lower(), ()) is board
        model = board.named("x").model
        if words(board.name) <= words(model):
            assert find_board(model, "", (), "f").named("x").model == model


@pytest.mark.parametrize("suffix", ["TI", "SUPER", "XTX", "LAPTOP", "D", "NVL", "PRO", "ULTRA", "ADA"])
def test_a_neighbour_of_a_board_is_itself_or_unknown(suffix: str) -> None:
    for board in shipped_boards()[::7]:
        found = said_board(f"{board.name} {suffix}", ())
        assert found is None or suffix in words(found.name), (board.name, found)


@pytest.mark.parametrize(
    ("name", "cores", "peak", "bandwidth"),
    [
        ("RYZEN 9 7950X", 16, 2.304e12, 83.2e9), ("EPYC 7402", 24, 2.1504e12, 204.8e9),
        ("I9-14900K", 24, 1.4336e12, 89.6e9), ("EPYC 9454P", 48, 4.224e12, 460.8e9),
        ("THREADRIPPER 3960X", 24, 2.9184e12, 102.4e9), ("XEON E5-2680 V4", 14, 1.0752e12, 76.8e9),
    ],
)  # fmt: skip
def test_processors_by_cores_clock_and_channels(name: str, cores: int, peak: float, bandwidth: float) -> None:
    device = SHEETS[name].named("cpu")
    assert (device.processors, device.memory_bandwidth) == (cores, pytest.approx(bandwidth))
    assert device.peak_flops["float32"] == pytest.approx(peak)


def test_capacities_are_those_that_drivers_report() -> None:
    reported = {"T4": 15360, "A100 SXM4 80GB": 81920, "H100 HBM3": 81559, "L40S": 46068, "L4": 23034, "H200": 143771}
    assert {name: SHEETS[name].named("x").memory_capacity / 2**20 for name in reported} == reported


def test_every_sheet_has_a_source_with_its_date_or_its_document() -> None:
    for board in shipped_boards():
        source = board.named("x").source
        assert re.search(r"20\d\d-\d\d|data sheet|whitepaper|ARK|assumption", source), (board.name, source)


def test_long_names_are_read_in_little_time() -> None:
    assert len(words("RTX 3090 " * 100_000)) == 2
