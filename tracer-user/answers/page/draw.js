// The timeline: pixels for what is dense, then text and lines over it.

import { Model } from "./rows.js";
import { commonBeginning } from "./forest.js";
import { STATES, Slices, Track, firstAfter, firstAfterFrom } from "./slices.js";
import { View, ticks } from "./window.js";
import { pixel } from "./colours.js";
import { duration } from "./words.js";

/** @typedef {import("./forest.js").Node} Node */
/** @typedef {import("./rows.js").ThreadRow} ThreadRow */

/** How high rows are, in pixels of the page. */
const HEIGHTS = { heading: 22, group: 18, state: 18, spans: 15, calls: 11, marks: 11, faults: 9, cpu: 14, irq: 10, node: 15, messages: 9 };

/** More CPUs than these are closed at first. */
const OPEN_CPUS = 16;

/** More nodes of robots than these are closed at first. */
const OPEN_NODES = 40;

/** How wide a letter is, at most, nearly always. */
const LETTER = 6.2;

/** How high the ruler is. */
export const RULER = 24;

/**
 * A row of the timeline.
 * @typedef {object} Row
 * @property {"heading" | "group" | "state" | "spans" | "calls" | "marks" | "faults" | "cpu" | "irq" | "node" | "messages"} kind
 * @property {string} label
 * @property {string} whole the label with what those beside it begin with too
 * @property {number} top
 * @property {number} height
 * @property {number} thread the thread's index, or -1
 * @property {string} group what a click on its name opens and closes; nothing where that is empty
 * @property {boolean} isOpen whether that is open
 * @property {ThreadRow[]} members the threads that share the row
 * @property {Slices | undefined} slices
 * @property {number} level
 * @property {number} node the index of the robots' node, or -1
 */

/**
 * The rows, from the top.
 * @param {Model} model
 * @param {Node[]} nodes
 * @param {Set<string>} turned groups that are open where they were closed at first, or the other way
 * @returns {Row[]}
 */
export function layOutRows(model, nodes, turned) {
    /** @type {Row[]} */
    const rows = [];
    let top = 0;
    /** @param {Row["kind"]} kind @param {string} label @param {Partial<Row>} more */
    const push = (kind, label, more) => {
        const height = HEIGHTS[kind];
        rows.push({ kind, label, whole: label.trim(), top, height, thread: -1, group: "", isOpen: false, members: [], slices: undefined, level: 0, node: -1, ...more });
        top += height + (kind === "heading" ? 0 : 2);
    };
    if (model.cpus.size > 0 || model.interrupts.size > 0) {
        const isOpen = (model.cpus.size <= OPEN_CPUS) !== turned.has("cpus");
        push("heading", model.cpus.size === 1 ? "1 CPU" : `${model.cpus.size} CPUs`, { group: "cpus", isOpen });
        if (isOpen) {
            for (const [cpu, slices] of model.cpus) {
                push("cpu", `CPU ${cpu}`, { slices });
            }
            for (const [name, slices] of model.interrupts) {
                push("irq", name, { slices });
            }
        }
    }
    pushLanes(push, model, turned);
    /** @param {Node} node @param {number} beginning how much of its label the others below a heading have too */
    const pushNode = (node, beginning) => {
        const isOpen = node.isOpen !== turned.has(node.group);
        const { group, threads, parts } = node;
        const command = node.command === undefined || node.command === "" ? "" : `  ${node.command}`;
        const whole = `${node.label}${command}`;
        const label = beginning === 0 || node.isRest === true ? node.label : `…${node.label.slice(beginning)}`;
        if (threads.length > 1) {
            push(isOpen ? "heading" : "group", isOpen ? `${label}${command}` : label, { group, isOpen, members: threads, whole });
            if (isOpen) {
                const common = commonBeginning(parts.filter((part) => part.isRest !== true).map((part) => part.label));
                parts.forEach((part) => pushNode(part, common));
            }
            return;
        }
        const [thread] = threads;
        // Where rows are few they have nothing to open.
        push("state", `${label}${command}`, { thread: thread.index, group: node.isOpen ? "" : group, isOpen, whole });
        if (isOpen) {
            pushParts(push, thread);
        }
    };
    for (const node of nodes) {
        top += node.threads.length === 1 && node.isOpen ? 8 : 0;
        pushNode(node, 0);
    }
    return rows;
}

/**
 * A lane for each node of robots.
 * @param {(kind: Row["kind"], label: string, more: Partial<Row>) => void} push @param {Model} model @param {Set<string>} turned
 */
function pushLanes(push, model, turned) {
    const { nodes } = model;
    if (nodes.length === 0) {
        return;
    }
    const isOpen = (nodes.length <= OPEN_NODES) !== turned.has("nodes");
    push("heading", nodes.length === 1 ? "1 node" : `${nodes.length} nodes`, { group: "nodes", isOpen });
    for (const [node, { label, levels, marks }] of isOpen ? nodes.entries() : []) {
        // One that does nothing has a lane too.
        for (let level = 0; level < Math.max(levels.length, 1); level++) {
            push("node", level === 0 ? label : "", { node, slices: levels[level], level });
        }
        if (marks.count > 0) {
            push("messages", "  messages", { node });
        }
    }
}

/**
 * What there is of a thread beside its states.
 * @param {(kind: Row["kind"], label: string, more: Partial<Row>) => void} push @param {ThreadRow} thread
 */
function pushParts(push, thread) {
    thread.levels.forEach((slices, level) => {
        push("spans", level === 0 ? "  spans" : "", { thread: thread.index, slices, level });
    });
    if (thread.calls.count > 0) {
        push("calls", "  system calls", { thread: thread.index, slices: thread.calls });
    }
    if (thread.marks.count > 0) {
        push("marks", "  events", { thread: thread.index });
    }
    if (thread.faults.count > 0) {
        push("faults", "  page faults", { thread: thread.index });
    }
}

/** Draws rows into pixels. */
export class Painter {
    /** @param {Model} model @param {View} view @param {import("./colours.js").Palette} colours */
    constructor(model, view, colours) {
        this.model = model;
        this.view = view;
        this.states = colours.states.map(pixel);
        this.slices = colours.slices.map(pixel);
        this.band = pixel(colours.band);
        this.page = pixel(colours.page);
        this.mark = pixel(colours.mark);
        this.begin = new Float64Array(STATES.length);
        this.end = new Float64Array(STATES.length);
    }

    /**
     * A buffer of so many pixels, all of the page's colour.
     * @param {ImageData} image
     */
    into(image) {
        this.pixels = new Uint32Array(image.data.buffer);
        this.width = image.width;
        this.height = image.height;
        this.pixels.fill(this.page);
    }

    /** @param {number} x @param {number} end @param {number} top @param {number} bottom @param {number} colour */
    fill(x, end, top, bottom, colour) {
        const pixels = /** @type {Uint32Array} */ (this.pixels);
        const width = this.width ?? 0;
        const [first, last] = [Math.max(top, 0), Math.min(bottom, this.height ?? 0)];
        const [begin, until] = [Math.max(x, 0), Math.min(end, width)];
        if (until - begin < 8) {
            // Most are so narrow: a call for each line would take longer than the line.
            for (let y = first, line = first * width; y < last; y++, line += width) {
                for (let at = line + begin; at < line + until; at++) {
                    pixels[at] = colour;
                }
            }
            return;
        }
        for (let y = first; y < last; y++) {
            pixels.fill(colour, y * width + begin, y * width + until);
        }
    }

    /** States: where there is one, its colour; where there are several, their shares. */
    /** @param {Track} track @param {number} top @param {number} bottom */
    track(track, top, bottom) {
        const width = this.width ?? 0;
        const { view } = this;
        this.fill(0, width, top, bottom, this.page);
        if (track.count === 0) {
            return;
        }
        const { from, to } = track;
        let isBegun = false;
        let x = 0;
        // The last interval that has begun when the column does.
        let index = firstAfter(from, view.time(0, width)) - 1;
        while (x < width) {
            const at = view.time(x, width);
            const until = view.time(x + 1, width);
            index = firstAfterFrom(from, at, Math.max(index, 0)) - 1;
            // One that goes on to the end of this column, at least.
            if (index >= 0 && to[index] >= until) {
                const end = Math.max(Math.floor(view.x(to[index], width)), x + 1);
                this.fill(x, end, top, bottom, this.states[track.states[track.what[index]]]);
                x = end;
                isBegun = false;
                continue;
            }
            if (index + 1 >= track.count && (index < 0 || to[index] <= at)) {
                return;
            }
            if ((index < 0 || to[index] <= at) && from[index + 1] >= until) {
                x = Math.max(Math.floor(view.x(from[index + 1], width)), x + 1);
                isBegun = false;
                continue;
            }
            if (!isBegun) {
                track.beforeIndex(at, index + 1, this.begin);
                isBegun = true;
            }
            const after = firstAfterFrom(from, until, index + 1);
            track.beforeIndex(until, after, this.end);
            this.shares(x, until - at, top, bottom);
            [this.begin, this.end] = [this.end, this.begin];
            index = after - 1;
            x++;
        }
    }

    /** Several threads: the shares of the states of those that live. */
    /** @param {Track[]} tracks @param {number} top @param {number} bottom */
    together(tracks, top, bottom) {
        const width = this.width ?? 0;
        this.fill(0, width, top, bottom, this.page);
        const sums = statesOf(tracks, this.view, width);
        this.begin.fill(0);
        for (let x = 0; x < width; x++) {
            this.end.set(sums.subarray(x * STATES.length, (x + 1) * STATES.length));
            const all = this.end.reduce((sum, ns) => sum + ns, 0);
            if (all > 0) {
                this.shares(x, all, top, bottom);
            }
        }
    }

    /** @param {number} x @param {number} ns @param {number} top @param {number} bottom */
    shares(x, ns, top, bottom) {
        const height = bottom - top;
        let done = 0;
        let y = bottom;
        for (let state = 0; state < STATES.length; state++) {
            const part = this.end[state] - this.begin[state];
            if (part > 0) {
                done += part;
                // What there was is seen, however short.
                const to = Math.min(bottom - Math.round((done / ns) * height), state === 0 ? bottom - 1 : y);
                this.fill(x, x + 1, to, y, this.states[state]);
                y = to;
            }
        }
    }

    /**
     * Slices: where several lie within a pixel, that of the first.
     * @param {Slices} slices
     * @param {number} top
     * @param {number} bottom
     */
    slicesOf(slices, top, bottom) {
        const width = this.width ?? 0;
        const { view } = this;
        let index = Math.max(firstAfter(slices.from, view.from) - 1, 0);
        let x = 0;
        while (index < slices.count && slices.from[index] < view.to) {
            const begin = Math.max(Math.floor(view.x(slices.from[index], width)), x);
            const end = Math.max(Math.ceil(view.x(slices.to[index], width)), begin + 1);
            if (end > 0 && slices.to[index] >= view.from) {
                const colour = this.slices[slices.what[index] % this.slices.length];
                // A border, where there is space for one.
                const edge = end - begin > 3 ? 1 : 0;
                this.fill(begin, end - edge, top, bottom, colour);
                x = Math.max(end, 0);
            }
            // Those that begin within the same pixel are not seen.
            const next = view.time(Math.max(begin + 1, x), width);
            index = slices.from[index + 1] < next
                ? Math.max(firstAfterFrom(slices.from, next, index + 1) - 1, index + 1) : index + 1;
        }
    }

    /** Moments. @param {Float64Array} at @param {number} top @param {number} bottom @param {number} scale */
    marks(at, top, bottom, scale) {
        const width = this.width ?? 0;
        const { view } = this;
        let index = firstAfter(at, view.from - 1);
        while (index < at.length && at[index] <= view.to) {
            const x = Math.floor(view.x(at[index], width));
            this.fill(x, x + Math.max(Math.round(scale), 1), top, bottom, this.mark);
            index = Math.max(firstAfterFrom(at, view.time(x + 1, width), index + 1), index + 1);
        }
    }
}

/**
 * How long threads were in each state, all together, by column of pixels.
 * @param {Track[]} tracks
 * @param {View} view
 * @param {number} width
 */
export function statesOf(tracks, view, width) {
    const sums = new Float64Array(width * STATES.length);
    for (const { from, to, what, states, count } of tracks) {
        for (let index = Math.max(firstAfter(from, view.from) - 1, 0); index < count && from[index] < view.to; index++) {
            const state = states[what[index]];
            const [begin, end] = [Math.max(from[index], view.from), Math.min(to[index], view.to)];
            const last = Math.min(Math.floor(view.x(end, width)), width - 1);
            for (let x = Math.max(Math.floor(view.x(begin, width)), 0); x <= last; x++) {
                const ns = Math.min(end, view.time(x + 1, width)) - Math.max(begin, view.time(x, width));
                sums[x * STATES.length + state] += Math.max(ns, 0);
            }
        }
    }
    return sums;
}

/**
 * What is drawn over the pixels.
 * @typedef {object} Overlay
 * @property {CanvasRenderingContext2D} context
 * @property {View} view
 * @property {import("./colours.js").Palette} colours
 * @property {number} left where the timeline begins
 * @property {number} width of the timeline
 * @property {number} height
 */

/** The lines of the ruler, behind what is written. @param {Overlay} overlay @param {number} shift */
export function drawGrid({ context, view, colours, left, width, height }, shift) {
    context.strokeStyle = colours.line;
    context.beginPath();
    for (const at of ticks(view.from + shift, view.to + shift, width / 130).times) {
        const x = Math.round(left + view.x(at - shift, width)) + 0.5;
        context.moveTo(x, RULER);
        context.lineTo(x, height);
    }
    context.stroke();
}

/** The ruler. @param {Overlay} overlay @param {number} shift */
export function drawRuler({ context, view, colours, left, width }, shift) {
    const { times, step } = ticks(view.from + shift, view.to + shift, width / 130);
    context.fillStyle = colours.page;
    context.fillRect(0, 0, left + width, RULER);
    context.strokeStyle = colours.line;
    context.fillStyle = colours.faint;
    context.beginPath();
    for (const at of times) {
        const x = Math.round(left + view.x(at - shift, width)) + 0.5;
        context.moveTo(x, RULER - 6);
        context.lineTo(x, RULER);
        context.fillText(rulerWords(at, step), x + 3, 11);
    }
    context.moveTo(0, RULER - 0.5);
    context.lineTo(left + width, RULER - 0.5);
    context.stroke();
    context.fillText(`${duration(Math.round(view.ns))} shown`, 8, 11);
}

/** A time with the digits that differ. @param {number} at @param {number} step */
export function rulerWords(at, step) {
    const digits = step >= 1e9 ? 0 : Math.min(Math.ceil(Math.log10(1e9 / step)), 9);
    return `${(at / 1e9).toFixed(digits)} s`;
}

/**
 * The intervals in which events may be missing.
 * @param {Overlay} overlay
 * @param {Model["gaps"]} gaps
 */
export function drawGaps({ context, view, colours, left, width, height }, gaps) {
    context.save();
    context.beginPath();
    let isAny = false;
    let last = -1;
    for (const gap of gaps) {
        const from = Math.max(view.x(gap.from, width), 0);
        const to = Math.min(Math.max(view.x(gap.to, width), from + 2), width);
        if (from < width && to > 0 && to > last) {
            context.rect(left + from, RULER, to - from, height - RULER);
            isAny = true;
            last = to;
        }
    }
    if (isAny) {
        context.clip();
        context.strokeStyle = colours.states[4];
        context.globalAlpha = 0.7;
        context.beginPath();
        for (let x = left - height; x < left + width; x += 8) {
            context.moveTo(x, height);
            context.lineTo(x + height, 0);
        }
        context.stroke();
    }
    context.restore();
}

/**
 * Names within slices that are wide enough.
 * @param {Overlay} overlay
 * @param {Slices} slices
 * @param {number} top
 * @param {number} height
 * @param {(what: number) => string} name
 * @param {(what: number) => string} ink
 * @param {boolean} isWhole whether one that has no space for all of it is left out
 */
export function drawNames({ context, view, left, width }, slices, top, height, name, ink, isWhole) {
    const least = 24;
    const shortest = (least / width) * view.ns;
    let index = Math.max(firstAfter(slices.from, view.from) - 1, 0);
    let shown = 0;
    // What is too short for a name is passed over; where there are too many, none is shown.
    for (let looked = 0; index < slices.count && slices.from[index] < view.to && looked < 5000; index++, looked++) {
        if (slices.to[index] - slices.from[index] < shortest) {
            continue;
        }
        const begin = Math.max(view.x(slices.from[index], width), 0);
        const end = Math.min(view.x(slices.to[index], width), width);
        if (end - begin >= least && shown < 400) {
            const text = name(slices.what[index]);
            if (isWhole && text.length * LETTER > end - begin - 6) {
                continue;
            }
            shown++;
            context.fillStyle = ink(slices.what[index]);
            drawText(context, text, left + begin + 3, top + height / 2, end - begin - 6);
        }
    }
}

/**
 * A text that ends in an ellipsis where there is no space.
 * @param {CanvasRenderingContext2D} context
 * @param {string} text
 * @param {number} x
 * @param {number} y
 * @param {number} width
 */
export function drawText(context, text, x, y, width) {
    context.fillText(fitted(text, width, (shown) => context.measureText(shown).width), x, y);
}

/**
 * As much of a text as there is space for, with an ellipsis where that is not all; nothing where there is none for a
 * letter and that.
 * @param {string} text
 * @param {number} width
 * @param {(shown: string) => number} measure how wide it is
 */
export function fitted(text, width, measure) {
    const fits = Math.max(Math.floor(width / LETTER), 0);
    if (text.length <= fits && measure(text) <= width) {
        return text;
    }
    // Capitals are wider than most letters.
    for (let letters = Math.min(fits - 1, text.length); letters > 0; letters--) {
        const shown = `${text.slice(0, letters)}…`;
        if (measure(shown) <= width) {
            return shown;
        }
    }
    return "";
}
