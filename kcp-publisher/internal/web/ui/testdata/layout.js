// Returns the faults of the page's layout that a reader would notice: text that is cut off, words that are broken,
// elements that overlap or are not aligned, and numbers with the label of another column.
(() => {
  const faults = [];
  const seen = e => e.clientWidth > 0 && !e.closest(".hidden") && !(e.closest("thead") && e.closest("thead").clientWidth <= 1);
  const of = e => `${e.tagName}.${e.className} "${e.innerText.trim().slice(0, 60)}"`;
  const all = selector => [...document.querySelectorAll(selector)];

  for (const e of all("#main :is(th, td, a, span, p, h1, h2, h3, dd)").filter(seen)) {
    if (!e.innerText.trim() || e.closest("thead")) continue;
    const cut = getComputedStyle(e).overflowX === "hidden" && e.scrollWidth > e.clientWidth + 1;
    if (cut || /^T[HD]$/.test(e.tagName) && e.innerText.trim().length > 8 && e.clientWidth < 56) {
      faults.push(`too narrow (${e.clientWidth} px): ${of(e)}`);
    }
  }

  // A word may be broken after a hyphen or slash. Long parts, such as digests, may be broken anywhere.
  const range = document.createRange();
  const texts = document.createTreeWalker(document.querySelector("#main"), NodeFilter.SHOW_TEXT);
  for (let node; (node = texts.nextNode());) {
    // The clientWidth of inline elements, such as links, is 0.
    const cell = node.parentElement.closest("th, td, p, li, dd, dt, h1, h2, h3, div") ?? node.parentElement;
    if (!seen(cell) || node.parentElement.closest("code, pre, select")) continue;
    for (const word of node.data.matchAll(/\S+/g)) {
      if (!/^[\w.,()\/-]+$/.test(word[0])) continue;
      for (const part of word[0].matchAll(/[^\/-]+[\/-]?/g)) {
        if (part[0].length > 14) continue;
        range.setStart(node, word.index + part.index);
        range.setEnd(node, word.index + part.index + part[0].length);
        if (new Set([...range.getClientRects()].map(r => Math.round(r.top))).size > 1) {
          faults.push(`broken word "${part[0]}" in ${of(node.parentElement)}`);
        }
      }
    }
  }

  const parts = all(".top .brand, .top nav a, .top .who > *").filter(e => e.clientWidth > 0);
  for (const a of parts) {
    if (a.scrollWidth > a.clientWidth + 1) faults.push(`too narrow: ${of(a)}`);
    for (const b of parts) {
      const [r, s] = [a.getBoundingClientRect(), b.getBoundingClientRect()];
      if (a !== b && r.left <= s.left && r.right > s.left - 2 && r.top < s.bottom && s.top < r.bottom) {
        faults.push(`${of(a)} touches ${of(b)}`);
      }
    }
  }
  const edge = e => e.getBoundingClientRect().left + parseFloat(getComputedStyle(e).paddingLeft);
  const [title, first] = [document.querySelector("h1"), document.querySelector(".top nav a")];
  const below = first.getBoundingClientRect().top > document.querySelector(".brand").getBoundingClientRect().bottom - 2;
  if (below && !title.closest(".message") && Math.abs(edge(first) - edge(title)) > 2) {
    faults.push(`the navigation begins at ${edge(first)} px, and the title at ${edge(title)} px`);
  }

  for (const cell of all("#main td").filter(seen)) {
    const lines = new Map();
    for (const e of [...cell.children].filter(e => e.matches(".badge, .quiet"))) {
      const r = e.getBoundingClientRect();
      if (![...lines.keys()].some(top => Math.abs(top - r.top) < 8)) lines.set(r.top, r.left);
    }
    const lefts = [...lines.values()];
    if (getComputedStyle(cell).textAlign !== "right" && Math.max(...lefts) - Math.min(...lefts) > 2) {
      faults.push(`lines begin at ${lefts.map(Math.round)} px in ${of(cell)}`);
    }
  }

  // A long text needs a wide column.
  for (const cell of all("#main tbody td").filter(seen)) {
    range.selectNodeContents(cell); // the cell itself is as high as its row
    const row = cell.closest("tr"), height = range.getBoundingClientRect().height;
    if (height > 4.5 * parseFloat(getComputedStyle(cell).lineHeight) && cell.clientWidth < 0.3 * row.clientWidth) {
      faults.push(`too narrow for its text: ${of(cell)}`);
    }
  }

  // If the head of a table is hidden, the style sheet adds the name of the column to each number.
  for (const cell of all("#main td.num").filter(seen)) {
    const head = cell.closest("table").tHead;
    if (!head || head.clientWidth > 1) continue;
    const name = head.rows[0].cells[cell.cellIndex].textContent.toLowerCase();
    const label = getComputedStyle(cell, "::after").content.replaceAll(/["\s]/g, "");
    if (label !== name && label + "s" !== name) faults.push(`a number of column "${name}" is labeled "${label}"`);
  }
  // Rows of such a table are as compact as a paragraph, and its longest text has the width of the row.
  for (const row of all("#main tbody tr").filter(seen)) {
    const head = row.closest("table").tHead;
    if (!head || head.clientWidth > 1) continue;
    for (const cell of [...row.cells].filter(seen)) {
      const style = getComputedStyle(cell);
      if (parseFloat(style.paddingTop) > 5) faults.push(`${style.paddingTop} of space above ${of(cell)}`);
      if (cell.clientHeight > 3.5 * parseFloat(style.lineHeight) && cell.clientWidth < 0.6 * row.clientWidth) {
        faults.push(`too narrow for its text: ${of(cell)}`);
      }
    }
    const numbers = [...row.cells].filter(e => e.matches(".checks td.num") && seen(e));
    if (new Set(numbers.map(e => Math.round(e.getBoundingClientRect().top))).size > 1) {
      faults.push(`the numbers are on different lines in ${of(row)}`);
    }
  }

  for (const table of all("#main table").filter(t => t.tHead && t.tHead.clientWidth <= 1)) {
    const lefts = new Map();
    for (const cell of [...table.querySelectorAll("tbody td")].filter(e => seen(e) && e.innerText.trim())) {
      if (getComputedStyle(cell).textAlign === "right" || cell.clientWidth > 0.5 * table.clientWidth) continue;
      const left = cell.getBoundingClientRect().left;
      if (left > table.getBoundingClientRect().left + 0.4 * table.clientWidth) {
        const others = lefts.get(cell.cellIndex) ?? left;
        if (Math.abs(others - left) > 2) faults.push(`the cells of column ${cell.cellIndex + 1} are not aligned: ${of(cell)}`);
        lefts.set(cell.cellIndex, others);
      }
    }
  }

  const icons = new Map();
  for (const icon of all(".tile .icon")) {
    const tile = icon.closest(".tile").getBoundingClientRect().left;
    const offset = icon.getBoundingClientRect().left - tile;
    if (Math.abs((icons.get(tile) ?? offset) - offset) > 1) faults.push(`the icons of the tiles at ${tile} px are not aligned`);
    icons.set(tile, offset);
  }
  const middle = e => (e.getBoundingClientRect().top + e.getBoundingClientRect().bottom) / 2;
  const [brand, theme] = [document.querySelector(".brand"), document.querySelector("#theme")];
  if (Math.abs(middle(brand) - middle(theme)) > 8) faults.push("the theme switch is not on the line of the name");

  return [...new Set(faults)].slice(0, 8);
})()
