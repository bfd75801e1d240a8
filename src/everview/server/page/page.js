// The page of a store. Names and values are only ever set as text, never as markup.
"use strict";
const at = (id) => document.getElementById(id);
const NUMBER = /^(tinyint|smallint|int|bigint|float|double|decimal)/;
const WORDS = ["SELECT", "FROM", "WHERE", "GROUP BY", "HAVING", "ORDER BY", "LIMIT", "JOIN", "COUNT(*)", "SUM", "AVG",
  "MIN", "MAX", "DISTINCT", "DESCRIBE", "SHOW VIEWS", "SHOW STREAMS", "AS OF TIMESTAMP"];
const page = { names: [], status: null, changed: {}, events: null, rows: [], plan: null, known: "" };

function make(name, parent, text, attributes = {}) {
  const made = document.createElement(name);
  if (text !== undefined && text !== null) made.textContent = text;
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (parent) parent.append(made);
  return made;
}
function draw(name, parent, attributes, text) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  parent.append(made);
  return made;
}
async function get(path, question) {
  const options = question === undefined ? {} :
    { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(question) };
  const reply = await fetch(path, options);
  if (!(reply.headers.get("content-type") || "").startsWith("application/json")) throw new Error(await reply.text());
  const found = await reply.json();
  if (!reply.ok) throw new Error(found.error);
  return found;
}
function tell(error) {
  at("problem").hidden = !error;
  at("problem").textContent = error ? error.message || String(error) : "";
}
const show = (value) => value === null ? "NULL" : typeof value === "object" ? JSON.stringify(value) : String(value);
const count = (n) => Number(n).toLocaleString("en");

function table(place, columns, rows, none, marked) {
  if (!rows.length) return place.replaceChildren(make("p", null, none, { class: "empty" }));
  const whole = make("table");
  const head = make("tr", make("thead", whole));
  for (const c of columns) make("th", head, c.name, NUMBER.test(c.type) ? { class: "number" } : {});
  const body = make("tbody", whole);
  for (const row of rows) {
    const line = make("tr", body, undefined, marked && marked(row) ? { class: "new" } : {});
    row.forEach((value, i) => make("td", line, show(value),
      NUMBER.test(columns[i].type) ? { class: "number" } : columns[i].type === "note" ? { class: "note" } : {}));
  }
  place.replaceChildren(whole);
}
const columns = (...names) => names.map((n) => n.startsWith("#") ? { name: n.slice(1), type: "int" } :
  n === "" ? { name: "", type: "note" } : { name: n, type: "string" });
const named = (name) => page.names.find((e) => e.name === name);

function choose(select, values) {
  const before = select.value;
  select.replaceChildren();
  for (const [value, text] of values) make("option", select, text, { value });
  if (values.some(([value]) => value === before)) select.value = before;
}

// The view: its table, its chart, its changes

async function showView(marks) {
  const entry = named(at("view").value);
  if (!entry) return table(at("table"), [], [], "There is no view yet.");
  const found = await get("/api/query", { sql: `SELECT * FROM ${entry.sql}`, limit: 200 });
  if (entry.name !== at("view").value) return;
  page.answer = found;
  choose(at("measure"), found.columns.filter((c) => NUMBER.test(c.type)).map((c) => [c.name, c.name]));
  const fresh = new Set((marks || []).map((row) => JSON.stringify(row)));
  table(at("table"), found.columns, found.rows, "The view has no rows now.", (row) => fresh.has(JSON.stringify(row)));
  chart();
}
function chart() {
  const { columns: all, rows } = page.answer || { columns: [], rows: [] };
  const measure = all.findIndex((c) => c.name === at("measure").value);
  if (measure < 0 || !rows.length) return at("chart").replaceChildren();
  const time = all.findIndex((c) => c.type.startsWith("timestamp"));
  const points = rows.map((row) => ({
    label: row.filter((_, i) => !NUMBER.test(all[i].type)).map(show).join(" · ") || all[measure].name,
    t: time < 0 ? 0 : Date.parse(`${row[time]}Z`), value: Number(row[measure]),
  })).filter((p) => Number.isFinite(p.value));
  const width = Math.max(280, at("chart").clientWidth - 4);
  const picture = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  if (time >= 0 && points.every((p) => Number.isFinite(p.t))) lines(picture, points, width);
  else bars(picture, points.slice(0, 30), width);
  at("chart").replaceChildren(picture);
}
function bars(picture, points, width) {
  const left = Math.min(180, width * 0.35), most = Math.max(...points.map((p) => Math.abs(p.value)), 1e-12);
  picture.setAttribute("viewBox", `0 0 ${width} ${points.length * 24}`);
  points.forEach((p, i) => {
    const fit = Math.floor(left / 7);
    const label = draw("text", picture, { x: left - 8, y: i * 24 + 16, "text-anchor": "end" },
      p.label.length > fit ? `${p.label.slice(0, fit - 1)}…` : p.label);
    draw("title", label, {}, p.label);
    const wide = Math.abs(p.value) / most * (width - left - 76);
    draw("rect", picture, { x: left, y: i * 24 + 4, width: Math.max(1, wide), height: 16, rx: 3, "data-value": p.value });
    draw("text", picture, { x: left + wide + 6, y: i * 24 + 16 }, count(p.value));
  });
}
function lines(picture, points, width) {
  points.sort((a, b) => a.t - b.t);
  const [first, last] = [points[0].t, points[points.length - 1].t];
  const low = Math.min(0, ...points.map((p) => p.value)), high = Math.max(...points.map((p) => p.value), low + 1e-12);
  const x = (t) => 44 + (last > first ? (t - first) / (last - first) : 0.5) * (width - 60);
  const y = (v) => 150 - (v - low) / (high - low) * 130;
  picture.setAttribute("viewBox", `0 0 ${width} 178`);
  for (const v of [low, high]) {
    draw("line", picture, { x1: 44, x2: width - 12, y1: y(v), y2: y(v) });
    draw("text", picture, { x: 38, y: y(v) + 4, "text-anchor": "end" }, Number(v.toPrecision(3)));
  }
  draw("polyline", picture, { points: points.map((p) => `${x(p.t).toFixed(1)},${y(p.value).toFixed(1)}`).join(" ") });
  for (const p of points) {
    const dot = draw("circle", picture, { cx: x(p.t), cy: y(p.value), r: 3, "data-value": p.value });
    draw("title", dot, {}, `${p.label}: ${p.value}`);
  }
  draw("text", picture, { x: 44, y: 172 }, new Date(first).toISOString().slice(0, 19));
  if (width > 420) draw("text", picture, { x: width - 12, y: 172, "text-anchor": "end" }, new Date(last).toISOString().slice(0, 19));
}
function follow() {
  if (page.events) page.events.close();
  page.rows = [];
  const entry = named(at("view").value);
  table(at("changes"), [], [], "Changes appear here as they come.");
  if (!entry) return;
  page.events = new EventSource(`/api/changes?view=${encodeURIComponent(entry.name)}`);
  page.events.addEventListener("changes", (event) => {
    const found = JSON.parse(event.data);
    if (!found.rows.length) return;
    page.changed[entry.name] = (page.changed[entry.name] || 0) + found.rows.length;
    page.rows = [...found.rows.reverse(), ...page.rows].slice(0, 200);
    table(at("changes"), found.columns, page.rows, "");
    const wide = page.answer ? page.answer.columns.length : 0;
    showView(found.rows.map((row) => row.slice(2, 2 + wide))).catch(tell);
    counters();
  });
  page.events.addEventListener("failed", (event) => { page.events.close(); tell(JSON.parse(event.data)); });
}

// The state of the store

async function showStatus() {
  const found = page.status = await get("/api/status");
  const of = (...kinds) => found.records.filter((r) => kinds.includes(r.kind));
  const store = of("store")[0];
  at("store").textContent = found.path;
  at("summary").textContent = `step ${count(store.step)} · known up to ${store.watermark || "nothing yet"} · ` +
    `${count(found.lag)} s behind the newest row · ${store.background}`;
  table(at("streams"), columns("name", "kind", "watermark", "#rows", "#late", "#rejected", "#waiting", ""),
    found.records.filter((r) => "waiting" in r).map((r) =>
      [r.name, r.kind, r.watermark || "nothing yet", r.rows, r.late, r.rejected, r.waiting, r.note || ""]), "There is no stream yet.");
  at("waits").replaceChildren(...found.waits.map((w) => make("li", null, w)));
  table(at("views"), columns("name", "kind", "watermark", "#bytes", "#step", ""),
    found.records.filter((r) => "complete_since" in r || r.kind === "sink").map((r) =>
      [r.name, r.kind, r.watermark || "", r.bytes ?? "", r.step ?? "", r.note || ""]), "There is no view yet.");
  table(at("steps"), columns("#step", "#rows in", "#changes", "#seconds"), found.steps.slice(-8).reverse().map((s) =>
    [s.step, s.rows, Object.values(s.changes).reduce((a, b) => a + b, 0), s.seconds.toFixed(2)]), "No step yet since the start.");
  if (store.error) tell(store.error);
  counters();
}
async function showNames() {
  page.names = await get("/api/names");
  const known = JSON.stringify(page.names);
  if (known === page.known) return;
  page.known = known;
  const before = at("view").value;
  choose(at("view"), page.names.filter((e) => e.changes).map((e) => [e.name, e.name]));
  choose(at("beside"), page.names.filter((e) => e.late).flatMap((e) =>
    [[e.late, `${e.name}: late`], [e.rejected, `${e.name}: rejected`]]));
  if (at("view").value !== before) { follow(); await showView(); }
  await showBeside();
  await showPlan();
}
async function showBeside() {
  const name = at("beside").value;
  if (!name) return table(at("beside-rows"), [], [], "There is no stream yet.");
  const found = await get("/api/query", { sql: `SELECT * FROM ${name}`, limit: 100 });
  table(at("beside-rows"), found.columns, found.rows, "None.");
}

// The plan

async function showPlan() {
  page.plan = await get("/api/plan");
  if (!page.plan.svg) return at("plan").replaceChildren(make("p", null, "There is no view yet.", { class: "empty" }));
  const parsed = new DOMParser().parseFromString(page.plan.svg, "image/svg+xml").documentElement;
  at("plan").replaceChildren(document.adoptNode(parsed));
  counters();
}
function counters() {
  const picture = at("plan").querySelector("svg");
  if (!picture || !page.status) return;
  picture.querySelectorAll(".counter").forEach((old) => old.remove());
  const operators = new Map(page.plan.operators.map((o) => [o.id, o]));
  for (const edge of picture.querySelectorAll("g.edge")) {
    const ends = /^#(\d+) → (?:left |right )?#(\d+)/.exec(edge.querySelector("title").textContent);
    const path = edge.querySelector("path");
    if (!ends || !path) continue;
    const [from, to] = [operators.get(Number(ends[1])), operators.get(Number(ends[2]))];
    const taken = page.status.records.find((r) => r.name === from.name && "rows" in r);
    let text = from.figures && from.figures.rate ? `≈ ${Number(from.figures.rate.toPrecision(2))}/s` : "";
    if (to.kind === "View") text = `${count(page.changed[to.name] || 0)} changes`;
    if (taken) text = `${count(taken.rows)} rows`;
    const middle = path.getPointAtLength(path.getTotalLength() / 2);
    draw("text", picture, { x: middle.x + 8, y: middle.y + 4, class: "counter" }, text);
  }
}

// Questions

function hints() {
  const box = at("sql"), word = /[\w$`]*$/.exec(box.value.slice(0, box.selectionStart))[0];
  const all = [...page.names.flatMap((e) => [e.sql, ...e.columns]), ...WORDS];
  const fitting = word ? [...new Set(all)].filter((w) =>
    w.toLowerCase().startsWith(word.toLowerCase()) && w.length > word.length).slice(0, 8) : [];
  at("hints").replaceChildren(...fitting.map((w) => {
    const button = make("button", null, w, { type: "button" });
    button.addEventListener("click", () => complete(word, w));
    return button;
  }));
  return [word, fitting[0]];
}
function complete(word, whole) {
  const box = at("sql");
  box.setRangeText(whole, box.selectionStart - word.length, box.selectionStart, "end");
  box.focus();
  hints();
}
async function ask(event) {
  if (event) event.preventDefault();
  at("answer").replaceChildren(make("p", null, "…", { class: "empty" }));
  try {
    const found = await get("/api/query", { sql: at("sql").value });
    if (found.text !== undefined) return at("answer").replaceChildren(make("pre", null, found.text));
    table(at("answer"), found.columns, found.rows, "No rows.");
    if (found.left_out) make("p", at("answer"), `… and ${count(found.left_out)} more rows`, { class: "empty" });
  } catch (error) {
    at("answer").replaceChildren(make("pre", null, error.message));
  }
}
async function look() {
  try {
    tell(null);
    await showStatus();
    await showNames();
  } catch (error) { tell(error); }
  setTimeout(look, 1500);
}
at("view").addEventListener("change", () => { follow(); showView().catch(tell); });
at("measure").addEventListener("change", chart);
at("beside").addEventListener("change", () => showBeside().catch(tell));
at("ask").addEventListener("submit", ask);
at("sql").addEventListener("input", hints);
at("sql").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) return ask(event);
  if (event.key !== "Tab" || event.shiftKey) return;
  const [word, first] = hints();
  if (first) { event.preventDefault(); complete(word, first); }
});
window.addEventListener("resize", chart);
look();
