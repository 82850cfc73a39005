// Words and numbers. Names come from clients, who could choose anything: `safe` writes out what is not shown as it is.

const UNSAFE = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}\p{Zl}\p{Zp}]/gu;

export function safe(text) {
  return String(text).replace(UNSAFE, (char) => {
    const code = char.codePointAt(0);
    return code < 256 ? `\\x${code.toString(16).padStart(2, "0")}` : `\\u{${code.toString(16)}}`;
  });
}

export const number = (value) => value === null || value === undefined ? "–" : value.toLocaleString("en-US");
export const plural = (count, one, many) => `${number(count)} ${count === 1 ? one : many || one + "s"}`;

export function short(value) {
  if (value === null || value === undefined) return "–";
  for (const [unit, size, from] of [["bn", 1e9, 1e9], ["M", 1e6, 1e6], ["k", 1e3, 1e5]]) {
    if (Math.abs(value) >= from) return (value / size).toFixed(Math.abs(value) >= size * 100 ? 0 : 1) + " " + unit;
  }
  return number(value);
}

export function rate(value) {
  if (value === null || value === undefined) return "–";
  if (value === 0) return "0";
  if (Math.abs(value) < 10) return value.toFixed(1);
  return short(Math.round(value));
}

export function duration(ms) {
  if (ms === null || ms === undefined) return "–";
  if (ms < 1000) return Math.round(ms) + " ms";
  if (ms < 60e3) return (ms / 1000).toFixed(ms < 10e3 ? 1 : 0) + " s";
  if (ms < 3600e3) return Math.floor(ms / 60e3) + " min " + Math.round(ms % 60e3 / 1000) + " s";
  if (ms < 48 * 3600e3) return Math.floor(ms / 3600e3) + " h " + Math.round(ms % 3600e3 / 60e3) + " min";
  return (ms / 86400e3).toFixed(1) + " days";
}

// How long ago, in one word; it changes at most once a second.
export function ago(ms, now) {
  if (ms === null || ms === undefined) return "–";
  const passed = Math.max(0, now - ms);
  if (passed < 2000) return "now";
  if (passed < 60e3) return Math.floor(passed / 1000) + " s";
  if (passed < 3600e3) return Math.floor(passed / 60e3) + " min";
  if (passed < 48 * 3600e3) return Math.floor(passed / 3600e3) + " h";
  return Math.floor(passed / 86400e3) + " days";
}

const two = (value) => String(value).padStart(2, "0");
export function clock(ms) {
  const at = new Date(ms);
  return `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
}
export function moment(ms) {
  if (ms === null || ms === undefined) return "–";
  const at = new Date(ms);
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${clock(ms)}`;
}
// Member ids end in a UUID; its first digits tell them apart.
export const brief = (id) => id.replace(/([0-9a-f]{8})(-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, "$1…");
