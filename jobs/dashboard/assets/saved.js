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
  openDialog(`Decision ${id}`, () => [sentence("This command explains it from the audit's tables:"), element("pre", {}, `mutation-quota explain ${id}`)]);
}

// The decisions to list: of the period in the address, and those that were rejected or throttled if only they are wanted.
function listed() {
  const [from, to] = period() ?? [-Infinity, Infinity];
  return held.decisions.filter((each) => each.at >= from && each.at < to &&
    (!address.has("rejected") || each.outcome !== "ADMITTED" || each.wait > 0));
}

take(saved);
begin();
