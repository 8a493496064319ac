// The box in which words are searched for.

import { byId } from "./dom.js";
import { MOST_HITS, search } from "./details.js";
import { reveal } from "./leads.js";

/** @typedef {import("./page.js").Page} Page */

/** @param {Page} page @param {string} typed */
export function searchFor(page, typed) {
    page.found = search(page.model, typed);
    page.hit = -1;
    sayHits(page);
    page.draw();
}

/** @param {Page} page */
function sayHits(page) {
    const { count, hits } = page.found;
    const words = /** @type {HTMLInputElement} */ (byId("search")).value.trim() === "" ? ""
        : count === 0 ? "nothing" : page.hit < 0 ? `${count} found` : `${page.hit + 1} of ${count}`;
    byId("hits").textContent = count > hits.length ? `${words}, the first ${MOST_HITS.toLocaleString("en")} of which can be reached` : words;
}

/** Goes to another hit. @param {Page} page @param {number} by */
export function nextHit(page, by) {
    const { hits } = page.found;
    if (hits.length === 0) {
        return;
    }
    page.hit = (page.hit + by + hits.length) % hits.length;
    const { selection } = hits[page.hit];
    reveal(page, selection);
    page.select(selection);
    page.approach();
    sayHits(page);
}
