// Sorts a table by the column whose head is pressed: by number where there is one, empty cells last.
"use strict";

function keyOf(row, column) {
  const text = row.cells[column].textContent;
  const number = parseFloat(text);
  return Number.isNaN(number) ? (text === "-" ? null : text) : number;
}

function compareKeys(one, other) {
  if (one === null || other === null) return (one === null) - (other === null);
  if (typeof one === "number" && typeof other === "number") return other - one;
  return String(one).localeCompare(String(other));
}

for (const head of document.querySelectorAll("thead th")) {
  const button = document.createElement("button");
  button.textContent = head.textContent;
  head.replaceChildren(button);
  button.addEventListener("click", () => {
    const body = head.closest("table").tBodies[0], up = head.ariaSort === "descending";
    const rows = [...body.rows].sort((one, other) =>
      compareKeys(keyOf(one, head.cellIndex), keyOf(other, head.cellIndex)));
    body.append(...(up ? rows.reverse() : rows));
    for (const one of head.parentElement.cells) one.removeAttribute("aria-sort");
    head.ariaSort = up ? "ascending" : "descending";
  });
}
