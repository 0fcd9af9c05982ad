from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hetgym import Problem, baselines, simulate
from hetgym.bench.encode import encode_graph, encode_problem, encode_trace, quantum
from hetgym.bench.evaluation import Evaluation
from hetgym.bench.folder import RunFolder
from hetgym.bench.job import Job, Outcome, execute
from hetgym.bench.report import MOST_CHARTED, Gantts, embedded, render
from hetgym.workloads import ProblemSpec, textbook

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
RUNTIMES = ("classic", "links")


def random_problem(n: int = 80, d: int = 3, seed: int = 0) -> Problem:
    rng = np.random.default_rng(seed)
    edges = [
        (int(i), j, float(rng.integers(1, 10**6)))
        for j in range(1, n)
        for i in np.unique(rng.integers(max(0, j - 6), j, 2))
    ]
    cost = rng.lognormal(0, 1, (n, d)) * 1e-4
    cost[rng.random((n, d)) < 0.1] = np.inf
    cost[:, 0] = np.where(np.isfinite(cost).any(axis=1), cost[:, 0], 1e-4)
    kinds = [("Conv", "Relu", "</script><b>")[i % 3] for i in range(n)]
    return Problem.from_arrays(cost, edges, 1e-5, 1e9, operator_kinds=kinds, name="random@three")


def decode(code: dict[str, Any], problem: dict[str, Any], graph: dict[str, Any]) -> dict[str, list[float]]:
    """The page's decoding of a trace, in Python."""
    device = [int(c, 36) for c in code["a"]]
    start = list(accumulate(code["s"]))
    duration = code.get("d") or [problem["cost"][d][i] for i, d in enumerate(device)]
    source = list(accumulate(graph["source"]))
    sent, arrived = [], []
    for edge, (u, v) in enumerate(zip(source, graph["target"], strict=True)):
        a, b = device[u], device[v]
        if a != b:
            begin = start[u] + duration[u] + (code["w"][len(sent)] if "w" in code else 0)
            travel = problem["latency"][a][b] + graph["bytes"][edge] / problem["rate"][a][b]
            arrived.append(begin + (code["t"][len(sent)] if "t" in code else travel))
            sent.append(begin)
    finish = [s + x for s, x in zip(start, duration, strict=True)]
    return {"start": start, "finish": finish, "sent": sent, "arrived": arrived}


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("scheduler", ["heft", "random", "donf"])
def test_charts_hold_the_trace_to_five_digits(scheduler: str, runtime: str) -> None:
    problem = random_problem()
    bound = baselines.lower_bound(problem)
    trace = simulate(problem, baselines.get(scheduler)(problem), runtime)
    unit = quantum(bound)
    code = json.loads(encode_trace(trace, bound))
    times = decode(code, encode_problem(problem, bound), json.loads(encode_graph(problem)))
    remote = trace.remote
    assert "d" not in code and "t" not in code, "what the page can work out is not stored"
    assert ("w" in code) == (runtime == "links")
    for name, truth in [
        ("start", trace.start),
        ("finish", trace.finish),
        ("sent", trace.sent[remote]),
        ("arrived", trace.arrived[remote]),
    ]:
        assert np.abs(np.array(times[name]) * unit - truth).max() <= 3 * unit, name
    assert code["m"] * unit == pytest.approx(trace.makespan, rel=1e-5)


def test_durations_and_transfers_that_a_runtime_changed_are_stored() -> None:
    problem = random_problem()
    bound = baselines.lower_bound(problem)
    trace = simulate(problem, baselines.get("random")(problem), "classic")
    slower = replace(trace, finish=trace.finish + 1e-4, sent=trace.sent + 1e-4, arrived=trace.arrived + 3e-4)
    code = json.loads(encode_trace(slower, bound))
    assert np.array(code["d"]) * quantum(bound) == pytest.approx(slower.finish - slower.start, abs=quantum(bound))
    assert min(code["t"]) * quantum(bound) >= 2e-4


def test_embedded_json_cannot_end_the_script() -> None:
    text = json.dumps({"x": "</script><script>alert(1)</script><!--"})
    assert "<" not in embedded(text)
    assert json.loads(embedded(text)) == json.loads(text)


def test_platforms_share_a_graph() -> None:
    problem = random_problem()
    gantts = Gantts()
    for name in ("g@a", "g@b"):
        gantts.problem(ProblemSpec.held(problem, name), problem, 1.0)
    assert len(gantts.graphs) == 1 and len(gantts.problems) == 2


def test_large_problems_have_no_charts() -> None:
    gantts, problem = Gantts(), textbook("topcuoglu")
    large = Problem.from_arrays(np.ones((MOST_CHARTED + 1, 1)), [])
    for each in (large, problem):
        spec = ProblemSpec.held(each, str(each.num_operators))
        gantts.problem(spec, each, 1.0)
        gantts.trace(spec, simulate(each, baselines.single_device(each)))
    assert list(gantts.problems) == ["10"] and [key[0] for key in gantts.traces] == ["10"]


def test_the_worst_schedulers_go_without_charts_when_space_is_short() -> None:
    gantts = Gantts()
    gantts.traces = {("p", name, "classic"): "x" * 100 for name in ("a", "b", "c")}
    assert gantts.fitting(["c", "a", "b"], limit=250) == ["c", "a"]
    assert gantts.fitting(["c", "a", "b"], limit=300) == ["c", "a", "b"]


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    specs = (
        ProblemSpec.textbook("topcuoglu"),
        ProblemSpec.held(random_problem()),
        ProblemSpec.held(random_problem(1200, seed=1), "large@three"),
    )
    table = tuple(baselines.get(name) for name in ("heft", "cpop", "single-device"))
    folder = RunFolder(tmp_path_factory.mktemp("report"), "run", traces="none")
    return execute(Job("a <b>suite</b> & more", specs, table, RUNTIMES, ("hetgym", "bench")), folder)


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    specs = (ProblemSpec.textbook("topcuoglu"), ProblemSpec.held(random_problem(20)))
    table = tuple(baselines.get(name) for name in ("heft", "cpop", "lns"))
    folder = RunFolder(tmp_path_factory.mktemp("measured"), "run", traces="none")
    return execute(Job("measured", specs, table, RUNTIMES, (), Evaluation(pareto=True, budgets=(1e-3, 2e-3))), folder)


def test_the_file_needs_nothing_else(outcome: Outcome) -> None:
    text = outcome.files["report"].read_text()
    assert not re.search(r"""(src|href)\s*=|@import|url\(|https?://""", text)
    assert text.count("</script>") == 2
    assert len(text) < 400_000


def browse(report: Path, address: str = "", script: str = "") -> str:
    """The page as a browser leaves it, after a script of ours; fails on any error in its console."""
    assert CHROMIUM is not None
    page = report.with_name("page.html")
    page.write_text(report.read_text() + f"<script>{{{script}}}</script>")
    options = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-extensions",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--window-size=1200,900",
        f"--user-data-dir={report.with_name('profile')}",
        "--virtual-time-budget=2000",
        "--enable-logging=stderr",
        "--v=0",
        "--dump-dom",
    ]
    done = subprocess.run([CHROMIUM, *options, f"{page.as_uri()}{address}"], capture_output=True, text=True, timeout=99)
    console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    assert not console, console
    assert 'data-ready="yes"' in done.stdout and "data-error" not in done.stdout
    return re.sub(r'<script type="application/json".*?</script>', "", done.stdout, flags=re.S)


def labels(page: str) -> list[str]:
    return [html.unescape(text) for text in re.findall(r'<canvas[^>]*aria-label="([^"]*)"', page)]


needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on the PATH")


@needs_browser
def test_a_browser_shows_tables_and_charts(outcome: Outcome) -> None:
    page = browse(outcome.files["report"], "#problem=topcuoglu&runtime=classic&a=heft&b=single-device")
    assert "a &lt;b&gt;suite&lt;/b&gt; &amp; more</h1>" in page
    summary = page[page.index('id="summary"') : page.index('id="pareto-section"')]
    assert summary.count("<tr>") == 4
    first = outcome.summary[0]
    assert f"{100 * (first.gap_to_best or 0):.2f} %" in summary and f"{first.slr:.3f}" in summary
    assert "over heft" in summary and "reference" in summary
    problem = textbook("topcuoglu")
    transfers = len(simulate(problem, baselines.heft(problem)).transfers)
    assert labels(page) == [
        f"heft on topcuoglu under classic: 10 operators end at 80 s, {transfers} transfers",
        "single-device on topcuoglu under classic: 10 operators end at 127 s, 0 transfers",
    ]


@needs_browser
def test_a_browser_draws_a_large_problem_under_contention(outcome: Outcome) -> None:
    page = browse(outcome.files["report"], "#problem=large@three&runtime=links&a=cpop&b=")
    row = next(
        r for r in outcome.result.rows if (r.problem, r.scheduler, r.runtime) == ("large@three", "cpop", "links")
    )
    (label,) = labels(page)
    shown = re.fullmatch(r"cpop on large@three under links: 1200 operators end at ([\d.]+) ms, \d+ transfers", label)
    assert shown and float(shown[1]) == pytest.approx(1e3 * (row.makespan_s or 0), rel=1e-3)


@needs_browser
def test_sorting_choosing_zooming_and_hovering(outcome: Outcome) -> None:
    script = """
      const click = node => node.click(), note = (key, value) => { document.body.dataset[key] = value; };
      const order = () => [...document.querySelectorAll("#summary .name")].map(td => td.firstChild.data).join(",");
      click([...document.querySelectorAll("#summary th button")].find(b => b.textContent === "scheduler"));
      note("ascending", order());
      click([...document.querySelectorAll("#summary th button")].find(b => b.textContent === "scheduler"));
      note("descending", order());
      click([...document.querySelectorAll("#runtime-2 button")].find(b => b.textContent === "links"));
      const row = [...document.querySelectorAll("#heat tbody tr")].find(tr => tr.textContent.includes("topcuoglu"));
      const column = [...document.querySelectorAll("#heat th")].findIndex(th => th.textContent === "cpop");
      click(row.children[column].firstChild);
      note("address", location.hash);
      const canvas = document.querySelector("canvas"), bar = panels[0].bars.find(b => b.op === 0);
      const box = canvas.getBoundingClientRect();
      const at = { clientX: box.left + (bar.x0 + bar.x1) / 2, clientY: box.top + (bar.y0 + bar.y1) / 2, pointerId: 1 };
      canvas.dispatchEvent(new PointerEvent("pointermove", at));
      note("tip", document.getElementById("tip").textContent);
      click(document.getElementById("in")); click(document.getElementById("in"));
      note("zoomed", state.from + " " + state.to);
      click(document.getElementById("reset"));
      note("whole", state.from + " " + state.to);
    """
    page = browse(outcome.files["report"], "#platform=textbook", script)
    body = html.unescape(page[page.index("<body") : page.index(">", page.index("<body"))])
    assert 'data-ascending="cpop,heft,single-device"' in body
    assert 'data-descending="single-device,heft,cpop"' in body
    assert "problem=topcuoglu&runtime=links&a=cpop&b=" in body
    assert re.search(r'data-tip="T1Task, on P\dstarts 0 s, takes \d+ sP114 sP216 sP39 s"', body)
    assert 'data-zoomed="0.375 0.625"' in body and 'data-whole="0 1"' in body


@needs_browser
def test_a_browser_draws_quality_against_time_and_groups(measured: Outcome) -> None:
    script = """
      const note = (key, value) => { document.body.dataset[key] = value; };
      const svg = $("pareto"), box = svg.getBoundingClientRect();
      const here = marked.find(item => item.p.scheduler === "lns");
      svg.dispatchEvent(new PointerEvent("pointermove", { clientX: box.left + here.x, clientY: box.top + here.y }));
      note("tip", $("tip").textContent);
      note("lit", [...svg.querySelectorAll(".lit")].map(group => group.dataset.name).join(","));
      const buttons = id => [...document.querySelectorAll(`#${id} button`)];
      const choose = (id, text) => buttons(id).find(button => button.textContent === text).click();
      choose("groups-by", "platform"); choose("groups-what", "makespan over heft");
    """
    page = browse(measured.files["report"], "#runtime=links", script)
    body = html.unescape(page[page.index("<body") : page.index(">", page.index("<body"))])
    assert re.search(r'data-tip="lnssearch, given \d mstakes', body) and 'data-lit="lns"' in body
    drawn = page[page.index('<svg id="pareto"') : page.index('id="choices"')]
    assert drawn.count('class="curve"') == 1 and drawn.count("<text") > 8
    assert all(f'data-name="{name}"' in drawn for name in ("heft", "cpop", "lns"))
    assert "Mean gap to best against time to schedule under links" in drawn
    groups = page[page.index('id="groups"') : page.index('id="heat-section"')]
    assert groups.count("<tr>") == 4 and "textbook" in groups and "1.000" in groups


@needs_browser
def test_a_browser_hides_what_was_not_measured(outcome: Outcome) -> None:
    page = browse(outcome.files["report"])
    assert re.search(r'id="pareto-section" hidden', page) and not re.search(r'id="groups-section" hidden', page)


def test_a_run_without_results_still_renders(outcome: Outcome) -> None:
    document: dict[str, Any] = outcome.document | {"rows": [], "summary": [], "summary_by_platform": {}}
    assert "<!doctype html>" in render(document, Gantts())


@needs_browser
def test_charts_show_the_memory_of_the_simulation(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    n = 40
    edges = [(int(i), j, float(rng.integers(1, 10**6))) for j in range(1, n) for i in np.unique(rng.integers(0, j, 3))]
    tensors = [source for source, *_ in edges]  # each output is one tensor, which several read: copies are shared
    sizes = {source: size for source, _, size in edges}
    problem = Problem.from_arrays(
        rng.uniform(1e-4, 2e-4, (n, 3)),
        [(i, j, sizes[i]) for i, j, _ in edges],
        latency=1e-5,
        bandwidth=1e9,
        weight_bytes=rng.uniform(0, 1e6, n),
        output_bytes=rng.uniform(0, 1e6, n),
        memory_capacity=[1e6, 1e9, np.inf],
        tensors=tensors,
        name="stored@three",
    )
    table = (baselines.get("heft"),)
    runtimes = ("links", "framework")
    done = execute(Job("m", (ProblemSpec.held(problem),), table, runtimes, ()), RunFolder(tmp_path, "run", "none"))
    for runtime in runtimes:
        trace = simulate(problem, table[0](problem, runtime), runtime)
        script = """
          const view = panels[0], bar = view.bars.find(b => b.store === 0), box = view.canvas.getBoundingClientRect();
          const at = { clientX: box.left + (bar.x0 + bar.x1) / 2, clientY: box.top + bar.y0 + 2, pointerId: 1 };
          view.canvas.dispatchEvent(new PointerEvent("pointermove", at));
          document.body.dataset.tip = document.getElementById("tip").textContent;
          document.body.dataset.peaks = view.trace.memory.map(store => store.most).join(" ");
        """
        page = browse(done.files["report"], f"#runtime={runtime}&a=heft&b=", script)
        peaks = re.search('data-peaks="([^"]*)"', page)
        assert peaks and [float(x) for x in peaks[1].split()] == pytest.approx(trace.memory.peak.tolist(), rel=1e-3)
        assert re.search(r'data-tip="Memory of dev0[\d.]+ MB at [\d.]+ msat most [\d.]+ MB of 1.00 MB"', page)
