// The address of the page says what it shows, after the #: a filter, a period, a sorted column, an open dialog. A link to
// it shows the same, and the browser's Back goes to what was shown before. Servers do not see it.

let address = new URLSearchParams(location.hash.slice(1));

// The period of the address in epoch ms; null if it has none, or none that has begun.
function period() {
  const [from, to] = ["from", "to"].map((key) => Number(address.get(key) ?? NaN));
  return from < to && from < now() ? [from, to] : null;
}

// Changes parts of the address; empty ones are removed. `isStep` makes a step of the browser's history.
function visit(parts, isStep = true) {
  const next = new URLSearchParams(address);
  for (const [key, value] of Object.entries(parts)) {
    if (value) next.set(key, value);
    else next.delete(key);
  }
  if (String(next) === String(address)) return;
  history[isStep ? "pushState" : "replaceState"](null, "", next.size ? `#${next}` : location.pathname);
  readAddress();
}

function readAddress() {
  const before = address;
  address = new URLSearchParams(location.hash.slice(1));
  follow(before);
}
