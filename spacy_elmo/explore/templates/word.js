// Contexts of a word as points of a plane: canvas below, marks above, a panel beside.
const N = data.contexts.length;
const sentences = data.contexts.map(joined);
const texts = sentences.map(parts => parts.join(""));
const lower = texts.map(text => text.toLowerCase());
const spelled = data.contexts.map((tokens, i) => tokens[data.positions[i]]);
const MOST = 8, RADIUS = N < 300 ? 6 : N < 1500 ? 4.5 : 3.4, PAD = 46;
const still = matchMedia("(prefers-reduced-motion: reduce)");
const state = { layer: 0, now: -1, pin: -1, only: -1, by: data.labels ? "label" : "cluster", query: "" };
const view = { zoom: 1, x: 0, y: 0 };
let match = new Uint8Array(N).fill(1), group = new Uint8Array(N), names = [];
let target = new Float32Array(2 * N), place = new Float32Array(2 * N), frame = 0;
const onScreen = new Float32Array(2 * N); // where points were last drawn
let stamps = []; // one dot for each colour

// -- the page

const base = el("canvas", { "aria-hidden": "true" });
const marks = el("canvas", { tabindex: 0, role: "application", "aria-roledescription": "scatter plot", "aria-describedby": "keys", "aria-label": `${N} contexts of ${data.word} as points` });
const tip = el("div", { class: "tip", hidden: true });
const zoomBy = (name, sign, factor) => el("button", { type: "button", "aria-label": name, title: name, click: () => zoomTo(factor) }, sign);
const stage = el("div", { class: "stage" }, base, marks, tip, el("div", { class: "zoom" },
  zoomBy("Zoom in", "+", 1.5), zoomBy("Zoom out", "−", 1 / 1.5), zoomBy("Whole map", "⤢", 0)));
const legend = el("div", { class: "legend", role: "group", "aria-label": "Colours" });
const caption = el("figcaption");
const map = el("figure", { class: "card map", id: "map" }, stage, legend, caption);
const side = el("aside", { class: "card side", "aria-label": "Nearest contexts" });
const found = el("span", { class: "soft", id: "found" });
const search = el("input", { type: "search", placeholder: "Words of the sentence", "aria-describedby": "found", input: runSearch,
  keydown: event => { if (event.key === "Enter") nextMatch(); } });
const ways = { ...(data.labels && { label: "label" }), cluster: "cluster", ...(new Set(spelled).size > 1 && { form: "spelling" }) };
const by = el("select", { change: () => { state.by = by.value; state.only = -1; recolour(); } },
  ...Object.entries(ways).map(([value, name]) => el("option", { value }, name)));
const tabs = layerTabs(data.layers.length, map, chooseLayer);
const table = tableBehind(`Table of the ${N.toLocaleString("en")} contexts`,
  ["No.", "Before", "Word", "After", data.labels ? "Label" : "", "Cluster"].filter(Boolean), () =>
    Array.from({ length: N }, (_, i) => i).filter(isShown).map(i => () => row(i)));
main.append(
  el("div", { class: "bar" }, tabs.list, el("label", { class: "field" }, "Search", search), found,
    el("label", { class: "field" }, "Colour by", by)),
  el("div", { class: "columns" }, map, side),
  el("p", { class: "unseen", id: "keys" }, "Arrow keys go from point to point. Enter pins a point and lists its nearest contexts. Escape unpins it. Plus, minus and zero zoom."),
  table.node);

function sentence(i) {
  const at = data.positions[i], parts = sentences[i], lead = /^\s*/.exec(parts[at])[0];
  return el("bdi", { dir: "auto" }, parts.slice(0, at).join("") + lead, el("mark", {}, parts[at].slice(lead.length)), parts.slice(at + 1).join(""));
}

function row(i) {
  const at = data.positions[i], parts = sentences[i];
  return [el("th", { scope: "row", class: "number" }, i + 1),
    el("td", { class: "before" }, bdi(parts.slice(0, at).join("").trim())), el("td", { class: "word" }, bdi(spelled[i])),
    el("td", { class: "after" }, bdi(parts.slice(at + 1).join("").trim())),
    ...(data.labels ? [el("td", {}, bdi(data.labels[i]))] : []),
    el("td", {}, bdi(clusterName(data.layers[state.layer].cluster[i])))];
}

// -- colours

const clusterName = k => data.layers[state.layer].typical[k].join(", ") || `cluster ${k + 1}`;
const isShown = i => match[i] && (state.only < 0 || group[i] === state.only);

function recolour() {
  stamps = [];
  const of = { label: i => data.labels[i] || "no label", form: i => spelled[i], cluster: i => data.layers[state.layer].cluster[i] }[state.by];
  const counts = new Map();
  for (let i = 0; i < N; i++) counts.set(of(i), (counts.get(of(i)) || 0) + 1);
  const keys = [...counts.keys()].sort((a, b) => counts.get(b) - counts.get(a));
  const number = new Map(keys.map((key, i) => [key, keys.length > MOST ? Math.min(i, MOST - 1) : i]));
  for (let i = 0; i < N; i++) group[i] = number.get(of(i));
  names = keys.slice(0, MOST).map(key => state.by === "cluster" ? clusterName(key) : key);
  if (keys.length > MOST) names[MOST - 1] = `${keys.length - MOST + 1} others`;
  const total = new Array(names.length).fill(0);
  for (const g of group) total[g]++;
  legend.replaceChildren(...names.map((name, g) => {
    const dot = el("span", { class: "dot", "aria-hidden": "true" });
    dot.style.background = `var(--c${g})`;
    return el("button", { type: "button", "aria-pressed": g === state.only, click: () => {
      state.only = state.only === g ? -1 : g;
      [...legend.children].forEach((button, i) => button.setAttribute("aria-pressed", i === state.only));
      table.update();
      draw();
    } }, dot, bdi(name), el("small", {}, total[g].toLocaleString("en")));
  }));
  table.update();
  draw();
}

// -- layers and places

function chooseLayer(layer) {
  state.layer = layer;
  const { points, variance } = data.layers[layer];
  const spread = new Map();
  target = Float32Array.from(points);
  // Points at one place, as in the token layer, become a disc around it.
  const piled = new Map();
  for (let i = 0; i < N; i++) {
    const key = `${points[2 * i].toFixed(3)},${points[2 * i + 1].toFixed(3)}`;
    if (!piled.has(key)) piled.set(key, []);
    piled.get(key).push(i);
  }
  const unit = 1 / scale(layer);
  for (const pile of piled.values()) {
    if (pile.length < 4) continue;
    const step = Math.min(1.1 * RADIUS, 90 / Math.sqrt(pile.length)) * unit;
    pile.forEach((i, n) => {
      target[2 * i] += step * Math.sqrt(n) * Math.cos(2.39996 * n);
      target[2 * i + 1] += step * Math.sqrt(n) * Math.sin(2.39996 * n);
    });
    spread.set(pile, step);
  }
  caption.replaceChildren(
    `Principal components 1 and 2 of ${layer ? `layer ${layer}` : "the token layer"}: ${percent(variance[0])} and ${percent(variance[1])} of the variance. `,
    spread.size ? "This layer knows no context: points of one spelling lie at one place and are drawn as a disc." : "Nearby points are contexts that the layer finds alike.");
  const start = place.slice(), from = performance.now(), k0 = view.scale || scale(layer), k1 = scale(layer), c0 = view.centre || centre(layer), c1 = centre(layer);
  cancelAnimationFrame(frame);
  function step(time) {
    const t = still.matches ? 1 : Math.min(1, (time - from) / 450), s = t * t * (3 - 2 * t);
    for (let j = 0; j < 2 * N; j++) place[j] = start[j] + s * (target[j] - start[j]);
    view.scale = k0 + s * (k1 - k0);
    view.centre = [c0[0] + s * (c1[0] - c0[0]), c0[1] + s * (c1[1] - c0[1])];
    if (t < 1) frame = requestAnimationFrame(step);
    draw(t < 1);
  }
  if (!view.scale) { start.set(target); place.set(target); }
  recolour();
  showSide();
  step(from);
  announce(`${layerName(layer)}, ${names.length} colours: ${names.join("; ")}`);
}

const boxes = data.layers.map(({ points }) => {
  const box = [Infinity, -Infinity, Infinity, -Infinity];
  for (let i = 0; i < 2 * N; i++) {
    const at = 2 * (i % 2);
    box[at] = Math.min(box[at], points[i]);
    box[at + 1] = Math.max(box[at + 1], points[i]);
  }
  return box;
});
function measure() {
  view.width = stage.clientWidth;
  view.height = stage.clientHeight;
}
const centre = layer => { const [a, b, c, d] = boxes[layer]; return [(a + b) / 2, (c + d) / 2]; };
function scale(layer) {
  const [a, b, c, d] = boxes[layer];
  return Math.max(20, Math.min((view.width - 2 * PAD) / Math.max(b - a, 1e-3), (view.height - 2 * PAD) / Math.max(d - c, 1e-3)));
}
const at = i => [onScreen[2 * i], onScreen[2 * i + 1]];
function project() {
  const k = view.scale * view.zoom, x = view.width / 2 + view.x - k * view.centre[0], y = view.height / 2 + view.y + k * view.centre[1];
  for (let i = 0; i < N; i++) {
    onScreen[2 * i] = x + k * place[2 * i];
    onScreen[2 * i + 1] = y - k * place[2 * i + 1];
  }
}
function zoomTo(factor) {
  const zoom = factor ? Math.max(1, Math.min(40, view.zoom * factor)) : 1;
  view.x *= zoom / view.zoom;
  view.y *= zoom / view.zoom;
  view.zoom = zoom;
  if (zoom === 1) view.x = view.y = 0;
  draw();
}

// -- drawing

function fresh(canvas) {
  const ratio = devicePixelRatio || 1, width = view.width, height = view.height;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
  }
  const pen = canvas.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, width, height);
  return pen;
}

function makeStamps() {
  const ratio = devicePixelRatio || 1, size = 2 * RADIUS + 3;
  stamps = names.map((_, g) => {
    const canvas = el("canvas", { width: Math.ceil(size * ratio), height: Math.ceil(size * ratio) });
    const pen = canvas.getContext("2d");
    pen.scale(ratio, ratio);
    pen.arc(size / 2, size / 2, RADIUS, 0, 7);
    pen.fillStyle = colour(`--c${g}`);
    pen.fill();
    pen.lineWidth = 1;
    pen.strokeStyle = colour("--paper");
    pen.stroke();
    return canvas;
  });
}

function draw(moving = false) {
  if (!view.scale) return;
  const pen = fresh(base), size = 2 * RADIUS + 3;
  if (!stamps.length) makeStamps();
  project();
  for (const shown of [false, true]) {
    pen.globalAlpha = shown ? 0.86 : 0.1;
    for (let i = 0; i < N; i++) {
      if (Boolean(isShown(i)) !== shown) continue;
      pen.drawImage(stamps[group[i]], onScreen[2 * i] - size / 2, onScreen[2 * i + 1] - size / 2, size, size);
    }
  }
  pen.globalAlpha = 1;
  if (!moving) drawNames(pen);
  drawMarks();
}

// The name of each colour at the median of its points, or above them if they are few, where no
// other name stands.
function drawNames(pen) {
  const taken = [];
  pen.font = `600 13px ${getComputedStyle(document.body).fontFamily}`;
  pen.textAlign = "center";
  pen.lineJoin = "round";
  names.forEach((name, g) => {
    const xs = [], ys = [];
    for (let i = 0; i < N; i++) if (group[i] === g && isShown(i)) { xs.push(onScreen[2 * i]); ys.push(onScreen[2 * i + 1]); }
    if (!xs.length) return;
    const middle = list => list.sort((a, b) => a - b)[list.length >> 1];
    const shown = name.length > 40 ? `${name.slice(0, 39)}…` : name, width = pen.measureText(shown).width;
    const x = Math.max(width / 2 + 8, Math.min(view.width - width / 2 - 8, middle(xs)));
    const few = xs.length < 20, median = middle(ys);
    let y = Math.max(18, Math.min(view.height - 10, few ? ys[0] - 2 * RADIUS : median));
    while (taken.some(other => Math.abs(other.y - y) < 19 && Math.abs(other.x - x) < (other.width + width) / 2 + 8)) y += few ? -19 : 19;
    if (y < 0 || y > view.height) return;
    taken.push({ x, y, width });
    pen.lineWidth = 4;
    pen.strokeStyle = colour("--paper");
    pen.strokeText(shown, x, y);
    pen.fillStyle = colour("--ink");
    pen.fillText(shown, x, y);
  });
}

function drawMarks() {
  const pen = fresh(marks), { near, cosine } = data.layers[state.layer], accent = colour("--accent");
  const ring = (i, width, stroke) => {
    const [x, y] = at(i);
    pen.beginPath();
    pen.arc(x, y, RADIUS + 3, 0, 7);
    pen.lineWidth = width;
    pen.strokeStyle = stroke;
    pen.stroke();
  };
  if (state.pin >= 0) {
    const [x, y] = at(state.pin);
    near[state.pin].forEach((other, n) => {
      if (other < 0) return;
      const [x2, y2] = at(other);
      pen.globalAlpha = 0.25 + 0.6 * Math.max(0, cosine[state.pin][n] / 1000);
      pen.beginPath();
      pen.moveTo(x, y);
      pen.lineTo(x2, y2);
      pen.lineWidth = 1.3;
      pen.strokeStyle = accent;
      pen.stroke();
      pen.globalAlpha = 1;
      ring(other, 1.5, accent);
    });
    ring(state.pin, 3.5, accent);
  }
  if (state.now >= 0) ring(state.now, 2, colour("--ink"));
}

// -- pointing, pinning, searching

function pointAt(i, speak) {
  state.now = i;
  tip.hidden = i < 0;
  marks.style.cursor = i < 0 ? "default" : "pointer";
  if (i >= 0) {
    const [x, y] = at(i);
    marks.dataset.point = `${Math.round(x)},${Math.round(y)}`;
    tip.replaceChildren(sentence(i), el("br"), el("small", {}, bdi(names[group[i]])));
    tip.style.left = `${Math.max(4, Math.min(x + 12, view.width - tip.offsetWidth - 6))}px`;
    tip.style.top = `${y + 14 + tip.offsetHeight > view.height ? Math.max(4, y - tip.offsetHeight - 12) : y + 14}px`;
    if (speak) announce(`${texts[i]} (${names[group[i]]})`);
  }
  drawMarks();
}

function pin(i) {
  state.pin = state.pin === i ? -1 : i;
  showSide();
  drawMarks();
  announce(state.pin < 0 ? "Nothing is pinned" : `Pinned: ${texts[i]}`);
}

function showSide() {
  if (state.pin < 0) {
    side.replaceChildren(el("h2", {}, "Nearest contexts"),
      el("p", { class: "soft" }, "Click a point to see which contexts this layer finds most alike, by the cosine of their vectors."),
      el("p", { class: "soft hint" }, "Keys: ", el("kbd", {}, "↑↓←→"), " walk over the points, ", el("kbd", {}, "Enter"), " pins, ",
        el("kbd", {}, "Esc"), " unpins, ", el("kbd", {}, "+"), " ", el("kbd", {}, "−"), " ", el("kbd", {}, "0"), " zoom."));
    return;
  }
  const { near, cosine } = data.layers[state.layer], i = state.pin;
  const items = near[i].map((other, n) => other < 0 ? "" : el("li", {}, el("button", { type: "button", "data-context": other,
    click: () => { state.pin = -1; pin(other); }, mouseenter: () => pointAt(other), mouseleave: () => pointAt(-1),
  }, bar(cosine[i][n] / 1000), el("span", {}, sentence(other), data.labels ? el("small", {}, " ", bdi(data.labels[other])) : "")))).filter(Boolean);
  side.replaceChildren(el("h2", {}, "Pinned"), el("div", { class: "pinned" }, el("div", {}, sentence(i)),
    el("p", { class: "soft" }, bdi(names[group[i]])),
    el("button", { type: "button", class: "plain", click: () => pin(i) }, "Unpin")),
  el("h2", {}, `Nearest in ${state.layer ? `layer ${state.layer}` : "the token layer"}`),
  items.length ? el("ol", { class: "near" }, ...items) : el("p", { class: "soft" }, "No other sentence has the word."));
}

function runSearch() {
  state.query = search.value.trim().toLowerCase();
  let n = 0;
  for (let i = 0; i < N; i++) n += match[i] = lower[i].includes(state.query) ? 1 : 0;
  found.textContent = state.query ? `${n.toLocaleString("en")} of ${N.toLocaleString("en")}` : "";
  announce(found.textContent);
  table.update();
  draw();
}

function nextMatch() {
  for (let step = 1; step <= N && state.query; step++) {
    const i = (Math.max(state.pin, -1) + step) % N;
    if (isShown(i)) { state.pin = -1; pin(i); return; }
  }
}

function closest(x, y, reach) {
  let best = -1, least = reach * reach;
  for (let i = 0; i < N; i++) {
    if (!isShown(i)) continue;
    const d = (onScreen[2 * i] - x) ** 2 + (onScreen[2 * i + 1] - y) ** 2;
    if (d < least) { least = d; best = i; }
  }
  return best;
}

// The point that is nearest in a direction: what lies to its side counts double.
function towards(dx, dy) {
  const [x, y] = at(state.now);
  let best = state.now, least = Infinity;
  for (let i = 0; i < N; i++) {
    if (i === state.now || !isShown(i)) continue;
    const [px, py] = at(i), along = (px - x) * dx + (py - y) * dy, aside = Math.abs((px - x) * dy - (py - y) * dx);
    if (along > 0.5 && along + 2 * aside < least) { least = along + 2 * aside; best = i; }
  }
  return best;
}

let drag = null;
marks.addEventListener("pointerdown", event => { drag = { x: event.clientX, y: event.clientY, moved: false }; });
marks.addEventListener("pointermove", event => {
  if (drag && event.buttons && view.zoom > 1) {
    const dx = event.clientX - drag.x, dy = event.clientY - drag.y;
    if (drag.moved || Math.abs(dx) + Math.abs(dy) > 4) {
      view.x += dx;
      view.y += dy;
      drag = { x: event.clientX, y: event.clientY, moved: true };
      pointAt(-1);
      draw();
    }
    return;
  }
  const i = closest(event.offsetX, event.offsetY, 14);
  if (i !== state.now) pointAt(i);
});
marks.addEventListener("pointerleave", () => { if (document.activeElement !== marks || !marks.matches(":focus-visible")) pointAt(-1); });
marks.addEventListener("click", event => {
  if (drag && drag.moved) return;
  const i = closest(event.offsetX, event.offsetY, 14);
  if (i >= 0) { pointAt(i); pin(i); }
});
marks.addEventListener("blur", () => pointAt(-1));
marks.addEventListener("keydown", event => {
  const way = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
  if (way) {
    const start = state.pin >= 0 ? state.pin : closest(view.width / 2, view.height / 2, 1e6);
    pointAt(state.now < 0 ? start : towards(...way), true);
  } else if (event.key === "Enter" || event.key === " ") { if (state.now >= 0) pin(state.now); }
  else if (event.key === "Escape") { if (state.pin >= 0) pin(state.pin); pointAt(-1); }
  else if (event.key === "+" || event.key === "=") zoomTo(1.5);
  else if (event.key === "-") zoomTo(1 / 1.5);
  else if (event.key === "0") zoomTo(0);
  else return;
  event.preventDefault();
});

const resized = () => { measure(); stamps = []; view.scale = scale(state.layer); view.centre = centre(state.layer); draw(); };
new ResizeObserver(resized).observe(stage);
whenThemeChanges(() => { stamps = []; draw(); });
measure();
tabs.select(data.layers.length - 1);
