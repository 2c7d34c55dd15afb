(function () {
  "use strict";
  var table = document.getElementById("couplings");
  if (!table) return;
  var body = table.tBodies[0];
  // A row of labels belongs to the interaction above it, and goes where that goes.
  var rows = Array.prototype.filter.call(body.rows, function (row) { return row.dataset.order; });
  rows.forEach(function (row) {
    var next = row.nextElementSibling;
    row.labels = next && next.className === "labels" ? next : null;
  });
  var search = document.getElementById("search");
  var order = document.getElementById("order");
  var more = document.getElementById("more");
  var count = document.getElementById("count");
  var page = 25, limit = page;

  function show() {
    var words = search.value.toLowerCase().split(/[\s×*,]+/).filter(Boolean);
    var matching = 0;
    rows.forEach(function (row) {
      var names = row.dataset.name.toLowerCase();
      var hit = (!order.value || row.dataset.order === order.value) &&
        words.every(function (word) { return names.indexOf(word) >= 0; });
      if (hit) matching += 1;
      row.hidden = !hit || matching > limit;
      if (row.labels) row.labels.hidden = row.hidden;
    });
    var shown = Math.min(matching, limit);
    count.textContent = shown + " of " + matching + (matching === rows.length ? "" : " matching") + " shown";
    more.hidden = matching <= limit;
  }

  function sortBy(header) {
    var column = header.cellIndex;
    var ascending = header.getAttribute("aria-sort") === "descending" || header.dataset.first === "ascending" &&
      header.getAttribute("aria-sort") !== "ascending";
    Array.prototype.forEach.call(table.tHead.rows[0].cells, function (cell) { cell.removeAttribute("aria-sort"); });
    header.setAttribute("aria-sort", ascending ? "ascending" : "descending");
    var text = column === 0, sign = ascending ? 1 : -1;
    rows.sort(function (a, b) {
      var x = a.cells[column], y = b.cells[column];
      var d = text ? a.dataset.name.localeCompare(b.dataset.name, undefined, { numeric: true })
        : Number(x.dataset.v) - Number(y.dataset.v);
      return sign * d || Number(a.dataset.rank) - Number(b.dataset.rank);
    });
    rows.forEach(function (row) {
      body.appendChild(row);
      if (row.labels) body.appendChild(row.labels);
    });
    show();
  }

  Array.prototype.forEach.call(table.tHead.rows[0].cells, function (header) {
    var button = header.querySelector("button");
    if (button) button.addEventListener("click", function () { sortBy(header); });
  });
  search.addEventListener("input", function () { limit = page; show(); });
  order.addEventListener("change", function () { limit = page; show(); });
  more.addEventListener("click", function () { limit = rows.length; show(); });
  show();
})();
