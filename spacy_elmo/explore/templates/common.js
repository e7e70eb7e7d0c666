// What every page uses. Text from the data is only ever set as text, never as HTML.
const data = JSON.parse(document.getElementById("data").textContent);
const main = document.querySelector("main");

function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") node.addEventListener(name, value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value != null) node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}

const bdi = (text, dir = "auto") => el("bdi", { dir }, text);
const announce = text => { document.getElementById("status").textContent = text; };
const layerName = layer => (layer ? `Layer ${layer}` : "Token layer");
const percent = share => `${(100 * share).toFixed(share < 0.0995 ? 1 : 0)} %`;
const colour = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// Colours of a canvas are read again when the theme changes, and for paper.
function whenThemeChanges(redraw) {
  for (const query of ["(prefers-color-scheme: dark)", "print"]) {
    matchMedia(query).addEventListener("change", redraw);
  }
  addEventListener("beforeprint", redraw);
  addEventListener("afterprint", redraw);
}

// A list of tabs, one for each layer, which arrow keys move through.
function layerTabs(n, panel, choose) {
  const tabs = Array.from({ length: n }, (_, layer) =>
    el("button", { role: "tab", type: "button", id: `tab-${layer}`, "aria-controls": panel.id, click: () => select(layer) }, layerName(layer)));
  function select(layer) {
    tabs.forEach((tab, i) => {
      tab.setAttribute("aria-selected", i === layer);
      tab.tabIndex = i === layer ? 0 : -1;
    });
    panel.setAttribute("aria-labelledby", `tab-${layer}`);
    choose(layer);
  }
  const list = el("div", { role: "tablist", "aria-label": "Layer of the model" }, ...tabs);
  list.addEventListener("keydown", event => {
    const now = tabs.indexOf(document.activeElement);
    const next = { ArrowRight: now + 1, ArrowLeft: now - 1, Home: 0, End: n - 1 }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    tabs[(next + n) % n].focus();
    select((next + n) % n);
  });
  panel.setAttribute("role", "tabpanel");
  return { list, select };
}

// A table that is made when it is opened, some rows at a time.
function tableBehind(title, header, rows, atOnce = 100) {
  const body = el("tbody");
  const more = el("button", { type: "button", class: "plain", hidden: true, click: () => show(body.rows.length + atOnce) });
  const table = el("table", { class: "plain-table" }, el("caption", { class: "unseen" }, title),
    el("thead", {}, el("tr", {}, ...header.map(name => el("th", { scope: "col" }, name)))), body);
  const node = el("details", {}, el("summary", {}, title), el("div", { class: "wide" }, table), more);
  let found = [];
  function show(n) {
    while (body.rows.length < Math.min(n, found.length)) {
      body.append(el("tr", {}, ...found[body.rows.length]()));
    }
    more.hidden = body.rows.length >= found.length;
    more.textContent = `Show more rows: ${found.length - body.rows.length} are left`;
  }
  function update() {
    if (!node.open) return;
    body.replaceChildren();
    found = rows();
    show(atOnce);
  }
  node.addEventListener("toggle", update);
  return { node, update };
}

// A sentence as it is written: no space before a full stop, none after a bracket.
const CLOSES = /^(?:[.,;:!?%)\]}»”’…。、，]+|n['’]t|['’](?:s|re|ve|ll|d|m))$/i;
const OPENS = /^[([{«“‘¿¡$#]+$/;
function joined(tokens) {
  return tokens.map((token, i) =>
    (i && !CLOSES.test(token) && !OPENS.test(tokens[i - 1]) ? " " : "") + token);
}

function bar(cosine) {
  const fill = el("span");
  fill.style.width = `${Math.max(0, Math.min(1, cosine)) * 100}%`;
  return el("span", { class: "score" }, cosine.toFixed(2), el("span", { class: "meter", "aria-hidden": "true" }, fill));
}
