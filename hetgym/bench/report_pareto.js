// ---------- quality against time
const MARKS = {
  trivial: r => `M${-r} ${-r}L${r} ${r}M${-r} ${r}L${r} ${-r}`, online: r => `M0 ${-r * 1.2}L${r * 1.1} ${r * 0.8}L${-r * 1.1} ${r * 0.8}Z`,
  memory: r => `M0 ${-r * 1.3}L${r * 1.3} 0L0 ${r * 1.3}L${-r * 1.3} 0Z`, partition: r => `M${-r} ${-r}H${r}V${r}H${-r}Z`,
  exact: r => `M${-r * 1.2} 0H${r * 1.2}M0 ${-r * 1.2}V${r * 1.2}`,
  policy: r => "M" + Array.from({ length: 10 }, (_, k) => { const a = Math.PI * (k / 5 - 0.5), s = k % 2 ? 0.62 * r : 1.45 * r; return `${(s * Math.cos(a)).toFixed(2)} ${(s * Math.sin(a)).toFixed(2)}`; }).join("L") + "Z",
};
const round = r => `M${-r} 0A${r} ${r} 0 1 1 ${r} 0A${r} ${r} 0 1 1 ${-r} 0Z`;
const GAPS = [0, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100];
const rise = gap => Math.log10(gap + 0.002); // small gaps stay apart, and none at all has a place
const ruler = document.createElement("canvas").getContext("2d");
let marked = []; // what can be hovered over: x, y and the point

function shape(tag, attributes = {}, ...children) {
  const node = document.createElementNS($("pareto").namespaceURI, tag);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}
function paretoNote() {
  if (!D.pareto) return;
  const left = D.pareto.left_out.length ? ` Left out to stay within the limit: ${D.pareto.left_out.map(value => time(value)).join(", ")}.` : "";
  $("pareto-note").textContent = "Mean gap to the best known makespan, or the best found here, over the time that it takes. Searches are curves over their budgets, the rest are marks; bands and lines are 95 % bootstrap intervals over problems. Measured one after the other on one core, kernels warm." + left;
}
function pareto() {
  const found = (D.pareto?.points ?? []).filter(point => point.runtime === state.runtime);
  $("pareto-section").hidden = !found.length;
  if (!found.length) return;
  const front = D.pareto.fronts[state.runtime], best = new Set(front.map(point => point.scheduler));
  const lines = new Map();
  found.filter(p => known(p.budget_s) && p.kind !== "exact").forEach(p => lines.set(p.scheduler, [...(lines.get(p.scheduler) ?? []), p]));
  for (const line of lines.values()) line.sort((a, b) => a.budget_s - b.budget_s);
  const curves = [...lines].sort((a, b) => a[1].at(-1).gap - b[1].at(-1).gap);
  const singles = found.filter(p => !lines.has(p.scheduler)).sort((a, b) => best.has(b.scheduler) - best.has(a.scheduler) || a.gap - b.gap);

  const svg = $("pareto"), width = svg.parentNode.clientWidth - 32, narrow = width < 600, high = narrow ? 430 : 560;
  const left = narrow ? 42 : 52, right = narrow ? 98 : 132, top = 12, floor = high - 42, edge = width - right, size = narrow ? 9.5 : 11.5;
  const least = Math.min(...found.map(p => p.seconds)) / 1.7, most = Math.max(...found.map(p => p.seconds)) * 1.7;
  const worst = Math.max(...found.map(p => p.high ?? p.gap)), from = rise(0) - 0.07, to = rise(worst) + 0.08;
  const x = seconds => left + Math.log(seconds / least) / Math.log(most / least) * (edge - left);
  const y = gap => floor - (rise(gap) - from) / (to - from) * (floor - top);
  svg.setAttribute("viewBox", `0 0 ${width} ${high}`); svg.style.height = high + "px";
  svg.setAttribute("aria-label", `Mean gap to best against time to schedule under ${state.runtime}; the front runs from ${front.map(p => `${p.scheduler} (${time(p.seconds, 3)}, ${percent(p.gap)})`).join(" to ")}`);
  const label = (text, at, level, options) => shape("text", { x: at.toFixed(1), y: level.toFixed(1), "font-size": size, ...options }, text);

  const grid = shape("g", { class: "grid" });
  for (const gap of GAPS.filter(g => g <= worst * 1.2 && (!narrow || ![0.002, 0.02, 0.2, 2].includes(g)))) {
    grid.append(shape("path", { d: `M${left} ${y(gap).toFixed(1)}H${edge}` }), label(percent(gap).replace(/\.0+ /, " ").replace(/(\.\d)0 /, "$1 "), left - 8, y(gap) + 4, { "text-anchor": "end" }));
  }
  for (let power = Math.ceil(Math.log10(least)); 10 ** power <= most; power++) {
    const at = x(10 ** power);
    grid.append(shape("path", { d: `M${at.toFixed(1)} ${top}V${floor}` }), label(time(10 ** power), at, floor + 17, { "text-anchor": "middle" }));
  }
  grid.append(label("time to schedule, median over problems", (left + edge) / 2, high - 6, { "text-anchor": "middle" }));

  const steps = front.map((p, k) => `${k ? "V" + y(p.gap).toFixed(1) : "M" + x(p.seconds).toFixed(1) + " " + y(p.gap).toFixed(1)}H${(k + 1 < front.length ? x(front[k + 1].seconds) : edge).toFixed(1)}`).join("");
  const layers = [grid];
  if (front.length) layers.push(shape("path", { class: "beaten", d: `${steps}V${top}H${x(front[0].seconds).toFixed(1)}Z` }), shape("path", { class: "front", d: steps }));

  marked = [];
  const mark = (p, r, options) => {
    marked.push({ x: x(p.seconds), y: y(p.gap), p });
    return shape("path", { d: (MARKS[p.kind] ?? round)(r), transform: `translate(${x(p.seconds).toFixed(1)} ${y(p.gap).toFixed(1)})`, ...options });
  };
  let place = -Infinity;
  const margin = [];
  curves.forEach(([name, line], k) => {
    const colour = PALETTE[k % PALETTE.length], end = line.at(-1), group = shape("g", { class: "one", "data-name": name, stroke: colour, fill: colour });
    const path = (points, value) => points.map((p, i) => `${i ? "L" : "M"}${x(p.seconds).toFixed(1)} ${y(value(p)).toFixed(1)}`).join("");
    const band = path(line, p => p.high ?? p.gap) + path([...line].reverse(), p => p.low ?? p.gap).replace("M", "L") + "Z";
    group.append(shape("path", { class: "band", d: band }), shape("path", { class: "curve", d: path(line, p => p.gap) }),
      shape("path", { class: "stays", d: `M${x(end.seconds).toFixed(1)} ${y(end.gap).toFixed(1)}H${edge}` }), ...line.map(p => mark(p, 2.8)));
    margin.push({ group, name, at: y(end.gap) });
    layers.push(group);
  });
  // Names in the margin keep the order of the curves' ends, and their distance.
  margin.sort((a, b) => b.at - a.at);
  let limit = floor + 8;
  for (const item of margin) {
    place = Math.min(item.at, limit);
    limit = place - size - 3;
    item.group.append(shape("path", { class: "lead", d: `M${edge} ${item.at.toFixed(1)}L${edge + 10} ${place.toFixed(1)}` }),
      label(item.name, edge + 14, place + 4, { class: "name", "font-weight": best.has(item.name) ? 650 : 400 }));
  }
  const taken = singles.map(p => [x(p.seconds) - 5, y(p.gap) - 5, x(p.seconds) + 5, y(p.gap) + 5]);
  for (const p of singles) {
    const on = best.has(p.scheduler), group = shape("g", { class: `one mark${on ? " on" : ""}${p.kind === "policy" ? " policy" : ""}`, "data-name": p.scheduler });
    if (known(p.low)) group.append(shape("path", { class: "span", d: `M${x(p.seconds).toFixed(1)} ${y(p.low).toFixed(1)}V${y(p.high).toFixed(1)}` }));
    group.append(mark(p, on ? 4.4 : 3.4));
    ruler.font = `${on ? 650 : 400} ${size}px ${css("--sans")}`;
    const wide = ruler.measureText(p.scheduler).width, X = x(p.seconds), Y = y(p.gap);
    for (const [dx, dy, anchor] of [[9, 4, "start"], [-9, 4, "end"], [0, -9, "middle"], [0, 17, "middle"]]) {
      const begin = anchor === "start" ? X + dx : anchor === "end" ? X + dx - wide : X - wide / 2, box = [begin - 2, Y + dy - size + 1, begin + wide + 2, Y + dy + 3];
      if (box[0] < left || box[2] > edge || box[1] < top || taken.some(b => box[0] < b[2] && b[0] < box[2] && box[1] < b[3] && b[1] < box[3])) continue;
      taken.push(box);
      group.append(label(p.scheduler, X + dx, Y + dy, { "text-anchor": anchor, class: "name" }));
      break;
    }
    layers.push(group);
  }
  svg.replaceChildren(...layers);
  legendOfMarks(found);
  choices();
}
function legendOfMarks(found) {
  const kinds = [...new Set(found.filter(p => !known(p.budget_s) || p.kind === "exact" || p.kind === "policy").map(p => p.kind))];
  $("marks").replaceChildren(...kinds.map(kind => {
    const icon = shape("svg", { width: 13, height: 13, viewBox: "-6.5 -6.5 13 13", class: "one mark" }, shape("path", { d: (MARKS[kind] ?? round)(3.6) }));
    return el("span", {}, icon, kind);
  }), el("span", {}, el("i", { class: "rule" }), "front: nothing is both quicker and better"));
}
function choices() {
  const head = ["within", "best", "takes", "gap to best", "95 % interval", "next best", "gap to best", "better with"];
  const body = D.pareto.choices[state.runtime].map(({ within_s, best, second, probability }) => el("tr", {},
    el("td", {}, time(within_s, 3)), el("td", { class: "name text" }, best.scheduler), el("td", {}, time(best.seconds, 3)), el("td", {}, percent(best.gap)),
    el("td", {}, known(best.low) ? `${percent(best.low)} to ${percent(best.high)}` : "–"), el("td", { class: "text" }, second?.scheduler ?? "–"),
    el("td", {}, percent(second?.gap)), el("td", {}, known(probability) ? Math.round(100 * probability) + " %" : "–")));
  $("choices").replaceChildren(el("thead", {}, el("tr", {}, ...head.map((text, k) => el("th", { scope: "col", class: k === 1 || k === 5 ? "text" : "" }, text)))), el("tbody", {}, ...body));
}
function point(event) {
  const svg = $("pareto"), box = svg.getBoundingClientRect(), at = [event.clientX - box.left, event.clientY - box.top];
  const name = event.target.closest?.(".name")?.parentNode?.dataset.name;
  let near = 22, here = null;
  for (const item of marked) {
    const away = Math.hypot(item.x - at[0], item.y - at[1]);
    if (away < near) { near = away; here = item; }
  }
  const chosen = name ?? here?.p.scheduler;
  svg.classList.toggle("dim", Boolean(chosen));
  for (const group of svg.querySelectorAll(".one")) group.classList.toggle("lit", group.dataset.name === chosen);
  if (!here) { $("tip").style.display = "none"; return; }
  const { p } = here, told = [["takes", time(p.seconds, 3)], ["at most", time(p.slowest, 3)], ["gap to best", percent(p.gap)]];
  if (known(p.low)) told.push(["95 % interval", `${percent(p.low)} to ${percent(p.high)}`]);
  told.push(["problems", String(p.problems)]);
  $("tip").replaceChildren(el("b", {}, p.scheduler), el("span", {}, p.kind + (known(p.budget_s) ? `, given ${time(p.budget_s, 3)}` : "") + (p.failed ? `, ${p.failed} failed` : "")),
    el("table", {}, ...told.map(([key, value]) => el("tr", {}, el("td", {}, key), el("td", {}, value)))));
  beside(event);
}
$("pareto").addEventListener("pointermove", point);
$("pareto").addEventListener("pointerdown", point);
$("pareto").addEventListener("pointerleave", () => { hide(); $("pareto").classList.remove("dim"); });
new ResizeObserver(pareto).observe($("pareto").parentNode);
