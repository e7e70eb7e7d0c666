// Cosines of tokens as a grid, layer by layer; the surprise of each token as bars.
const rows = data.sentences[0], columns = data.sentences[data.sentences.length - 1];
const itself = data.sentences.length === 1;
const dense = Math.max(rows.length, columns.length) > 36;
const state = { layer: 0, row: 0, column: 0, chosen: null };

// -- similarity

const heads = columns.map((token, j) => el("th", { scope: "col", title: token, click: () => choose("column", j) }, bdi(token)));
const sides = rows.map((token, i) => el("th", { scope: "row", title: token, click: () => choose("row", i) }, bdi(token)));
const cells = rows.map((_, i) => columns.map((_, j) => el("td", { role: "gridcell", dir: "ltr", tabindex: -1, "data-at": `${i},${j}`, class: itself && i === j ? "same" : null })));
const grid = el("table", { class: dense ? "grid dense" : columns.length < 15 ? "grid roomy" : "grid", role: "grid", "aria-label": "Cosine of each token with each token" },
  el("thead", {}, el("tr", {}, el("td", { class: "corner" }), ...heads)),
  el("tbody", {}, ...rows.map((_, i) => el("tr", {}, sides[i], ...cells[i]))));
const readout = el("p", { class: "soft", id: "readout" });
const low = el("span"), high = el("span");
const picture = el("figure", { class: "card", id: "grid" }, el("div", { class: "wide" }, grid),
  el("div", { class: "scale" }, "cosine", low, el("span", { class: "ramp", "aria-hidden": "true" }), high), readout);
const side = el("aside", { class: "card side", "aria-label": "Most similar tokens" });
const tabs = layerTabs(data.cosines.length, picture, chooseLayer);
const pairs = () => rows.flatMap((_, i) => columns.map((_, j) => [i, j])).filter(([i, j]) => !itself || i < j)
  .sort(([a, b], [c, d]) => data.cosines[state.layer][c][d] - data.cosines[state.layer][a][b]);
const table = tableBehind("Table of the pairs, most similar first", ["Token", "Position", itself ? "Token" : "Token of the other", "Position", "Cosine"],
  () => pairs().map(([i, j]) => () => [el("td", {}, bdi(rows[i])), el("td", { class: "number" }, i + 1), el("td", {}, bdi(columns[j])),
    el("td", { class: "number" }, j + 1), el("td", { class: "number" }, (data.cosines[state.layer][i][j] / 1000).toFixed(3))]));

function chooseLayer(layer) {
  state.layer = layer;
  const cosine = data.cosines[layer], flip = Number(colour("--flip"));
  let least = Infinity, most = -Infinity;
  rows.forEach((_, i) => columns.forEach((_, j) => {
    if (itself && i === j) return;
    least = Math.min(least, cosine[i][j]);
    most = Math.max(most, cosine[i][j]);
  }));
  if (least > most) [least, most] = [0, 1000];
  rows.forEach((_, i) => columns.forEach((_, j) => {
    const share = Math.max(0, Math.min(1, (cosine[i][j] - least) / Math.max(1, most - least))), td = cells[i][j];
    td.textContent = (cosine[i][j] / 1000).toFixed(2).replace("0.", ".");
    td.style.background = `color-mix(in oklab, var(--hot) ${(100 * share).toFixed(0)}%, var(--cell))`;
    td.style.color = share > flip ? "var(--hot-ink)" : "var(--cell-ink)";
  }));
  low.textContent = (least / 1000).toFixed(2);
  high.textContent = (most / 1000).toFixed(2);
  showSide();
  table.update();
  announce(`${layerName(layer)}: cosines from ${low.textContent} to ${high.textContent}`);
}

function light(i, j) {
  sides.forEach((th, n) => th.classList.toggle("lit", n === i));
  heads.forEach((th, n) => th.classList.toggle("lit", n === j));
  const cosine = data.cosines[state.layer][i][j] / 1000;
  readout.replaceChildren(bdi(rows[i]), ` (${i + 1}) and `, bdi(columns[j]), ` (${j + 1}): ${cosine.toFixed(3)}`);
}

function focusCell(i, j, move = true) {
  cells[state.row][state.column].tabIndex = -1;
  state.row = Math.max(0, Math.min(rows.length - 1, i));
  state.column = Math.max(0, Math.min(columns.length - 1, j));
  const td = cells[state.row][state.column];
  td.tabIndex = 0;
  if (move) td.focus();
  light(state.row, state.column);
}

const position = event => event.target.dataset && event.target.dataset.at ? event.target.dataset.at.split(",").map(Number) : null;
grid.addEventListener("mouseover", event => { const found = position(event); if (found) light(...found); });
grid.addEventListener("focusin", event => { const found = position(event); if (found) light(...found); });
grid.addEventListener("click", event => {
  const found = position(event);
  if (found) { focusCell(...found); choose("row", found[0]); }
});
grid.addEventListener("keydown", event => {
  const backwards = getComputedStyle(grid).direction === "rtl" ? -1 : 1;
  const way = { ArrowRight: [0, backwards], ArrowLeft: [0, -backwards], ArrowUp: [-1, 0], ArrowDown: [1, 0], Home: [0, -1e4], End: [0, 1e4] }[event.key];
  if (way) focusCell(state.row + way[0], state.column + way[1]);
  else if (event.key === "Enter" || event.key === " ") choose("row", state.row);
  else return;
  event.preventDefault();
});

// -- the tokens that are most similar to one

function choose(kind, number) {
  state.chosen = { kind, number };
  sides.forEach((th, i) => th.classList.toggle("chosen", kind === "row" && i === number));
  heads.forEach((th, j) => th.classList.toggle("chosen", kind === "column" && j === number));
  showSide();
}

function showSide() {
  if (!state.chosen) {
    side.replaceChildren(el("h2", {}, "Most similar tokens"), el("p", { class: "soft" }, "Click a token or a cell to rank the tokens by their cosine with it, in this layer."),
      el("p", { class: "soft hint" }, "Keys: ", el("kbd", {}, "↑↓←→"), " walk over the cells, ", el("kbd", {}, "Enter"), " ranks the tokens of the row."));
    return;
  }
  const { kind, number } = state.chosen, isRow = kind === "row";
  const others = isRow ? columns : rows, cosine = data.cosines[state.layer];
  const value = n => (isRow ? cosine[number][n] : cosine[n][number]) / 1000;
  const ranked = others.map((_, n) => n).filter(n => !itself || n !== number).sort((a, b) => value(b) - value(a)).slice(0, 12);
  side.replaceChildren(el("h2", {}, "Most similar to ", el("mark", {}, bdi((isRow ? rows : columns)[number]))),
    el("p", { class: "soft" }, layerName(state.layer)),
    el("ol", { class: "near" }, ...ranked.map(n => el("li", {}, el("button", { type: "button", click: () => choose(isRow && !itself ? "column" : "row", n) },
      bar(value(n)), el("span", {}, bdi(others[n]), el("small", {}, ` token ${n + 1}`)))))));
  announce(`Most similar: ${ranked.slice(0, 3).map(n => `${others[n]} ${value(n).toFixed(2)}`).join(", ")}`);
}

// -- surprise

function surpriseOf(tokens, number) {
  const { forward, backward, known } = data.surprise[number];
  const mean = list => list.reduce((sum, x) => sum + x, 0) / list.length;
  const top = Math.max(12, ...forward, ...backward);
  const half = (bits, way) => {
    const fill = el("span");
    fill.style.height = `${4 * bits / top}rem`;
    return el("div", { class: `half ${way}`, "aria-hidden": "true" }, bits.toFixed(1), fill);
  };
  const bars = tokens.map((token, i) => el("li", {}, el("button", {
    type: "button", class: known[i] ? "token" : "token unknown", click: () => choose(number && !itself ? "column" : "row", i),
    "aria-label": `${token}: ${forward[i].toFixed(1)} bits forward, ${backward[i].toFixed(1)} bits backward${known[i] ? "" : ", not in the vocabulary"}`,
  }, half(forward[i], "up"), el("span", { class: "name" }, bdi(token)), half(backward[i], "down"))));
  const figures = tableBehind("Table of the surprise", ["No.", "Token", "Bits forward", "Probability", "Bits backward", "Probability", "In the vocabulary"],
    () => tokens.map((token, i) => () => [el("th", { scope: "row", class: "number" }, i + 1), el("td", {}, bdi(token)),
      ...[forward[i], backward[i]].flatMap(bits => [el("td", { class: "number" }, bits.toFixed(2)), el("td", { class: "number" }, (2 ** -bits).toPrecision(3))]),
      el("td", {}, known[i] ? "yes" : "no: as <UNK>")]));
  return el("section", { class: "card surprise", "aria-label": `Surprise of each token${itself ? "" : `, sentence ${number + 1}`}` },
    el("h2", {}, "Surprise of each token"),
    el("p", { class: "soft" }, el("span", { class: "key" }, keyDot("--ahead"), `forward, ${mean(forward).toFixed(1)} bits on average`),
      el("span", { class: "key" }, keyDot("--back"), `backward, ${mean(backward).toFixed(1)} bits`)),
    el("ol", { class: "tokens", dir: direction(tokens) }, ...bars),
    el("p", { class: "soft" }, "Bits are −log₂ of the probability of the token, given the tokens before it (above) and those after it (below).",
      known.every(Boolean) ? "" : " A dotted token is not in the vocabulary: the probability is that of any unknown word."), figures.node);
}

function keyDot(name) {
  const dot = el("span", { class: "dot", "aria-hidden": "true" });
  dot.style.background = `var(${name})`;
  return dot;
}

// Lists of tokens run as their first strong character does.
function direction(tokens) {
  const strong = /[\p{L}]/u.exec(tokens.join(" "));
  return strong && /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]/.test(strong[0]) ? "rtl" : "ltr";
}

grid.dir = direction(columns);
main.append(...data.sentences.map((tokens, n) => el("p", { class: "said", dir: direction(tokens) }, bdi(joined(tokens).join("")), el("small", {}, itself ? "" : n ? "columns" : "rows"))),
  el("div", { class: "bar" }, tabs.list), el("div", { class: "columns" }, picture, side), table.node,
  data.surprise ? el("div", { class: "pair" }, ...data.sentences.map(surpriseOf)) : el("p", { class: "soft" }, "The model has no softmax beside it, so the surprise of its tokens is not known."));
focusCell(0, 0, false);
sides[0].classList.remove("lit");
heads[0].classList.remove("lit");
readout.textContent = "Point at a cell to read it.";
whenThemeChanges(() => chooseLayer(state.layer));
tabs.select(data.cosines.length - 1);
