// Filters: a word, and the states to show. Without this script everything is shown.
(function () {
  "use strict";
  var bar = document.getElementById("filter");
  var word = bar.querySelector("input[type=search]");
  var boxes = Array.prototype.slice.call(bar.querySelectorAll("input[type=checkbox]"));
  var rows = Array.prototype.slice.call(document.querySelectorAll("[data-s]"));
  var texts = rows.map(function (row) { return (row.dataset.n || row.textContent).toLowerCase(); });

  function apply() {
    var asked = word.value.trim().toLowerCase();
    var states = {};
    boxes.forEach(function (box) { states[box.value] = box.checked; });
    var shown = 0;
    var all = 0;
    rows.forEach(function (row, number) {
      var fits = states[row.dataset.s] !== false && texts[number].indexOf(asked) >= 0;
      row.hidden = !fits;
      if (row.dataset.c) {
        all += 1;
        shown += fits ? 1 : 0;
      }
    });
    bar.querySelector("output").textContent = shown === all ? "" : shown + " of " + all + " attempts shown";
  }

  bar.addEventListener("input", apply);
  bar.hidden = false;
})();
