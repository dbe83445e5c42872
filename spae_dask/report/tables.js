
"use strict";
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0];
  const rows = Array.from(body.rows);
  const heads = Array.from(table.tHead.rows[0].cells);

  // numbers are kept in full in <data>; an empty cell is neither large nor small, and stays last
  const key = (row, column) => {
    const cell = row.cells[column];
    const data = cell.querySelector("data");
    return data ? Number(data.value) : cell.textContent.trim();
  };
  const sort = (column, ascending) => {
    const keyed = rows.map((row) => [key(row, column), row]);
    keyed.sort(([a], [b]) => {
      if (a === "" || b === "") return (a === "") - (b === "");
      const order = typeof a === "number" && typeof b === "number"
        ? a - b : String(a).localeCompare(String(b), "en", { numeric: true });
      return ascending ? order : -order;
    });
    body.append(...keyed.map(([, row]) => row));
    heads.forEach((head) => head.removeAttribute("aria-sort"));
    heads[column].setAttribute("aria-sort", ascending ? "ascending" : "descending");
  };
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const now = head.getAttribute("aria-sort");
      const isText = rows.length > 0 && !rows.some((row) => row.cells[column].querySelector("data"));
      sort(column, now ? now === "descending" : isText);
    });
  });

  const search = document.createElement("p");
  const label = document.createElement("label");
  const input = document.createElement("input");
  const count = document.createElement("span");
  search.className = "search";
  input.type = "search";
  count.setAttribute("role", "status");
  label.append("Search ", input);
  search.append(label, count);
  table.parentNode.before(search);
  const texts = rows.map((row) => row.textContent.toLowerCase());
  input.addEventListener("input", () => {
    const wanted = input.value.trim().toLowerCase();
    let shown = 0;
    rows.forEach((row, i) => {
      row.hidden = !texts[i].includes(wanted);
      shown += row.hidden ? 0 : 1;
    });
    count.textContent = wanted ? shown + " of " + rows.length : "";
  });
}
