// What is selected, in words; and the search for words.

import { Model } from "./rows.js";
import { STATES, Slices, firstAfter } from "./slices.js";
import { duration, moment, share, visible } from "./words.js";

/**
 * What is selected: an interval of a thread, a slice, a mark, a span, or a part of the time.
 * @typedef {object} Selection
 * @property {"state" | "spans" | "calls" | "marks" | "faults" | "cpu" | "irq" | "time"} kind
 * @property {number} thread the thread's index, or -1
 * @property {number} index which one
 * @property {number} level
 * @property {number} from
 * @property {number} to
 * @property {string} label
 */

/** A line of details: what, and in which words. @typedef {[string, string]} Line */

/** What a state is called. @param {Model} model @param {number} code @returns {string} */
export function stateWords(model, code) {
    const one = model.header.codes[code];
    const device = one.io_wait ? " for a device" : "";
    switch (one.state) {
        case "running":
            return "running";
        case "runnable":
            return { new: "runnable: new", woken: "runnable: woken", preempted: "runnable: had to give way",
                yielded: "runnable: gave way", throttled: `runnable: throttled by its control group${one.group ? ` ${one.group}` : ""}`,
                out_of_budget: "runnable: deadline budget used up",
                out_of_real_time: "runnable: time of real-time threads used up", outranked: "runnable: had to give way to a higher priority" }[/** @type {"new"} */ (one.wait)] ?? "runnable";
        case "blocked":
            return one.kernel ? `blocked in the kernel${device}`
                : one.in === null ? `blocked in something unknown${device}` : `blocked in ${one.in}${device}`;
        case "stopped":
            return "stopped";
        default:
            return "unknown: events were lost or not recorded";
    }
}

/** How an interval ended. @param {Model} model @param {number} code @param {number} task */
function endWords(model, code, task) {
    switch (model.header.codes[code].end) {
        case "open":
            return "the trace ended";
        case "thread":
            return `woken by ${model.taskWords(task)}`;
        case "woken":
            return "woken by an unknown waker";
        case "irq":
            return "woken by an interrupt";
        case "softirq":
            return "woken by a soft interrupt";
        case "timer":
            return "woken by a timer";
        case "got_cpu":
            return `got the CPU after ${model.taskWords(task)}`;
        default:
            return "";
    }
}

/** From when to when. @param {Model} model @param {number} from @param {number} to @returns {Line[]} */
function timeLines(model, from, to) {
    return [
        ["from", `${moment(from + model.shift)} s`],
        ["until", `${moment(to + model.shift)} s`],
        ["took", `${duration(to - from)} (${to - from} ns)`],
    ];
}

/** The options with which other commands look at the same time. @param {Model} model @param {number} from @param {number} to */
export function options(model, from, to) {
    return `--from ${moment(from + model.shift)}s --until ${moment(to + model.shift)}s`;
}

/**
 * What is selected, line by line.
 * @param {Model} model
 * @param {Selection} selection
 * @returns {Line[]}
 */
export function describe(model, selection) {
    const { kind, index, from, to } = selection;
    const row = model.threads[selection.thread];
    /** @type {Line[]} */
    const lines = [];
    if (row !== undefined) {
        lines.push(["thread", row.label]);
        const command = model.commandOf(row.pid);
        if (command !== "") {
            lines.push(["command", command]);
        }
    }
    if (kind === "state" && row !== undefined) {
        const { track } = row;
        lines.push(["state", stateWords(model, track.what[index])]);
        if (track.cpu[index] >= 0) {
            lines.push(["cpu", String(track.cpu[index])]);
        }
        lines.push(...timeLines(model, from, to));
        const end = endWords(model, track.what[index], track.task[index]);
        if (end !== "") {
            lines.push(["then", end]);
        }
        const before = index - 1;
        if (before >= 0 && model.header.codes[track.what[before]].end !== "unsaid") {
            lines.push(["before", `${stateWords(model, track.what[before])}, `
                + endWords(model, track.what[before], track.task[before])]);
        }
    } else if (kind === "spans" && row !== undefined) {
        const span = row.spans[selection.level][index];
        lines.push(["span", model.header.kinds[model.spans.kind[span]]]);
        if (model.spans.begunBy[span] !== model.spans.thread[span]) {
            lines.push(["begun by", model.threads[model.spans.begunBy[span]].label]);
        }
        lines.push(...timeLines(model, from, to), ...totalLines(row.track.between(from, to), to - from));
    } else if (kind === "calls" && row !== undefined) {
        lines.push(["system call", model.header.calls[row.calls.what[index]]]);
        lines.push(["returned", String(row.returned[index])], ...timeLines(model, from, to));
    } else if ((kind === "marks" || kind === "faults") && row !== undefined) {
        const marks = row[kind];
        const [name] = model.header.types[marks.type[index]];
        lines.push(["event", name], ["at", `${moment(from + model.shift)} s`]);
        const words = model.wordsOf(marks, index);
        if (words !== "") {
            lines.push(["carries", visible(words)]);
        }
    } else if (kind === "cpu") {
        lines.push(["on", selection.label], ...timeLines(model, from, to));
    } else if (kind === "irq") {
        const slices = /** @type {Slices} */ (model.interrupts.get(selection.label));
        const [, id, name] = model.header.interrupts[slices.what[index]];
        lines.push(["interrupt", `${name ?? ""} ${id}`.trim()], ["on", selection.label], ...timeLines(model, from, to));
    } else {
        lines.push(...timeLines(model, from, to));
    }
    return lines;
}

/** @param {Float64Array} totals @param {number} ns @returns {Line[]} */
function totalLines(totals, ns) {
    /** @type {Line[]} */
    const lines = [];
    totals.forEach((total, state) => {
        if (total > 0) {
            const name = STATES[state] === "device" ? "blocked for a device" : STATES[state];
            lines.push([name, `${duration(total)}, ${share(total, ns)}`]);
        }
    });
    return lines;
}

/**
 * What threads did in a part of the time, those that ran longest first.
 * @param {Model} model
 * @param {number} from
 * @param {number} to
 */
export function totalsBetween(model, from, to) {
    const totals = model.threads.map((row) => ({ row, totals: row.track.between(from, to) }));
    const found = totals.filter(({ totals: of }) => of.some((ns) => ns > 0));
    return found.sort((a, b) => b.totals[0] - a.totals[0] || a.row.index - b.row.index);
}

/**
 * How many of some threads are in each state at a moment: `2 running`.
 * @param {import("./slices.js").Track[]} tracks
 * @param {number} at
 * @returns {string[]}
 */
export function statesAt(tracks, at) {
    const counts = new Uint32Array(STATES.length);
    for (const track of tracks) {
        const index = track.find(at);
        if (index >= 0) {
            counts[track.states[track.what[index]]]++;
        }
    }
    const words = STATES.map((name, state) => `${counts[state]} ${name === "device" ? "blocked for a device" : name}`);
    return words.filter((_, state) => counts[state] > 0);
}

/**
 * System calls that returned in a part of the time: how many, and how long they took.
 * @param {Model} model
 * @param {number} from
 * @param {number} to
 */
export function callsBetween(model, from, to) {
    /** @type {Map<number, {name: string, count: number, ns: number}>} */
    const found = new Map();
    for (const { calls } of model.threads) {
        for (let index = firstAfter(calls.to, from); index < calls.count && calls.to[index] <= to; index++) {
            const what = calls.what[index];
            const known = found.get(what) ?? { name: model.header.calls[what], count: 0, ns: 0 };
            known.count++;
            known.ns += calls.to[index] - calls.from[index];
            found.set(what, known);
        }
    }
    return [...found.values()].sort((a, b) => b.ns - a.ns);
}

/**
 * A hit of a search: where it is.
 * @typedef {object} Hit
 * @property {Selection} selection
 */

/** Hits that can be reached. */
export const MOST_HITS = 500_000;

/**
 * Looks for a text in the names of threads, spans, system calls and events, and in what events carry.
 * @param {Model} model
 * @param {string} typed
 * @returns {{hits: Hit[], count: number}}
 */
export function search(model, typed) {
    const wanted = typed.trim().toLowerCase();
    /** @type {Hit[]} */
    const hits = [];
    let count = 0;
    if (wanted === "") {
        return { hits, count };
    }
    const has = (/** @type {string} */ text) => text.toLowerCase().includes(wanted);
    /** @param {Selection} selection */
    const push = (selection) => {
        count++;
        if (hits.length < MOST_HITS) {
            hits.push({ selection });
        }
    };
    const kinds = model.header.kinds.map(has);
    const calls = model.header.calls.map(has);
    const types = model.header.types.map((/** @type {any} */ type) => has(type[0]));
    const isCarried = carriers(model, wanted);
    for (const row of model.threads) {
        const thread = row.index;
        if (has(row.label)) {
            push({ kind: "time", thread, index: -1, level: 0, from: 0, to: model.end, label: row.label });
        }
    }
    for (const row of model.threads) {
        const thread = row.index;
        row.levels.forEach((slices, level) => {
            for (let index = 0; index < slices.count; index++) {
                if (kinds[slices.what[index]]) {
                    const [from, to] = [slices.from[index], slices.to[index]];
                    push({ kind: "spans", thread, index, level, from, to, label: "" });
                }
            }
        });
        for (let index = 0; index < row.calls.count; index++) {
            if (calls[row.calls.what[index]]) {
                const [from, to] = [row.calls.from[index], row.calls.to[index]];
                push({ kind: "calls", thread, index, level: 0, from, to, label: "" });
            }
        }
        for (const kind of /** @type {Array<"marks" | "faults">} */ (["marks", "faults"])) {
            const marks = row[kind];
            for (let index = 0; index < marks.count; index++) {
                if (types[marks.type[index]] || isCarried(marks.words[index])) {
                    const at = marks.at[index];
                    push({ kind, thread, index, level: 0, from: at, to: at, label: "" });
                }
            }
        }
    }
    return { hits, count };
}

/**
 * Whether the words that begin somewhere have a text, whatever the case.
 * @param {Model} model
 * @param {string} wanted in lower case
 * @returns {(at: number) => boolean}
 */
export function carriers(model, wanted) {
    const bytes = new TextEncoder().encode(wanted);
    // Elsewhere a capital may have another length: those are looked at one by one.
    if (bytes.some((byte) => byte >= 128)) {
        return (at) => model.wordsAt(at).toLowerCase().includes(wanted);
    }
    const found = Float64Array.from(positions(model.words.bytes, bytes));
    return (at) => {
        const text = model.words.textAt(at);
        const begin = text.byteOffset - model.words.bytes.byteOffset;
        const next = found[firstAfter(found, begin - 1)];
        return next !== undefined && next + bytes.length <= begin + text.length;
    };
}

/** Where a text of ASCII in lower case is. @param {Uint8Array} within @param {Uint8Array} wanted */
function positions(within, wanted) {
    /** @type {number[]} */
    const found = [];
    const [first] = wanted;
    const last = within.length - wanted.length;
    for (let at = 0; at <= last; at++) {
        if (lower(within[at]) === first) {
            let next = 1;
            while (next < wanted.length && lower(within[at + next]) === wanted[next]) {
                next++;
            }
            if (next === wanted.length) {
                found.push(at);
            }
        }
    }
    return found;
}

/** @param {number} byte @returns {number} */
function lower(byte) {
    return byte >= 65 && byte <= 90 ? byte + 32 : byte;
}
