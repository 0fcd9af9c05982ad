"""Transformers under tensor parallelism: their operators, sizes and times."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hetgym.errors import ConfigError, PlatformError, UnknownName
from hetgym.parallel import FRAMEWORKS, Framework, TransformerLayers, TransformerSize, cluster_names, load_cluster
from hetgym.parallel.transformer import block, embedding, head

SIZE = TransformerSize(1024, 16, 24, 1024)


@pytest.mark.parametrize("tensor", [1, 2, 8])
def test_a_block_has_the_flops_of_its_share(tensor: int) -> None:
    """24 b s h^2 (1 + s / 6h) a block (Narayanan et al., SC 2021), over the GPUs of a group."""
    flops = sum(op.flops for op in block(SIZE, tensor, 4) if op.kind == "MatMul")
    assert flops == pytest.approx(24 * 4 * 1024**3 * (1 + 1024 / (6 * 1024)) / tensor)


def test_parameters_are_those_of_gpt() -> None:
    layers = TransformerLayers(SIZE, load_cluster("dgx-a100-64"))
    sizes = layers.sizes(1)
    assert sizes is not None
    weights = sum(t.size for op in block(SIZE, 1, 1) for t in op.inputs if t.constant and t.dtype != "bool")
    assert sizes.parameters[1] == pytest.approx(weights, rel=1e-3)  # biases are part of fused kernels
    assert sizes.held(slice(0, layers.layers)) == pytest.approx(354e6, rel=0.01)
    table = SIZE.hidden * SIZE.vocabulary
    assert sizes.tied == table and sizes.held(slice(layers.layers - 1, layers.layers)) == table + 2 * SIZE.hidden
    llama = TransformerLayers(replace(SIZE, style="llama"), load_cluster("dgx-a100-64")).sizes(1)
    assert llama is not None and llama.tied == 0.0
    assert layers.sizes(3) is None and layers.passes("a100", 3, 1) is None


def test_times_grow_with_the_batch_and_fall_with_the_group() -> None:
    layers = TransformerLayers(replace(SIZE, hidden=8192, heads=64), load_cluster("dgx-a100-64"))
    one, two, batch = (layers.passes("a100", *key) for key in ((1, 1), (2, 1), (1, 4)))
    assert one is not None and two is not None and batch is not None
    assert 0.4 * one.forward[1] < two.forward[1] < one.forward[1]
    assert 3.0 * one.forward[1] < batch.forward[1] < 4.2 * one.forward[1]
    assert 1.5 < one.backward[1] / one.forward[1] < 2.5


def test_a_small_block_takes_as_long_as_its_launches() -> None:
    framework = Framework(dispatch=1e-3, straggle=0.5)
    layers = TransformerLayers(SIZE, load_cluster("dgx-a100-64"), framework)
    found = layers.passes("a100", 2, 1)
    assert found is not None
    assert found.forward[1] == pytest.approx(1.5e-3 * sum(op.spec.family != "view" for op in block(SIZE, 2, 1)))


def test_recomputation_repeats_the_forward_pass_and_keeps_only_the_input() -> None:
    cluster = load_cluster("dgx-a100-64")
    plain = TransformerLayers(SIZE, cluster, replace(FRAMEWORKS["megatron"], recompute=False))
    again = TransformerLayers(SIZE, cluster, FRAMEWORKS["megatron"])
    a, b, c, d = plain.passes("a100", 1, 4), again.passes("a100", 1, 4), plain.sizes(1), again.sizes(1)
    assert a and b and c and d
    assert b.backward[1] == pytest.approx(a.backward[1] + a.forward[1])
    assert d.stash[1] == 2 * 1024 * 1024 < c.stash[1] / 10


def test_embedding_and_head_share_the_vocabulary() -> None:
    assert embedding(SIZE, 4, 1)[0].inputs[0].shape == (12576, 1024)
    assert head(SIZE, 4, 1)[1].outputs[0].shape == (1024, 12576)


@pytest.mark.parametrize("name", cluster_names())
def test_shipped_clusters_load(name: str) -> None:
    assert load_cluster(name).gpus >= 1


def test_bad_clusters_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match="did you mean"):
        load_cluster("dgx-a100-65")
    with pytest.raises(PlatformError, match="not from int"):
        load_cluster(3)  # type: ignore[arg-type]
    file = tmp_path / "mine.yaml"
    file.write_text("pools: []\n")
    with pytest.raises(PlatformError, match="no pools"):
        load_cluster(file)
    file.write_text("pools: [{nodes: 1, per_node: 8, links: nvlink9, device: {name: a, kind: gpu, "
                    "peak_flops: {float32: 1}, memory_bandwidth: 1}}]\n")  # fmt: skip
    with pytest.raises(UnknownName, match="links"):
        load_cluster(file)
    with pytest.raises(ConfigError, match="heads do not divide"):
        TransformerSize(100, 3, 1, 1)
