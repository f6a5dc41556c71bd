// The page: events come in, the document follows. It only looks; nothing here
// changes anything on the gateway.

import { answers, linkState } from "/page/answers.js";
import { Series, chart, legend } from "/page/chart.js";
import { $, el, mark, show } from "/page/dom.js";
import { late, lateness, notices, quarantine, sources, sums, windows } from "/page/lists.js";
import { Recent } from "/page/recent.js";
import { follow, getJson, token } from "/page/stream.js";
import { length } from "/page/words.js";

// Without a status for so long, what is shown is called old. In milliseconds.
const STALE_AFTER = 5000;
// Results may come by the hundred; eyes do not need more than this.
const CHARTS_EVERY = 500;
const CHARTS_MAX = 24;
const LATE_MAX = 20;

const series = new Series();
const refused = new Recent();
const lateReadings = [];
let status = null;
// By the browser's monotonic clock: nobody sets it.
let heardAt = performance.now();
let trouble = "";
let spoken = "";
let drawn = null;

function onStatus(fresh) {
  const isFirst = status === null || isStale();
  status = fresh;
  heardAt = performance.now();
  refused.note(fresh.sources.reduce((total, one) => total + one.quarantined, 0), fresh.at);
  if (isFirst) lookBack();
  $("data").hidden = false;
  $("ask").hidden = true;
  show("gateway", fresh.gateway);
  document.title = `${fresh.degraded.length > 0 ? "! " : ""}${fresh.gateway} – Tidegate`;
  show("about", `Tidegate ${fresh.version}, up for ${length(fresh.uptime_s)}, epoch ${fresh.epoch}`);
  $("troubles-section").hidden = fresh.degraded.length === 0;
  show("troubles", fresh.degraded.map((one) => el("li", {}, mark("bad"), one.detail)));
  answers(fresh, refused.grown());
  sources(fresh);
  windows(fresh);
  sums(fresh);
  notices(fresh);
  charts();
  refreshDetails();
  speak(fresh.uplinks.map(linkState).join(". "));
  freshness();
}

// A screen reader hears of changes, not of every second.
function speak(text) {
  if (text === spoken) return;
  spoken = text;
  $("spoken").textContent = text;
}

const isStale = () => performance.now() - heardAt >= STALE_AFTER;

function freshness() {
  const old = isStale();
  const age = length((performance.now() - heardAt) / 1000);
  document.body.classList.toggle("is-stale", old);
  $("stale").hidden = !old || !$("ask").hidden;
  // Written only when it changes: it is read aloud each time.
  const what = old ? `Stale: no word from the agent${trouble === "" ? "" : ` (${trouble})`}.` : "";
  if ($("stale-what").textContent !== what) $("stale-what").textContent = what;
  const shown = status === null ? "Nothing has come yet." : `What is below is ${age} old.`;
  show("stale-age", `${shown} Trying to connect again.`);
  if (!$("ask").hidden) show("live", "Locked");
  else if (status === null) show("live", "Connecting …");
  else show("live", mark(old ? "warn" : "good"), old ? `Stale for ${age}` : `Live, ${status.at.slice(11, 19)} UTC`);
}

function charts() {
  clearTimeout(drawn);
  drawn = null;
  if (status === null) return;
  const { shown, all } = series.find($("filter").value, CHARTS_MAX);
  show("charts", shown.map((key) => chart(key, status.at)));
  show("legend", series.keys.size === 0 ? [] : legend());
  $("find").hidden = series.keys.size <= CHARTS_MAX;
  const more = all - shown.length;
  const none = series.keys.size === 0 ? "No result yet." : "No key has that in its name.";
  show("charts-more", more > 0 ? `${more} more: find them by name.` : shown.length > 0 || status.windows.length === 0 ? "" : none);
}

function chartsSoon() {
  drawn ??= setTimeout(charts, CHARTS_EVERY);
}

// What was there before this page was, and what it missed.
async function lookBack() {
  takeResults("/api/v1/windows?history=1");
  if (refused.grown() > 0 || status.sources.every((one) => one.quarantined === 0)) return;
  const listing = await quietly("/api/v1/quarantine?limit=200");
  if (listing === null) return;
  refused.remember(listing.items.map((one) => one.at));
  answers(status, refused.grown());
}

async function takeResults(path) {
  const results = await quietly(path);
  (results ?? []).forEach((result) => series.take(result));
  chartsSoon();
}

// What only somebody who opens it wants to know.
async function refreshDetails() {
  if ($("lateness-more").open) {
    late(lateReadings, status.at);
    const report = await quietly("/api/v1/lateness");
    if (report !== null) lateness(report);
  }
  if ($("quarantine-more").open) {
    const listing = await quietly("/api/v1/quarantine?limit=50");
    if (listing !== null) quarantine(listing, status.at);
  }
}

// What cannot be had now comes with the next status; the stream says what is wrong.
async function quietly(path) {
  try {
    return await getJson(path);
  } catch {
    return null;
  }
}

function askForToken() {
  const wasKnown = token.get() !== null;
  token.forget();
  $("data").hidden = true;
  $("ask").hidden = false;
  show("ask-trouble", wasKnown ? "The gateway does not take this token." : "");
  freshness();
  $("token").value = "";
  $("token").focus();
  return new Promise((resolve) => {
    $("ask").addEventListener("submit", (event) => {
      event.preventDefault();
      token.set($("token").value.trim());
      resolve();
    }, { once: true });
  });
}

const events = {
  status: onStatus,
  window: (result) => {
    series.take(result);
    chartsSoon();
  },
  late: (reading) => {
    lateReadings.push(reading);
    if (lateReadings.length > LATE_MAX) lateReadings.shift();
  },
  // This browser was too slow.
  lagged: () => takeResults("/api/v1/windows"),
};

$("filter").addEventListener("input", charts);
for (const id of ["lateness-more", "quarantine-more"]) $(id).addEventListener("toggle", refreshDetails);
document.addEventListener("visibilitychange", freshness);
setInterval(freshness, 1000);

follow({
  event: (name, data) => events[name]?.(data),
  trouble: (text) => {
    trouble = text;
    freshness();
  },
  unauthorized: askForToken,
});
