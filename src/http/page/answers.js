// The four questions that an operator asks, answered from a status.

import { answer, el, facts, mark, show, svg, table } from "/page/dom.js";
import { ago, before, bytes, count, counted, length, percent, rate, time } from "/page/words.js";

export function answers(status) {
  show("sending", sending(status));
  show("lost", lost(status));
  show("time", clock(status));
  show("buffer", buffer(status));
}

const LINK = { up: "good", down: "bad", connecting: "none", stopped: "warn" };

function sending({ uplinks, at }) {
  return [
    answer("sending-answer", ...verdict(uplinks)),
    uplinks.map((one) => uplink(one, at)),
  ];
}

function verdict(uplinks) {
  const down = uplinks.filter((one) => one.state !== "up");
  const held = uplinks.some((one) => one.held.length > 0);
  if (down.length === 0) return held ? ["warn", "Yes, but a broker refuses some"] : ["good", "Yes"];
  if (down.length < uplinks.length) return ["bad", `To ${count(uplinks.length - down.length)} of ${count(uplinks.length)} brokers`];
  if (down.some((one) => one.state === "down")) return ["bad", "No: readings are kept here"];
  return ["none", down[0].state === "stopped" ? "No: stopped" : "Not yet: connecting"];
}

// What is said of an uplink aloud when it changes.
export const linkState = ({ name, state }) => `Uplink ${name} is ${state}`;

function uplink(one, now) {
  const since = one.for_s === null ? "" : ` since ${before(now, one.for_s)}, for ${length(one.for_s)}`;
  const waits = one.backlog === 0 ? "nothing" : counted(one.backlog, "entry", "entries");
  const lane = one.backfill > 0 ? `, ${count(one.backfill)} of them beside live ones` : "";
  const name = `uplink-${one.name}`;
  return el("div", { class: "uplink" },
    el("h3", {}, mark(LINK[one.state] ?? "none"), `Uplink ${one.name}: `,
      el("span", { id: `${name}-state` }, one.state)),
    el("p", { class: "quiet" }, `${one.state}${since}`),
    one.reason === null ? null : el("p", {}, `${one.reason}${one.retry_in_s === null ? "" : `; next try in ${length(Math.ceil(one.retry_in_s))}`}`),
    one.held.map((held) => el("p", {}, `The broker refuses ${held.source}: ${held.meaning} (${held.code})`)),
    facts(
      ["Waits", el("span", {}, el("span", { id: `${name}-backlog` }, waits), lane)],
      ["Gone in", drains(one), `${name}-drain`],
      ["In flight", `${count(one.inflight)} of ${count(one.inflight_max)}`],
      ["Acknowledged", `${count(one.acknowledged)}, now ${rate(one.acknowledged_per_s)}`, `${name}-acknowledged`],
    ));
}

function drains(one) {
  if (one.backlog === 0 && one.state === "up") return "nothing waits";
  if (one.drain_eta_s === null) return one.state === "up" ? "it does not shrink now" : "not while the uplink is away";
  return `about ${length(Math.ceil(one.drain_eta_s))}`;
}

// The books: accepted = acknowledged + stored + evicted + lost.
const BOOKS = [
  ["Accepted", "accepted"],
  ["Acknowledged", "acknowledged"],
  ["Stored here", "stored"],
  ["Evicted", "evicted"],
  ["Lost", "lost"],
];

export const isWindow = (source) => source.name.startsWith("window:");

function lost({ sources }) {
  const sum = (of, key) => of.reduce((total, source) => total + source[key], 0);
  const gone = sum(sources, "evicted") + sum(sources, "lost");
  const refused = sum(sources, "refused_full");
  const [results, readings] = [sources.filter(isWindow), sources.filter((one) => !isWindow(one))];
  const both = results.length > 0;
  const columns = ["Books", { name: "Readings", number: true }, ...(both ? [{ name: "Results", number: true }] : [])];
  const rows = BOOKS.map(([name, key]) => [
    name,
    el("span", { id: `books-${key}` }, count(sum(readings, key))),
    ...(both ? [el("span", { id: `books-results-${key}` }, count(sum(results, key)))] : []),
  ]);
  const mood = gone > 0 ? "bad" : refused > 0 ? "warn" : "good";
  const text = gone > 0 ? `Yes: ${count(gone)}, and gap records name each`
    : refused > 0 ? "No, but some were refused" : "No, nothing";
  return [
    answer("lost-answer", mood, text),
    refused > 0 ? el("p", {}, `${counted(refused, "reading")} refused at the door: the buffer was full`) : null,
    table(null, "Accepted is the sum of the rest", columns, rows),
  ];
}

const CLOCK = { synchronized: "good", holdover: "warn", stepped: "bad", unsynchronized: "bad" };

function clock({ clock, at }) {
  const [state, ...more] = clock.words;
  const upper = state.charAt(0).toUpperCase() + state.slice(1);
  const held = clock.corrections_waiting;
  return [
    answer("clock-answer", CLOCK[clock.state] ?? "none", upper),
    more.map((said) => el("p", {}, said)),
    facts(
      ["Reads", `${at.slice(0, 10)} ${at.slice(11, 19)} UTC`],
      clock.synchronized_for_s === null ? null : ["Synchronized for", length(clock.synchronized_for_s)],
      ["Clock steps", `${count(clock.steps.forward)} forward, ${count(clock.steps.back)} back`, "clock-steps"],
      ["Corrected", counted(clock.restamped, "reading")],
      held > 0 ? ["Corrections waiting", count(held)] : null,
      clock.rate_ppm === null ? null : ["Its crystal runs", `${Math.abs(clock.rate_ppm).toFixed(3)} ppm ${clock.rate_ppm < 0 ? "fast" : "slow"}`],
      ["The machine is up", length(clock.uptime_s)],
    ),
  ];
}

function buffer({ journal, sources, uplinks, accepted_per_s, at }) {
  const etas = uplinks.map(drains);
  return [
    answer("buffer-answer", ...room(journal)),
    bar(journal.fill),
    facts(
      ["Taken", `${bytes(journal.bytes)} of ${bytes(journal.capacity_bytes)}, ${percent(journal.fill)}`, "journal-bytes"],
      ["Waits here", waiting(sources), "journal-readings"],
      ["That is", journal.readings === 0 ? "nothing" : journal.depth_s === null ? "nothing comes in now" : `${length(journal.depth_s)} at this rate`, "journal-depth"],
      ["Gone in", uplinks.length === 1 ? etas[0] : etas.map((eta, i) => `${uplinks[i].name}: ${eta}`).join("; "), "journal-drain"],
      journal.oldest_age_s === null ? null : ["The oldest", `of ${time(journal.oldest_event_time, at)}, ${ago(Math.max(0, journal.oldest_age_s))}`],
      ["Comes in", rate(accepted_per_s)],
      journal.disk_bytes_per_day === null ? null : ["Written to disk", `${bytes(journal.disk_bytes_per_day)} a day`],
    ),
  ];
}

function waiting(sources) {
  const stored = (of) => of.reduce((total, source) => total + source.stored, 0);
  const readings = counted(stored(sources.filter((one) => !isWindow(one))), "reading");
  const results = stored(sources.filter(isWindow));
  return results === 0 ? readings : `${readings} and ${counted(results, "result")}`;
}

const FULL = { quota: "max_bytes is reached", reserve: "reserve_free is reached", store: "the disk takes nothing" };

function room(journal) {
  if (!journal.is_committing) return ["bad", "Nothing new is durable: commits fail"];
  if (journal.full !== null) return ["bad", `Full: ${FULL[journal.full] ?? journal.full}`];
  if (journal.room_s === null) return ["good", `${percent(1 - Math.min(1, journal.fill))} free; nothing comes in now`];
  return [journal.fill >= 0.8 ? "warn" : "good", `About ${length(journal.room_s)} without an uplink`];
}

// How full it is: a picture of what the words beside it say.
function bar(fill) {
  const width = Math.min(1, fill) * 200;
  return svg("svg", { class: "bar", viewBox: "0 0 200 6", preserveAspectRatio: "none", "aria-hidden": "true" },
    svg("rect", { class: "track", width: 200, height: 6 }),
    svg("rect", { class: fill >= 0.8 ? "fill much" : "fill", width: Math.max(width, fill > 0 ? 1 : 0), height: 6 }));
}
