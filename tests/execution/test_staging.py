"""The path that GPUs take, walked by a CPU: tensors are copied in, and copied back for others."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from execution.small import DEVICES, diamond, placed  # noqa: E402
from execution.test_module import Loop, Mixture, alternating  # noqa: E402

from hetgym.execution import Cluster, ExecutionDevice, PlannedModule, execute  # noqa: E402
from hetgym.graph import DataflowGraph, Operator, Tensor, from_torch  # noqa: E402


class Copying(ExecutionDevice):
    """A CPU that copies what it reads, as a GPU must."""

    @property
    def staged(self) -> bool:
        return True


MIXED = (DEVICES[0], Copying("copying", DEVICES[1].host))


@pytest.mark.slow
def test_copies_to_a_staged_device_are_part_of_the_operators_that_read_them() -> None:
    x, flat = Tensor((2048, 2048)), Tensor((1 << 22,))
    operators = [Operator("in", "Relu", (x,), (x,)), Operator("flat", "Flatten", (x,), (flat,))]
    graph = DataflowGraph(operators, [(0, 0, 1)], "pair")
    spent = []
    for devices in (MIXED, DEVICES):
        with Cluster(graph, devices) as cluster:
            (result,) = execute(cluster, [placed(graph, [0, 1])], rounds=5, warmups=1)
        trace = result.trace()
        assert trace.remote.all() and trace.sent[0] < trace.arrived[0] <= trace.start[1]
        spent.append(result.duration[1])
    assert spent[0] > 10 * spent[1]  # 16 MiB are copied, or nothing is


@pytest.mark.slow
@pytest.mark.parametrize("devices", [MIXED, pytest.param(DEVICES, marks=pytest.mark.slow)], ids=["staged", "plain"])
def test_a_recurrent_module_computes_the_same(devices: tuple[ExecutionDevice, ExecutionDevice]) -> None:
    torch.manual_seed(0)
    module = Loop().eval()
    words = torch.randn(2, 5, 4)
    graph = from_torch(module, (words,))
    with PlannedModule(module, (words,), alternating(graph, 2), devices) as planned, torch.no_grad():
        for _ in range(2):
            words = torch.randn(2, 5, 4)
            torch.testing.assert_close(planned(words), module(words))


@pytest.mark.parametrize("step", [1, 3])
def test_a_gpu_computes_the_same(step: int) -> None:
    if not torch.cuda.is_available():
        pytest.skip("no GPU")
    torch.manual_seed(0)
    module = Mixture().eval()
    example = (torch.randn(2, 3, 6, 6), torch.randint(0, 11, (2, 5)))
    graph = from_torch(module, example, {"shift": torch.randn(8)})
    mixed = (DEVICES[0], ExecutionDevice("gpu", DEVICES[1].host, "cuda:0"))
    with PlannedModule(module, example, alternating(graph, step), mixed, kwargs={"shift": torch.randn(8)}) as planned:
        for _ in range(3):
            arguments, shift = (torch.randn(2, 3, 6, 6), torch.randint(0, 11, (2, 5))), torch.randn(8)
            with torch.no_grad():
                expected = module(*arguments, shift=shift)
            torch.testing.assert_close(planned(*arguments, shift=shift), expected, rtol=2e-2, atol=2e-3)


def test_times_of_a_gpu_are_those_of_finished_operators() -> None:
    if not torch.cuda.is_available():
        pytest.skip("no GPU")
    graph = diamond(2048, 3)
    gpu = ExecutionDevice("gpu", DEVICES[1].host, "cuda:0")
    with Cluster(graph, (DEVICES[0], gpu)) as cluster:
        (result,) = execute(cluster, [placed(graph, [1] * len(graph))], rounds=5, warmups=2)
    product = [i for i, op in enumerate(graph.operators) if op.kind == "MatMul"]
    assert (result.duration[product] > 2 * 2048**3 / 2e15).all()  # no GPU has 2 PFLOP/s in float32
