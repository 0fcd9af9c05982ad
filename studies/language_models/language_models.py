"""Language models of the zoo beside the modules of transformers: parameters, and FLOPs of products and attention.

    python studies/language_models/language_models.py --json language_models.json           # some minutes
    python studies/language_models/language_models.py --models llama-7b --phases decode

The modules are made from configurations of the same sizes on the meta device, and imported by ``from_torch``. No weight
is downloaded or allocated. A ratio of 1 is exact: all figures are whole numbers.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transformers

from hetgym.graph import DataflowGraph, from_torch, zoo
from hetgym.graph.generators.language_model import PHASES, language_model
from hetgym.graph.transforms.training import weights_of

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from _common import command_line, save, seconds, show  # noqa: E402

MODELS = ("gpt2-xl", "llama-7b", "llama-3-8b", "mixtral-8x7b", "t5-3b")


def module(sizes: dict[str, Any]) -> torch.nn.Module:
    """The module of transformers that has these sizes."""
    tf, layers, hidden, heads = transformers, sizes["layers"], sizes["hidden"], sizes["heads"]
    if sizes["family"] == "gpt":
        config = tf.GPT2Config(
            n_embd=hidden,
            n_layer=layers,
            n_head=heads,
            n_inner=sizes.get("intermediate"),
            vocab_size=sizes["vocabulary"],
            n_positions=sizes["positions"],
        )
        return tf.GPT2LMHeadModel(config)
    if sizes["family"] == "t5":
        config = tf.T5Config(
            d_model=hidden,
            d_kv=sizes["head_size"],
            d_ff=sizes["intermediate"],
            num_layers=layers,
            num_heads=heads,
            vocab_size=sizes["vocabulary"],
        )
        return tf.T5ForConditionalGeneration(config)
    common = {
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": sizes.get("kv_heads", heads),
        "intermediate_size": sizes["intermediate"],
        "vocab_size": sizes.get("vocabulary", 32000),
    }
    if sizes.get("experts"):
        return tf.MixtralForCausalLM(tf.MixtralConfig(num_local_experts=sizes["experts"], **common))
    return tf.LlamaForCausalLM(tf.LlamaConfig(**common))


def filled(sizes: dict[str, Any], batch: int, length: int) -> Any:
    made = transformers.DynamicCache()
    size = sizes.get("head_size", sizes["hidden"] // sizes["heads"])
    for layer in range(sizes["layers"]):
        held = torch.zeros(batch, sizes.get("kv_heads", sizes["heads"]), length, size, dtype=torch.bfloat16)
        made.update(held, held, layer)
    return made


def arguments(sizes: dict[str, Any], batch: int, sequence: int, phase: str) -> dict[str, Any]:
    """Keyword arguments of the module that make it do what a phase means."""
    tokens = 1 if phase == "decode" else sequence
    found: dict[str, Any] = {"use_cache": phase != "forward"}
    words = torch.zeros(batch, tokens, dtype=torch.long)
    if sizes["family"] != "t5":
        past = {"past_key_values": filled(sizes, batch, sequence - 1)} if phase == "decode" else {}
        return found | past | {"input_ids": words} | ({"logits_to_keep": 1} if phase == "prefill" else {})
    found["decoder_input_ids"] = words if phase == "forward" else words[:, :1]
    if phase != "decode":
        return found | {"input_ids": words}
    encoded = (torch.zeros(batch, sequence, sizes["hidden"], dtype=torch.bfloat16),)
    caches = transformers.EncoderDecoderCache(filled(sizes, batch, sequence - 1), filled(sizes, batch, sequence))
    return found | {"encoder_outputs": encoded, "past_key_values": caches}


def imported(sizes: dict[str, Any], batch: int, sequence: int, phase: str) -> tuple[DataflowGraph, int]:
    """The imported graph, and the parameters of the module."""
    with torch.device("meta"):
        model = module(sizes).to(torch.bfloat16)
        graph = from_torch(model, (), arguments(sizes, batch, sequence, phase))
    return graph, sum(p.numel() for p in model.parameters())


def flops(graph: DataflowGraph) -> Counter[str]:
    found: Counter[str] = Counter()
    for op in graph.operators:
        if op.spec.family == "matmul":
            found["Attention" if op.kind == "Attention" else "products"] += int(op.flops)
    return found


def parameters(graph: DataflowGraph) -> int:
    return sum(t.size for t in {t for op in graph.operators for t in weights_of(op)})


def row(name: str, batch: int, sequence: int, phase: str) -> dict[str, Any]:
    """One model in one phase."""
    sizes = dict(zoo.LANGUAGE_MODELS[name].sizes)
    begin = time.process_time()
    theirs, held = imported(sizes, batch, sequence, phase)
    middle = time.process_time()
    ours = language_model(**{**sizes, "batch": batch, "sequence": sequence, "phase": phase})
    end = time.process_time()
    found: dict[str, Any] = {"model": name, "phase": phase, "parameters": parameters(ours), "of the module": held}
    for what in ("products", "Attention"):
        found |= {what.lower(): flops(ours)[what], f"imported {what.lower()}": flops(theirs)[what]}
    found |= {"operators": len(ours), "imported operators": len(theirs)}
    return found | {"seconds": end - middle, "seconds to import": middle - begin}


SIZES = ("name", "model", "parameters")


def sizes_of(name: str) -> dict[str, str]:
    """The name of a model, its description and its parameters."""
    model = zoo.LANGUAGE_MODELS[name]
    made = language_model(**{**model.sizes, "batch": 1, "sequence": 16, "phase": "forward"})
    return {"name": name, "model": model.description, "parameters": f"{parameters(made) / 1e9:.4g} billion"}


def _cell(key: str) -> Callable[[dict[str, Any]], str]:
    return lambda row: str(row[key])


def main() -> None:
    """Print the tables."""
    parser = command_line(__doc__)
    parser.add_argument("--models", nargs="*", default=MODELS, choices=zoo.language_models())
    parser.add_argument("--phases", nargs="*", default=PHASES, choices=PHASES)
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--sequence", type=int, default=512)
    given = parser.parse_args()
    warnings.simplefilter("ignore")  # of transformers and its configurations
    torch.set_num_threads(1)
    rows = [row(name, given.batch, given.sequence, phase) for name in given.models for phase in given.phases]
    show("models of the zoo", [sizes_of(name) for name in zoo.LANGUAGE_MODELS], {k: _cell(k) for k in SIZES})
    columns = {
        "model and phase": lambda r: f"{r['model']}, {r['phase']}",
        "parameters": lambda r: f"{r['parameters']:,}".replace(",", " "),
        "products": lambda r: f"{r['products'] / 1e12:.4g} TFLOP",
        "attention": lambda r: f"{r['attention'] / 1e12:.4g} TFLOP",
        "over the module": lambda r: ", ".join(
            f"{r[ours] / r[theirs]:.6g}"
            for ours, theirs in (
                ("parameters", "of the module"),
                ("products", "imported products"),
                ("attention", "imported attention"),
            )
        ),
        "operators": lambda r: str(r["operators"]),
        "imported operators": lambda r: str(r["imported operators"]),
        "time to make": lambda r: seconds(r["seconds"]),
        "time to import": lambda r: seconds(r["seconds to import"]),
    }
    show("graphs of the zoo beside imported ones", rows, columns)
    save(given.json, "language_models", rows)


if __name__ == "__main__":
    main()
