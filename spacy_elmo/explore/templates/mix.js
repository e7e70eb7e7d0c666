// Shares of layers, a bar for each listener.
const { mixes } = data;
const nLayers = Math.max(...mixes.map(mix => mix.shares.length));
const layers = Array.from({ length: nLayers }, (_, layer) => layer);
const PALETTE = ["--c7", "--c0", "--c1", "--c2", "--c3", "--c4", "--c5", "--c6"];
let only = null;

const legend = el("div", { class: "legend", role: "group", "aria-label": "Layers" },
  ...layers.map(layer => {
    const dot = el("span", { class: "dot", "aria-hidden": "true" });
    dot.style.background = `var(${PALETTE[layer % 8]})`;
    return el("button", {
      type: "button", "aria-pressed": "false",
      click: () => { only = only === layer ? null : layer; mark(only); },
      mouseenter: () => mark(layer), mouseleave: () => mark(only),
      focus: () => mark(layer), blur: () => mark(only),
    }, dot, layerName(layer));
  }));

function mark(layer) {
  for (const span of document.querySelectorAll(".stack span")) {
    span.classList.toggle("faint", layer !== null && Number(span.dataset.layer) !== layer);
  }
  [...legend.children].forEach((button, i) => button.setAttribute("aria-pressed", i === only));
}

function stack(mix) {
  const said = mix.shares.map((share, layer) => `${layerName(layer)} ${percent(share)}`).join(", ");
  return el("div", { class: "stack", role: "img", "aria-label": `${mix.component}: ${said}` },
    ...mix.shares.map((share, layer) => {
      const span = el("span", { title: `${layerName(layer)}: ${percent(share)}`, "data-layer": layer },
        share >= 0.07 ? percent(share) : "");
      span.style.width = `${100 * share}%`;
      span.style.background = `var(${PALETTE[layer % 8]})`;
      return span;
    }));
}

const cells = mixes.flatMap(mix => [
  el("div", { class: "who" }, el("b", {}, bdi(mix.component)), el("br"),
    el("span", { class: "soft" }, `listener ${mix.place}, ${mix.kind}`)),
  stack(mix),
  el("div", { class: "gamma" }, `γ ${mix.gamma.toFixed(2)}`)]);
const table = tableBehind("Table of the shares",
  ["Component", "Listener", "Mix", "γ (gamma)", ...layers.map(layerName)],
  () => mixes.map(mix => () => [
    el("th", { scope: "row" }, bdi(mix.component)), el("td", {}, mix.place), el("td", {}, mix.kind),
    el("td", { class: "number" }, mix.gamma.toFixed(4)),
    ...layers.map(layer => el("td", { class: "number" }, layer in mix.shares ? mix.shares[layer].toFixed(4) : ""))]));

main.append(el("figure", { class: "card map" }, el("div", { class: "shares" }, ...cells), legend,
  el("figcaption", {}, "Each listener reads the sum of the layers, weighted by its shares and scaled by γ. ",
    "The token layer knows the spelling of a word alone; the layers above it know its context too.")), table.node);
