// ---------- groups of problems
const GROUP = Object.fromEntries(D.group_columns.map((name, i) => [name, i]));
const SHOWN = [["gap_to_best", "gap to best"], ["ratio", "makespan over " + D.reference]];
const shown = { by: Object.keys(D.groups)[0] ?? "", what: "gap_to_best" };

function groups() {
  const columns = Object.keys(D.groups);
  $("groups-section").hidden = !columns.length;
  if (!columns.length) return;
  const again = change => { Object.assign(shown, change); groups(); };
  segment("groups-by", columns.map(name => [name, name === "ccr" ? "CCR" : name]), shown.by, by => again({ by }));
  segment("groups-what", SHOWN.slice(0, D.reference ? 2 : 1), shown.what, what => again({ what }));
  const lines = D.groups[shown.by].filter(line => line[GROUP.runtime] === state.runtime);
  const names = [...new Set(lines.map(line => line[GROUP.group]))], cells = new Map(lines.map(line => [line[GROUP.scheduler] + "/" + line[GROUP.group], line]));
  const count = name => Math.max(...lines.filter(line => line[GROUP.group] === name).map(line => line[GROUP.problems]));
  const ranked = [...new Set(D.summary.filter(line => line.runtime === state.runtime).map(line => line.scheduler))];
  const head = el("tr", {}, el("th", { scope: "col" }, "scheduler"), ...names.map(name => el("th", { scope: "col" }, name, el("br"), el("small", {}, plural(count(name), "problem")))));
  const body = ranked.map(scheduler => el("tr", {}, el("td", { class: "name" }, scheduler), ...names.map(name => groupCell(cells.get(scheduler + "/" + name)))));
  $("groups").replaceChildren(el("thead", {}, head), el("tbody", {}, ...body));
}
function groupCell(line) {
  const value = line?.[GROUP[shown.what]], cell = el("td", {}, shown.what === "ratio" ? fixed(value, 3) : percent(value));
  if (!known(value)) return cell;
  const excess = shown.what === "ratio" ? value - 1 : value;
  cell.style.background = excess >= 0 ? `rgba(var(--heat), ${(0.62 * Math.min(1, Math.log1p(25 * excess) / Math.log1p(50))).toFixed(3)})`
    : `color-mix(in srgb, var(--good) ${(100 * Math.min(0.5, -2 * excess)).toFixed(1)}%, transparent)`;
  if (known(line[GROUP.low])) cell.title = `${fixed(line[GROUP.ratio], 3)} times the makespan of ${D.reference}, 95 % interval ${fixed(line[GROUP.low], 3)} to ${fixed(line[GROUP.high], 3)}`;
  return cell;
}
