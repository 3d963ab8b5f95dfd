"use strict";
// The page's one script: sorting, the theme, and the viewer of samples. What documents and models say becomes text, never markup.
(() => {
  const $ = (selector, root = document) => root.querySelector(selector);
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

  // --- theme ---------------------------------------------------------------------------------------------------------
  const root = document.documentElement;
  const kept = (value) => { try { if (value) localStorage.setItem("summhay-theme", value); return localStorage.getItem("summhay-theme"); } catch { return null; } };
  if (kept()) root.dataset.theme = kept();
  $("#theme").addEventListener("click", () => {
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    kept(root.dataset.theme);
  });

  // --- tables sort by a click on their heads -------------------------------------------------------------------------
  for (const head of document.querySelectorAll("thead tr:last-child th")) {
    const table = head.closest("table"), place = [...head.parentNode.children].indexOf(head);
    $("button", head).addEventListener("click", () => {
      // The best comes first: the greatest figure, and the least rank.
      const first = /^rank\b/i.test(head.textContent.trim()) ? "ascending" : "descending";
      const down = (head.getAttribute("aria-sort") === first) !== (first === "descending");
      for (const other of head.parentNode.children) other.setAttribute("aria-sort", "none");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const value = (row) => { const told = row.children[place].dataset.v; const number = Number(told); return told === "" ? null : Number.isNaN(number) ? told : number; };
      const rows = [...table.tBodies[0].rows].map((row) => [value(row), row]);
      rows.sort(([a], [b]) => {
        if (a === null || b === null) return (a === null) - (b === null);
        const order = typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), undefined, { numeric: true });
        return down ? -order : order;
      });
      table.tBodies[0].append(...rows.map(([, row]) => row));
    });
  }

  // --- data beside the page, loaded by script tags: a page from a disk may not fetch ----------------------------------
  const waiting = new Map(), loaded = new Map();
  window.summhay = (name, content) => { loaded.set(name, Promise.resolve(content)); waiting.get(name)?.(content); };
  const load = (name, again) => {
    if (loaded.has(name) && !again) return loaded.get(name);
    const promise = new Promise((resolve, reject) => {
      waiting.set(name, resolve);
      const script = make("script", { src: `data/${name}.js${again ? `?${Date.now()}` : ""}`, on: {
        error: () => { loaded.delete(name); reject(new Error(name)); }, load: () => script.remove() } });
      document.head.append(script);
    });
    if (!again) loaded.set(name, promise);
    if (loaded.size > 60) for (const key of [...loaded.keys()].filter((one) => !/^(manifest|index)/.test(one)).slice(0, 20)) loaded.delete(key);
    return promise;
  };
  const alone = "The samples lie in the folder data/, which is not beside this page: copy the whole folder of the report, or open it where it was made.";

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

  // --- what the address says ------------------------------------------------------------------------------------------
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

  // Words of the samples themselves: every chunk of them is looked through once.
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

  // --- a list of any length: only the rows in view are elements -------------------------------------------------------
  const ROW = 29, TALLEST = 8e6; // pixels; browsers cut elements of some more off, so beyond it a pixel of the bar is more than one of the list
  const listed = (columns, n, open) => {
    let active = 0;
    const line = (attributes, cells) => { const row = make("div", { role: "row", ...attributes }, cells); row.style.gridTemplateColumns = columns.map(({ width }) => `minmax(${width}px, ${width}fr)`).join(" "); return row; };
    const body = make("div", { role: "rowgroup", class: "rows" });
    const heads = line({ "aria-rowindex": 1 }, columns.map((one) => make("div", { role: "columnheader", class: one.cls, "aria-sort": one.order }, make("button", { tabindex: -1, on: { click: one.sort } }, one.name))));
    const box = make("div", { id: "grid", role: "grid", tabindex: 0, "aria-label": "Samples", "aria-rowcount": n + 1 }, make("div", { role: "rowgroup", class: "heads" }, heads), body);
    body.style.height = `${Math.min(n * ROW, TALLEST)}px`;
    body.style.minWidth = heads.style.minWidth = `${columns.reduce((sum, { width }) => sum + width, 0)}px`;
    const measured = () => { const view = box.clientHeight - ROW; return { view, scale: Math.max(1, n * ROW - view) / Math.max(1, body.clientHeight - view) }; };
    const draw = () => {
      const { view, scale } = measured(), top = box.scrollTop * scale;
      const first = Math.max(0, Math.floor(top / ROW) - 5), last = Math.min(n, Math.ceil((top + view) / ROW) + 5);
      body.replaceChildren(...Array.from({ length: Math.max(0, last - first) }, (_, more) => {
        const place = first + more, on = { click: () => open(place) };
        const row = line({ id: `row-${place}`, "aria-rowindex": place + 2, "aria-selected": place === active ? "true" : "false", on }, columns.map((one) => make("div", { role: "gridcell", class: one.cls }, one.cell(place))));
        row.style.top = `${box.scrollTop + place * ROW - top}px`;
        return row;
      }));
      box.setAttribute("aria-activedescendant", active >= first && active < last ? `row-${active}` : "");
    };
    const move = (place) => {
      const { view, scale } = measured(), here = ROW * (active = Math.min(n - 1, Math.max(0, place)));
      box.scrollTop = Math.min(here, Math.max(here + ROW - view, box.scrollTop * scale)) / scale;
      draw();
    };
    const page = () => Math.max(1, Math.floor((box.clientHeight - ROW) / ROW) - 1);
    const keys = { ArrowDown: () => move(active + 1), ArrowUp: () => move(active - 1), PageDown: () => move(active + page()), PageUp: () => move(active - page()), Home: () => move(0), End: () => move(n - 1), Enter: () => open(active) };
    box.addEventListener("keydown", (event) => { if (n && event.target === box && Object.hasOwn(keys, event.key)) { event.preventDefault(); keys[event.key](); } });
    box.addEventListener("scroll", () => requestAnimationFrame(draw));
    new ResizeObserver(draw).observe(box);
    return box;
  };

  // --- the list of samples --------------------------------------------------------------------------------------------
  const viewer = $("#viewer"), report = $("#report");
  const show = (which) => { document.body.classList.toggle("viewing", which === "viewer"); viewer.hidden = which !== "viewer"; report.hidden = which === "viewer"; };
  const list = async (query) => {
    await ready();
    await heard(query);
    const rows = chosen(query);
    const set = (name, value) => { const next = new URLSearchParams(query); if (value) next.set(name, value); else next.delete(name); location.hash = link("samples", next); };
    const controls = manifest.facets.map((facet) => {
      if (facet.kind === "flag") return make("label", { class: "flag" }, make("input", { type: "checkbox", checked: query.get(facet.name) === "yes", on: { change: (event) => set(facet.name, event.target.checked ? "yes" : "") } }), facet.name);
      const words = facet.kind === "text" ? manifest.dictionaries[facet.name] : [];
      if (!words.length || words.length > 400 || (words.length < 2 && !query.get(facet.name))) return null;
      return make("label", {}, facet.name, make("select", { on: { change: (event) => set(facet.name, event.target.value) } }, make("option", { value: "" }, "any"),
        [...words].sort((a, b) => a.localeCompare(b)).map((word) => make("option", { value: word, selected: query.get(facet.name) === word }, word.length > 60 ? `${word.slice(0, 59)}…` : word))));
    });
    if (VERDICTS.every((name) => index.columns[name])) controls.push(make("label", {}, "verdict", make("select", { on: { change: (event) => set("verdict", event.target.value) } },
      make("option", { value: "" }, "any"), VERDICTS.map((name) => make("option", { value: name, selected: query.get("verdict") === name }, `some ${name}`)))));
    controls.push(make("label", {}, "search", make("input", { type: "search", value: query.get("search") || "", placeholder: "system, query, id", on: { change: (event) => set("search", event.target.value) } })),
      make("label", {}, "in texts", make("input", { type: "search", value: query.get("text") || "", placeholder: "words of a summary", on: { change: (event) => set("text", event.target.value) } })));
    const [sorted, down] = [(query.get("sort") || "").replace(/^-/, ""), (query.get("sort") || "").startsWith("-")];
    const sort = (name) => { const next = new URLSearchParams(query); next.set("sort", (name === sorted && !down ? "-" : "") + name); location.hash = link("samples", next); };
    const columns = manifest.facets.map((facet) => ({ name: facet.name + (facet.unit ? ` (${facet.unit})` : ""), width: facet.kind === "text" ? ({ query: 260, system: 220 }[facet.name] || 140) : 100,
      cls: facet.kind === "number" ? "right" : "", order: facet.name !== sorted ? "none" : down ? "descending" : "ascending", sort: () => sort(facet.name), cell: (place) => shown(facet, index.columns[facet.name][rows[place]]) }));
    const box = listed(columns, rows.length, (place) => { location.hash = link(`sample/${encodeURIComponent(index.ids[rows[place]])}`, query); });
    viewer.replaceChildren(make("p", {}, make("a", { href: "#" }, "← Report")), make("h2", { tabindex: "-1", id: "viewer-h" }, `Samples: ${rows.length.toLocaleString("en")} of ${index.n.toLocaleString("en")}`),
      make("div", { class: "bar", role: "search" }, controls), box, make("p", { class: "keys" }, "Arrow keys and Enter open a sample; a click on a head sorts."));
    show("viewer");
    if (rows.length) box.focus();
  };

  // --- a sample ---------------------------------------------------------------------------------------------------------
  const words = (text) => new Set(text.toLowerCase().match(/[\p{L}\p{N}]{3,}/gu) || []);
  const passage = (text, insight) => {
    // The sentences that share most words with the insight: where to look, not a proof.
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
    const told = Object.entries(rest).map(([name, value]) => [name === "usd_micros" ? "dollars" : name, name === "usd_micros" ? (value / 1e6).toFixed(6) : Array.isArray(value) ? value.join(" · ") : value]);
    return [facts([["key", key], ...told]), asked && make("h3", {}, "Prompt"), asked && pre(asked), make("h3", {}, "Raw answer"), pre(text || "")];
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
            const told = `{"bullets": [${bullets.map((text, place) => `{"bullet_id": ${place + 1}, "text": ${JSON.stringify(text)}}`).join(", ")}]}`;
            const texts = await Promise.all([...groups.keys()].map(async (other) => ((await fromShelf("insights", `${part.insights}/${other}`)) || { text: other }).text));
            const all = `{"insights": [${texts.map((text, place) => `{"insight_id": ${place + 1}, "text": ${JSON.stringify(text)}}`).join(", ")}]}`;
            return template.replace(/\[\[(BULLETS|INSIGHT|INSIGHTS)\]\]/g, (_, name) => ({ BULLETS: told, INSIGHT: insight.text, INSIGHTS: all })[name]);
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
      if (!shown) return [make("p", { class: "docs" }, `Documents with the query's insights (${part.gold.length}): `, links(part.gold, "right")), make("p", {}, "What the model was shown is not recorded.")];
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
    if (row < 0) { show("viewer"); viewer.replaceChildren(make("p", {}, make("a", { href: "#samples" }, "← Samples")), make("h2", {}, "There is no such sample"), make("p", {}, id)); return; }
    const found = await sampleAt(row);
    if (found.id !== id) { show("viewer"); notice("The report was written anew: reload the page."); return; }
    const filters = filtersOf(query), { rows, place } = around(id, filters);
    const context = { id, query: filters, parts: found.parts, verdicts: found.parts.filter((part) => part.kind === "verdicts").flatMap((part) => part.verdicts) };
    const parts = [];
    for (const part of found.parts) parts.push(part.title ? make("h3", {}, part.title) : null, await (PARTS[part.kind] || (() => []))(part, context));
    const step = (by, text) => { const other = place < 0 ? undefined : rows[place + by]; return other === undefined ? null : make("a", { class: "button", href: link(`sample/${encodeURIComponent(index.ids[other])}`, filters), "data-step": by }, text); };
    const figures = manifest.facets.filter((facet) => facet.kind !== "text" && facet.name !== "repeat").map((facet) => [facet.name, shown(facet, index.columns[facet.name][row])]).filter(([, text]) => text !== "");
    viewer.replaceChildren(make("p", { class: "bar" }, make("a", { class: "button", href: link("samples", filters), "data-up": true }, "← Samples"), step(-1, "Previous (k)"), step(1, "Next (j)"), make("a", { class: "button", href: `#sample/${encodeURIComponent(id)}` }, "Link to this sample")),
      make("div", { class: "sample" }, make("h2", { tabindex: "-1", id: "viewer-h" }, `Sample ${id.length > 40 ? id : id.slice(0, 12)}${place >= 0 ? `, ${(place + 1).toLocaleString("en")} of ${rows.length.toLocaleString("en")}` : ""}`), facts(figures), parts),
      make("p", { class: "keys" }, "j or →: next · k or ←: previous · Esc: back"));
    show("viewer"); $("#viewer-h").focus(); scrollTo(0, 0);
  };
  const documentView = async (shelf, value, query) => {
    await ready();
    const found = await fromShelf("documents", `${shelf}/${number(value)}`), insightId = query.get("insight"), from = query.get("from");
    const insight = insightId ? await fromShelf("insights", `${shelf}/${insightId}`) : null;
    const up = from ? link(`sample/${encodeURIComponent(from)}`, filtersOf(query)) : link("samples", filtersOf(query));
    const body = [];
    if (!found) body.push(make("p", {}, "The haystack has no such document: the citation leads nowhere."));
    else {
      const place = insight ? passage(found.text, insight.text) : null, holds = insightId && found.insights.includes(insightId);
      if (insight) body.push(make("p", {}, make("span", { class: `chip ${holds ? "full" : "none"}` }, holds ? "gold: it holds the insight" : "it does not hold the insight"), " ", insight.text));
      body.push(make("p", { class: "keys" }, make("bdi", {}, found.id), ` · holds ${found.insights.length} of the haystack's insights${place ? "; marked is the sentence that shares most words with the insight" : ""}`));
      body.push(make("div", { class: "document" }, place ? [found.text.slice(0, place[0]), make("mark", {}, found.text.substr(place[0], place[1])), found.text.slice(place[0] + place[1])] : found.text));
    }
    viewer.replaceChildren(make("p", { class: "bar" }, make("a", { class: "button", href: up, "data-up": true }, "← Back")), make("div", { class: "sample" }, make("h2", { tabindex: "-1", id: "viewer-h" }, `Document ${value}`), body), make("p", { class: "keys" }, "Esc: back"));
    show("viewer"); $("#viewer-h").focus(); scrollTo(0, 0); $("mark", viewer)?.scrollIntoView({ block: "center" });
  };

  const go = async () => {
    notice("");
    try {
      const { path, query } = address();
      if (path[0] === "samples") await list(query);
      else if (path[0] === "sample") await sample(path[1], query);
      else if (path[0] === "doc") await documentView(path[1], path[2], query);
      else { show("report"); if (path[0]) document.getElementById(path[0])?.scrollIntoView(); }
    } catch (error) {
      show("report");
      notice(error instanceof URIError || (error instanceof Error && error.stack && !/^(manifest|index|samples|documents|insights|answers|contexts)/.test(error.message)) ? `The viewer failed: ${error.message}` : alone);
    }
  };
  addEventListener("hashchange", go);
  addEventListener("keydown", (event) => {
    if (viewer.hidden || event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
    const step = { j: 1, ArrowRight: 1, k: -1, ArrowLeft: -1 }[event.key];
    const target = step ? $(`[data-step="${step}"]`, viewer) : event.key === "Escape" ? $("[data-up]", viewer) || { href: "#" } : null;
    if (target) { event.preventDefault(); location.hash = new URL(target.href, location.href).hash; }
  });
  if (location.hash) go();
  if (document.body.dataset.live) setInterval(async () => {
    try { if ((await load("version", true)) !== document.body.dataset.version) { if (viewer.hidden) location.reload(); else notice("The run went on: reload the page for its newest state."); } } catch { notice("Nobody serves this report any more."); }
  }, 4000);
})();
