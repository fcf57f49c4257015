// Tables whose rows are updated in place, so that focus and hover are not lost.

// Sets a text only if it has changed.
function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

class LiveTable {
  // `make` returns the parts of a new row, including its `row`; `update` writes an item into them. A head is a text, or a
  // text and the value of `sort` in the address by which its column is sorted.
  constructor(id, caption, heads, make, update) {
    this.make = make;
    this.update = update;
    this.parts = new Map();
    this.body = element("tbody", { role: "rowgroup" });
    this.heads = new Map();
    const named = heads.map((head) => [head].flat());
    this.labels = named.map(([text]) => text);
    const columns = named.map(([text, sort]) => {
      if (!sort) return columnHead(text);
      const cell = columnHead(text, (shown) => {
        const button = element("button", { type: "button", class: "link sort", title: "Sort by this column" }, shown);
        button.addEventListener("click", () => visit({ sort }, false));
        return button;
      });
      this.heads.set(sort, cell);
      return cell;
    });
    const { frame, update: tell } = scrolling(caption, element("table", { class: "cards", role: "table", "aria-label": caption },
      element("thead", { role: "rowgroup" }, element("tr", { role: "row" }, ...columns)), this.body));
    [this.frame, this.tell] = [frame, tell];
    this.none = sentence("");
    put(id, this.frame, this.none);
  }

  // Marks the column by which the rows are sorted.
  showSort(sort) {
    for (const [key, cell] of this.heads) cell.setAttribute("aria-sort", key === sort ? "descending" : "none");
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
        asCard(made.row, this.labels);
        this.parts.set(key, made);
      }
      const parts = this.parts.get(key);
      this.update(parts, item);
      if (parts.row === place) place = place.nextElementSibling;
      else this.body.insertBefore(parts.row, place);
    }
    this.tell(items.length);
  }
}
