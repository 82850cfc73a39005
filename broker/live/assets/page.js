// The page: which of both views is shown, the theme, the keyboard.

import { followTips, el } from "./dom.js";
import { safe } from "./format.js";
import { showGroup } from "./group.js";
import { showOverview } from "./overview.js";

const content = document.getElementById("content");
const keys = document.getElementById("keys");
let view = null;

function remembered(name) {
  try { return localStorage.getItem(name); } catch { return null; }
}
function remember(name, value) {
  try { localStorage.setItem(name, value); } catch { /* private windows */ }
}

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  if (view && view.redraw) view.redraw();
}
const system = matchMedia("(prefers-color-scheme: dark)");
system.addEventListener("change", () => { if (!remembered("kohort-theme")) setTheme(system.matches ? "dark" : "light"); });
function otherTheme() {
  const next = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  remember("kohort-theme", next);
  setTheme(next);
}

// --- which view

function route() {
  const [, kind, key] = location.hash.match(/^#\/(group)\/(.+)$/) || [];
  if (view) view.end();
  content.replaceChildren();
  scrollTo(0, 0);
  if (kind) {
    let name = key;
    try { name = decodeURIComponent(key); } catch { /* somebody has changed the address */ }
    document.title = `${safe(name).slice(0, 80)} · Kohort live`;
    view = showGroup(content, name, tell);
  } else {
    document.title = "Kohort live";
    view = showOverview(content, tell);
  }
}

// What stands on top of the page.
function tell(about) {
  const where = document.getElementById("where");
  where.textContent = safe(about.where || "");
  where.title = [about.kind, about.cluster_id && `cluster ${about.cluster_id}`, about.version && `Kohort ${about.version}`].filter(Boolean).map(safe).join(", ");
  const troubles = document.getElementById("troubles");
  troubles.hidden = !(about.troubles || []).length;
  troubles.replaceChildren(...(about.troubles || []).map((text) => el("p", {}, safe(text))));
}

// --- keyboard

addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || keys.open) return;
  const typing = event.target.closest("input, select, textarea");
  if (event.key === "t" && !typing) otherTheme();
  else if (event.key === "?" && !typing) keys.showModal();
  else if (!view || !view.key(event, Boolean(typing))) return;
  event.preventDefault();
});

document.getElementById("theme").addEventListener("click", otherTheme);
document.getElementById("help").addEventListener("click", () => keys.showModal());
addEventListener("hashchange", route);
followTips();
route();
