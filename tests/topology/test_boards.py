"""Data sheets: the law of rates of their series, and the products that they are and are not."""

from __future__ import annotations

import re

import pytest

from hetgym import PlatformError
from hetgym.topology.boards import Board, find_board, said_board, shipped_boards, words

GIB = 2**30
SHEETS = {board.name: board for board in shipped_boards()}

LAWS = {
    r"GTX 10\d0( TI)?|P40": {"float16": 1 / 64, "int8": 4},
    r"GTX 16\d0.*": {"float16": 2, "int8": 4},
    r"RTX 20[678]0.*": {"float16": 4, "int8": 16},
    r"RTX 30\d0.*": {"float16": 2, "bfloat16": 2, "int8": 8},
    r"RTX [45]0[5-9]0.*": {"float16": 2, "bfloat16": 2, "float8": 4, "int8": 8},
    r"RTX A\d000.*|RTX A4500|A10|A40": {"float16": 4, "bfloat16": 4, "int8": 8},
    r"RTX \d{4} ADA|RTX PRO 6000.*": {"float16": 4, "bfloat16": 4, "float8": 8, "int8": 8},
    r"RX 6\d00 XT": {"float16": 2, "int8": 4},
    r"RX 7\d00 .*": {"float16": 2, "bfloat16": 2, "int8": 2},
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
}


@pytest.mark.parametrize("product", PRODUCTS)
def test_products_are_found_by_their_names(product: str) -> None:
    assert find_board(product, "", (), "f").name == PRODUCTS[product]


@pytest.mark.parametrize(
    "product",
    [
        "NVIDIA GeForce RTX 3050 Ti", "NVIDIA GeForce RTX 4090 Laptop GPU", "NVIDIA GeForce RTX 4090 D",
        "NVIDIA GeForce RTX 5070 Ti Laptop GPU", "Quadro RTX 6000", "NVIDIA H100 NVL", "Apple M9 Max",
        "NVIDIA GeForce RTX 4060 Ti 24GB", "Intel(R) Xeon(R) CPU @ 2.20GHz",
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
        ("4090 turbo", None), ("30", None), ("", None),
    ],
)  # fmt: skip
def test_people_leave_out_the_series(said: str, name: str | None) -> None:
    found = said_board(said, ())
    assert (found.name if found else None) == name


def test_every_sheet_has_a_source_with_its_date_or_its_document() -> None:
    for board in shipped_boards():
        source = board.named("x").source
        assert re.search(r"20\d\d-\d\d|data sheet|whitepaper|ARK|assumption", source), (board.name, source)


def test_long_names_are_read_in_little_time() -> None:
    assert len(words("RTX 3090 " * 100_000)) == 2
