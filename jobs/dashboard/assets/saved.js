// The saved page: all its data is in it.

const FROM = Number(PAGE.from);
const saved = JSON.parse(document.getElementById("data").textContent);

// The end of the period, as of which buckets are shown.
const now = () => saved.now;

const oldestAt = () => FROM;
const usualPeriod = () => [FROM, saved.to];
const followControls = () => { if (held.news) showDecisions(true); };

function decisionsOf(key) {
  return { tenant: held.tenants.get(key) ?? null, decisions: held.decisions.filter((each) => each.bucket === key) };
}

function openExplanation(id) {
  openDialog(`Decision ${id}`, () => saved.audited
    ? [sentence("This command explains it from the audit's tables:"), element("pre", {}, `mutation-quota explain ${id}`)]
    : [sentence("It is of a file: mutation-quota simulate decides the file's requests, and prints each decision.")]);
}

// The decisions to list: of the period in the address, and those that were rejected or throttled if only they are wanted.
function listed() {
  const [from, to] = period() ?? [-Infinity, Infinity];
  return held.decisions.filter((each) => each.at >= from && each.at < to &&
    (!address.has("rejected") || each.outcome !== "ADMITTED" || each.wait > 0));
}

// Only the newest decisions are listed; the charts count all.
const noneListed = () => "None of the decisions listed in this page" +
  (saved.audited ? "; mutation-quota decisions list has all." : ".");

take(saved);
begin();
