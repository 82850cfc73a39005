// Server-sent events, and what the page says about the connection.

const link = document.getElementById("link");
let source = null;

export function say(state, text) {
  link.dataset.state = state;
  if (link.textContent !== text) link.textContent = text;
}

// Watch `path` instead of what was watched before. `handlers` are called with the data of each event.
export function watch(path, handlers) {
  stop();
  const mine = source = new EventSource(path);
  for (const [name, handle] of Object.entries(handlers)) {
    mine.addEventListener(name, (event) => { if (source === mine) handle(JSON.parse(event.data)); });
  }
  mine.addEventListener("open", () => say("live", "live"));
  mine.addEventListener("error", () => {
    if (source !== mine) return;
    say("lost", "connection lost, trying again");
    if (mine.readyState === EventSource.CLOSED) setTimeout(() => { if (source === mine) explain(path, handlers); }, 2000);
  });
}

export function stop() {
  if (source) source.close();
  source = null;
}

// The browser has given up: the server has refused. Say why, and try again.
async function explain(path, handlers) {
  try {
    const answer = await fetch(path.replace("/api/watch", "/api/about"), { cache: "no-store" });
    if (answer.status === 401) { location.reload(); return; }
    if (answer.status === 403) { say("lost", (await answer.text()).slice(0, 300)); return; }
  } catch { /* the server is away: it may come back */ }
  watch(path, handlers);
}
