"""Which rows of llmfit's table of measured rates rates.csv takes, and why each other one is left out.

    python studies/language_models/llmfit.py llmfit.csv

The file is made of AlexsJones/llmfit (commit 3f44fd3, MIT), and is not part of this repository. A row that several
reasons leave out counts for the first of them.
"""

from __future__ import annotations

import argparse
import csv
import re
from collections import Counter
from pathlib import Path

from hetgym.graph.model_names import model_names

TAKEN = Path(__file__).with_name("rates.csv")
ENGINES = ("llama.cpp", "llamacpp", "ollama")
_MIXTURES = re.compile(r"A\d+B|gpt-oss|mixtral|moe|cascade|ornith|gemma-4|deepseek|glm|minimax|kimi", re.IGNORECASE)
_FORMATS = re.compile(r"I?Q\d_?\w*|B?F16|FP16")


def taken() -> list[tuple[str, float]]:
    """Board and rate of each row that is taken."""
    with TAKEN.open() as file:
        return [(row["hardware"], float(row["decode_tok_s"])) for row in csv.DictReader(file)]


def reason(row: dict[str, str], known: list[tuple[str, float]]) -> str:
    """Why a row is left out; ``taken`` if it is not."""
    rate, name = float(row["decode_tok_s"] or 0), row["model"].lower().rpartition("/")[2]
    formats = f"{row['quant']} {row['model']}".upper()
    checks = {
        "taken": any(board == row["hardware"] and abs(rate - own) < 0.006 for board, own in known),
        "no decoding rate": not rate,
        "on a CPU alone": row["class"] == "CPU_ONLY",
        "several boards": row["gpus"] not in ("", "1") or row["tensor_parallel"] not in ("", "0", "1"),
        "speculation": row["speculative"] == "1" or "mtp" in name,
        "several sequences": row["batch"] not in ("", "1"),
        f"runs by {row['engine'] or 'an unknown program'}": row["engine"] not in ENGINES,
        "a mixture": row["moe"] == "1" or _MIXTURES.search(row["model"]) is not None,
        "format not stated": not _FORMATS.search(formats),
        "sizes of the model not known": not any(known in name for known in model_names()),
        "another format than Q4_K_M and Q8_0": not re.search("Q4_K_M|Q8_0", formats),
    }
    return next((why for why, true in checks.items() if true), "weights beyond the board, or a longer context")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", type=Path)
    known = taken()
    with parser.parse_args().table.open() as file:
        counts = Counter(reason(row, known) for row in csv.DictReader(file))
    for why, count in counts.most_common():
        print(f"{count:5} {why}")
    print(f"{counts.total():5} rows")


if __name__ == "__main__":
    main()
