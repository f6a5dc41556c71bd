// The agent's events over one request that stays open. It is `fetch` and not
// `EventSource`, which cannot send a header: the token would have to go into the
// address, and from there into logs and histories.

const KEPT = "tidegate.token";
// Between two tries to connect, in milliseconds.
const RETRY_MIN = 500;
const RETRY_MAX = 4000;
// A connection that is silent for so long is given up: the agent speaks every second.
const SILENCE_MAX = 8000;

export const token = {
  get: () => sessionStorage.getItem(KEPT),
  set: (text) => sessionStorage.setItem(KEPT, text),
  forget: () => sessionStorage.removeItem(KEPT),
};

// The agent wants a token, or another one.
export class Unauthorized extends Error {}

async function ask(path, signal) {
  const known = token.get();
  const headers = known === null ? {} : { Authorization: `Bearer ${known}` };
  const response = await fetch(path, { headers, signal, cache: "no-store", credentials: "omit" });
  if (response.status === 401) throw new Unauthorized();
  if (!response.ok) throw new Error((await response.text()).trim());
  return response;
}

export async function getJson(path) {
  return (await ask(path)).json();
}

const pause = (ms) => new Promise((resume) => setTimeout(resume, ms));

// Follows the agent for ever, through restarts and cut cables. `on` has `event(name,
// data)`, `trouble(text)`, and `unauthorized()`, which resolves once there is a token.
export async function follow(on) {
  let wait = RETRY_MIN;
  for (;;) {
    try {
      await once((name, data) => {
        wait = RETRY_MIN;
        on.event(name, data);
      });
      on.trouble("");
    } catch (error) {
      if (error instanceof Unauthorized) {
        await on.unauthorized();
        continue;
      }
      // A network failure has a text that differs by browser and helps nobody.
      on.trouble(error instanceof TypeError || error.name === "AbortError" ? "" : error.message);
    }
    await pause(wait);
    wait = Math.min(2 * wait, RETRY_MAX);
  }
}

async function once(tell) {
  const abort = new AbortController();
  let silence;
  const heard = () => {
    clearTimeout(silence);
    silence = setTimeout(() => abort.abort(), SILENCE_MAX);
  };
  heard();
  try {
    const response = await ask("/api/v1/stream", abort.signal);
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      heard();
      const parts = (text + value).split("\n\n");
      text = parts.pop();
      parts.forEach((part) => pass(part, tell));
    }
  } finally {
    clearTimeout(silence);
    abort.abort();
  }
}

// One event: lines of `event:` and `data:`; a comment has neither.
function pass(part, tell) {
  let name = "message";
  let data = null;
  for (const line of part.split("\n")) {
    if (line.startsWith("event: ")) name = line.slice(7);
    else if (line.startsWith("data: ")) data = line.slice(6);
  }
  if (data !== null) tell(name, JSON.parse(data));
}
