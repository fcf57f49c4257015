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

// The time by the clock of the dashboard's machine.
function now() {
  return Date.now() + held.offset;
}

const isPaused = () => pause.getAttribute("aria-pressed") === "true";
const contains = (...names) => names.some((each) => each.toLowerCase().includes(filter.value.trim().toLowerCase()));

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
    setText(notice, held.news.contact.state === "live"
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
  const tiles = [
    ["Decisions", last.length ? `${fine.format(sum(last.map((each) => each.decisions)) / passed)}/s` : "0/s", "now"],
    ["Mutations admitted", whole.format(admitted), "in the last hour"],
    ["Mutations rejected", whole.format(rejected), "in the last hour", rejected > 0],
    ["Throttled now", whole.format(Math.max(throttled, held.news.throttled)), `of ${counted(held.news.buckets, "tenant")}`, throttled > 0],
    ["Decided in", known.length ? seconds(middle) : "–", known.length ? `median; p99 ${seconds(slow)}, last minute` : "no requests in the last minute"],
    ["Invalid records", whole.format(letters), letters ? held.news.letter : "in the last hour", letters > 0],
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

function showPlots() {
  const count = Number(span.value) / WIDTH;
  const end = Math.floor(now() / WIDTH) * WIDTH;
  const times = Array.from({ length: count }, (_, bin) => end - (count - 1 - bin) * WIDTH);
  const intervals = times.map((time) => held.intervals.get(time) ?? ZERO);
  for (const plot of plots) plot.show(times, intervals);
}

// Throttled tenants come first, then those with the most rejected mutations; the order changes rarely, so that it can be
// read.
function showTenants(again = false) {
  const found = [...held.tenants.values()].filter((each) => contains(each.name, each.user, each.client));
  if (again || (Date.now() - orderedAt > 5000 && !tenants.isHeld)) {
    const rank = (each) => [each.retry_at > now() ? 1 : 0, each.rejected, each.admitted];
    order = [...held.tenants.values()]
      .map((each) => ({ key: each.key, rank: rank(each) }))
      .sort((left, right) => right.rank[0] - left.rank[0] || right.rank[1] - left.rank[1] || right.rank[2] - left.rank[2])
      .map((each) => each.key);
    orderedAt = Date.now();
  }
  const places = new Map(order.map((key, place) => [key, place]));
  found.sort((left, right) => (places.get(left.key) ?? 1e9) - (places.get(right.key) ?? 1e9));
  const more = found.length - MAX_ROWS;
  const unknown = held.news.left_out;
  setText(document.getElementById("tenants-note"),
    (more > 0 ? `${whole.format(more)} more are not shown; use the filter above. ` : "") +
    (unknown ? `${whole.format(unknown)} were dropped, because there were too many.` : ""));
  tenants.show(found.slice(0, MAX_ROWS), (each) => each.key,
    filter.value ? "No tenant matches the filter." : "No requests in the last hour.");
}

function showDecisions(again) {
  const found = held.decisions.filter((each) => contains(each.user, each.client) &&
    (!rejectedOnly.checked || each.outcome !== "ADMITTED" || each.wait > 0)).slice(0, 100);
  const isHeld = !again && (decisions.isHeld || dialog.open);
  const fresh = found.filter((each) => !decisions.parts.has(each.id)).length;
  setText(document.getElementById("decisions-note"), isHeld && fresh ? "The list is not updated while you use it; there are newer decisions." : "");
  if (!isHeld) decisions.show(found, (each) => each.id, filter.value || rejectedOnly.checked ? "No such decisions." : "No decisions yet.");
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
  const stream = new EventSource("/api/stream");
  stream.addEventListener("message", (event) => take(JSON.parse(event.data)));
  stream.addEventListener("error", () => {
    if (stream.readyState === EventSource.CLOSED) setTimeout(listenAgain, 3000);
  });
}

// A dashboard that was restarted with a token requires it again.
function listenAgain() {
  fetch("/assets/icon.svg").then((answer) => { if (answer.status === 401) location.reload(); else listen(); }, listen);
}

function begin() {
  document.getElementById("plots").append(...plots.map((plot) => plot.section));
  const choose = () => { if (held.news) { showPlots(); showTenants(true); showDecisions(true); } };
  filter.addEventListener("input", choose);
  span.addEventListener("change", choose);
  rejectedOnly.addEventListener("change", choose);
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
  show();
  listen();
}

begin();
