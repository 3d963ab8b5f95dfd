// The page's own script: tabs, tables, charts, the comparison of two systems, and the viewer of samples. Tables are DataTables',
// charts are Observable Plot's. Text from documents and models is never markup.
const { default: DataTable } = window.tables;
const $ = (selector, root = document) => root.querySelector(selector), $$ = (selector, root = document) => [...root.querySelectorAll(selector)];
const make = (tag, attributes, ...children) => {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name === "on") for (const [event, act] of Object.entries(value)) element.addEventListener(event, act);
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children.flat(3)) if (child !== null && child !== undefined) element.append(child);
  return element;
};
const notice = (text) => { const box = $("#notice"); box.hidden = !text; box.textContent = text || ""; };
const content = JSON.parse($("#content").textContent);
const escaped = (text) => String(text ?? "").replace(/[&<>"']/g, (letter) => `&#${letter.charCodeAt(0)};`);
const choice = (name, options, chosen, act) => make("label", {}, name, make("select", { on: { change: (event) => act(event.target.value) } }, options.map(([value, text]) => make("option", { value, selected: value === chosen }, text.length > 60 ? `${text.slice(0, 59)}…` : text))));

// --- theme ---------------------------------------------------------------------------------------------------------
const root = document.documentElement;
const kept = (value) => { try { if (value) localStorage.setItem("summhay-theme", value); return localStorage.getItem("summhay-theme"); } catch { return null; } };
const themed = (dark) => { root.dataset.theme = dark ? "dark" : "light"; root.classList.toggle("dark", dark); };
themed(kept() ? kept() === "dark" : matchMedia("(prefers-color-scheme: dark)").matches);
$("#theme").addEventListener("click", () => { themed(root.dataset.theme !== "dark"); kept(root.dataset.theme); });

// --- files: copy and download ----------------------------------------------------------------------------------------
const download = (name, type, text) => { const a = make("a", { href: URL.createObjectURL(new Blob([text], { type })), download: name }); a.click(); setTimeout(() => URL.revokeObjectURL(a.href), 1000); };
const copied = async (text) => { try { await navigator.clipboard.writeText(text); notice("Copied."); setTimeout(() => notice(""), 1500); } catch { download("table.txt", "text/plain", text); } };
const FORMATS = {
  Markdown: ([heads, ...rows]) => { const cell = (text) => text.replace(/[\\`*_|<>[\]]/g, "\\$&").replace(/\s+/g, " "); return [heads, heads.map(() => "---"), ...rows].map((row, place) => `| ${row.map((text) => (place === 1 ? text : cell(text))).join(" | ")} |`).join("\n"); },
  LaTeX: ([heads, ...rows]) => { const cell = (text) => text.replace(/[\\&%$#_{}~^]/g, (letter) => ({ "\\": "\\textbackslash{}", "~": "\\textasciitilde{}", "^": "\\textasciicircum{}" })[letter] || `\\${letter}`); const line = (row) => `${row.map(cell).join(" & ")} \\\\`;
    return [`\\begin{tabular}{${heads.map(() => "l").join("")}}`, "\\toprule", line(heads), "\\midrule", ...rows.map(line), "\\bottomrule", "\\end{tabular}"].join("\n"); },
  // Put an apostrophe before a cell that a spreadsheet would take for a formula.
  CSV: (rows) => rows.map((row) => row.map((text) => `"${(/^[=+@\t\r]|^-(?![\d.])/.test(text) ? `'${text}` : text).replace(/"/g, '""')}"`).join(",")).join("\n"),
};

// --- tables ------------------------------------------------------------------------------------------------------------
// columns: {name, text(row), value(row), node(row), figure, hidden}; a column shows a node or text.
const grid = (box, name, columns, rows, options = {}) => {
  const table = make("table", { class: "compact hover", "aria-label": name }, make("thead", {}, make("tr", {}, columns.map((one) => make("th", { scope: "col" }, one.name)))));
  box.append(table);
  const many = rows.length > 10, texts = () => [shown.columns(":visible").indexes().toArray().map((place) => columns[place].name), ...shown.rows({ search: "applied" }).data().toArray().map((row) => shown.columns(":visible").indexes().toArray().map((place) => String(columns[place].text(row) ?? "")))];
  const buttons = [{ extend: "collection", text: "Copy or download", buttons: [...Object.entries(FORMATS).map(([format, written]) => ({ text: `Copy as ${format}`, action: () => copied(written(texts())) })), { text: "Download CSV", action: () => download(`${name}.csv`, "text/csv", FORMATS.CSV(texts())) }] },
    ...(columns.length > 3 ? [{ extend: "colvis", text: "Columns", columnText: (_, place) => escaped(columns[place].name) }] : [])];
  const shown = new DataTable(table, {
    data: rows, autoWidth: false, deferRender: true, pageLength: options.length || 15, lengthChange: false, paging: rows.length > (options.length || 15), ordering: true, order: [], colReorder: false, keys: false, select: false,
    layout: { topStart: { buttons }, topEnd: many ? { search: { placeholder: "Search" } } : null, bottomStart: many ? "info" : null, bottomEnd: many ? { paging: { firstLast: false } } : null },
    columns: columns.map((one) => ({ data: null, visible: !one.hidden, className: [one.figure ? "figure" : "", one.cls || ""].join(" ").trim(), type: one.figure ? "num" : "string", orderSequence: one.least ? ["asc", "desc"] : one.figure ? ["desc", "asc"] : ["asc", "desc"],
      render: (row, kind) => (kind === "sort" || kind === "type" ? (one.value ? one.value(row) : one.text(row)) ?? (one.figure ? -Infinity : "") : kind === "display" ? (one.node ? make("span", {}, one.node(row)) : escaped(one.text(row))) : String(one.text(row) ?? "")) })),
    ...options.more,
  });
  // Print all rows of a table.
  addEventListener("beforeprint", () => { if (table.offsetParent) shown.page.len(-1).draw(); });
  addEventListener("afterprint", () => shown.page.len(options.length || 15).draw());
  return shown;
};

// --- charts ------------------------------------------------------------------------------------------------------------
const COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8A7A00", "#7F7F7F"];
const short = (text, most) => { const whole = String(text); return whole.length <= most ? whole : `${whole.slice(0, Math.floor(most / 2))}…${whole.slice(1 - Math.ceil(most / 2))}`; };
const file = (figure, name, picture) => {
  const svg = $$("svg", figure).sort((a, b) => b.clientWidth - a.clientWidth)[0].cloneNode(true);
  svg.setAttribute("xmlns", "http://www.w3.org/2000/svg"); svg.setAttribute("color", "#000"); svg.setAttribute("font-family", "sans-serif"); svg.style.background = "#fff";
  const text = new XMLSerializer().serializeToString(svg);
  if (!picture) { download(`${name}.svg`, "image/svg+xml", text); return; }
  const image = new Image(), [width, height] = ["width", "height"].map((side) => Number(svg.getAttribute(side)));
  image.onload = () => { const canvas = make("canvas", { width: 2 * width, height: 2 * height }); canvas.getContext("2d").drawImage(image, 0, 0, 2 * width, 2 * height); make("a", { href: canvas.toDataURL(), download: `${name}.png` }).click(); };
  image.src = `data:image/svg+xml,${encodeURIComponent(text)}`;
};
const MOST_NAMES = 40;
// Scaled even if each name is a colour for Plot, as `none` and `red` are.
const coloured = { value: "s", scale: "color" }, shaped = { value: "s", scale: "symbol" };
const MARKS = {
  forest: (points, { tip }) => [Plot.ruleX([0]), Plot.ruleY(points, { y: "y", x1: "low", x2: "high", stroke: "c", strokeWidth: 2 }), Plot.dot(points, { x: "x", y: "y", fill: "c", r: 4, ...tip })],
  bar: (points, { tip, series }) => [Plot.ruleX([0]), ...(series > 1 ? [Plot.dot(points, { x: "y", y: "x", stroke: coloured, symbol: shaped, ...tip })] : [Plot.barX(points, { x: "y", y: "x", fill: COLOURS[0], ...tip }), Plot.ruleY(points.filter((one) => one.low !== null && one.high !== null), { y: "x", x1: "low", x2: "high" })])],
  line: (points, { tip }) => [Plot.ruleY([0]), Plot.line(points, { x: "x", y: "y", stroke: coloured }), Plot.ruleX(points.filter((one) => one.low !== null && one.high !== null), { x: "x", y1: "low", y2: "high", stroke: coloured }), Plot.dot(points, { x: "x", y: "y", stroke: coloured, symbol: shaped, ...tip })],
  scatter: (points, { tip, front }) => {
    const line = []; // systems that no other beats in both
    for (const one of [...points].sort((a, b) => a.x - b.x || b.y - a.y)) if (!one.lacks && (!line.length || one.y > line.at(-1).y)) line.push(one);
    return [...(front ? [Plot.line(line, { x: "x", y: "y", curve: "step-after", strokeOpacity: 0.6 })] : []), Plot.dot(points, { x: "x", y: "y", stroke: coloured, symbol: shaped, r: 4.5, ...tip })];
  },
  matrix: (points, { tip }) => [Plot.cell(points, { x: "x", y: "y", fill: coloured, ...tip }), Plot.dot(points.filter((one) => one.sure), { x: "x", y: "y", r: 2, fill: "black" })],
  dumbbell: (points, { tip }) => [Plot.ruleY(points, { y: "y", x1: "a", x2: "b", strokeWidth: 2, strokeOpacity: 0.4 }), Plot.dot(points.flatMap((one) => [{ ...one, x: one.a, s: one.a_name }, { ...one, x: one.b, s: one.b_name }]), { x: "x", y: "y", fill: coloured, r: 5, ...tip })],
};
const chart = (box, name, one, act) => {
  const places = ["forest", "dumbbell", "matrix"].includes(one.kind) ? "y" : "x", named = one.kind === "bar" || places === "y" ? [...new Set(one.points.map((point) => String(point[places])))].slice(0, MOST_NAMES) : null;
  const points = one.points.filter((point) => !named || named.includes(String(point[places]))).map((point) => ({ ...point, c: point.low > 0 || point.high < 0 ? COLOURS[1] : COLOURS[0], interval: point.low === null || point.low === undefined ? "none" : `${Number(point.low).toFixed(1)} to ${Number(point.high).toFixed(1)}` }));
  const down = one.kind === "bar" || places === "y", labels = named ? named.map((text) => text) : [], series = new Set(points.map((point) => point.s)).size, numeric = points.every((point) => typeof point.x === "number");
  const figure = make("figure", { role: "group", "aria-label": `Chart: ${name}` }, make("figcaption", {}, one.title || "")), plotted = make("div"), narrow = Math.min(760, Math.max(280, box.clientWidth || 600));
  const most = Math.round(narrow / 18), tip = { tip: { fill: "var(--paper)" }, title: (point) => [point.label, ...(one.kind === "dumbbell" ? [`${point.s}: ${point.x.toFixed(1)}`] : [`${one.x_title}: ${point.x}`, ...(point.y === point.label ? [] : [`${one.y_title}: ${point.y}`]), ...(one.kind === "matrix" ? [`${one.s_title}: ${point.s}`] : [])]), ...(point.low === undefined ? [] : [`95 %: ${point.interval}`]), ...(point.n ? [`n ${point.n}`] : [])].join("\n") };
  const axis = { domain: named, label: null, tickFormat: (text) => short(text, most) };
  const options = { width: narrow, marginLeft: down ? Math.min(narrow * 0.45, 14 + 6.6 * Math.min(most, Math.max(0, ...labels.map((text) => text.length)))) : 50, style: { background: "transparent", fontSize: "11px" }, marginBottom: 40,
    x: { grid: true, label: one.kind === "bar" ? one.y_title : one.x_title, nice: numeric && !down }, y: { grid: !down, label: one.y_title }, symbol: { legend: false }, marks: MARKS[one.kind](points, { tip, series, front: one.front }) };
  if (down) { options.y = axis; options.height = (one.kind === "matrix" ? 18 : 20) * named.length + 75; }
  if (one.kind === "matrix") { const across = new Set(points.map((point) => String(point.x))); options.x = { domain: [...named.filter((one) => across.has(one)), ...[...across].filter((one) => !named.includes(one))], label: null, tickRotate: -60, tickFormat: (text) => short(text, most) }; options.marginBottom = 120; options.height += 70; options.color = { scheme: "PuOr", pivot: 0, type: "diverging", reverse: true, legend: true, label: one.s_title }; }
  else if (one.kind === "forest") options.color = { type: "identity" };
  else options.color = { range: COLOURS, domain: [...new Set(points.map((point) => point.s))], legend: series > 1 && series <= 16 };
  if (one.kind === "line" && !numeric) options.x.type = "point";
  const made = Plot.plot({ ...options, ...(one.options || {}) });
  if (act) made.addEventListener("click", () => made.value && act(made.value));
  plotted.append(made);
  const rest = one.n > points.length ? make("p", { class: "small" }, `${points.length} of ${one.n.toLocaleString("en")} shown; the table has all`) : null;
  for (const part of $$("g[aria-label]", made)) part.removeAttribute("aria-label");
  for (const svg of $$("svg", made)) { svg.setAttribute("role", "img"); svg.setAttribute("aria-label", `Chart: ${name}`); }
  figure.append(plotted, ...(rest ? [rest] : []), make("p", { class: "files" }, ["SVG", "PNG"].map((kind) => make("button", { type: "button", "aria-label": `Download the chart as ${kind}`, on: { click: () => file(made, name.replace(/\W+/g, "_"), kind === "PNG") } }, kind))));
  box.append(figure);
};

// --- the leaderboard -----------------------------------------------------------------------------------------------------
const percent = (value, scale) => (value === null || value === undefined ? "-" : scale ? (100 * value).toFixed(1).replace(/^-(?=0\.0$)/, "") : Math.abs(value) >= 1000 ? Math.round(value).toLocaleString("en") : String(Number(value.toPrecision(4))));
const money = (value) => (value === null || value === undefined ? "-" : value >= 0.1 || !value ? `$${value.toFixed(2)}` : `$${Number(value.toPrecision(2))}`);
const GROUPS = { ceiling: "Upper bounds: they see the gold documents", incomplete: "Incomplete: more than a tenth is missing, so they have no rank" };
const VERDICT_WORDS = { best: "best", tied: "tied", below: "below", undecided: "undecided", incomplete: "incomplete", ceiling: "upper bound" };
const drawBoard = (box, board) => {
  const { figure, rows, names } = board, scale = board.percent[figure], chosen = {};
  const differing = names.filter((name) => name !== "run" && new Set(rows.map((row) => row[name])).size > 1); // one value in all rows tells nothing
  let way = "raw", table = null;
  const value = (row, end = "") => row[(way === "raw" ? figure : way) + end], most = Math.max(0.01, ...rows.flatMap((row) => [figure, ...board.ways].flatMap((name) => [row[name], row[`${name}_high`]])).filter((one) => typeof one === "number"));
  const interval = (low, high, scale) => (low === null || low === undefined ? "" : ` [${percent(low, scale)}, ${percent(high, scale)}]`);
  const bar = (row) => {
    const low = value(row, "_low"), high = value(row, "_high"), at = (one) => `${Math.min(100, Math.max(0, (100 * one) / most))}%`, line = make("span", { class: "range", "aria-hidden": "true" });
    if (typeof low === "number") { const ends = make("span", { class: "ends" }); ends.style.left = at(low); ends.style.width = at(high - low); line.append(ends); }
    if (typeof value(row) === "number") { const dot = make("span", { class: "dot" }); dot.style.left = at(value(row)); line.append(dot); }
    return [make("span", { class: "number" }, percent(value(row), scale) + (row.n < row.n_expected && typeof value(row) === "number" ? "*" : "")), line, make("small", {}, typeof low === "number" ? interval(low, high, scale).trim() : typeof value(row) === "number" ? "too few" : "")];
  };
  const chips = (row) => { const text = differing.some((name) => row[name]) ? [...new Set(differing.map((name) => row[name]).filter(Boolean))] : [row.system]; const chip = (part) => make("span", { class: "chip" }, part);
    return [row.link ? make("a", { href: row.link, class: "chips", title: `Samples of ${row.system}`, "aria-label": `Samples of ${row.system}` }, text.map(chip)) : make("span", { class: "chips" }, text.map(chip))]; };
  const columns = [
    { name: "rank", figure: true, least: true, text: (row) => row.rank ?? "", value: (row) => row.rank ?? 1e9 },
    { name: "system", cls: "system", text: (row) => row.system, node: chips },
    ...(names.includes("run") ? [{ name: "run", text: (row) => row.run }] : []),
    { name: `${figure}${scale ? " (%)" : ""}`, cls: "bar-cell", figure: true, text: (row) => percent(value(row), scale) + interval(value(row, "_low"), value(row, "_high"), scale), value: (row) => value(row), node: bar },
    { name: `from best${scale ? " (points)" : ""}`, cls: "wide", figure: true, text: (row) => (row["from best"] === null ? "" : percent(row["from best"], scale) + interval(row["from best_low"], row["from best_high"], scale)), value: (row) => row["from best"], node: (row) => (row["from best"] === null ? [""] : [percent(row["from best"], scale), make("small", {}, interval(row["from best_low"], row["from best_high"], scale).trim())]) },
    ...board.others.map((name) => ({ name: `${name}${board.percent[name] ? " (%)" : ""}`, figure: true, cls: "wide", text: (row) => percent(row[name], board.percent[name]), value: (row) => row[name] })),
    { name: "answered (%)", figure: true, cls: "wide", text: (row) => percent(row.answered, true), value: (row) => row.answered, node: (row) => [make("span", { class: row.answered < 0.95 ? "bad" : "" }, percent(row.answered, true))] },
    ...(board.dollars ? [{ name: "$ a query", figure: true, cls: "wide", text: (row) => money(row["dollars a query"]), value: (row) => row["dollars a query"] }] : []),
    { name: "verdict", cls: "verdict-cell", text: (row) => VERDICT_WORDS[row.verdict], node: (row) => [make("span", { class: `chip verdict-${row.verdict}` }, VERDICT_WORDS[row.verdict])] },
    { name: "n", figure: true, hidden: true, text: (row) => `${row.n}/${row.n_expected}`, value: (row) => row.n },
  ];
  const place = (row) => (row.verdict === "ceiling" ? 2 : row.verdict === "incomplete" ? 1 : 0);
  columns.push({ name: "group", hidden: true, figure: true, least: true, text: (row) => place(row), value: place });
  const filter = () => table.search.fixed("facets", (_, row) => Object.entries(chosen).every(([name, wanted]) => !wanted || row[name] === wanted)).draw();
  const bars = make("div", { class: "bar" }, names.map((name) => { const words = [...new Set(rows.map((row) => row[name]))].filter(Boolean).sort(); return words.length < 2 ? null : choice(name, [["", "any"], ...words.map((word) => [word, word])], "", (wanted) => { chosen[name] = wanted; filter(); }); }),
    board.ways.length ? choice("figures", [["raw", "raw"], ...board.ways.map((one) => [one, one === "labels" ? "by people's labels" : "corrected for the judge's bias"])], way, (wanted) => { way = wanted; table.rows().invalidate().draw(); }) : null);
  box.append(make("h2", {}, `Leaderboard by ${figure}${board.judge ? `, judged by ${board.judge}` : ""}`), bars);
  table = grid(box, "Leaderboard", columns, rows, { length: 10, more: { orderFixed: { pre: [columns.length - 1, "asc"] }, order: [[0, "asc"]], rowGroup: { dataSrc: (row) => GROUPS[row.verdict] || "", emptyDataGroup: null, startRender: (_, group) => group || null } } });
  box.append(make("p", { class: "small" }, board.text));
};

// --- sections: a table and a chart, made when they are opened -----------------------------------------------------------
const fill = (section) => {
  const { table, chart: drawn } = content.sections[section.id] || {}, box = $(".content", section);
  if (!box || box.children.length) return;
  const name = $("h2", section).textContent;
  if (drawn) chart(box, name, drawn);
  if (table) {
    const rows = table.rows.map((texts, place) => ({ texts, values: table.values[place], link: table.links[place] })), last = table.heads.length - 1;
    grid(box, name, table.heads.map((head, place) => ({ name: head, figure: rows.some((row) => typeof row.values[place] === "number"), text: (row) => row.texts[place], value: (row) => row.values[place] ?? row.texts[place], cls: rows.some((row) => row.texts[place].length > 80) ? "text-cell long" : "text-cell", least: /^rank\b/i.test(head),
      node: place === last && rows.some((row) => row.link) ? (row) => [row.link ? make("a", { href: row.link, "aria-label": `${row.texts[place]} samples of ${row.texts[0]}` }, row.texts[place]) : row.texts[place]] : undefined })), rows);
    if (table.cut) box.append(make("p", { class: "small" }, `The first ${rows.length.toLocaleString("en")} of ${table.cut.toLocaleString("en")} rows; --format csv writes all.`));
  }
};
for (const box of $$("section details")) box.addEventListener("toggle", () => { if (box.open && !box.closest(".tab").hidden) fill(box.closest("section")); });

// --- data files, loaded by script tags, because a page on a disk may not fetch -------------------------------------
const waiting = new Map(), loaded = new Map();
window.summhay = (name, content) => { loaded.set(name, Promise.resolve(content)); waiting.get(name)?.(content); };
const load = (name, again) => {
  if (loaded.has(name) && !again) return loaded.get(name);
  const block = again ? null : $(`script[data-file="${name}"]`);
  const promise = block ? Promise.resolve(JSON.parse(block.textContent)) : new Promise((resolve, reject) => {
    waiting.set(name, resolve);
    const script = make("script", { src: `data/${name}.js${again ? `?${Date.now()}` : ""}`, on: {
      error: () => { loaded.delete(name); reject(new Error(name)); }, load: () => script.remove() } });
    document.head.append(script);
  });
  if (!again) loaded.set(name, promise);
  if (loaded.size > 60) for (const key of [...loaded.keys()].filter((one) => !/^(manifest|index)/.test(one)).slice(0, 20)) loaded.delete(key);
  return promise;
};
const alone = "The samples are in the folder data/, which is missing next to this page: copy the whole folder of the report, or open it where it was made.";

let manifest = null, index = null;
const ready = async () => {
  if (index) return;
  manifest = await load("manifest");
  const parts = await Promise.all(manifest.index.map((_, place) => load(`index-${place}`)));
  const n = manifest.index.reduce((sum, rows) => sum + rows, 0);
  index = { n, ids: [].concat(...parts.map((part) => part.ids)), columns: {} };
  for (const facet of manifest.facets) index.columns[facet.name] = [].concat(...parts.map((part) => part.columns[facet.name]));
  for (let place = 0; place < manifest.index.length; place++) loaded.delete(`index-${place}`);
};
const below = (firsts, id) => { let low = 0, high = firsts.length - 1; while (low < high) { const middle = (low + high + 1) >> 1; if (firsts[middle] <= id) low = middle; else high = middle - 1; } return low; };
const fromShelf = async (shelf, id) => {
  const firsts = manifest.shelves[shelf];
  if (!firsts || !firsts.length) return null;
  const chunk = await load(`${shelf}-${below(firsts, id)}`);
  return Object.hasOwn(chunk, id) ? chunk[id] : null;
};
const sampleAt = async (row) => {
  const chunk = below(manifest.samples, row);
  return (await load(`samples-${chunk}`))[row - manifest.samples[chunk]];
};

// --- reading the address --------------------------------------------------------------------------------------------
const address = () => {
  const [path, query = ""] = location.hash.slice(1).split("?");
  return { path: path.split("/").map(decodeURIComponent), query: new URLSearchParams(query) };
};
const filtersOf = (query) => { const found = new URLSearchParams(query); for (const name of ["insight", "from"]) found.delete(name); return found; };
const link = (path, query) => { const text = query ? query.toString() : ""; return `#${path}${text ? `?${text}` : ""}`; };

const VERDICTS = ["full", "partial", "none"];
const textOf = (facet, code) => (code === null || code === undefined ? "" : manifest.dictionaries[facet.name][code]);
const shown = (facet, value) => {
  if (value === null || value === undefined) return "";
  if (facet.kind === "text") return textOf(facet, value);
  if (facet.kind === "flag") return value ? "yes" : "";
  return facet.unit === "%" ? (100 * value).toFixed(1) : facet.unit === "$" ? value.toFixed(6) : String(value);
};
const chosen = (query) => {
  const tests = [];
  for (const facet of manifest.facets) {
    const wanted = query.get(facet.name), column = index.columns[facet.name];
    if (wanted === null || wanted === "") continue;
    if (facet.kind === "text") { const code = manifest.dictionaries[facet.name].indexOf(wanted); tests.push((row) => column[row] === code); }
    else if (facet.kind === "flag") tests.push((row) => Boolean(column[row]) === (wanted === "yes"));
    else tests.push((row) => String(column[row]) === wanted);
  }
  if (query.get("text")) { const rows = spoken.get(query.get("text").toLowerCase()); tests.push((row) => rows.has(row)); }
  const verdict = query.get("verdict");
  if (VERDICTS.includes(verdict) && index.columns[verdict]) tests.push((row) => index.columns[verdict][row] > 0);
  const sought = (query.get("search") || "").toLowerCase();
  if (sought) {
    const hits = manifest.facets.filter((facet) => facet.kind === "text").map((facet) => {
      const codes = new Set();
      manifest.dictionaries[facet.name].forEach((text, code) => { if (text.toLowerCase().includes(sought)) codes.add(code); });
      return [index.columns[facet.name], codes];
    });
    tests.push((row) => index.ids[row].startsWith(sought) || hits.some(([column, codes]) => codes.has(column[row])));
  }
  const rows = [];
  for (let row = 0; row < index.n; row++) if (tests.every((test) => test(row))) rows.push(row);
  const by = manifest.facets.find((facet) => facet.name === (query.get("sort") || "").replace(/^-/, ""));
  if (by) {
    const column = index.columns[by.name], down = query.get("sort").startsWith("-");
    let rank = null;
    if (by.kind === "text") { const words = manifest.dictionaries[by.name]; rank = new Map(words.map((_, code) => code).sort((a, b) => words[a].localeCompare(words[b])).map((code, place) => [code, place])); }
    const value = (row) => (column[row] === null ? -Infinity : rank ? rank.get(column[row]) : Number(column[row]));
    rows.sort((a, b) => (down ? value(b) - value(a) : value(a) - value(b)) || a - b);
  }
  return rows;
};

// Search the words of the samples: every chunk is read once.
const spoken = new Map();
const heard = async (query) => {
  const sought = (query.get("text") || "").toLowerCase();
  if (!sought || spoken.has(sought)) return;
  const rows = new Set(), said = (value) => (typeof value === "string" ? value.toLowerCase().includes(sought) : value !== null && typeof value === "object" && Object.values(value).some(said));
  for (let chunk = 0; chunk < manifest.samples.length; chunk++) {
    if (chunk % 20 === 19) notice(`Looked through ${chunk + 1} of ${manifest.samples.length} parts of the samples …`);
    (await load(`samples-${chunk}`)).forEach((one, place) => { if (one.parts.some((part) => said(part))) rows.add(manifest.samples[chunk] + place); });
  }
  notice("");
  spoken.set(sought, rows);
};

// --- the list of samples --------------------------------------------------------------------------------------------
const viewer = $("#viewer");
let tab = "leaderboard";
const show = (which, within) => {
  tab = which;
  for (const box of $$(".tab")) box.hidden = box.id !== `tab-${which}`;
  for (const link of $$("nav [data-tab]")) link.toggleAttribute("aria-current", link.dataset.tab === which);
  for (const section of $$(`#tab-${which} section`)) if ($("details", section).open) fill(section);
  if (!within) scrollTo(0, 0);
};
const list = async (query) => {
  await ready();
  await heard(query);
  const rows = chosen(query);
  const set = (name, value) => { const next = new URLSearchParams(query); if (value) next.set(name, value); else next.delete(name); location.hash = link("samples", next); };
  const controls = manifest.facets.map((facet) => {
    if (facet.kind === "flag") return make("label", { class: "flag" }, make("input", { type: "checkbox", checked: query.get(facet.name) === "yes", on: { change: (event) => set(facet.name, event.target.checked ? "yes" : "") } }), facet.name);
    const words = facet.kind === "text" ? manifest.dictionaries[facet.name] : [];
    return !words.length || words.length > 400 || (words.length < 2 && !query.get(facet.name)) ? null : choice(facet.name, [["", "any"], ...[...words].sort((a, b) => a.localeCompare(b)).map((word) => [word, word])], query.get(facet.name) || "", (value) => set(facet.name, value));
  });
  if (VERDICTS.every((name) => index.columns[name])) controls.push(choice("verdict", [["", "any"], ...VERDICTS.map((name) => [name, `some ${name}`])], query.get("verdict") || "", (value) => set("verdict", value)));
  for (const [name, label, placeholder] of [["search", "search", "system, query, id"], ["text", "in texts", "words of a summary"]]) controls.push(make("label", {}, label, make("input", { type: "search", value: query.get(name) || "", placeholder, on: { change: (event) => set(name, event.target.value) } })));
  const sorted = (query.get("sort") || "").replace(/^-/, ""), box = make("div", { id: "grid" }), at = manifest.facets.findIndex((facet) => facet.name === sorted), open = (row) => link(`sample/${encodeURIComponent(index.ids[row])}`, query);
  viewer.replaceChildren(make("h2", { tabindex: "-1", id: "viewer-h" }, `Samples: ${rows.length.toLocaleString("en")} of ${index.n.toLocaleString("en")}`), make("div", { class: "bar", role: "search" }, controls), box);
  show("samples");
  const head = make("thead", {}, make("tr", {}, manifest.facets.map((facet) => make("th", { scope: "col" }, facet.name + (facet.unit ? ` (${facet.unit})` : ""))))), table = make("table", { class: "compact hover", "aria-label": "Samples" }, head);
  box.append(table);
  // Draw only one page of rows at a time: the index may have a million.
  new DataTable(table, {
    serverSide: true, searching: false, lengthChange: false, pageLength: 25, autoWidth: false, keys: false, order: at < 0 ? [] : [[at, (query.get("sort") || "").startsWith("-") ? "desc" : "asc"]],
    ajax: (asked, answer) => answer({ draw: asked.draw, recordsTotal: rows.length, recordsFiltered: rows.length, data: rows.slice(asked.start, asked.start + asked.length) }),
    columns: manifest.facets.map((facet) => ({ data: null, name: facet.name, className: facet.kind === "number" ? "figure" : "", render: (row) => escaped(shown(facet, index.columns[facet.name][row])),
      createdCell: (cell, _, row) => { const text = shown(facet, index.columns[facet.name][row]); cell.replaceChildren(facet === manifest.facets[0] ? make("a", { href: open(row) }, text || index.ids[row].slice(0, 12)) : text); } })),
    createdRow: (line, row) => line.addEventListener("click", (event) => { if (!event.target.closest("a")) location.hash = open(row); }),
    layout: { topStart: null, topEnd: null, bottomStart: "info", bottomEnd: { paging: { firstLast: false } } },
  }).on("order", (_, settings, order) => { const [first] = order, name = first && manifest.facets[first.col]?.name; if (name && first.dir) { const wanted = (first.dir === "desc" ? "-" : "") + name; if (wanted !== query.get("sort")) set("sort", wanted); } });
};

// --- a sample ---------------------------------------------------------------------------------------------------------
const words = (text) => new Set(text.toLowerCase().match(/[\p{L}\p{N}]{3,}/gu) || []);
const passage = (text, insight) => {
  // Find the sentences that share most words with the insight. They show where to look, but prove nothing.
  const wanted = words(insight), pieces = text.match(/[^.!?\n]+[.!?]*[\s]*/g) || [text];
  let best = -1, most = 1;
  pieces.slice(0, 20000).forEach((piece, place) => { let shared = 0; for (const word of words(piece)) if (wanted.has(word)) shared++; if (shared > most) { most = shared; best = place; } });
  return best < 0 ? null : [pieces.slice(0, best).join("").length, pieces[best].length];
};
const number = (value) => String(value).padStart(7, "0");
const documentLink = (shelf, value, context, cls, insight) => { const query = filtersOf(context.query); query.set("from", context.id); if (insight) query.set("insight", insight);
  return make("a", { href: link(`doc/${shelf}/${value}`, query), class: cls }, `[${value}]`); };
const cited = (text, shelf, context, insight) => {
  const parts = []; let end = 0;
  for (const bracket of text.matchAll(/\[[^[\]]*\d[^[\]]*\]/g)) {
    parts.push(text.slice(end, bracket.index));
    let inner = 0;
    for (const digits of bracket[0].matchAll(/\d{1,7}/g)) { parts.push(bracket[0].slice(inner, digits.index)); const a = documentLink(shelf, Number(digits[0]), context, "", insight); a.textContent = digits[0]; parts.push(a); inner = digits.index + digits[0].length; }
    parts.push(bracket[0].slice(inner)); end = bracket.index + bracket[0].length;
  }
  return [...parts, text.slice(end)];
};
const facts = (pairs) => make("dl", {}, pairs.map(([name, value]) => [make("dt", {}, name), make("dd", {}, String(value))]));
const later = (title, fill) => make("details", { on: { toggle: async (event) => { const box = event.target; if (box.open && box.children.length === 1) { box.append(make("div", {}, "…")); try { const content = await fill(); box.lastChild.replaceWith(make("div", {}, content)); } catch { box.lastChild.replaceWith(make("p", {}, alone)); } } } } }, make("summary", {}, title));
const pre = (text) => make("pre", { tabindex: "0" }, text);
const answer = (title, key, prompt) => later(title, async () => {
  const found = await fromShelf("answers", key);
  const asked = prompt ? await prompt() : null;
  if (!found) return [make("p", {}, "The answer is not among the run's."), asked && pre(asked)];
  const { text, ...rest } = found;
  const details = Object.entries(rest).map(([name, value]) => [name === "usd_micros" ? "dollars" : name, name === "usd_micros" ? (value / 1e6).toFixed(6) : Array.isArray(value) ? value.join(" · ") : value]);
  return [facts([["key", key], ...details]), asked && make("h3", {}, "Prompt"), asked && pre(asked), make("h3", {}, "Raw answer"), pre(text || "")];
});
const PARTS = {
  text: (part) => [make("p", { class: "document" }, part.text)],
  facts: (part) => [facts(part.facts)],
  rows: (part) => [make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": part.title }, make("table", {}, make("thead", {}, make("tr", {}, part.columns.map((name) => make("th", { scope: "col" }, name)))),
    make("tbody", {}, part.rows.map((row) => make("tr", {}, row.map((value) => make("td", { class: "text-cell" }, value === null ? "" : Array.isArray(value) ? value.join(", ") : String(value))))))))],
  bullets: (part, context) => {
    const by = new Map();
    for (const one of context.verdicts) if (one.bullet && !by.has(one.bullet)) by.set(one.bullet, one.insight);
    return [make("ol", { class: "bullets" }, part.bullets.map((text, place) => make("li", { id: `bullet-${place + 1}`, class: by.has(place + 1) ? "matched" : "" }, cited(text, part.documents, context, by.get(place + 1)))))];
  },
  prompt: (part) => [later("What was asked", async () => [pre(part.text)])],
  answer: (part) => [answer(part.title, part.key)],
  verdicts: async (part, context) => {
    const groups = new Map();
    for (const one of part.verdicts) { if (!groups.has(one.insight)) groups.set(one.insight, []); groups.get(one.insight).push(one); }
    const bullets = (context.parts.find((one) => one.kind === "bullets") || { bullets: [] }).bullets;
    const boxes = [];
    for (const [id, found] of groups) {
      const insight = (await fromShelf("insights", `${part.insights}/${id}`)) || { text: id, gold: [] };
      const apart = new Set(found.map((one) => one.coverage)).size > 1;
      boxes.push(make("article", { class: "verdict" }, make("p", {}, make("strong", {}, insight.text), apart ? make("span", { class: "chip bad" }, "judges disagree") : null), found.map((one) => {
        const label = { 1: "full", 0.5: "partial", 0: "none" }[one.coverage];
        const gold = new Set(insight.gold), right = one.cited.filter((value) => gold.has(value)), wrong = one.cited.filter((value) => !gold.has(value)), missed = insight.gold.filter((value) => !one.cited.includes(value));
        const links = (values, cls) => values.map((value) => documentLink(part.insights, value, context, cls, id));
        const template = manifest.prompts[one.judge];
        const prompt = template ? async () => {
          const bulletsJson = `{"bullets": [${bullets.map((text, place) => `{"bullet_id": ${place + 1}, "text": ${JSON.stringify(text)}}`).join(", ")}]}`;
          const texts = await Promise.all([...groups.keys()].map(async (other) => ((await fromShelf("insights", `${part.insights}/${other}`)) || { text: other }).text));
          const all = `{"insights": [${texts.map((text, place) => `{"insight_id": ${place + 1}, "text": ${JSON.stringify(text)}}`).join(", ")}]}`;
          return template.replace(/\[\[(BULLETS|INSIGHT|INSIGHTS)\]\]/g, (_, name) => ({ BULLETS: bulletsJson, INSIGHT: insight.text, INSIGHTS: all })[name]);
        } : null;
        return make("div", {}, make("p", {}, make("span", { class: `chip ${label || "bad"}` }, label ? `${label === "none" ? "no" : label} coverage` : `not scored: ${one.said}`), " ", make("bdi", {}, one.judge),
          one.value !== undefined ? `, expects ${one.value}` : "", one.bullet ? [", ", make("a", { href: "#", on: { click: (event) => { event.preventDefault(); for (const lit of viewer.querySelectorAll("li.lit")) lit.classList.remove("lit"); const item = $(`#bullet-${one.bullet}`); item.classList.add("lit"); item.setAttribute("tabindex", "-1"); item.focus(); } } }, `bullet ${one.bullet}`)] : "",
          one.joint !== undefined ? ` · joint ${(100 * one.joint).toFixed(1)}` : "", one.f1 !== undefined ? ` · citation ${(100 * one.f1).toFixed(1)} (precision ${(100 * one.precision).toFixed(0)}, recall ${(100 * one.recall).toFixed(0)})` : ""),
          one.bullet ? make("p", { class: "docs" }, right.length ? ["Cited and right: ", links(right, "right")] : "", wrong.length ? [" Cited, without the insight: ", links(wrong, "wrong")] : "", missed.length ? [" Not cited: ", links(missed, "missed")] : "") : make("p", { class: "docs" }, "Documents with it: ", links(insight.gold, "missed")),
          one.key ? answer(`What ${one.judge} was asked, and answered`, one.key, prompt) : prompt ? later(`What ${one.judge} is asked`, async () => [pre(await prompt())]) : null);
      })));
    }
    return boxes.length ? boxes : [make("p", {}, "Nothing is judged yet.")];
  },
  retrieval: async (part, context) => {
    const shown = part.context ? await fromShelf("contexts", part.context) : null;
    const links = (values, cls) => values.map((value) => documentLink(part.documents, value, context, cls));
    if (!shown?.numbers.length) return [make("p", { class: "docs" }, `Documents with the query's insights (${part.gold.length}): `, links(part.gold, "right")), make("p", {}, shown ? "No document was shown." : "The documents shown to the model are not recorded.")];
    const there = new Set(shown.numbers), gold = new Set(part.gold), missed = part.gold.filter((value) => !there.has(value));
    return [make("p", { class: "docs" }, `Shown, in this order (${shown.numbers.length}, ${shown.n_tokens.toLocaleString("en")} tokens): `, shown.numbers.map((value) => documentLink(part.documents, value, context, gold.has(value) ? "right" : "missed"))),
      make("p", { class: "docs" }, missed.length ? [`Missed by retrieval (${missed.length} of ${part.gold.length} with an insight): `, links(missed, "lost")] : "Retrieval missed nothing.")];
  },
};
const around = (id, query) => { const rows = chosen(query), place = rows.indexOf(index.ids.indexOf(id)); return { rows, place }; };
const sample = async (id, query) => {
  await ready();
  await heard(query);
  const row = index.ids.indexOf(id);
  if (row < 0) { show("samples", true); viewer.replaceChildren(make("p", {}, make("a", { href: "#samples" }, "← Samples")), make("h2", {}, "There is no such sample"), make("p", {}, id)); return; }
  const found = await sampleAt(row);
  if (found.id !== id) { show("samples", true); notice("The report has changed: reload the page."); return; }
  const filters = filtersOf(query), { rows, place } = around(id, filters);
  const context = { id, query: filters, parts: found.parts, verdicts: found.parts.filter((part) => part.kind === "verdicts").flatMap((part) => part.verdicts) };
  const parts = [];
  for (const part of found.parts) parts.push(part.title ? make("h3", {}, part.title) : null, await (PARTS[part.kind] || (() => []))(part, context));
  const step = (by, text) => { const other = place < 0 ? undefined : rows[place + by]; return other === undefined ? null : make("a", { class: "button", href: link(`sample/${encodeURIComponent(index.ids[other])}`, filters), "data-step": by }, text); };
  const figures = manifest.facets.filter((facet) => facet.kind !== "text" && facet.name !== "repeat").map((facet) => [facet.name, shown(facet, index.columns[facet.name][row])]).filter(([, text]) => text !== "");
  viewer.replaceChildren(make("p", { class: "bar" }, make("a", { class: "button", href: link("samples", filters), "data-up": true }, "← Samples"), step(-1, "Previous (k)"), step(1, "Next (j)"), make("a", { class: "button", href: `#sample/${encodeURIComponent(id)}` }, "Link to this sample")),
    make("div", { class: "sample" }, make("h2", { tabindex: "-1", id: "viewer-h" }, `Sample ${id.length > 40 ? id : id.slice(0, 12)}${place >= 0 ? `, ${(place + 1).toLocaleString("en")} of ${rows.length.toLocaleString("en")}` : ""}`), facts(figures), parts),
    make("p", { class: "keys" }, "j or →: next · k or ←: previous · Esc: back"));
  show("samples", true); $("#viewer-h").focus(); scrollTo(0, 0);
};
const documentView = async (shelf, value, query) => {
  await ready();
  const found = await fromShelf("documents", `${shelf}/${number(value)}`), insightId = query.get("insight"), from = query.get("from");
  const insight = insightId ? await fromShelf("insights", `${shelf}/${insightId}`) : null;
  const up = from ? link(`sample/${encodeURIComponent(from)}`, filtersOf(query)) : link("samples", filtersOf(query));
  const body = [];
  if (!found) body.push(make("p", {}, "The haystack has no such document."));
  else {
    const place = insight ? passage(found.text, insight.text) : null, holds = insightId && found.insights.includes(insightId);
    if (insight) body.push(make("p", {}, make("span", { class: `chip ${holds ? "full" : "none"}` }, holds ? "gold: it holds the insight" : "it does not hold the insight"), " ", insight.text));
    body.push(make("p", { class: "keys" }, make("bdi", {}, found.id), ` · holds ${found.insights.length} of the haystack's insights${place ? "; marked is the sentence that shares most words with the insight" : ""}`));
    body.push(make("div", { class: "document" }, place ? [found.text.slice(0, place[0]), make("mark", {}, found.text.substr(place[0], place[1])), found.text.slice(place[0] + place[1])] : found.text));
  }
  viewer.replaceChildren(make("p", { class: "bar" }, make("a", { class: "button", href: up, "data-up": true }, "← Back")), make("div", { class: "sample" }, make("h2", { tabindex: "-1", id: "viewer-h" }, `Document ${value}`), body), make("p", { class: "keys" }, "Esc: back"));
  show("samples", true); $("#viewer-h").focus(); scrollTo(0, 0); $("mark", viewer)?.scrollIntoView({ block: "center" });
};

// --- two systems, query by query ----------------------------------------------------------------------------------------
const pairView = async (query) => {
  const box = $("#pair");
  show("compare", true);
  await ready();
  const text = Object.fromEntries(manifest.facets.filter((one) => one.kind === "text").map((one) => [one.name, one])), figures = manifest.facets.filter((one) => one.kind === "number" && one.unit === "%");
  const known = text.system ? manifest.dictionaries.system.filter(Boolean) : [];
  if (!text.query || known.length < 2 || !figures.length) { box.replaceChildren(make("p", {}, known.length === 1 ? "There is only one system: nothing to compare." : "The samples of this run have no systems with figures by query; the tables below compare its systems.")); return; }
  const run = (row) => (text.run ? textOf(text.run, index.columns.run[row]) : ""), name = (row) => [run(row), textOf(text.system, index.columns.system[row])].filter(Boolean).join(" ");
  const rowsOf = new Map();
  for (let row = 0; row < index.n; row++) if (textOf(text.system, index.columns.system[row])) { if (!rowsOf.has(name(row))) rowsOf.set(name(row), []); rowsOf.get(name(row)).push(row); }
  const ranked = (content.board ? content.board.rows.map((row) => row.system) : []).filter((one) => rowsOf.has(one)), systems = [...new Set([...ranked, ...[...rowsOf.keys()].sort()])];
  const real = content.board ? content.board.rows.filter((row) => row.verdict !== "ceiling" && rowsOf.has(row.system)).map((row) => row.system) : systems;
  const a = rowsOf.has(query.get("a")) ? query.get("a") : real[0] || systems[0], b = rowsOf.has(query.get("b")) && query.get("b") !== a ? query.get("b") : real.find((one) => one !== a) || systems.find((one) => one !== a);
  const figure = (figures.find((one) => one.name === query.get("figure")) || figures.find((one) => content.board && one.name === content.board.figure) || figures[0]).name;
  const to = (changes) => link("compare", new URLSearchParams({ a, b, figure, ...changes }));
  const asked = (row) => [text.haystack ? textOf(text.haystack, index.columns.haystack[row]) : "", textOf(text.query, index.columns.query[row])].filter(Boolean).join(": ");
  const means = (system) => { const found = new Map(); for (const row of rowsOf.get(system)) { const value = index.columns[figure][row], key = asked(row); if (!found.has(key)) found.set(key, { sum: 0, n: 0, row }); if (value !== null) { found.get(key).sum += value; found.get(key).n++; } } return found; };
  const of = [means(a), means(b)], value = (one) => (one && one.n ? (100 * one.sum) / one.n : null);
  const rows = [...of[0].keys()].filter((key) => of[1].has(key)).map((key) => ({ key, a: value(of[0].get(key)), b: value(of[1].get(key)), rows: [of[0].get(key).row, of[1].get(key).row] })).map((one) => ({ ...one, d: one.a === null || one.b === null ? null : one.a - one.b })).sort((one, other) => Math.abs(other.d ?? -1) - Math.abs(one.d ?? -1));
  const known2 = rows.filter((one) => one.d !== null), wins = known2.filter((one) => one.d > 1e-9).length, losses = known2.filter((one) => one.d < -1e-9).length;
  const options = systems.map((one) => [one, one]), there = make("div", { id: "both" });
  box.replaceChildren(make("div", { class: "bar" }, choice("first system", options, a, (wanted) => { location.hash = to({ a: wanted }); }), choice("second system", options, b, (wanted) => { location.hash = to({ b: wanted }); }), choice("figure", figures.map((one) => [one.name, one.name]), figure, (wanted) => { location.hash = to({ figure: wanted }); })),
    make("p", { class: "text" }, `${a} is higher on ${wins} of ${known2.length} queries, ${b} on ${losses}; mean difference ${known2.length ? (known2.reduce((sum, one) => sum + one.d, 0) / known2.length).toFixed(1) : "-"} points of ${figure}. Whether that is real: the tables below. A click on a query shows both summaries.`), there);
  const plotted = make("div", { class: "dumbbell" }), table = make("div");
  there.before(plotted, table);
  const opened = (key) => { location.hash = to({ query: key }); };
  if (known2.length) chart(plotted, `${figure} by query`, { kind: "dumbbell", x_title: `${figure} (%)`, y_title: "", n: known2.length, points: known2.map((one) => ({ ...one, y: one.key, label: one.key, a_name: a, b_name: b })), options: { color: { legend: true, domain: [a, b], range: COLOURS } } }, (point) => opened(point.key));
  grid(table, "Queries", [{ name: "query", cls: "text-cell", text: (row) => row.key, node: (row) => [make("a", { href: to({ query: row.key }) }, row.key)] }, ...[["first (%)", "a"], ["second (%)", "b"], ["difference (points)", "d"]].map(([title, field]) => ({ name: title, figure: true, text: (row) => (row[field] === null ? "-" : row[field].toFixed(1)), value: (row) => row[field] }))], rows, { length: 10 });
  const wanted = rows.find((one) => one.key === query.get("query"));
  if (wanted) { there.append(...(await sideBySide(wanted, [a, b], query))); there.scrollIntoView(); }
};
// Return the sentence of a cited document that shares most words with the insight, as evidence to look at.
const quoted = async (shelf, value, insight) => {
  const found = await fromShelf("documents", `${shelf}/${number(value)}`), place = found && passage(found.text, insight);
  return place ? found.text.substr(place[0], place[1]).trim() : "";
};
const sideBySide = async (one, names, query) => {
  const samples = await Promise.all(one.rows.map(sampleAt)), part = (sample, kind) => sample.parts.find((found) => found.kind === kind), title = make("h3", {}, one.key);
  const heads = names.map((name, place) => make("th", { scope: "col" }, make("a", { href: link(`sample/${encodeURIComponent(samples[place].id)}`) }, name)));
  const judged = samples.map((sample) => part(sample, "verdicts")), bullets = samples.map((sample) => (part(sample, "bullets") || { bullets: [] }).bullets);
  if (!judged.every(Boolean)) return [title, make("div", { class: "two" }, await Promise.all(samples.map(async (sample, place) => make("div", {}, make("h4", {}, names[place]), await Promise.all(sample.parts.map(async (found) => [found.title ? make("h5", {}, found.title) : null, await (PARTS[found.kind] || (() => []))(found, { id: sample.id, query: new URLSearchParams(), parts: sample.parts, verdicts: [] })]))))))];
  const judge = judged[0].verdicts.concat(judged[1].verdicts)[0]?.judge, ids = [...new Set(judged.flatMap((found) => found.verdicts.map((verdict) => verdict.insight)))];
  const cell = async (place, id, insight) => {
    const verdict = judged[place].verdicts.find((found) => found.insight === id && found.judge === judge), label = verdict && { 1: "full", 0.5: "partial", 0: "none" }[verdict.coverage];
    if (!verdict) return make("td", {}, "not judged");
    const gold = new Set(insight.gold), context = { id: samples[place].id, query: new URLSearchParams() };
    const quotes = await Promise.all(verdict.cited.slice(0, 3).map(async (value) => { const said = await quoted(judged[place].insights, value, insight.text); return said ? make("blockquote", { class: gold.has(value) ? "right" : "wrong" }, documentLink(judged[place].insights, value, context, gold.has(value) ? "right" : "wrong", id), " ", said) : null; }));
    return make("td", {}, make("span", { class: `chip ${label || "bad"}` }, label ? `${label === "none" ? "no" : label} coverage` : "not scored"), verdict.joint === undefined ? "" : ` joint ${(100 * verdict.joint).toFixed(0)}`, verdict.bullet ? make("p", {}, bullets[place][verdict.bullet - 1] || "") : null, quotes);
  };
  const lines = await Promise.all(ids.map(async (id) => { const insight = (await fromShelf("insights", `${judged[0].insights}/${id}`)) || { text: id, gold: [] }; return make("tr", {}, make("th", { scope: "row" }, insight.text), await Promise.all([0, 1].map((place) => cell(place, id, insight)))); }));
  return [title, make("p", { class: "small" }, `Judged by ${judge}. Quoted: the sentence of a cited document that shares most words with the insight; green documents hold it.`), make("table", { class: "both" }, make("thead", {}, make("tr", {}, make("th", { scope: "col" }, "insight"), heads)), make("tbody", {}, lines)),
    make("details", {}, make("summary", {}, "Both summaries whole"), make("div", { class: "two" }, bullets.map((found, place) => make("div", {}, make("h4", {}, names[place]), make("ol", { class: "bullets" }, found.map((bullet) => make("li", {}, bullet)))))))];
};

// --- showing the view of the address --------------------------------------------------------------------------------------
const go = async () => {
  notice("");
  try {
    const { path, query } = address();
    if (path[0] === "samples") await list(query);
    else if (path[0] === "sample") await sample(path[1], query);
    else if (path[0] === "doc") await documentView(path[1], path[2], query);
    else if (path[0] === "compare") await pairView(query);
    else {
      const target = path[0] ? document.getElementById(path[0]) : null, section = target?.closest("section");
      show(target?.closest(".tab")?.id.slice(4) || ($(`#tab-${CSS.escape(path[0] || "")}`) ? path[0] : "leaderboard"), Boolean(target));
      if (section) { $("details", section).open = true; fill(section); }
      target?.scrollIntoView();
    }
  } catch (error) {
    if (tab === "samples") show("leaderboard");
    notice(error instanceof URIError || (error instanceof Error && error.stack && !/^(manifest|index|samples|documents|insights|answers|contexts)/.test(error.message)) ? `The viewer failed: ${error.message}` : alone);
  }
};
if (content.board) drawBoard($("#board"), content.board);
for (const one of content.charts) chart($("#charts"), one.title, one, (point) => { const row = content.board.rows.find((found) => point.label === found.system || point.label.startsWith(`${found.system} · `)); if (row?.link) location.hash = row.link; });
addEventListener("hashchange", go);
addEventListener("beforeprint", () => { for (const box of $$(`#tab-${tab} section details`)) box.open = true; for (const section of $$(`#tab-${tab} section`)) fill(section); });
addEventListener("keydown", (event) => {
  if (tab !== "samples" || event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
  const step = { j: 1, ArrowRight: 1, k: -1, ArrowLeft: -1 }[event.key];
  const target = step ? $(`[data-step="${step}"]`, viewer) : event.key === "Escape" ? $("[data-up]", viewer) || { href: "#" } : null;
  if (target) { event.preventDefault(); location.hash = new URL(target.href, location.href).hash; }
});
go();
if (document.body.dataset.live) setInterval(async () => {
  try { if ((await load("version", true)) !== document.body.dataset.version) { if (tab !== "samples") location.reload(); else notice("The run has progressed: reload the page."); } } catch { notice("This report is no longer served."); }
}, 4000);
