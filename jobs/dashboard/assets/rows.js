// Tables whose rows are updated in place, so that focus and hover are not lost.

const liveCell = (label, attributes = {}) => element("td", { role: "cell", "data-label": label, ...attributes });

// Sets a text only if it has changed.
function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

class LiveTable {
  // `make` returns the parts of a new row, including its `row`; `update` writes an item into them.
  constructor(id, caption, heads, make, update) {
    this.make = make;
    this.update = update;
    this.parts = new Map();
    this.body = element("tbody", { role: "rowgroup" });
    const columns = heads.map((head) => element("th", {
      scope: "col", role: "columnheader", class: head[0] === "#" ? "number" : "text",
    }, head.replace(/^#/, "")));
    this.frame = element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
      element("table", { class: "live", role: "table", "aria-label": caption },
        element("thead", { role: "rowgroup" }, element("tr", { role: "row" }, ...columns)), this.body));
    this.none = sentence("");
    put(id, this.frame, this.none);
  }

  // Whether the pointer or the keyboard focus is in the table, so that its rows must not move.
  get isHeld() {
    return this.body.matches(":hover") || this.body.contains(document.activeElement);
  }

  show(items, keyOf, none) {
    this.frame.hidden = !items.length;
    setText(this.none, items.length ? "" : none);
    const keys = new Set(items.map(keyOf));
    for (const [key, parts] of this.parts) {
      if (!keys.has(key)) {
        parts.row.remove();
        this.parts.delete(key);
      }
    }
    let place = this.body.firstElementChild;
    for (const item of items) {
      const key = keyOf(item);
      if (!this.parts.has(key)) {
        const made = this.make(item);
        made.row.setAttribute("role", "row");
        this.parts.set(key, made);
      }
      const parts = this.parts.get(key);
      this.update(parts, item);
      if (parts.row === place) place = place.nextElementSibling;
      else this.body.insertBefore(parts.row, place);
    }
  }
}
