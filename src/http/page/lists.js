// The tables of the page, from a status and from what is asked for on demand.

import { isWindow } from "/page/answers.js";
import { el, mark, show, table } from "/page/dom.js";
import { ago, count, counted, isKnown, length, time } from "/page/words.js";

const numbers = (...names) => names.map((name) => ({ name, number: true }));
const faults = (...names) => names.map((name) => ({ name, number: true, quiet0: true }));
const HEALTH = { up: "good", starting: "none", degraded: "warn", down: "bad", stopped: "none" };
const LEVEL = { info: "none", warn: "warn", error: "bad" };

export function sources({ sources }) {
  const rows = sources.filter((one) => !isWindow(one)).map((one) => [
    one.name, health(one.health),
    isKnown(one.last_reading_age_s) ? ago(one.last_reading_age_s) : "none yet",
    ...[one.accepted, one.acknowledged, one.stored, one.evicted, one.lost, one.quarantined].map(count),
  ]);
  const columns = ["Source", "State", "Last reading",
    ...numbers("Accepted", "Acknowledged", "Stored"), ...faults("Evicted", "Lost", "Quarantined")];
  show("sources", rows.length === 0 ? "No source is configured."
    : table("sources-table", "Readings of each source; quarantined since the start", columns, rows));
}

function health(health) {
  if (health === null) return el("span", { class: "state" }, mark("none"), "not configured");
  const retry = health.retry_in_s === null ? null : `next try in ${length(Math.ceil(health.retry_in_s))}`;
  const errors = health.errors > 0 ? counted(health.errors, "error") : null;
  const missed = health.missed_polls > 0 ? `${counted(health.missed_polls, "poll")} left out` : null;
  const more = [health.detail, errors, missed, retry].filter((part) => part !== null).join("; ");
  return el("span", { class: "state" }, mark(HEALTH[health.state] ?? "none"), health.state,
    more === "" ? null : el("span", { class: "quiet" }, `: ${more}`));
}

export function windows({ windows }) {
  const rows = windows.map((one) => [
    one.name,
    watermark(one),
    one.idle_sources.length === 0 ? "none" : one.idle_sources.join(", "),
    ...[one.panes, one.series, one.fired, one.finals, one.revised, one.too_late].map(count),
  ]);
  const columns = ["Window", "Watermark", "Silent sources",
    ...numbers("Open", "Keys", "Results", "Final"), ...faults("Revised", "Too late")];
  show("windows", rows.length === 0 ? "No window is configured."
    : table("windows-table", "Windows on site; counts since the start", columns, rows));
}

// How far event time has come, and who keeps it from going on where that is long ago.
function watermark(one) {
  const seconds = one.watermark_lag_s;
  const lag = !isKnown(seconds) ? "none yet" : seconds < 0 ? `${length(-seconds)} ahead` : `${length(seconds)} behind`;
  const why = !isKnown(seconds) || one.is_behind || isKnown(one.waits_until) ? holder(one) : "";
  return el("span", { class: one.is_behind ? "state behind" : "state" }, one.is_behind ? mark("warn") : null, lag + why);
}

// Sources that are named; the others are counted.
const NAMED_MAX = 3;

function holder({ held_by, idle_sources, waits_for, waits_until }) {
  if (isKnown(waits_until)) return `: waits for ${waits_for}, silent, until ${waits_until.slice(11, 19)} UTC`;
  const named = held_by.slice(0, NAMED_MAX).join(", ");
  const more = held_by.length - NAMED_MAX;
  if (held_by.length > 0) return `: waits for ${named}${more > 0 ? ` and ${count(more)} more` : ""}`;
  return idle_sources.length > 0 ? ": all its sources are silent" : "";
}

export function sums({ windows, sources }) {
  const sum = (of, key) => of.reduce((total, one) => total + one[key], 0);
  const late = sum(windows, "too_late");
  const revised = sum(windows, "revised");
  show("late-sum", `Late: ${counted(revised, "result")} revised, ${counted(late, "reading")} too late for a window`);
  show("quarantine-sum", `Refused: ${counted(sum(sources, "quarantined"), "input")} quarantined since the start`);
}

export function lateness({ sources }) {
  const span = (seconds) => `${seconds.toFixed(3)} s`;
  const rows = sources.map((one) => [
    one.name, count(one.count), ...[one.p50_s, one.p95_s, one.p99_s, one.p999_s, one.max_s].map(span), one.advice,
  ]);
  const columns = ["Source", ...numbers("Readings", "p50", "p95", "p99", "p99.9", "Most"), "Bound to choose"];
  show("lateness", rows.length === 0 ? el("p", {}, "No lateness was measured yet.")
    : table("lateness-table", "How late readings come: arrival less event time", columns, rows));
}

export function late(readings, now) {
  const rows = [...readings].reverse().map((one) => [
    `${one.entity} ${one.property}`, one.window, one.source, time(one.event_time, now),
    one.window_end === undefined ? "" : time(one.window_end, now),
  ]);
  const columns = ["Reading", "Window", "Source", "Event time", "Window ended"];
  show("late", rows.length === 0 ? el("p", { class: "quiet" }, "None came too late since this page was opened.")
    : table("late-table", "Too late since this page was opened, newest first", columns, rows));
}

export function quarantine({ items, segments, dropped }, now) {
  const rows = [
    ...items.map((one) => [`${one.id}`, one.source, one.kind, time(one.at, now), one.reason, el("code", {}, one.head)]),
    ...segments.map((one) => [one.id, "", "segment", time(one.at, now), one.reason, one.path]),
  ];
  const columns = ["Id", "Source", "Kind", "Came", "Reason", "Beginning"];
  show("quarantine",
    rows.length === 0 ? el("p", {}, "Nothing is in quarantine.")
      : table("quarantine-table", "In quarantine, newest first; tidegate quarantine shows, releases and discards", columns, rows),
    dropped > 0 ? el("p", {}, `${count(dropped)} older ones were dropped to make room.`) : null);
}

export function notices({ notices, at }) {
  const items = [...notices].reverse().map((one) => el("li", {},
    mark(LEVEL[one.level] ?? "none"),
    el("span", { class: "when" }, time(one.at, at)), " ",
    el("span", { class: "level" }, one.level), " ",
    el("span", { class: "text" }, one.text),
    Object.entries(one.facts).map(([name, value]) =>
      el("span", { class: "fact" }, ` ${name} `, el("b", {}, typeof value === "string" ? value : JSON.stringify(value))))));
  show("notices", items.length === 0 ? el("p", { class: "quiet" }, "Nothing yet.")
    : el("ul", { class: "log" }, items));
}
