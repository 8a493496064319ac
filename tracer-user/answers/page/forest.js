// In which order threads are shown, and which of them share a row.

import { Model } from "./rows.js";

/** @typedef {import("./rows.js").ThreadRow} ThreadRow */

/** More threads than these share rows by their names, as they do in `tracer-user stat`. */
export const LISTED = 40;

/**
 * Threads that can share a row.
 * @typedef {object} Node
 * @property {string} group what opens and closes it
 * @property {string} label
 * @property {ThreadRow[]} threads all of them
 * @property {Node[]} parts what is shown below it; of one thread, nothing
 * @property {number} ran
 * @property {boolean} isOpen whether it is open at first
 * @property {string} [command] what the process was started with, where it is one
 * @property {boolean} [isRest] whether it is of those that are not listed
 */

/**
 * What the timeline shows, those that ran longest first.
 * @param {Model} model
 * @param {Set<number>} needed threads that have a row of their own once their groups are open
 * @returns {Node[]}
 */
export function forest(model, needed) {
    const threads = model.threads.filter((row) => row.track.count + row.marks.count + row.faults.count
        + row.calls.count + row.levels.length > 0);
    const isMany = threads.length > LISTED;
    /** @type {Map<number, ThreadRow[]>} */
    const byPid = new Map();
    for (const row of threads) {
        together(byPid, row.pid, row);
    }
    const processes = [...byPid].map(([pid, of]) => processNode(model, pid, of, needed, isMany));
    const nodes = bounded(isMany ? byName(processes, "processes", needed, (node) => model.processName(node.threads[0].pid)) : inOrder(processes), "", needed);
    for (let only = isMany ? nodes : []; only.length === 1; only = only[0].parts) {
        only[0].isOpen = true;
    }
    return nodes;
}

/**
 * A process: a thread, or a heading with its threads.
 * @param {Model} model @param {number} pid @param {ThreadRow[]} threads @param {Set<number>} needed @param {boolean} isMany
 * @returns {Node}
 */
function processNode(model, pid, threads, needed, isMany) {
    const command = model.commandOf(pid);
    const leaves = threads.map((row) => ({ group: `thread ${row.index}`, label: row.label, threads: [row],
        parts: [], ran: row.track.between(0, model.end)[0], isOpen: !isMany }));
    const name = model.processName(pid);
    // A process of one thread is that thread.
    if (leaves.length === 1) {
        return { ...leaves[0], command };
    }
    const group = `process ${pid}`;
    const parts = leaves.length > LISTED ? byName(leaves, "threads", needed, (node) => node.threads[0].name, group) : inOrder(leaves);
    const label = `${name === "" ? "process" : name} ${pid}, ${threads.length} threads`;
    return { ...joined(group, label, bounded(parts, group, needed)), isOpen: !isMany, command };
}

/**
 * Those of a name, together.
 * @param {Node[]} nodes @param {string} what @param {Set<number>} needed
 * @param {(node: Node) => string} nameOf @param {string} within
 * @returns {Node[]}
 */
function byName(nodes, what, needed, nameOf, within = "") {
    /** @type {Map<string, Node[]>} */
    const named = new Map();
    for (const node of nodes) {
        together(named, nameOf(node), node);
    }
    return inOrder([...named].flatMap(([name, of]) => {
        if (of.length === 1 || name === "") {
            return of;
        }
        const group = `${within} ${what} ${name}`;
        const count = of.reduce((sum, node) => sum + node.threads.length, 0);
        const more = count > of.length ? `, ${count} threads` : "";
        return [joined(group, `${name} (${of.length} ${what}${more})`, bounded(inOrder(of), group, needed))];
    }));
}

/**
 * As many as are listed, those that are needed among them; the others are one row.
 * @param {Node[]} nodes @param {string} within @param {Set<number>} needed
 * @returns {Node[]}
 */
function bounded(nodes, within, needed) {
    if (nodes.length <= LISTED) {
        return nodes;
    }
    const isNeeded = (/** @type {Node} */ node) => node.threads.some((row) => needed.has(row.index));
    const first = nodes.slice(0, LISTED - 1);
    const [shown, others] = [[...first], /** @type {Node[]} */ ([])];
    for (const node of nodes.slice(LISTED - 1)) {
        (isNeeded(node) ? shown : others).push(node);
    }
    if (others.length > 0) {
        shown.push(rest(others, `${within} others`, needed));
    }
    return shown;
}

/**
 * Those that are not listed; which of them are is found out when that is opened.
 * @param {Node[]} others @param {string} group @param {Set<number>} needed
 * @returns {Node}
 */
function rest(others, group, needed) {
    return { ...joined(group, `${others.length} others, that ran less`, others), isRest: true,
        get parts() {
            return bounded(others, group, needed);
        } };
}

/** @param {string} group @param {string} label @param {Node[]} parts @returns {Node} */
function joined(group, label, parts) {
    return { group, label, threads: parts.flatMap((part) => part.threads), parts,
        ran: parts.reduce((sum, part) => sum + part.ran, 0), isOpen: false };
}

/** Those that ran longest first. @param {Node[]} nodes */
function inOrder(nodes) {
    return nodes.sort((a, b) => b.ran - a.ran || a.threads[0].pid - b.threads[0].pid || a.threads[0].index - b.threads[0].index);
}

/** @template K, V @param {Map<K, V[]>} map @param {K} key @param {V} value */
function together(map, key, value) {
    const known = map.get(key);
    if (known === undefined) {
        map.set(key, [value]);
    } else {
        known.push(value);
    }
}

/** A beginning that is shorter than this is no nuisance. */
const SHORTEST_BEGINNING = 4;

/**
 * How long the beginning is that all of these labels have in common: up to the end of a word, and nothing where one of
 * them would have nothing else.
 * @param {string[]} labels
 */
export function commonBeginning(labels) {
    const [first = "", ...others] = labels;
    let length = others.length === 0 ? 0 : first.length;
    for (const label of others) {
        while (!label.startsWith(first.slice(0, length))) {
            length--;
        }
    }
    const isEnd = (/** @type {number} */ at) => labels.every((label) => at < label.length)
        && /[^\p{L}\p{N}]/u.test(first[at - 1] ?? "x");
    while (length > 0 && !isEnd(length)) {
        length--;
    }
    return length < SHORTEST_BEGINNING ? 0 : length;
}

/**
 * The groups that a thread is in, the outermost first; nothing where it has no row.
 * @param {Node[]} nodes
 * @param {number} thread
 * @returns {Node[]}
 */
export function groupsOf(nodes, thread) {
    const within = nodes.find((node) => node.threads.some((row) => row.index === thread));
    return within === undefined ? [] : [within, ...groupsOf(within.parts, thread)];
}
