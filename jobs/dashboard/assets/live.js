// The live page: it receives the stream of changes, and asks the server for what its dialogs show.

const STALE_MS = 5000;
const [filter, span, pause] = ["filter", "span", "pause"].map((id) => document.getElementById(id));
let stream = null;
let receivedAt = Date.now();
let offset = 0;

// The time by the clock of the dashboard's machine.
function now() {
  return Date.now() + offset;
}

const isPaused = () => pause.getAttribute("aria-pressed") === "true";

function receive(news) {
  if (news.start !== PAGE.start) location.reload();  // the dashboard was restarted, and its secrets are new
  receivedAt = Date.now();
  offset = news.now - receivedAt;
  take(news);
  showContact();
  if (!isPaused()) show();
}

function showContact() {
  const node = document.getElementById("contact");
  const [state, text] = contactNow();
  node.dataset.state = state;
  setText(node, text);
  setText(document.getElementById("active"), held.news?.active ? `enforce is active in ${held.news.active}.` : "");
}

function contactNow() {
  if (held.news === null) return ["starting", "Connecting…"];
  const silent = Date.now() - receivedAt;
  if (silent > STALE_MS) return ["lost", "No connection to the dashboard. Retrying; the data is out of date."];
  const { state, message, at } = held.news.contact;
  if (state === "unreachable") {
    const known = at ? `the data is from ${timeOf(at)}` : "no data yet";
    return ["unreachable", `${message[0].toUpperCase()}${message.slice(1)}. Retrying; ${known}.`];
  }
  if (state === "starting") return ["starting", "Reading the last hour from Kafka…"];
  if (now() - at > STALE_MS) return ["unreachable", `Kafka has not responded for ${duration(Math.floor((now() - at) / 1000) * 1000)}. Retrying.`];
  return isPaused() ? ["live", "Paused: the data is not updated."] : ["live", "Live"];
}

// Browsers allow six connections to a host, for all of its tabs, so only a tab that is seen keeps one.
function listen() {
  stream?.close();
  stream = null;
  if (document.hidden) return;
  const keys = ["filter", "rejected", ...(period() ? ["from", "to"] : [])];
  const asked = new URLSearchParams([...address].filter(([key]) => keys.includes(key)));
  stream = new EventSource(`api/stream?${asked}`);
  stream.addEventListener("message", (event) => receive(JSON.parse(event.data)));
  stream.addEventListener("error", ({ target }) => {
    if (target.readyState === EventSource.CLOSED) setTimeout(listenAgain, 3000);
  });
}

// A dashboard that was restarted with a token requires it again.
function listenAgain() {
  fetch("assets/icon.svg").then((answer) => { if (answer.status === 401) location.reload(); else listen(); }, listen);
}

async function ask(path, options = {}) {
  let answer;
  try {
    answer = await fetch(path, { credentials: "same-origin", cache: "no-store", ...options });
  } catch {
    throw new Error("The dashboard does not respond. Is it still running?");
  }
  if (!(answer.headers.get("content-type") ?? "").startsWith("application/json")) throw new Error((await answer.text()).trim());
  const value = await answer.json();
  if (!answer.ok) throw new Error(value.error);
  return value;
}

const decisionsOf = (key) => ask(`api/buckets?key=${encodeURIComponent(key)}`);

function openExplanation(id) {
  openDialog(`Decision ${id}`, async () => {
    const found = await ask(`api/decisions/${encodeURIComponent(id)}`);
    const lines = element("dl", { class: "lines" });
    for (const [part, text] of found.lines) lines.append(element("dt", {}, part), element("dd", {}, name(text)));
    return [
      element("p", { class: "done" }, name(found.summary)),
      lines,
    ];
  });
}

// The period of the charts without one in the address: the newest minutes.
function usualPeriod() {
  const end = Math.floor(now() / WIDTH) * WIDTH + WIDTH;
  return [end - Number(span.value), end];
}

// The time of the oldest data.
const oldestAt = () => now() - 3600000;

// Shows the controls as the address says. The server is asked again if it has to look for other decisions.
function followControls(differs) {
  filter.value = address.get("filter") ?? "";
  span.value = [...span.options].some((each) => each.value === address.get("span")) ? address.get("span") : span.options[0].value;
  if (differs("filter", "rejected", "from", "to")) {
    held.decisions = [];
    listen();
  }
}

// The decisions to list, which the server has selected.
const listed = () => held.decisions;

let typed = 0;
filter.addEventListener("input", () => {
  clearTimeout(typed);
  typed = setTimeout(() => visit({ filter: filter.value.trim() }, false), 250);
});
filter.form.addEventListener("submit", (event) => event.preventDefault());
span.addEventListener("change", () => visit({ span: span.value, from: "", to: "" }));
pause.addEventListener("click", () => {
  pause.setAttribute("aria-pressed", String(!isPaused()));
  showContact();
  if (!isPaused()) show();
});
setInterval(() => {
  showContact();
  if (isPaused() || document.hidden) return;
  const present = now();
  for (const parts of tenants.parts.values()) updateLevel(parts, present);
}, 500);
document.addEventListener("visibilitychange", () => {
  receivedAt = Date.now();
  listen();
});
begin();
listen();
