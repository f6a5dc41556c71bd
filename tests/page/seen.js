// All texts that stand for data at rest, as a person reads them.
(() => {
  const text = (id) => document.getElementById(id)?.textContent ?? null;
  const rows = (id) => [...document.querySelectorAll(`#${id} tbody tr`)]
    .map((row) => [...row.children].map((cell) => cell.textContent));
  const books = (prefix) => ["accepted", "acknowledged", "stored", "evicted", "lost"]
    .map((key) => text(`books-${prefix}${key}`));
  const charts = [...document.querySelectorAll(".chart")].map((chart) => [
    ...[".entity", ".property", "figcaption p", "strong", ".standing"]
      .map((part) => chart.querySelector(part).textContent),
    chart.querySelectorAll(".point").length,
  ]);
  return {
    gateway: text("gateway"),
    troubles: [...document.querySelectorAll("#troubles li")].map((one) => one.textContent.replace(/ \d+ s:/, ":")),
    uplink: text("uplink-main-state"),
    backlog: text("uplink-main-backlog"),
    readings: books(""),
    results: books("results-"),
    clock: text("clock-answer"),
    waits: text("journal-readings"),
    bytes: text("journal-bytes"),
    sources: rows("sources-table").map((row) => row.toSpliced(2, 1)),
    windows: rows("windows-table").map((row) => row.toSpliced(1, 1)),
    charts,
    quarantined: text("quarantine-sum"),
    late: text("late-sum"),
    notices: [...document.querySelectorAll(".log li")].map((one) =>
      [one.querySelector(".level").textContent, one.querySelector(".text").textContent]),
  };
})()
