// The four questions that an operator asks, answered from a status.

import { answer, el, facts, mark, show, svg, table } from "/page/dom.js";
import { ago, before, bytes, count, counted, isKnown, length, percent, rate, time } from "/page/words.js";

// `refused` are the inputs that went to the quarantine within the last minute.
export function answers(status, refused) {
  show("sending", sending(status));
  show("lost", lost(status, refused));
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
  const backlog = one.backlog === 0 ? "empty" : counted(one.backlog, "entry", "entries");
  const lane = one.backfill > 0 ? `, ${count(one.backfill)} of them beside live ones` : "";
  const name = `uplink-${one.name}`;
  return el("div", { class: "uplink" },
    el("h3", {}, mark(LINK[one.state] ?? "none"), `Uplink ${one.name}: `,
      el("span", { id: `${name}-state` }, one.state)),
    el("p", { class: "quiet" }, `${one.state}${since}`),
    one.reason === null ? null : el("p", {}, `${one.reason}${one.retry_in_s === null ? "" : `; next try in ${length(Math.ceil(one.retry_in_s))}`}`),
    one.held.map((held) => el("p", {}, `The broker refuses ${held.source}: ${held.meaning} (${held.code})`)),
    facts(
      ["Backlog", el("span", {}, el("span", { id: `${name}-backlog` }, backlog), lane)],
      one.backlog === 0 ? null : ["Backlog empty in", drains(one), `${name}-drain`],
      ["In flight", `${count(one.inflight)} of ${count(one.inflight_max)}`],
      ["Acknowledged", `${count(one.acknowledged)}, now ${rate(one.acknowledged_per_s)}`, `${name}-acknowledged`],
    ));
}

// How long until the backlog is gone; a dash where there is no end in sight, and why.
function drains(one) {
  if (one.backlog === 0) return "empty now";
  if (one.state !== "up") return "– (uplink away)";
  if (!isKnown(one.drain_eta_s)) return "– (it does not shrink)";
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

function lost({ sources }, recent) {
  const sum = (of, key) => of.reduce((total, source) => total + source[key], 0);
  const gone = sum(sources, "evicted") + sum(sources, "lost");
  const refused = sum(sources, "refused_full");
  const quarantined = sum(sources, "quarantined");
  const [results, readings] = [sources.filter(isWindow), sources.filter((one) => !isWindow(one))];
  const both = results.length > 0;
  const columns = ["Books", ...(both ? ["Readings", "Results"] : ["Readings"]).map((name) => ({ name, number: true, quiet0: true }))];
  const rows = BOOKS.map(([name, key]) => [
    name,
    el("span", { id: `books-${key}` }, count(sum(readings, key))),
    ...(both ? [el("span", { id: `books-results-${key}` }, count(sum(results, key)))] : []),
  ]);
  const mood = gone > 0 ? "bad" : refused > 0 || recent > 0 ? "warn" : "good";
  const text = gone > 0 ? `Yes: ${count(gone)}, and gap records name each`
    : refused > 0 || recent > 0 ? "No, but some were refused" : "No, nothing";
  return [
    answer("lost-answer", mood, text),
    refused > 0 ? el("p", {}, `${counted(refused, "reading")} refused at the door: the buffer was full`) : null,
    quarantined > 0 ? refusals(quarantined, recent) : null,
    table(null, "Accepted is the sum of the rest", columns, rows),
  ];
}

// What no reading could be made of; the list of it is further down.
function refusals(quarantined, recent) {
  return el("p", { id: "lost-quarantined" }, recent > 0 ? mark("warn") : null,
    `${counted(recent, "input")} quarantined in the last minute, `,
    el("a", { href: "#quarantine-more" }, `${count(quarantined)} since the start`));
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
  const backlog = journal.readings === 0 ? [] : [
    ["Backlog holds", isKnown(journal.depth_s) ? `${length(journal.depth_s)} of data` : "– (nothing comes in)", "journal-depth"],
    ["Backlog empty in", uplinks.length === 1 ? etas[0] : etas.map((eta, i) => `${uplinks[i].name}: ${eta}`).join("; "), "journal-drain"],
    ["Oldest", oldest(journal, at)],
  ];
  return [
    answer("buffer-answer", ...room(journal, accepted_per_s)),
    bar(journal.fill),
    facts(
      ["Taken", `${bytes(journal.bytes)} of ${bytes(journal.capacity_bytes)}, ${percent(journal.fill)}`, "journal-bytes"],
      ["Incoming", rate(accepted_per_s)],
      ["Backlog", waiting(sources), "journal-readings"],
      ...backlog,
      ["Written to disk", isKnown(journal.disk_bytes_per_day) ? `${bytes(journal.disk_bytes_per_day)} a day` : "not known yet"],
    ),
  ];
}

function oldest(journal, at) {
  if (!isKnown(journal.oldest_event_time)) return "not known";
  const age = isKnown(journal.oldest_age_s) ? `, ${ago(Math.max(0, journal.oldest_age_s))}` : "";
  return `of ${time(journal.oldest_event_time, at)}${age}`;
}

function waiting(sources) {
  const stored = (of) => of.reduce((total, source) => total + source.stored, 0);
  const readings = counted(stored(sources.filter((one) => !isWindow(one))), "reading");
  const results = stored(sources.filter(isWindow));
  return results === 0 ? readings : `${readings} and ${counted(results, "result")}`;
}

const FULL = { quota: "max_bytes is reached", reserve: "reserve_free is reached", store: "the disk takes nothing" };

function room(journal, accepted_per_s) {
  if (!journal.is_committing) return ["bad", "Nothing new is durable: commits fail"];
  if (journal.full !== null) return ["bad", `Full: ${FULL[journal.full] ?? journal.full}`];
  const mood = journal.fill >= 0.8 ? "warn" : "good";
  if (isKnown(journal.room_s)) return [mood, `About ${length(journal.room_s)} without an uplink`];
  const free = `${percent(1 - Math.min(1, journal.fill))} free`;
  return [mood, accepted_per_s === 0 ? `${free}; nothing comes in now` : `${free}; how long that lasts is not known yet`];
}

// How full it is: a picture of what the words beside it say.
function bar(fill) {
  const width = Math.min(1, fill) * 200;
  return svg("svg", { class: "bar", viewBox: "0 0 200 6", preserveAspectRatio: "none", "aria-hidden": "true" },
    svg("rect", { class: "track", width: 200, height: 6 }),
    svg("rect", { class: fill >= 0.8 ? "fill much" : "fill", width: Math.max(width, fill > 0 ? 1 : 0), height: 6 }));
}
