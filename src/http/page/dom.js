// The little there is between data and the document. Text gets in as text nodes and
// attributes only: nothing that came from outside is ever read as HTML.

const SVG = "http://www.w3.org/2000/svg";

export const $ = (id) => document.getElementById(id);

// An element; children that are null are left out.
export function el(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

export function svg(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined) node.setAttribute(name, value);
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return node;
}

// Makes what is in an element be these children, touching only what differs: a
// selection, the place of a screen reader and an open list stay where they are.
export function show(id, ...children) {
  const fresh = document.createElement("div");
  fresh.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  morphChildren($(id), fresh);
}

function morphChildren(old, fresh) {
  const wanted = [...fresh.childNodes];
  wanted.forEach((node, i) => {
    if (i < old.childNodes.length) morph(old.childNodes[i], node);
    else old.append(node);
  });
  while (old.childNodes.length > wanted.length) old.lastChild.remove();
}

function morph(old, fresh) {
  if (old.nodeName !== fresh.nodeName) return void old.replaceWith(fresh);
  if (old.nodeType === Node.TEXT_NODE) {
    if (old.data !== fresh.data) old.data = fresh.data;
    return;
  }
  for (const { name } of [...old.attributes]) {
    if (!fresh.hasAttribute(name)) old.removeAttribute(name);
  }
  for (const { name, value } of fresh.attributes) {
    if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  morphChildren(old, fresh);
}

// A table. On a narrow screen its rows become blocks, each cell with the name of its
// column before it; the roles keep it a table for a screen reader then, too.
// `columns` are names, those of numbers as { name, number: true }; the first cell of
// a row is its head. A 0 in a column with `quiet0` says nothing worth a line of a phone.
export function table(id, caption, columns, rows) {
  const all = columns.map((column) => (typeof column === "string" ? { name: column } : column));
  const kind = (i, cell = "") => (!all[i].number ? null : all[i].quiet0 && (cell.textContent ?? cell) === "0" ? "number zero" : "number");
  const head = all.map(({ name }, i) => el("th", { role: "columnheader", scope: "col", class: kind(i) }, name));
  const body = rows.map((cells) => el("tr", { role: "row" }, cells.map((cell, i) => {
    const attributes = { "data-label": all[i].name, class: kind(i, cell) };
    return i === 0
      ? el("th", { role: "rowheader", scope: "row" }, cell)
      : el("td", { role: "cell", ...attributes }, cell);
  })));
  return el("table", { role: "table", id },
    el("caption", {}, caption),
    el("thead", { role: "rowgroup" }, el("tr", { role: "row" }, head)),
    el("tbody", { role: "rowgroup" }, body));
}

// A list of names and what they are.
export function facts(...pairs) {
  const shown = pairs.filter((pair) => pair !== null);
  return el("dl", {}, shown.map(([name, what, id]) =>
    el("div", {}, el("dt", {}, name), el("dd", { id }, what))));
}

// Moods are told by shape before they are told by colour; words stand beside them.
const SHAPES = {
  good: [["circle", { cx: 8, cy: 8, r: 7 }], ["path", { d: "M4.5 8.2l2.4 2.4 4.6-5" }]],
  warn: [["path", { d: "M8 1.2l7 13H1z" }], ["path", { d: "M8 6v4M8 12v.1" }]],
  bad: [["rect", { x: 1, y: 1, width: 14, height: 14, rx: 1 }], ["path", { d: "M5 5l6 6M11 5l-6 6" }]],
  none: [["circle", { cx: 8, cy: 8, r: 6, class: "hollow" }]],
};

export function mark(mood) {
  const shapes = SHAPES[mood].map(([tag, attributes]) => svg(tag, attributes));
  return svg("svg", { class: `mark ${mood}`, viewBox: "0 0 16 16", "aria-hidden": "true" }, shapes);
}

// The answer of a card.
export function answer(id, mood, text) {
  return el("p", { class: "answer" }, mark(mood), el("span", { id }, text));
}
