// The page: receives the stream of changes, and shows them.

const STALE_MS = 5000;
const MAX_DECISIONS = 1000;
const held = { offset: 0, intervals: new Map(), tenants: new Map(), decisions: [], changes: [], news: null, receivedAt: Date.now() };
const plots = Object.entries(PLOTS).map(([id, plan]) => new Plot(id, plan));
const tenants = makeTenants();
const decisions = makeDecisions("decisions-table");
const changes = makeChanges();
const [filter, span, rejectedOnly, pause] = ["filter", "span", "rejected-only", "pause"].map((id) => document.getElementById(id));
let order = [];
let orderedAt = 0;
let stream = null;

// The time by the clock of the dashboard's machine.
function now() {
  return Date.now() + held.offset;
}

const isPaused = () => pause.getAttribute("aria-pressed") === "true";

function shownChanges(from, to) {
  return held.changes.filter((each) => each.at >= from && each.at < to);
}

function take(news) {
  if (news.start !== document.documentElement.dataset.start) location.reload();  // the dashboard was restarted, and its secrets are new
  if (news.first) {
    held.intervals.clear();
    held.tenants.clear();
    held.decisions = [];
    held.changes = [];
  }
  held.receivedAt = Date.now();
  held.offset = news.now - Date.now();
  held.news = news;
  for (const each of news.intervals) held.intervals.set(each.at, each);
  for (const at of held.intervals.keys()) if (at < news.now - 3700000) held.intervals.delete(at);
  for (const each of news.tenants) held.tenants.set(each.key, each);
  if (held.tenants.size > news.buckets + 100) forgetQuiet(news);
  if (news.decisions.length) {
    held.decisions = [...news.decisions, ...held.decisions].sort((left, right) => right.at - left.at).slice(0, MAX_DECISIONS);
  }
  if (news.changes.length) {
    held.changes = [...held.changes, ...news.changes].sort((left, right) => left.offset - right.offset).slice(-200);
    held.changes.forEach((each, index) => { each.number ??= (held.changes[index - 1]?.number ?? 0) + 1; });
  }
  showContact();
  if (!isPaused()) show();
}

// Removes the tenants that the dashboard has dropped, because they had no requests for an hour.
function forgetQuiet(news) {
  for (const [key, each] of held.tenants) {
    if (each.level && each.level.at < news.now - 3600000 && each.retry_at < news.now) held.tenants.delete(key);
  }
}

function show() {
  showEmpty();
  if (held.news === null) return;
  showTiles();
  showPlots();
  showTenants();
  showDecisions(false);
  changes.show([...held.changes].reverse(), (each) => each.offset, "No quota has been set yet.");
}

function showEmpty() {
  const notice = document.getElementById("empty");
  notice.hidden = held.tenants.size > 0 || held.decisions.length > 0;
  if (held.news === null) {
    setText(notice, "Loading the last hour…");
  } else if (!notice.hidden) {
    setText(notice, address.has("filter") ? `No tenant with requests in the last hour matches “${address.get("filter")}”.`
      : held.news.contact.state === "live"
        ? "No request has been decided in the last hour. New decisions appear here without a reload."
        : "No data yet. The topics are created when the deployment's jobs start (mutation-quota enforce).");
  }
}

function recent(ms) {
  const from = now() - ms;
  return [...held.intervals.values()].filter((each) => each.at + WIDTH > from && each.at <= now());
}

function showTiles() {
  const hour = recent(3600000);
  const last = recent(2 * WIDTH).slice(0, 3);
  const known = recent(60000).filter((each) => each.p50 !== null);
  const total = (key) => sum(hour.map((each) => each[key]));
  const [admitted, rejected, letters] = ["admitted", "rejected", "letters"].map(total);
  const throttled = [...held.tenants.values()].filter((each) => each.retry_at > now()).length;
  const slow = Math.max(...known.map((each) => each.p99));
  const middle = known.map((each) => each.p50).sort((left, right) => left - right)[Math.floor(known.length / 2)];
  const passed = Math.max(1, (now() - Math.min(...last.map((each) => each.at))) / 1000);
  const filtered = address.has("filter");
  const tiles = [
    ["Decisions", last.length ? `${fine.format(sum(last.map((each) => each.decisions)) / passed)}/s` : "0/s", "now"],
    ["Mutations admitted", whole.format(admitted), "in the last hour"],
    ["Mutations rejected", whole.format(rejected), "in the last hour", rejected > 0],
    ["Throttled now", whole.format(Math.max(throttled, held.news.throttled)),
      `of ${counted(held.news.buckets, filtered ? "matching tenant" : "tenant")}`, throttled > 0],
    ["Decided in", known.length ? duration(middle) : "–", known.length ? `median; p99 ${duration(slow)}, last minute` : "no requests in the last minute"],
    filtered ? ["Invalid records", "–", "belong to no tenant"]
      : ["Invalid records", whole.format(letters), letters ? held.news.letter : "in the last hour", letters > 0],
  ];
  const list = document.getElementById("tiles");
  if (!list.children.length) {
    list.append(...tiles.map(([label]) => element("div", { class: "tile" }, element("dt", {}, label),
      element("dd", {}, element("strong"), element("span")))));
  }
  tiles.forEach(([, value, more, bad], each) => {
    const [strong, text] = list.children[each].querySelectorAll("strong, span");
    setText(strong, value);
    setText(text, more);
    strong.classList.toggle("bad", Boolean(bad));
  });
}

// The period of the charts: the one in the address, cut to the last hour, or the newest minutes.
function shownPeriod() {
  const end = Math.floor(now() / WIDTH) * WIDTH + WIDTH;
  if (!period()) return [end - Number(span.value), end];
  const [from, to] = period();
  const start = Math.max(Math.floor(from / WIDTH) * WIDTH, end - 3600000);
  return [start, Math.max(start + WIDTH, Math.min(Math.ceil(to / WIDTH) * WIDTH, end))];
}

function showPlots() {
  const [start, end] = shownPeriod();
  const times = Array.from({ length: (end - start) / WIDTH }, (_, bin) => start + bin * WIDTH);
  const intervals = times.map((time) => held.intervals.get(time) ?? ZERO);
  for (const plot of plots) plot.show(times, intervals);
  document.getElementById("period").hidden = !["from", "to"].some((key) => address.has(key));
  setText(document.getElementById("period-text"), describePeriod(start, end));
}

function describePeriod(start, end) {
  if (!period()) return "The address has no valid period: it needs from and to in epoch ms, from before to and before now. ";
  const [from, to] = period();
  return to > now() - 3600000
    ? `Charts and decisions are of ${timeOfDay(start).slice(0, 8)} to ${timeOfDay(end).slice(0, 8)} UTC. `
    : "This page has the last hour, and the period of its address is older: " +
      `mutation-quota report --from ${from} --to ${to} shows it from the audit's tables. `;
}

// Throttled tenants come first, then those with the most rejected mutations, or as a column is sorted; the order changes
// rarely, and not while the pointer or the focus is in the table, so that it can be read and aimed at.
const RANKS = {
  rejected: (each) => [each.retry_at > now() ? 1 : 0, each.rejected, each.admitted],
  admitted: (each) => [each.admitted, each.rejected, 0],
  rate: (each) => [each.level?.rate ?? -1, each.rejected, each.admitted],
  wait: (each) => [Math.max(0, each.retry_at - now()), each.rejected, each.admitted],
};

function showTenants(again = false) {
  const sort = address.get("sort") in RANKS ? address.get("sort") : "rejected";
  const found = [...held.tenants.values()];
  if (again || (Date.now() - orderedAt > 5000 && !tenants.isHeld)) {
    order = found
      .map((each) => ({ key: each.key, rank: RANKS[sort](each) }))
      .sort((left, right) => right.rank[0] - left.rank[0] || right.rank[1] - left.rank[1] || right.rank[2] - left.rank[2])
      .map((each) => each.key);
    orderedAt = Date.now();
  }
  tenants.showSort(sort);
  const places = new Map(order.map((key, place) => [key, place]));
  found.sort((left, right) => (places.get(left.key) ?? 1e9) - (places.get(right.key) ?? 1e9));
  const more = found.length - MAX_ROWS;
  const unknown = held.news.left_out;
  setText(document.getElementById("tenants-note"),
    (more > 0 ? `${whole.format(more)} more are not shown; use the filter above. ` : "") +
    (unknown ? `${whole.format(unknown)} were dropped, because there were too many.` : ""));
  tenants.show(found.slice(0, MAX_ROWS), (each) => each.key,
    address.has("filter") ? "No tenant with requests in the last hour matches the filter." : "No requests in the last hour.");
}

function showDecisions(again) {
  const found = held.decisions.slice(0, 100);
  const isHeld = !again && (decisions.isHeld || dialog.open);
  const fresh = found.filter((each) => !decisions.parts.has(each.id)).length;
  setText(document.getElementById("decisions-note"), isHeld && fresh ? "The list is not updated while you use it; there are newer decisions." : "");
  if (!isHeld) decisions.show(found, (each) => each.id, noDecisions());
}

// The page has the decisions of an hour at most: what is older is in the audit's tables.
function noDecisions() {
  const oldest = held.news.oldest;
  if (oldest === null) return "No decisions in the last hour.";
  if (!period() && !["filter", "rejected"].some((key) => address.has(key))) return "No decisions yet.";
  return `No such decisions since ${timeOfDay(oldest).slice(0, 8)} UTC. Older ones: mutation-quota decisions list` +
    `${address.has("rejected") ? " --rejected" : ""}.`;
}

function showContact() {
  const node = document.getElementById("contact");
  const [state, text] = contactNow();
  node.dataset.state = state;
  setText(node, text);
}

function contactNow() {
  if (held.news === null) return ["starting", "Connecting…"];
  const silent = Date.now() - held.receivedAt;
  if (silent > STALE_MS) return ["lost", "No connection to the dashboard. Retrying; the data is out of date."];
  const { state, message, at } = held.news.contact;
  if (state === "unreachable") {
    const known = at ? `the data is from ${timeOfDay(at).slice(0, 8)}` : "no data yet";
    return ["unreachable", `${message[0].toUpperCase()}${message.slice(1)}. Retrying; ${known}.`];
  }
  if (state === "starting") return ["starting", "Reading the last hour from Kafka…"];
  if (now() - at > STALE_MS) return ["unreachable", `Kafka has not responded for ${duration(Math.floor((now() - at) / 1000) * 1000)}. Retrying.`];
  return isPaused() ? ["live", "Paused: the data is not updated."] : ["live", "Live"];
}

function listen() {
  stream?.close();
  const keys = ["filter", "rejected", ...(period() ? ["from", "to"] : [])];
  const asked = new URLSearchParams([...address].filter(([key]) => keys.includes(key)));
  stream = new EventSource(`/api/stream?${asked}`);
  stream.addEventListener("message", (event) => take(JSON.parse(event.data)));
  stream.addEventListener("error", () => {
    if (stream.readyState === EventSource.CLOSED) setTimeout(listenAgain, 3000);
  });
}

// A dashboard that was restarted with a token requires it again.
function listenAgain() {
  fetch("/assets/icon.svg").then((answer) => { if (answer.status === 401) location.reload(); else listen(); }, listen);
}

// Shows what the address says. The server is asked again if it has to look for other decisions.
function follow(before = address) {
  const differs = (...keys) => keys.some((key) => before.get(key) !== address.get(key));
  filter.value = address.get("filter") ?? "";
  span.value = [...span.options].some((each) => each.value === address.get("span")) ? address.get("span") : span.options[0].value;
  rejectedOnly.checked = address.has("rejected");
  showDialog();
  if (differs("filter", "rejected", "from", "to")) {
    held.decisions = [];
    listen();
  }
  if (held.news) {
    showPlots();
    showTenants(true);
  }
}

function begin() {
  document.getElementById("plots").append(...plots.map((plot) => plot.section));
  let typed = 0;
  filter.addEventListener("input", () => {
    clearTimeout(typed);
    typed = setTimeout(() => visit({ filter: filter.value.trim() }, false), 250);
  });
  span.addEventListener("change", () => visit({ span: span.value, from: "", to: "" }));
  rejectedOnly.addEventListener("change", () => visit({ rejected: rejectedOnly.checked ? "1" : "" }));
  document.getElementById("period-end").addEventListener("click", () => visit({ from: "", to: "" }));
  filter.form.addEventListener("submit", (event) => event.preventDefault());
  pause.addEventListener("click", () => {
    pause.setAttribute("aria-pressed", String(!isPaused()));
    showContact();
    if (!isPaused()) show();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    for (const plot of plots) plot.forget();
    show();
  });
  let width = innerWidth;
  addEventListener("resize", () => {
    if (width !== innerWidth) plots.forEach((plot) => plot.resize());
    width = innerWidth;
  });
  setInterval(() => {
    showContact();
    if (isPaused() || document.hidden) return;
    const present = now();
    for (const parts of tenants.parts.values()) updateLevel(parts, present);
  }, 500);
  addEventListener("hashchange", readAddress);
  show();
  follow();
  listen();
}

begin();
