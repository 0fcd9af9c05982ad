"""Traces of profilers: their replay, what changes of them give, and files that are no traces."""

from __future__ import annotations

import copy
import gzip
import json
import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hetgym
from hetgym.errors import GraphError, HetgymWarning
from hetgym.graph import MeasuredGraph, from_trace
from hetgym.workloads import replay
from tests.graph.traces import (
    BACKWARD,
    CHAKRA,
    NODES,
    QUEUE,
    chakra,
    event,
    field,
    kernel,
    kineto,
    launch,
    rank,
    varint,
)

US = 1e-6


def read(folder: Path, *documents: Any, **options: Any) -> MeasuredGraph:
    files = []
    for i, document in enumerate(documents):
        files.append(folder / f"{i}.pt.trace.json")
        files[-1].write_text(json.dumps(document))
    return from_trace(files, **options)


def makespan(graph: MeasuredGraph) -> float:
    """Of the replay [us]."""
    return hetgym.simulate(*replay(graph)).makespan / US


def edges(graph: MeasuredGraph, kind: str) -> list[tuple[str, str]]:
    """Names of both ends of the edges of a kind."""
    ends = zip(graph.edge_source.tolist(), graph.edge_target.tolist(), graph.edge_kind, strict=True)
    return [(graph.names[a], graph.names[b]) for a, b, what in ends if what == kind]


def test_a_queue_of_kernels_replays_and_changes_as_on_paper(tmp_path: Path) -> None:
    graph = read(tmp_path, QUEUE)
    assert graph.span / US == pytest.approx(100)
    assert makespan(graph) == pytest.approx(100)
    problem, schedule = replay(graph)
    assert hetgym.simulate(problem, schedule).start == pytest.approx(graph.start)
    assert makespan(graph.explained()) == pytest.approx(100)
    # Kernels from 20 to 45 and from 45 to 55; the wait ends at 60, the operator at 65.
    assert makespan(graph.scaled(0.5, kind="kernel")) == pytest.approx(65)
    # From 20 to 120 and from 120 to 160.
    assert makespan(graph.scaled(2, host=False)) == pytest.approx(170)
    assert makespan(graph.scaled(1)) == makespan(graph)
    assert makespan(graph.scaled(0, name="relu")) == pytest.approx(80)
    bare = graph.without_dispatch()
    assert makespan(bare) == pytest.approx(70) == float(bare.busy().max() / US)


def test_where_the_host_is_slow_the_device_does_not_matter(tmp_path: Path) -> None:
    graph = read(
        tmp_path,
        kineto(
            event("cpu_op", "aten::mm", 1, 0, 200),
            launch(10, 5, 1),
            launch(150, 5, 2),
            kernel(20, 5, 1),
            kernel(160, 9, 2),
        ),
    )
    assert makespan(graph) == pytest.approx(200)
    assert makespan(graph.scaled(0.1, kind="kernel")) == pytest.approx(200)
    # The operator's 190 us outside the calls halve; the second launch is at 10 / 2 + 5 + 135 / 2 = 77.5.
    assert makespan(graph.scaled(0.5, kind="operator")) == pytest.approx(105)


def test_a_thread_that_waits_for_another_one(tmp_path: Path) -> None:
    graph = read(tmp_path, BACKWARD)
    assert edges(graph, "handoff") == [("aten::mm", "idle"), ("MmBackward0", "step")]
    assert makespan(graph) == pytest.approx(1000)
    assert makespan(graph.scaled(0.5, name="*Backward*")) == pytest.approx(700)
    assert makespan(graph.scaled(0, name="aten::mm")) == pytest.approx(900)


@pytest.mark.parametrize("closed", [991, 999.5, 1000, 1000.5, 1003, 1015])
def test_a_wait_that_the_end_of_the_recording_cut_off_is_no_work(tmp_path: Path, closed: float) -> None:
    # The profiler closes the functions of a waiting thread when it stops, just before or after its own last event.
    graph = read(
        tmp_path,
        kineto(
            event("cpu_op", "aten::mm", 1, 5, 600),
            event("python_function", "between", 1, 610, 290),
            event("cpu_op", "aten::relu", 1, 900, 80),
            event("python_function", "stop", 1, 980, 20),
            *(
                event("python_function", name, thread, start, closed - start)
                for thread in (2, 3)
                for start, name in enumerate(("run", "wait", "acquire"))
            ),
        ),
    )
    assert edges(graph, "handoff").count(("aten::relu", "acquire")) == 2
    assert makespan(graph) == pytest.approx(max(closed, 1000))
    assert makespan(graph.scaled(0.5, name="aten::*")) == pytest.approx(max(closed, 1000) - 340)
    assert makespan(graph.scaled(2, name="aten::*")) == pytest.approx(max(closed, 1000) + 680)


def test_a_thread_that_ends_by_itself_keeps_its_times(tmp_path: Path) -> None:
    graph = read(
        tmp_path,
        kineto(
            event("cpu_op", "aten::mm", 1, 0, 500),
            event("cpu_op", "aten::relu", 1, 500, 500),
            event("python_function", "run", 2, 0, 900),
            event("python_function", "load", 2, 5, 800),
        ),
    )
    assert not edges(graph, "handoff")
    assert makespan(graph.scaled(0, name="aten::*")) == pytest.approx(900)


def test_events_around_events_become_consecutive_nodes(tmp_path: Path) -> None:
    document = kineto(
        event("python_function", "f", 1, 0, 10),
        event("cpu_op", "a", 1, 2, 4),
        event("cpu_op", "b", 1, 3, 1),
        event("cpu_op", "c", 1, 9, 5),  # outlives f
        event("cpu_op", "never ended", 1, 9, -1),
    )
    with pytest.warns(HetgymWarning, match="events that never finished are left out: 1"):
        graph = read(tmp_path, document)
    found = list(zip(graph.names, (graph.duration / US).round(9).tolist(), strict=True))
    assert [item for item in found if item[1]] == [("f", 2), ("a", 1), ("b", 1), ("a", 2), ("f", 3), ("c", 5)]


def test_waits_of_streams_as_kineto_records_them(tmp_path: Path) -> None:
    document = kineto(
        event("cpu_op", "step", 1, 0, 60),
        launch(0, 2, 1),
        launch(3, 1, 2, "cudaEventRecord"),
        launch(5, 1, 3, "cudaStreamWaitEvent"),
        launch(7, 2, 4),
        kernel(10, 40, 1),
        kernel(51, 9, 4, stream=20, name="after"),
        kernel(12, 100, 5, stream=30, name="unrelated"),
        event("cuda_sync", "Stream Wait Event", 20, 0, 0, correlation=3, stream=20, device=0, wait_on_stream=7,
              wait_on_cuda_event_record_corr_id=2),
    )  # fmt: skip
    graph = read(tmp_path, document)
    assert edges(graph, "wait") == [("gemm", "after")]
    assert makespan(graph) == pytest.approx(112)
    document["traceEvents"] = [row for row in document["traceEvents"] if row.get("cat") != "cuda_sync"]
    assert edges(read(tmp_path, document), "wait") == [("gemm", "after")]  # inferred from the call


def test_calls_that_block_wait_for_their_stream(tmp_path: Path) -> None:
    graph = read(
        tmp_path,
        kineto(
            launch(0, 5, 1),
            launch(10, 95, 2, "cudaMemcpyAsync"),
            launch(110, 2, 3, "cudaStreamSynchronize"),
            kernel(10, 80, 1),
            event("gpu_memcpy", "Memcpy DtoH", 7, 92, 10, correlation=2, device=0, stream=7),
        ),
    )
    assert ("Memcpy DtoH", "cudaMemcpyAsync") in edges(graph, "sync")
    assert makespan(graph) == pytest.approx(112)
    # The copy starts the usual 10 us after its call at 10; the call ends 3 us after it and the last one 7 us later.
    assert makespan(graph.scaled(0, name="gemm")) == pytest.approx(40)


def test_copies_from_memory_that_is_not_pinned_wait_for_the_stream(tmp_path: Path) -> None:
    copy = event("gpu_memcpy", "Memcpy HtoD", 7, 92, 30, correlation=2, device=0, stream=7)
    graph = read(tmp_path, kineto(launch(0, 5, 1), launch(10, 100, 2, "cudaMemcpyAsync"), kernel(10, 80, 1), copy))
    assert edges(graph, "sync") == [("gemm", "cudaMemcpyAsync")]
    assert makespan(graph) == pytest.approx(122)
    assert makespan(graph.scaled(0.5, name="gemm")) == pytest.approx(82)


def test_launches_wait_while_the_queue_is_full(tmp_path: Path) -> None:
    """1500 kernels of 10 us, issued every 2 us until 1000 are pending; then a launch takes as long as a kernel."""
    rows, now = [], 0.0
    for i in range(1500):
        start = 5 + 10 * i
        end = max(now + 2, 0 if i < 1000 else 5 + 10 * (i - 1000 + 1) + 1)  # 1 us after the kernel that makes room
        rows += [launch(now, end - now, i), kernel(start, 10, i)]
        now = end
    graph = read(tmp_path, kineto(*rows))
    assert makespan(graph) == pytest.approx(15005)
    assert makespan(graph.scaled(0.5, kind="kernel")) == pytest.approx(7505, abs=20)
    assert makespan(graph.scaled(2, kind="kernel")) == pytest.approx(30005, abs=20)


def test_kernels_that_overlap_in_one_stream_get_lanes(tmp_path: Path) -> None:
    graph = read(tmp_path, kineto(kernel(0, 50, 1), kernel(20, 50, 2), kernel(75, 5, 3), kernel(79, 10, 4)))
    assert graph.tracks == ("device 0 stream 7", "device 0 stream 7 lane 1")
    assert makespan(graph) == pytest.approx(89)  # the last two overlap by no more than rounding
    assert edges(graph, "wait")


def test_ranks_meet_in_their_collectives(tmp_path: Path) -> None:
    slow, fast = rank(70, 80), rank(10, 20)
    for row in slow["traceEvents"]:
        row["ts"] = row.get("ts", 0) + 12345  # another clock
    graph = read(tmp_path, fast, slow)
    assert makespan(graph) == pytest.approx(100) == graph.span / US
    assert makespan(graph.scaled(0.5, kind="all-reduce")) == pytest.approx(90)
    assert makespan(graph.scaled(1 / 7, track="rank 1 *stream*", kind="kernel")) == pytest.approx(40)
    assert makespan(graph.scaled(0, track="rank 0 *", kind="kernel")) == pytest.approx(100)
    alone = read(tmp_path, fast)
    assert makespan(alone.scaled(0.5, kind="all-reduce")) == pytest.approx(60)


def test_data_dependencies_of_an_execution_trace(tmp_path: Path) -> None:
    def operator(start: int, number: int) -> dict[str, Any]:
        return event("cpu_op", f"op{number}", 1, start, 4, **{"External id": number, "Record function id": number})

    document = kineto(
        operator(0, 1), operator(5, 2), launch(1, 2, 11), launch(6, 2, 12),
        kernel(8, 20, 11, **{"External id": 1}), kernel(28.5, 3, 12, stream=9, name="reader", **{"External id": 2}),
    )  # fmt: skip
    tensor = [4, 5, 0, 8, 4, "cuda:0"]
    nodes = [
        {"id": 3, "name": "op1", "rf_id": 1, "inputs": [], "outputs": [tensor]},
        {
            "id": 4,
            "name": "op2",
            "attrs": [{"name": "rf_id", "value": 2}],
            "inputs": {"values": [[tensor]]},
            "outputs": {},
        },
    ]
    beside = tmp_path / "et.json"
    beside.write_text(json.dumps({"schema": "1.1.1-chakra.0.0.4", "nodes": nodes}))
    graph = read(tmp_path, document, execution=beside)
    assert edges(graph, "data") == [("gemm", "reader")]
    assert makespan(graph.scaled(0.5, name="gemm")) == pytest.approx(21.5)
    beside.write_text(json.dumps({"schema": "1.1.1", "nodes": nodes[:0]}))
    with pytest.raises(GraphError, match="only 0 of the trace's 2 operators match by record function id"):
        read(tmp_path, document, execution=beside)
    with pytest.raises(GraphError, match="each trace needs its own"):
        read(tmp_path, document, document, execution=[beside])


def test_chakra_runs_first_come_first_served(tmp_path: Path) -> None:
    path = tmp_path / "chakra.0.et"
    path.write_bytes(CHAKRA)
    with pytest.warns(HetgymWarning, match="dependencies on nodes that the file leaves out are ignored: 4"):
        graph = from_trace(path)
    with pytest.raises(GraphError, match="strict=True refuses this"):
        from_trace(path, strict=True)
    assert graph.kinds == ("operator", "kernel", "operator", "all-reduce")
    assert makespan(graph) == pytest.approx(55) == graph.span / US
    assert makespan(graph.scaled(0.1, kind="kernel")) == pytest.approx(35)
    packed = tmp_path / "chakra.1.et.gz"
    packed.write_bytes(gzip.compress(CHAKRA))
    with pytest.warns(HetgymWarning, match="are ignored: 8"):
        both = from_trace([path, packed])
    assert makespan(both) == pytest.approx(55)
    with pytest.warns(HetgymWarning, match="are ignored: 4"):
        problem = hetgym.load_problem(path)
    assert problem.num_operators == 4 and problem.notes == graph.notes
    with pytest.raises(hetgym.ProblemError, match="are ignored: 4; strict"):
        hetgym.load_problem(path, strict=True)


def chakra_messages() -> Any:
    """The part of Chakra's schema (``et_def.proto``, mlcommons/chakra) that is read, compiled by Google's library."""
    pytest.importorskip("google.protobuf")
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    kind = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="et_def.proto", package="ChakraProtoMsg", syntax="proto3")
    schema = {
        "AttributeProto": "name=1 string, double_val=3 double, int32_val=7 int32, int64_val=9 int64, bool_val=27 bool",
        "GlobalMetadata": "version=1 string",
        "Node": "id=1 uint64, name=2 string, type=3 int32, ctrl_deps=4 uint64*, data_deps=5 uint64*, "
        "start_time_micros=6 uint64, duration_micros=7 uint64, attr=10 AttributeProto*",
    }
    for name, fields in schema.items():
        message = file.message_type.add(name=name)
        if name == "AttributeProto":
            message.oneof_decl.add(name="value")
        for row in fields.split(", "):
            left, type_ = row.split()
            title, number = left.split("=")
            base = type_.rstrip("*")
            made = message.field.add(name=title, number=int(number), label=3 if "*" in type_ else 1)
            if title.endswith("_val"):  # a value of the oneof is written even if it is 0
                made.oneof_index = 0
            if base in schema:
                made.type, made.type_name = kind.TYPE_MESSAGE, f".ChakraProtoMsg.{base}"
            else:
                made.type = getattr(kind, f"TYPE_{base.upper()}")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"ChakraProtoMsg.{name}")) for name in schema
    }


@pytest.mark.filterwarnings("ignore::hetgym.errors.HetgymWarning")  # node 999 does not exist
def test_chakra_as_googles_protocol_buffers_write_it(tmp_path: Path) -> None:
    from google.protobuf import json_format

    kinds = chakra_messages()
    messages = [kinds["GlobalMetadata"](version="0.0.4")]
    for number, duration, after, host, type_ in (
        (1, 10, [], True, 4),
        (2, 40, [1], False, 4),
        (3, 20, [1], True, 4),
        (4, 5, [2, 3], False, 7),
    ):
        node = kinds["Node"](id=number, name=f"node{number}", type=type_, data_deps=after, ctrl_deps=[999])
        node.duration_micros = duration
        node.attr.add(name="is_cpu_op", bool_val=host)
        node.attr.add(name="x", double_val=2.5)
        node.attr.add(name="comm_type", int64_val=0)
        node.attr.add(name="tid", int64_val=3)
        messages.append(node)
    path = tmp_path / "chakra.0.et"
    path.write_bytes(b"".join(varint(message.ByteSize()) + message.SerializeToString() for message in messages))
    printed = tmp_path / "printed.json"  # what chakra_jsonizer does
    printed.write_text("".join(map(json_format.MessageToJson, messages)))
    found = [from_trace(path), from_trace(printed)]
    path.write_bytes(CHAKRA)
    ours = from_trace(path)
    for graph in found:
        assert (graph.names, graph.kinds, graph.tracks) == (ours.names, ours.kinds, ours.tracks)
        assert makespan(graph) == makespan(ours) == pytest.approx(55)
        assert edges(graph, "data") == edges(ours, "data")
    assert hetgym.load_problem(printed).num_operators == 4


@pytest.mark.parametrize("starts", [(100, 200, 300, 400), (0, 100, 200, 300), (0, 0, 0, 0), (100, 200, 0, 400)])
def test_chakra_nodes_take_as_long_as_they_say(tmp_path: Path, starts: tuple[int, ...]) -> None:
    nodes = [
        {"id": k, "name": f"k{k}", "type": 4, "duration_micros": 100, "start_time_micros": start, "is_cpu_op": False}
        | {"data_deps": [k - 1] if k else []}
        for k, start in enumerate(starts)
    ]
    path = tmp_path / "chain.json"
    path.write_text(json.dumps({"workload_graph": nodes}))
    graph = from_trace(path)
    assert graph.span == pytest.approx(4e-4) and graph.duration.tolist() == pytest.approx([1e-4] * 4)


def test_chakra_as_json(tmp_path: Path) -> None:
    rows = copy.deepcopy(NODES)
    with pytest.warns(HetgymWarning, match="that the file leaves out are ignored: 1"):
        assert makespan(read(tmp_path, {"workload_graph": rows})) == pytest.approx(15)
    rows[1]["data_deps"] = [1]
    rows[0]["data_deps"] = [2]
    with pytest.raises(GraphError, match="have a cycle: 'ncclDevKernel_AllReduce' -> 'a' -> 'ncclDevKernel_AllReduce'"):
        read(tmp_path, {"workload_graph": rows})
    rows[0]["data_deps"], rows[0]["ctrlDeps"] = [], [2]  # control dependencies give way
    with pytest.warns(HetgymWarning, match="control dependencies that form a cycle are ignored, those of "):
        assert makespan(read(tmp_path, {"workload_graph": rows})) == pytest.approx(15)


def test_a_cycle_of_control_dependencies_takes_no_others_with_it(tmp_path: Path) -> None:
    chain = [
        {"id": k, "name": f"k{k}", "type": 4, "duration_micros": 100, "stream": k, "ctrl_deps": [k - 1] * (k > 1)}
        for k in range(1, 5)
    ]
    circle = [
        {"id": k, "name": f"c{k}", "type": 4, "duration_micros": 10, "is_cpu_op": 1, "tid": 1, "ctrl_deps": [other]}
        for k, other in ((5, 6), (6, 5))
    ]
    with pytest.warns(HetgymWarning, match="that form a cycle are ignored, those of c5, c6"):
        assert read(tmp_path, {"workload_graph": chain + circle}).span / US == pytest.approx(400)


LEAVES: list[dict[str, Any]] = [
    {"id": 1, "name": "aten::mm", "duration_micros": 10, "is_cpu_op": 1, "tid": 1, "start_time_micros": 1},
    {"id": 2, "name": "sgemm", "duration_micros": 500, "is_cpu_op": 0, "stream": 7, "start_time_micros": 11},
    {"id": 3, "name": "aten::relu", "duration_micros": 10, "is_cpu_op": 1, "tid": 1, "start_time_micros": 11},
    {"id": 4, "name": "elementwise", "duration_micros": 300, "is_cpu_op": 0, "stream": 7, "start_time_micros": 511},
    {"id": 5, "name": "nccl:all_reduce", "duration_micros": 10, "is_cpu_op": 1, "tid": 1, "start_time_micros": 21},
    {"id": 6, "name": "ncclKernel", "duration_micros": 400, "is_cpu_op": 0, "stream": 20, "start_time_micros": 811},
]
"""Launches by control dependencies; the collective waited for the kernels of stream 7, which the file does not say."""
CALLERS = {2: 1, 3: 1, 4: 3, 5: 3, 6: 5}


def test_kernels_that_nothing_waits_for_make_the_span_a_lower_bound(tmp_path: Path) -> None:
    rows = [{"type": 4, "ctrl_deps": [CALLERS[row["id"]]] if row["id"] in CALLERS else []} | row for row in LEAVES]
    assert read(tmp_path, {"workload_graph": rows}, strict=True).span / US == pytest.approx(1210)
    rows = [{key: value for key, value in row.items() if key != "start_time_micros"} for row in rows]
    with pytest.warns(HetgymWarning, match="no starts are recorded, and 3 of 6 nodes have no reader.* lower bound"):
        assert read(tmp_path, {"workload_graph": rows}).span / US == pytest.approx(810)
    chain = [row | {"data_deps": [row["id"] - 1] if row["id"] > 1 else []} for row in rows]
    assert read(tmp_path, {"workload_graph": chain}).span / US == pytest.approx(1230)  # one end, which is the last


def test_a_run_of_torch(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    net = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 8))
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], with_stack=True) as profiler:
        for _ in range(3):
            net(torch.ones(32, 64)).sum().backward()
    path = tmp_path / "cpu.pt.trace.json"
    profiler.export_chrome_trace(str(path))
    document = json.loads(path.read_text())
    own = (str(os.getpid()), str(threading.get_native_id()))  # other tests may have left threads that wake by a timer
    rows = [row for row in document["traceEvents"] if row.get("ph") == "X" and row["cat"] != "Trace"]
    rows = [row for row in rows if (str(row["pid"]), str(row["tid"])) == own]
    span = max(row["ts"] + row["dur"] for row in rows) - min(row["ts"] for row in rows)
    graph = read(tmp_path, {**document, "traceEvents": rows})
    assert graph.span / US == pytest.approx(span, rel=1e-3)
    assert makespan(graph) == pytest.approx(span, rel=1e-3)
    assert sum(name == "aten::addmm" for name in graph.names) >= 6
    assert 0 < makespan(graph.scaled(0, name="aten::*")) < makespan(graph)
    everything = from_trace(path)
    assert makespan(everything) == pytest.approx(everything.span / US, rel=1e-3)
    with pytest.raises(GraphError, match="has no device"):
        graph.without_dispatch()


def test_both_observers_of_torch_name_the_same_operators(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    observer = torch.profiler.ExecutionTraceObserver().register_callback(str(tmp_path / "et.json"))
    cpu = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=cpu, execution_trace_observer=observer) as profiler:
        torch.nn.Linear(8, 8)(torch.ones(2, 8)).relu().sum().backward()
    observer.unregister_callback()
    profiler.export_chrome_trace(str(tmp_path / "run.json"))
    graph = from_trace(tmp_path / "run.json", execution=tmp_path / "et.json")
    assert makespan(graph) == pytest.approx(graph.span / US)


def test_a_run_of_onnx_runtime(tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    onnx = pytest.importorskip("onnx")
    options = onnxruntime.SessionOptions()
    options.enable_profiling = True
    options.intra_op_num_threads = 1
    options.profile_file_prefix = str(tmp_path / "ort")
    model = Path(onnx.__file__).parent / "backend/test/data/light/light_squeezenet.onnx"
    session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    session.run(None, {session.get_inputs()[0].name: np.zeros((1, 3, 224, 224), np.float32)})
    graph = from_trace(session.end_profiling())
    assert graph.kinds.count("Conv") >= 26
    assert makespan(graph) == pytest.approx(graph.span / US, rel=1e-9)
    assert makespan(graph.scaled(0.5, kind="Conv")) < makespan(graph)


def test_kernels_of_onnx_runtime_belong_to_their_node(tmp_path: Path) -> None:
    graph = read(
        tmp_path,
        [
            event("Node", "conv_kernel_time", 1, 0, 10, op_name="Conv"),
            event("Kernel", "implicit_gemm", 0, 4, 30, stream="7", parent_name="conv_kernel_time"),
        ],
    )
    assert graph.kinds.count("Conv") == 1 and "launch" in graph.edge_kind
    assert makespan(graph) == pytest.approx(34)


def test_what_profilers_write_into_ignored_fields(tmp_path: Path) -> None:
    path = tmp_path / "odd.json"
    text = json.dumps(QUEUE).replace(
        '"correlation": 1,', '"est. occupancy": NaN, "bandwidth": Infinity, "x": 1, "x": 2, "correlation": 1,'
    )
    assert "NaN" in text
    path.write_text(text)
    assert makespan(from_trace(path)) == pytest.approx(100)
    path.write_text(text.replace('"ts": 20,', '"ts": NaN,'))
    with pytest.raises(GraphError, match="not a time in microseconds"):
        from_trace(path)


def test_formats_are_not_mixed(tmp_path: Path) -> None:
    with pytest.raises(GraphError, match="only be combined with other Chakra traces"):
        read(tmp_path, QUEUE, {"workload_graph": NODES})


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ([], "not a trace of a known format"),
        ({"schema": "1", "nodes": []}, "as 'execution' beside"),
        ({"traceEvents": 3}, "is a number, not a list"),
        ({"traceEvents": []}, "no events with a duration"),
        ({"traceEvents": [[]]}, "event 0 is a list"),
        ({"traceEvents": [event("cpu_op", "a", 1, 0, 1) | {"ts": "0"}]}, "'ts' is '0', not a time"),
        ({"traceEvents": [event("cpu_op", "a", 1, 0, 1e300)]}, "not a time"),
        ({"traceEvents": [event("cpu_op", "a", 1, 0, 1) | {"name": 4}]}, "'name' is a number"),
        ({"traceEvents": [kernel(0, 1000, i) for i in range(65)]}, "more than 64 intervals"),
        ({"traceEvents": [event("cpu_op", "a", i, 0, 9) for i in range(4097)]}, "more than 4096 threads"),
        ({"workload_graph": [{"Id": 1, "runtime": 1}, {"Id": 1}]}, "two nodes have the id 1"),
        ({"workload_graph": [{"Id": 1}]}, "no node has a duration"),
        ({"workload_graph": [{"Id": 1, "runtime": 1, "data_deps": ["a"]}]}, "is not a list of ids"),
        ({"workload_graph": [{"Id": -1}]}, "'Id' is -1"),
    ],
)
def test_what_is_no_trace_is_refused(tmp_path: Path, document: Any, words: str) -> None:
    with pytest.raises(GraphError, match=words):
        read(tmp_path, document)


@pytest.mark.parametrize("data", [CHAKRA[:-1], b"\xff" * 20, chakra(b"\x0f"), chakra(field(1, 1) + b"\x39\x00")])
def test_damaged_protocol_buffers_are_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "a.et"
    path.write_bytes(data)
    with pytest.raises(GraphError, match="damaged protocol buffer at byte"):
        from_trace(path)


def test_conditions(tmp_path: Path) -> None:
    graph = read(tmp_path, QUEUE)
    assert graph.select(kind=["kernel", "runtime"], track="thread *").sum() == 3
    assert graph.select().all()
    with pytest.raises(GraphError, match="no node is of kind 'gemm'; kinds: "):
        graph.select(kind="gemm")
    with pytest.raises(GraphError, match="select no node"):
        graph.scaled(2, name="gemm?")
    with pytest.raises(GraphError, match="from 0 to 1e9"):
        graph.scaled(-1)
    with pytest.raises(GraphError, match="the pattern for a name must be text"):
        graph.select(name=3)  # type: ignore[arg-type]
    with pytest.raises(GraphError, match="host must be True"):
        graph.select(host=1)  # type: ignore[arg-type]
    with pytest.raises(GraphError, match="at least one file"):
        from_trace([])
    assert "nodes on 2 tracks" in repr(graph)
