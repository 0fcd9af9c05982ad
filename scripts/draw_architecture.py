"""Draw the two pictures of docs/architecture.md as SVG."""
from __future__ import annotations
from html import escape

FONT = "font-family='Segoe UI, Helvetica, Arial, sans-serif'"

def box(x, y, w, h, title, text="", fill="#eef3fa", edge="#4a6fa5"):
    out = [f"<rect x='{x}' y='{y}' width='{w}' height='{h}' rx='6' fill='{fill}' stroke='{edge}' stroke-width='1.2'/>"]
    lines = text.split("\n") if text else []
    top = y + h / 2 - (len(lines) * 14) / 2 + 5 
    out.append(f"<text x='{x + w / 2}' y='{top:g}' text-anchor='middle' font-size='14' font-weight='600' fill='#1b2a41'>{escape(title)}</text>")
    for k, line in enumerate(lines):
        out.append(f"<text x='{x + w / 2}' y='{top + 16 + 14 * k:g}' text-anchor='middle' font-size='11.5' fill='#44546a'>{escape(line)}</text>")
    return "\n".join(out)

def arrow(points, label="", at=None, dash=False):
    path = "M" + " L".join(f"{x},{y}" for x, y in points)
    out = [f"<path d='{path}' fill='none' stroke='#5b6b7f' stroke-width='1.4' marker-end='url(#a)'/>"]
    if label:
        x, y = at
        out.append(f"<text x='{x}' y='{y}' text-anchor='middle' font-size='11' fill='#5b6b7f'>{escape(label)}</text>")
    return "\n".join(out)

def page(w, h, body, title, desc):
    return (f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {w} {h}' role='img' {FONT}>\n<title>{title}</title>\n<desc>{desc}</desc>\n"
            f"<defs><marker id='a' viewBox='0 0 10 10' refX='9' refY='5' markerWidth='7' markerHeight='7' orient='auto'><path d='M0,0 L10,5 L0,10 z' fill='#5b6b7f'/></marker></defs>\n"
            f"<rect width='{w}' height='{h}' fill='#ffffff'/>\n" + "\n".join(body) + "\n</svg>\n")

G, P, O, V = ("#e9f5ee", "#3c8d5a"), ("#eef3fa", "#4a6fa5"), ("#fdf3e4", "#c4883a"), ("#f4eefb", "#7d5ba6")
b = []
b.append(box(20, 30, 190, 50, "model", "zoo, ONNX, PyTorch, generator", *G))
b.append(box(20, 110, 190, 50, "platform YAML", "devices and links", *G))
b.append(box(20, 190, 190, 50, "measurements", "profiles, data sheets", *G))
b.append(box(270, 30, 150, 50, "DataflowGraph", "operators, tensors", *G))
b.append(box(270, 110, 150, 50, "Platform", "devices, routes", *G))
b.append(box(270, 190, 150, 50, "CostModel", "seconds per operator", *G))
b.append(box(490, 110, 150, 50, "Problem", "plain arrays", *P))
b.append(box(700, 40, 200, 50, "Scheduler", "heuristic, search, policy", *O))
b.append(box(700, 180, 200, 50, "Environment", "an agent decides step by step", *O))
b.append(box(960, 110, 140, 50, "Schedule", "placement and order", *P))
b.append(box(960, 300, 140, 50, "simulate", "under a Runtime", *P))
b.append(box(700, 300, 200, 50, "Trace", "times, transfers, memory, blame", *P))
b.append(box(960, 30, 140, 50, "execute", "on worker processes", *V))
b.append(box(490, 300, 150, 50, "bench, reports", "gaps, Gantt charts", *V))
b += [arrow([(210, 55), (270, 55)]), arrow([(210, 135), (270, 135)]), arrow([(210, 215), (270, 215)])]
b += [arrow([(420, 55), (565, 55), (565, 110)]), arrow([(420, 135), (490, 135)]), arrow([(420, 215), (565, 215), (565, 160)])]
b += [arrow([(640, 125), (670, 125), (670, 65), (700, 65)]), arrow([(640, 145), (670, 145), (670, 205), (700, 205)])]
b += [arrow([(900, 65), (930, 65), (930, 128), (960, 128)]), arrow([(900, 205), (930, 205), (930, 145), (960, 145)])]
b += [arrow([(1030, 160), (1030, 300)]), arrow([(1030, 110), (1030, 80)])]
b += [arrow([(960, 325), (900, 325)])]
b += [arrow([(700, 325), (640, 325)]), arrow([(800, 300), (800, 230)], "reward", (824, 270))]
b.append("<line x1='455' y1='20' x2='455' y2='270' stroke='#b9c2cc' stroke-dasharray='3 4'/>")
b.append("<text x='447' y='285' text-anchor='end' font-size='11.5' fill='#7b8794'>knows deep learning</text><text x='463' y='285' font-size='11.5' fill='#7b8794'>sees arrays only</text>")
open("data-flow.svg", "w").write(page(1120, 370, b, "The flow of data through hetgym",
  "A model, a platform and measurements become a problem of plain arrays; schedulers and environments make schedules of it, which are simulated or executed."))

rooms = [
 ("cli", [("cli", "one command a module; tables, progress bars")], V),
 ("bench", [("bench", "run, analyse, report")], V),
 ("agents", [("agents", "policies, networks, trainers, Ray workers")], O),
 ("envs", [("envs", "core; place, dispatch, split, pipeline")], O),
 ("baselines", [("baselines", "one algorithm a file"), ("execution", "plans on worker processes")], P),
 ("pipeline", [("pipeline", "stages, cuts, micro-batches"), ("metrics", "speed-up, SLR, gaps")], P),
 ("planning", [("planning", "timelines, ranks, decoding, look-ahead, moves, search, bounds, the table of schedulers")], P),
 ("sim", [("sim", "runtimes, kernel, event loop, online runs, traces")], P),
 ("workloads", [("workloads", "suites, problem files, random draws, synthetic costs")], P),
 ("problem", [("problem, transfer, schedule", "arrays, the price of a transfer, plans and their validator")], P),
 ("costs", [("costs", "features, regressors, fits"), ("profiling", "how operators are measured")], G),
 ("measurements", [("measurements", "tables and machine cards")], G),
 ("graph", [("graph", "operators, importers, transforms, zoo"), ("device, platform", "devices, links, routes")], G),
 ("errors", [("errors, private modules", "compiling, configuration, files")], ("#f2f4f6", "#8a96a3")),
]
b = []; y = 20; W = 760
for _, row, colour in rooms:
    w = (W - 20 * (len(row) - 1)) / len(row)
    for k, (name, text) in enumerate(row):
        b.append(box(40 + k * (w + 20), y, w, 46, name, text, *colour))
    y += 58
b.append(arrow([(20, 30), (20, y - 20)]))
b.append(f"<text x='14' y='{y/2}' font-size='11.5' fill='#5b6b7f' text-anchor='middle' transform='rotate(-90 14 {y/2})'>imports go down only</text>")
open("rooms.svg", "w").write(page(820, y, b, "The rooms of hetgym", "Packages in layers; a module imports from its own layer and those below."))
