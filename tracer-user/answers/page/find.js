// What lies where in the timeline, and how tables and hits of a search lead into it; the box in which words are searched
// for.

import { Slices, firstAfter } from "./slices.js";
import { MOST_HITS, search } from "./details.js";
import { byId, element } from "./dom.js";
import { RULER } from "./draw.js";
import { LISTED } from "./forest.js";
import { tableElement, tables } from "./tables.js";

/** @typedef {import("./page.js").Page} Page */
/** @typedef {import("./details.js").Selection} Selection */
/** @typedef {import("./draw.js").Row} Row */

/**
 * A span, as its thread has it.
 * @param {import("./rows.js").Model} model @param {number} span @returns {Selection | null}
 */
function spanOf({ spans, threads }, span) {
    const thread = spans.thread[span];
    const [from, to] = [spans.from[span], spans.to[span]];
    for (const [level, of] of threads[thread].spans.entries()) {
        const index = of.indexOf(span);
        if (index >= 0) {
            return { kind: "spans", thread, index, level, from, to, label: "" };
        }
    }
    return null;
}

/**
 * An event of a thread at a time.
 * @param {import("./rows.js").Model} model @param {number} thread @param {number} at @param {number} type
 * @returns {Selection | null}
 */
function markOf({ threads }, thread, at, type) {
    const { marks } = threads[thread];
    for (let index = firstAfter(marks.at, at) - 1; index >= 0 && marks.at[index] === at; index--) {
        if (marks.type[index] === type) {
            return { kind: "marks", thread, index, level: 0, from: at, to: at, label: "" };
        }
    }
    return null;
}

/** What is at a time of a row. @param {Page} page @param {Row} row @param {number} at @returns {Selection | null} */
export function findAt(page, row, at) {
    const near = (3 / page.width) * page.view.ns;
    const of = { thread: row.thread, level: row.level, label: row.label };
    if (row.kind === "marks" || row.kind === "faults" || row.kind === "messages") {
        const marks = row.kind === "messages" ? page.model.nodes[row.node].marks : page.model.threads[row.thread][row.kind];
        let index = firstAfter(marks.at, at);
        if (index > 0 && (index === marks.count || at - marks.at[index - 1] < marks.at[index] - at)) {
            index--;
        }
        const found = marks.at[index];
        if (Math.abs(found - at) > near) {
            return null;
        }
        return row.kind === "messages" ? markOf(page.model, page.model.nodes[row.node].threads[index], found, marks.type[index])
            : { ...of, kind: row.kind, index, from: found, to: found };
    }
    const slices = row.kind === "state" ? page.model.threads[row.thread].track : row.slices;
    if (slices === undefined || row.kind === "heading" || row.kind === "group") {
        return null;
    }
    let index = slices.find(at);
    if (index < 0) {
        // One that is too short to be at the very pixel.
        const next = firstAfter(slices.from, at);
        const isNext = next < slices.count && slices.from[next] - at <= near;
        index = isNext ? next : next > 0 && at - slices.to[next - 1] <= near ? next - 1 : -1;
    }
    if (index < 0) {
        return null;
    }
    if (row.kind === "node") {
        return spanOf(page.model, page.model.nodes[row.node].spans[row.level][index]);
    }
    const thread = row.kind === "cpu" ? slices.what[index] : row.thread;
    return { ...of, thread, kind: row.kind, index, from: slices.from[index], to: slices.to[index] };
}

/** @param {Page} page @param {Selection} selection @returns {Slices | undefined} */
function slicesOf(page, selection) {
    const row = page.model.threads[selection.thread];
    switch (selection.kind) {
        case "state":
            return row.track;
        case "calls":
            return row.calls;
        case "spans":
            return row.levels[selection.level];
        default:
            return undefined;
    }
}

/** The interval before or after on the same row. @param {Page} page @param {number} by */
export function stepAlong(page, by) {
    const { selection, model } = page;
    const row = selection === null ? undefined : model.threads[selection.thread];
    if (selection === null || row === undefined || selection.index < 0) {
        page.move(by * 0.15);
        return;
    }
    const index = selection.index + by;
    if (selection.kind === "marks" || selection.kind === "faults") {
        const marks = row[selection.kind];
        if (index >= 0 && index < marks.count) {
            const at = marks.at[index];
            page.select({ ...selection, index, from: at, to: at });
        }
        return;
    }
    const slices = slicesOf(page, selection);
    if (slices !== undefined && index >= 0 && index < slices.count) {
        page.select({ ...selection, index, from: slices.from[index], to: slices.to[index] });
    }
}

/** Who woke the selected interval's thread, where that is a thread that is shown. @param {Page} page @param {Selection} selection */
export function wakeUpOf(page, selection) {
    const { model } = page;
    if (selection.kind !== "state") {
        return null;
    }
    const { track } = model.threads[selection.thread];
    // The wake-up is at the end of a blocked interval, which a runnable one follows, and a running one that.
    for (const index of [selection.index, selection.index - 1, selection.index - 2]) {
        if (index >= 0 && model.header.codes[track.what[index]].end === "thread") {
            const row = model.rowOfTask(track.task[index]);
            return row === undefined ? null : { thread: row.index, at: track.to[index] };
        }
    }
    return null;
}

/** @param {Page} page */
export function showTables(page) {
    const all = tables(page.model);
    byId("contents").replaceChildren(...all.map((table) => {
        const link = /** @type {HTMLAnchorElement} */ (element("a", table.title));
        link.href = `#table-${table.id}`;
        return link;
    }));
    if ((page.model.header.flames ?? []).length > 0) {
        const link = /** @type {HTMLAnchorElement} */ (element("a", "Flame graphs"));
        link.href = "#flames";
        byId("contents").prepend(link);
    }
    byId("tables").replaceChildren(...all.map((table) => {
        const box = document.createElement("div");
        // A long one scrolls in a space of its own.
        if (table.rows.length > LISTED) {
            box.className = "long";
            box.tabIndex = 0;
            box.role = "region";
            box.ariaLabel = `${table.title}, ${table.rows.length} rows`;
        }
        box.append(tableElement(table, (target) => follow(page, target)));
        return box;
    }));
}

/** @param {Page} page @param {import("./tables.js").Target} target */
function follow(page, target) {
    const { model } = page;
    byId("title").scrollIntoView();
    page.scroller.focus({ preventScroll: true });
    if (target.slowest !== undefined) {
        showSlowest(page, target.slowest);
    } else if (target.thread !== undefined) {
        const row = model.rowOf(...target.thread);
        if (row === undefined) {
            return;
        }
        const [from, to] = [target.from ?? 0, target.to ?? model.end];
        const index = target.to === undefined ? -1 : row.track.find(Math.max(target.to - 1, 0));
        /** @type {Selection} */
        const selection = { kind: index < 0 ? "time" : "state", thread: row.index, index, level: 0, from, to, label: row.label };
        reveal(page, selection);
        page.select(selection);
        page.fit();
    } else if (target.search !== undefined) {
        /** @type {HTMLInputElement} */ (byId("search")).value = target.search;
        searchFor(page, target.search);
        nextHit(page, 1);
    }
}

/** @param {Page} page @param {number} index */
function showSlowest(page, index) {
    const { model } = page;
    const one = model.header.slowest[index];
    const row = model.rowOf(one.pid, one.tid);
    const from = one.from_ns - model.shift;
    if (row === undefined) {
        return;
    }
    for (let level = 0; level < row.levels.length; level++) {
        const slices = row.levels[level];
        for (let at = firstAfter(slices.from, from) - 1; at >= 0 && slices.from[at] === from; at--) {
            if (slices.to[at] === from + one.ns && slices.what[at] === one.kind) {
                /** @type {Selection} */
                const selection = { kind: "spans", thread: row.index, index: at, level, from, to: from + one.ns, label: "" };
                reveal(page, selection);
                page.select(selection);
                page.fit();
                return;
            }
        }
    }
}

/** Shows the row of what is selected. @param {Page} page @param {Selection} selection */
export function reveal(page, selection) {
    if (page.model.threads[selection.thread] !== undefined) {
        page.open(selection.thread);
    }
    const kind = selection.kind === "time" ? "state" : selection.kind;
    const shown = page.rows.find((one) => one.kind === kind && one.thread === selection.thread && one.level === selection.level);
    if (shown === undefined) {
        return;
    }
    const height = page.scroller.clientHeight - RULER;
    if (shown.top < page.scroller.scrollTop || shown.top + 40 > page.scroller.scrollTop + height) {
        page.scroller.scrollTop = Math.max(shown.top - height / 3, 0);
    }
}

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
