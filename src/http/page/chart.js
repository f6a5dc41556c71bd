// The newest windows of every key, and a small picture of them.

import { el, svg } from "/page/dom.js";
import { counted, number, time } from "/page/words.js";

// Windows kept of a key, and keys kept: the page may stay open for weeks.
const POINTS_MAX = 40;
const KEYS_MAX = 4096;
// The number that is drawn: the first of these that the window computes.
const DRAWN = ["mean", "twa", "last", "p50", "rate", "sum", "max", "min", "count"];

const WIDTH = 320;
const HEIGHT = 92;
const PAD = 8;

// Keys by their name; the points of each by start and timebase.
export class Series {
  constructor() {
    this.keys = new Map();
  }

  // Takes a result in, whatever comes late, twice or out of order: the highest
  // revision of a window counts.
  take(result) {
    const name = JSON.stringify([result.window, result.entity, result.property]);
    const known = this.keys.get(name);
    // Another version of a window is another window: what it said begins afresh.
    const key = known?.version === result.version ? known : {
      window: result.window, entity: result.entity, property: result.property,
      version: result.version, points: new Map(),
    };
    this.keys.set(name, key);
    const place = `${result.timebase ?? 0}/${result.start}/${result.end}`;
    const point = key.points.get(place);
    if (point && point.revision > result.revision) return;
    // Revisions of one number are told apart by what nothing follows.
    if (point && point.revision === result.revision && point.status !== "provisional") return;
    key.points.set(place, result);
    this.#bound(key);
  }

  #bound(key) {
    while (key.points.size > POINTS_MAX) {
      const oldest = [...key.points].reduce((a, b) => (a[1].start <= b[1].start ? a : b));
      key.points.delete(oldest[0]);
    }
    while (this.keys.size > KEYS_MAX) this.keys.delete(this.keys.keys().next().value);
  }

  // Those whose names have `text` in them, by name; and how many there are.
  find(text, most) {
    const words = text.toLowerCase().split(/\s+/);
    const named = [...this.keys.values()].filter((key) => {
      const name = `${key.window} ${key.entity} ${key.property}`.toLowerCase();
      return words.every((word) => name.includes(word)) && alive(key).length > 0;
    });
    named.sort((a, b) => compare(a.window, b.window) || compare(a.entity, b.entity) || compare(a.property, b.property));
    return { shown: named.slice(0, most), all: named.length };
  }
}

const compare = (a, b) => (a < b ? -1 : a > b ? 1 : 0);

// What was not taken back, oldest first. Where the gateway's clock was set, only what
// came after: times of two timebases do not share an axis.
function alive(key) {
  const points = [...key.points.values()].filter((point) => point.status !== "retracted");
  const timebase = Math.max(...points.map((point) => point.timebase ?? 0));
  return points.filter((point) => (point.timebase ?? 0) === timebase).sort((a, b) => compare(a.start, b.start));
}

// Four shapes: a diamond was revised, and what is filled is final.
export function standing(point) {
  const revised = point.revision > 1;
  if (point.status !== "final") return revised ? "revised" : "provisional";
  return revised ? "revised, final" : "final";
}

function marker(point, x, y) {
  const at = (n) => n.toFixed(1);
  const filled = point.status === "final" ? "final" : "open";
  return point.revision > 1
    ? svg("path", { class: `point ${filled} revised`, d: `M${at(x)} ${at(y - 4.5)}l4.5 4.5l-4.5 4.5l-4.5 -4.5z` })
    : svg("circle", { class: `point ${filled}`, cx: at(x), cy: at(y), r: 3.6 });
}

export function legend() {
  const samples = [["provisional", 1], ["revised", 2], ["final", 1], ["revised, final", 2]];
  return samples.map(([name, revision]) => el("span", {},
    svg("svg", { viewBox: "0 0 12 12", "aria-hidden": "true" },
      marker({ revision, status: name.endsWith("final") ? "final" : "provisional" }, 6, 6)),
    name));
}

export function chart(key, now) {
  const points = alive(key);
  const newest = points.at(-1);
  const drawn = DRAWN.find((name) => newest[name] !== undefined);
  const value = newest[drawn];
  const { expected, received } = newest.coverage;
  const coverage = expected === undefined ? counted(received, "reading") : `${received} of ${expected} readings`;
  const said = value === null || value === undefined ? "no number" : number(value);
  return el("figure", { class: "card chart" },
    el("figcaption", {},
      el("h3", {}, el("span", { class: "entity" }, key.entity), " ", el("span", { class: "property" }, key.property)),
      el("p", { class: "quiet" }, key.window)),
    el("p", { class: "newest" }, el("strong", {}, said), ` ${drawn}`),
    picture(points, drawn),
    el("p", { class: "quiet" },
      el("span", { class: "standing" }, standing(newest)), `, revision ${newest.revision}; `,
      `${time(newest.start, now).replace(" UTC", "")} to ${time(newest.end, newest.start)}; ${coverage}`));
}

function picture(points, drawn) {
  const known = points.filter((point) => Number.isFinite(point[drawn]));
  const band = known.filter((point) => Number.isFinite(point.min) && Number.isFinite(point.max) && drawn !== "count" && drawn !== "sum" && drawn !== "rate");
  const numbers = [...known.map((point) => point[drawn]), ...band.flatMap((point) => [point.min, point.max])];
  if (numbers.length === 0) return el("p", { class: "quiet" }, "no number to draw");
  const [least, most] = [Math.min(...numbers), Math.max(...numbers)];
  const starts = points.map((point) => Date.parse(point.start));
  const [first, last] = [Math.min(...starts), Math.max(...starts)];
  // Alone it stands in the middle: at an edge it would look like the end of a line.
  const x = (point) => last === first ? WIDTH / 2 : PAD + ((Date.parse(point.start) - first) / (last - first)) * (WIDTH - 2 * PAD);
  const y = (n) => most === least ? HEIGHT / 2 : HEIGHT - PAD - ((n - least) / (most - least)) * (HEIGHT - 2 * PAD);
  const spoken = `${counted(known.length, "window")}, ${drawn} of the newest ${number(known.at(-1)?.[drawn] ?? 0)}, all between ${number(least)} and ${number(most)}`;
  return el("div", { class: "picture" },
    svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": spoken },
      svg("path", { class: "frame", d: `M0 .5H${WIDTH}M0 ${HEIGHT - 0.5}H${WIDTH}` }),
      band.map((point) => svg("path", { class: "range", d: `M${x(point).toFixed(1)} ${y(point.min).toFixed(1)}V${y(point.max).toFixed(1)}` })),
      svg("path", { class: "line", d: line(known, (point) => x(point), (point) => y(point[drawn])) }),
      known.map((point) => marker(point, x(point), y(point[drawn]))),
      points.length === 1 ? svg("text", { class: "alone", x: WIDTH / 2, y: HEIGHT - 2 * PAD }, "one window so far") : null),
    scale(number(least), number(most)));
}

// The ends of the axis; where all is equal they are one, at the height of the line.
function scale(least, most) {
  const ends = least === most ? [most] : [most, least];
  return el("p", { class: least === most ? "scale flat" : "scale", "aria-hidden": "true" },
    ends.map((end) => el("span", {}, end)));
}

// A line through windows that touch; where one is missing it breaks.
function line(points, x, y) {
  return points.map((point, i) => {
    const touches = i > 0 && Date.parse(point.start) <= Date.parse(points[i - 1].end);
    return `${touches ? "L" : "M"}${x(point).toFixed(1)} ${y(point).toFixed(1)}`;
  }).join("");
}
