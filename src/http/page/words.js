// Numbers, lengths and times as people read them.

export const count = (n) => n.toLocaleString("en");

// "1 reading", "1,234 readings".
export const counted = (n, one, many = `${one}s`) => `${count(n)} ${n === 1 ? one : many}`;

export function bytes(n) {
  const units = ["bytes", "kB", "MB", "GB", "TB"];
  let unit = 0;
  while (n >= 1000 && unit < units.length - 1) {
    n /= 1000;
    unit += 1;
  }
  return `${unit === 0 || n >= 100 ? n.toFixed(0) : n.toFixed(1)} ${units[unit]}`;
}

// What the agent cannot say is null or left out.
export const isKnown = (value) => value !== null && value !== undefined;

export const rate = (n) => !isKnown(n) ? "not known" : `${n >= 10 || n === 0 ? count(Math.round(n)) : n.toFixed(1)}/s`;

export const percent = (part) => `${Math.floor(part * 100)} %`;

// A length of time by its two greatest units, as the command line has it:
// "45 s", "1 min 30 s", "2 h 0 min", "3 d 4 h". No line breaks within it.
export function length(seconds) {
  const s = Math.floor(seconds);
  const parts = s < 60 ? `${s} s`
    : s < 3600 ? `${Math.floor(s / 60)} min ${s % 60} s`
    : s < 86400 ? `${Math.floor(s / 3600)} h ${Math.floor((s / 60) % 60)} min`
    : `${count(Math.floor(s / 86400))} d ${Math.floor((s / 3600) % 24)} h`;
  return parts.replaceAll(" ", "\u00a0");
}

export const ago = (seconds) => `${length(seconds)} ago`;

// Of an RFC 3339 time in UTC the time of day; the day before it unless it is today's.
export function time(at, now) {
  const [day, rest] = at.split("T");
  const clock = rest.slice(0, 8);
  return now.startsWith(day) ? `${clock} UTC` : `${day} ${clock} UTC`;
}

// The time so many seconds before `now`.
export function before(now, seconds) {
  return time(new Date(Date.parse(now) - seconds * 1000).toISOString(), now);
}

// A measured value: integers whole, all else to six digits.
export function number(value) {
  if (Number.isInteger(value)) return count(value);
  return Number(value.toPrecision(6)).toLocaleString("en", { maximumFractionDigits: 9 });
}
