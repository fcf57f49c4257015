// The page: what it has got of the state, and how it shows it. Where that comes from is in live.js and saved.js.

const MAX_DECISIONS = 1000;
const held = { intervals: new Map(), tenants: new Map(), decisions: [], changes: [], news: null };
const plots = Object.entries(PLOTS).map(([id, plan]) => new Plot(id, plan));
const tenants = makeTenants();
const decisions = makeDecisions("decisions-table");
const changes = makeChanges();
const rejectedOnly = document.getElementById("rejected-only");
let order = [];
let orderedAt = 0;

function shownChanges(from, to) {
  return held.changes.filter((each) => each.at >= from && each.at < to);
}

function take(news) {
  if (news.first) {
    held.intervals.clear();
    held.tenants.clear();
    held.decisions = [];
    held.changes = [];
  }
  held.news = news;
  for (const each of news.intervals) held.intervals.set(each.at, each);
  for (const at of held.intervals.keys()) if (at < oldestAt() - 100000) held.intervals.delete(at);
  for (const each of news.tenants) held.tenants.set(each.key, each);
  if (held.tenants.size > news.buckets + 100) forgetQuiet(news);
  if (news.decisions.length) {
    held.decisions = [...news.decisions, ...held.decisions].sort((left, right) => right.place - left.place).slice(0, MAX_DECISIONS);
  }
  if (news.changes.length) {
    held.changes = [...held.changes, ...news.changes].sort((left, right) => left.offset - right.offset).slice(-200);
    held.changes.forEach((each, index) => { each.number ??= each.offset < 0 ? 0 : (held.changes[index - 1]?.number ?? 0) + 1; });
  }
}

// Removes the tenants that the dashboard has dropped, because they had no requests for an hour.
function forgetQuiet(news) {
  for (const [key, each] of held.tenants) {
    if (each.level && each.level.at < oldestAt() && each.retry_at < news.now) held.tenants.delete(key);
  }
}

function show() {
  showEmpty();
  if (held.news === null) return;
  showTiles();
  showPlots();
  showTenants();
  showDecisions(false);
  const { scheduled, scheduled_more: more } = held.news;
  setText(document.getElementById("scheduled"),
    scheduled.length ? `Scheduled: ${scheduled.join("; ")}${more ? `; and ${more} more` : ""}.` : "");
  changes.show([...held.changes].reverse(), (each) => each.offset, SAVED ? "No quota was in force, and none was changed." : "No quota has been set yet.");
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
  const all = SAVED ? [...held.intervals.values()] : recent(3600000);
  const last = recent(2 * WIDTH).slice(0, 3);
  const known = (SAVED ? all : recent(60000)).filter((each) => each.p50 !== null);
  const total = (key) => sum(all.map((each) => each[key]));
  const [admitted, rejected, letters] = ["admitted", "rejected", "letters"].map(total);
  const throttled = [...held.tenants.values()].filter((each) => each.retry_at > now()).length;
  const slow = Math.max(...known.map((each) => each.p99));
  const middle = known.map((each) => each.p50).sort((left, right) => left - right)[Math.floor(known.length / 2)];
  const passed = Math.max(1, (now() - Math.min(...last.map((each) => each.at))) / 1000);
  const filtered = address.has("filter");
  const most = Math.max(0, ...all.map((each) => each.throttled));
  const tiles = [
    SAVED ? ["Decisions", whole.format(total("decisions")), IN_PERIOD]
      : ["Decisions", last.length ? `${fine.format(sum(last.map((each) => each.decisions)) / passed)}/s` : "0/s", "now"],
    ["Mutations admitted", whole.format(admitted), IN_PERIOD],
    ["Mutations rejected", whole.format(rejected), IN_PERIOD, rejected > 0],
    SAVED ? ["Throttled tenants", whole.format(most), `at most in an interval, of ${whole.format(held.news.buckets)}`, most > 0]
      : ["Throttled now", whole.format(Math.max(throttled, held.news.throttled)),
        `of ${counted(held.news.buckets, filtered ? "matching tenant" : "tenant")}`, throttled > 0],
    ["Decided in", known.length ? duration(middle) : "–",
      known.length ? `median; p99 ${duration(slow)}${SAVED ? "" : ", last minute"}` : `no requests ${SAVED ? "waited for it" : "in the last minute"}`],
    filtered || held.news.user ? ["Invalid records", "–", "belong to no tenant"]
      : ["Invalid records", whole.format(letters), letters ? held.news.letter : IN_PERIOD, letters > 0],
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

// The period of the charts: the one in the address, cut to what the page has, or the usual one.
function shownPeriod() {
  if (!period()) return usualPeriod();
  const [from, to] = period();
  const end = Math.floor(now() / WIDTH) * WIDTH + WIDTH;
  const start = Math.max(Math.floor(from / WIDTH) * WIDTH, Math.floor(oldestAt() / WIDTH) * WIDTH);
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
  return to > oldestAt()
    ? `Charts and decisions are of ${timeOf(start)} to ${timeOf(end)} UTC. `
    : "The period of the address is older than the data of this page: " +
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
    (more > 0 ? `${whole.format(more)} more are not shown; ${SAVED ? "report --user NAME shows one" : "use the filter above"}. ` : "") +
    (unknown ? `${whole.format(unknown)} were dropped, because there were too many.` : ""));
  tenants.show(found.slice(0, MAX_ROWS), (each) => each.key,
    address.has("filter") ? `No tenant with requests ${IN_PERIOD} matches the filter.` : `No requests ${IN_PERIOD}.`);
}

function showDecisions(again) {
  const found = listed().slice(0, 100);
  const isHeld = !again && (decisions.isHeld || dialog.open);
  const fresh = found.filter((each) => !decisions.parts.has(each.id)).length;
  setText(document.getElementById("decisions-note"), isHeld && fresh ? "The list is not updated while you use it; there are newer decisions." : "");
  if (!isHeld) decisions.show(found, (each) => each.id, noDecisions());
}

// The page has the newest decisions: what is older is in the audit's tables.
function noDecisions() {
  if (SAVED) return noneListed();
  const oldest = held.news.oldest;
  if (oldest === null) return "No decisions in the last hour.";
  if (!period() && !["filter", "rejected"].some((key) => address.has(key))) return "No decisions yet.";
  return `No such decisions since ${timeOf(oldest)} UTC. Older ones: mutation-quota decisions list` +
    `${address.has("rejected") ? " --rejected" : ""}.`;
}

// Shows what the address says.
function follow(before = address) {
  rejectedOnly.checked = address.has("rejected");
  showDialog();
  followControls((...keys) => keys.some((key) => before.get(key) !== address.get(key)));
  if (held.news) {
    showPlots();
    showTenants(true);
  }
}

function begin() {
  document.getElementById("plots").append(...plots.map((plot) => plot.section));
  rejectedOnly.addEventListener("change", () => visit({ rejected: rejectedOnly.checked ? "1" : "" }));
  document.getElementById("period-end").addEventListener("click", () => visit({ from: "", to: "" }));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    for (const plot of plots) plot.forget();
    show();
  });
  let width = innerWidth;
  addEventListener("resize", () => {
    if (width !== innerWidth) plots.forEach((plot) => plot.resize());
    width = innerWidth;
  });
  addEventListener("hashchange", readAddress);
  show();
  follow();
}
