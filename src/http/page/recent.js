// How much a count has grown within the last minute, by the gateway's clock.

const SPAN = 60_000;

export class Recent {
  // Counts and when they stood, oldest first; of those from before the minute the newest.
  #seen = [];

  note(count, at) {
    const last = this.#seen.at(-1);
    const now = { at: Date.parse(at), count };
    // The agent was started again, or its clock was set back.
    if (last !== undefined && (now.count < last.count || now.at < last.at)) this.#seen = [];
    this.#seen.push(now);
    this.#trim();
  }

  // When the newest of what was counted came, newest first: what was before the page was.
  remember(times) {
    for (const at of times) {
      const first = this.#seen[0];
      const before = { at: Date.parse(at) - 1, count: first.count - 1 };
      if (before.count >= 0 && before.at <= first.at) this.#seen.unshift(before);
    }
    this.#trim();
  }

  grown() {
    return this.#seen.length === 0 ? 0 : this.#seen.at(-1).count - this.#seen[0].count;
  }

  #trim() {
    const from = this.#seen.at(-1).at - SPAN;
    while (this.#seen.length > 1 && this.#seen[1].at <= from) this.#seen.shift();
  }
}
