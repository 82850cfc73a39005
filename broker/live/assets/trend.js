// Whether lag grows. Lag is a saw: it falls with each commit and rises between two of them. So the least lag of each ten
// seconds is compared with that of the ten seconds before, and so on, up to half a minute back.

const BUCKET_MS = 10e3;
const KEPT = 4;
const FEW = 10; // records: such a difference means nothing
const NOISE = 0.8; // nor one of so much of what lag swings by within ten seconds

export class Trend {
  constructor() { this.past = []; this.from = null; }

  // `lag` is the lag from now on, until another one is told.
  tell(now, lag) {
    if (lag === null || this.from === null || now - this.from > BUCKET_MS * KEPT) {
      this.past = [];
      this.from = lag === null ? null : now;
      this.bucket = { least: lag, most: lag };
      return;
    }
    while (now - this.from >= BUCKET_MS) {
      this.past.push(this.bucket);
      if (this.past.length > KEPT) this.past.shift();
      this.from += BUCKET_MS;
      this.bucket = { least: lag, most: lag };
    }
    if (lag < this.bucket.least) this.bucket.least = lag;
    if (lag > this.bucket.most) this.bucket.most = lag;
  }

  // Records per second; null until there is something to compare. What may be noise is 0.
  perSecond() {
    const { past } = this;
    if (past.length < 2) return null;
    const grown = past.at(-1).least - past[0].least;
    const swing = past.reduce((sum, { least, most }) => sum + most - least, 0) / past.length;
    return Math.abs(grown) <= Math.max(FEW, swing * NOISE) ? 0 : grown / ((past.length - 1) * BUCKET_MS / 1000);
  }
}

export const trendClass = (perSecond) => !perSecond ? "steady" : perSecond > 0 ? "grows" : "shrinks";
