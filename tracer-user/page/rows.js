// What the columns hold, by thread and by CPU, so that any part of the time is found quickly.

import { threadWords } from "./words.js";
import { Column } from "./decode.js";

/** The states of a thread, as totals count them. */
export const STATES = ["running", "runnable", "blocked", "device", "stopped", "unknown"];

/** Intervals between two sums that are stored. */
const BLOCK = 64;

/** How many rows the spans of a thread may take. */
const MOST_LEVELS = 12;

/**
 * The first index of which the value is greater than `at`.
 * @param {Float64Array} values
 * @param {number} at
 * @returns {number}
 */
export function firstAfter(values, at) {
    let low = 0;
    let high = values.length;
    while (low < high) {
        const middle = (low + high) >> 1;
        if (values[middle] <= at) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/** Slices that follow each other: each has a beginning, an end, and what it is. */
export class Slices {
    /** @param {number} count */
    constructor(count) {
        this.from = new Float64Array(count);
        this.to = new Float64Array(count);
        this.what = new Uint32Array(count);
        this.count = 0;
    }

    /** @param {number} from @param {number} to @param {number} what @returns {number} */
    push(from, to, what) {
        const index = this.count++;
        this.from[index] = from;
        this.to[index] = to;
        this.what[index] = what;
        return index;
    }

    /** The slice at a time, or -1. @param {number} at @returns {number} */
    find(at) {
        const index = firstAfter(this.from, at) - 1;
        return index >= 0 && this.to[index] > at ? index : -1;
    }
}

/** What a thread did: intervals that follow each other. */
export class Track extends Slices {
    /** @param {number} count */
    constructor(count) {
        super(count);
        this.cpu = new Int32Array(count).fill(-1);
        this.task = new Uint32Array(count);
        /** Sums up to every 64th interval, by state. */
        this.sums = new Float64Array((Math.floor(count / BLOCK) + 1) * STATES.length);
        /** The state of each code. @type {Uint8Array} */
        this.states = new Uint8Array(0);
    }

    /** Sums up. @param {Uint8Array} states the state of each code */
    sum(states) {
        this.states = states;
        const sums = new Float64Array(STATES.length);
        for (let index = 0; index < this.count; index++) {
            if (index % BLOCK === 0) {
                this.sums.set(sums, (index / BLOCK) * STATES.length);
            }
            sums[states[this.what[index]]] += this.to[index] - this.from[index];
        }
    }

    /**
     * How long it was in each state before `at`.
     * @param {number} at
     * @param {Float64Array} out
     */
    before(at, out) {
        const after = firstAfter(this.from, at);
        const last = Math.max(after - 1, 0);
        const block = Math.floor(last / BLOCK);
        for (let state = 0; state < STATES.length; state++) {
            out[state] = this.sums[block * STATES.length + state];
        }
        for (let index = block * BLOCK; index < after; index++) {
            out[this.states[this.what[index]]] += Math.min(this.to[index], at) - this.from[index];
        }
    }

    /** How long it was in each state from a moment to another. @param {number} from @param {number} to */
    between(from, to) {
        const [begin, end] = [new Float64Array(STATES.length), new Float64Array(STATES.length)];
        this.before(from, begin);
        this.before(to, end);
        return end.map((sum, state) => sum - begin[state]);
    }
}

/**
 * A thread with all that is known of it.
 * @typedef {object} ThreadRow
 * @property {number} index
 * @property {number} pid
 * @property {number} tid
 * @property {string} name
 * @property {string} label
 * @property {Track} track
 * @property {Slices} calls
 * @property {Float64Array} returned
 * @property {Slices[]} levels spans, below each other
 * @property {Int32Array[]} spans which span each of them is
 * @property {Marks} marks
 */

/** Moments. */
export class Marks {
    /** @param {number} count */
    constructor(count) {
        this.at = new Float64Array(count);
        this.type = new Uint32Array(count);
        /** Where its words are. */
        this.words = new Uint32Array(count);
        this.count = 0;
    }
}

/**
 * Puts spans below each other that overlap.
 * @param {ThreadRow} row
 * @param {{from: Float64Array, to: Float64Array, kind: Uint32Array}} spans
 * @param {number[]} indices
 */
function layOut(row, spans, indices) {
    const { from, to, kind } = spans;
    indices.sort((a, b) => from[a] - from[b] || to[b] - to[a] || b - a);
    /** @type {number[][]} */
    const levels = [];
    /** @type {number[]} */
    const ends = [];
    for (const index of indices) {
        let level = ends.findIndex((end) => end <= from[index]);
        // What begins within another lies below it, even where there is space above.
        const within = ends.findLastIndex((end) => end >= to[index] && end > from[index]);
        level = Math.max(level < 0 ? ends.length : level, within + 1);
        if (level >= MOST_LEVELS) {
            continue;
        }
        ends[level] = to[index];
        (levels[level] ??= []).push(index);
    }
    for (const level of levels) {
        const slices = new Slices(level.length);
        level.forEach((index) => slices.push(from[index], to[index], kind[index]));
        row.levels.push(slices);
        row.spans.push(Int32Array.from(level));
    }
}

/** All that a report holds. */
export class Model {
    /** @param {any} header @param {Map<string, Column>} columns */
    constructor(header, columns) {
        this.header = header;
        this.end = Math.max(header.span_ns, 1);
        /** Times count from the first event; what is shown counts from the start of the log. */
        this.shift = header.first_ns;
        /** @param {string} name */
        this.column = (name) => columns.get(name) ?? new Column(new Uint8Array(0), 0);
        /** The state of each code. */
        this.states = Uint8Array.from(header.codes, (/** @type {any} */ code) => STATES.indexOf(
            code.state === "blocked" && code.io_wait ? "device" : code.state));
        const counts = ["interval", "call", "mark"].map((what) => this.countByThread(what));
        /** @type {ThreadRow[]} */
        this.threads = header.threads.map((/** @type {any} */ thread, /** @type {number} */ index) => ({
            index,
            pid: thread[0],
            tid: thread[1],
            name: thread[2],
            label: threadWords(thread[0], thread[1], thread[2]),
            track: new Track(counts[0][index]),
            calls: new Slices(counts[1][index]),
            returned: new Float64Array(counts[1][index]),
            levels: [],
            spans: [],
            marks: new Marks(counts[2][index]),
        }));
        /** Who had each CPU. */
        this.cpus = this.readIntervals();
        this.readCalls();
        /** All spans, in order of their ends. */
        this.spans = this.readSpans();
        /** What events carry. */
        this.words = this.readMarks();
        /** Interrupts, by kind and CPU. */
        this.interrupts = this.readInterrupts();
        /** @type {Map<string, ThreadRow>} */
        this.byId = new Map(this.threads.map((row) => [`${row.pid}/${row.tid}`, row]));
        /** @type {Array<{from: number, to: number, isKernels: boolean}>} */
        this.gaps = header.gaps.map((/** @type {any} */ [from, to, isKernels]) => (
            { from, to: to === null ? this.end : Math.min(to, this.end), isKernels }));
    }

    /** @param {string} what @returns {Uint32Array} */
    countByThread(what) {
        const counts = new Uint32Array(this.header.threads.length);
        const threads = this.column(`${what}.thread`);
        for (let index = 0; index < threads.count; index++) {
            counts[threads.next()]++;
        }
        threads.rewind();
        return counts;
    }

    readIntervals() {
        const codes = this.header.codes;
        const [thread, code, to, from, cpu, task] = ["thread", "code", "to", "from", "cpu", "task"]
            .map((name) => this.column(`interval.${name}`));
        const isApart = codes.map((/** @type {any} */ one) => one.apart);
        const hasCpu = codes.map((/** @type {any} */ one) => one.cpu);
        const hasTask = codes.map((/** @type {any} */ one) => one.end === "thread" || one.end === "got_cpu");
        /** @type {Map<number, Array<[number, number]>>} */
        const onCpu = new Map();
        let now = 0;
        for (let index = 0; index < thread.count; index++) {
            const track = this.threads[thread.next()].track;
            const what = code.next();
            now += to.nextSigned();
            const last = track.count > 0 ? track.to[track.count - 1] : 0;
            const begin = isApart[what] ? last + from.nextSigned() : last;
            const at = track.push(begin, now, what);
            if (hasCpu[what]) {
                track.cpu[at] = cpu.next();
            }
            if (hasTask[what]) {
                track.task[at] = task.next();
            }
        }
        for (const row of this.threads) {
            row.track.sum(this.states);
            const { track } = row;
            for (let index = 0; index < track.count; index++) {
                if (this.states[track.what[index]] === 0 && track.cpu[index] >= 0) {
                    const known = onCpu.get(track.cpu[index]);
                    if (known === undefined) {
                        onCpu.set(track.cpu[index], [[row.index, index]]);
                    } else {
                        known.push([row.index, index]);
                    }
                }
            }
        }
        /** @type {Map<number, Slices>} */
        const cpus = new Map();
        for (const [id, runs] of [...onCpu].sort(([a], [b]) => a - b)) {
            const begin = (/** @type {[number, number]} */ run) => this.threads[run[0]].track.from[run[1]];
            runs.sort((a, b) => begin(a) - begin(b));
            const slices = new Slices(runs.length);
            for (const [index, interval] of runs) {
                const { track } = this.threads[index];
                slices.push(track.from[interval], track.to[interval], index);
            }
            cpus.set(id, slices);
        }
        return cpus;
    }

    readCalls() {
        const [thread, key, to, ns, returned] = ["thread", "key", "to", "ns", "returned"]
            .map((name) => this.column(`call.${name}`));
        let now = 0;
        for (let index = 0; index < thread.count; index++) {
            const row = this.threads[thread.next()];
            now += to.nextSigned();
            const at = row.calls.push(now - ns.next(), now, key.next());
            row.returned[at] = returned.nextSigned();
        }
    }

    readSpans() {
        const [kind, thread, begunBy, to, ns] = ["kind", "thread", "begun_by", "to", "ns"]
            .map((name) => this.column(`span.${name}`));
        const count = kind.count;
        const spans = {
            count,
            kind: new Uint32Array(count),
            thread: new Uint32Array(count),
            begunBy: new Uint32Array(count),
            from: new Float64Array(count),
            to: new Float64Array(count),
        };
        let now = 0;
        /** @type {Map<number, number[]>} */
        const byThread = new Map();
        for (let index = 0; index < count; index++) {
            now += to.nextSigned();
            const of = thread.next();
            spans.kind[index] = kind.next();
            spans.thread[index] = of;
            spans.begunBy[index] = begunBy.next();
            spans.to[index] = now;
            spans.from[index] = now - ns.next();
            const known = byThread.get(of);
            if (known === undefined) {
                byThread.set(of, [index]);
            } else {
                known.push(index);
            }
        }
        for (const [of, indices] of byThread) {
            layOut(this.threads[of], spans, indices);
        }
        return spans;
    }

    readMarks() {
        const [type, thread, at, words] = ["type", "thread", "at", "words"]
            .map((name) => this.column(`mark.${name}`));
        let now = 0;
        for (let index = 0; index < type.count; index++) {
            const { marks } = this.threads[thread.next()];
            now += at.nextSigned();
            const to = marks.count++;
            marks.at[to] = now;
            marks.type[to] = type.next();
            marks.words[to] = words.at;
            const length = words.next();
            words.at += length;
        }
        return words.bytes;
    }

    readInterrupts() {
        const [cpu, key, to, ns] = ["cpu", "key", "to", "ns"].map((name) => this.column(`irq.${name}`));
        /** @type {Map<string, Array<[number, number, number]>>} */
        const rows = new Map();
        let now = 0;
        for (let index = 0; index < cpu.count; index++) {
            const [id, what] = [cpu.next(), key.next()];
            now += to.nextSigned();
            const name = `${this.header.interrupts[what][0] === "irq" ? "interrupts" : "soft interrupts"} ${id}`;
            const row = rows.get(name);
            /** @type {[number, number, number]} */
            const one = [now - ns.next(), now, what];
            if (row === undefined) {
                rows.set(name, [one]);
            } else {
                row.push(one);
            }
        }
        /** @type {Map<string, Slices>} */
        const interrupts = new Map();
        for (const [name, found] of rows) {
            const slices = new Slices(found.length);
            found.sort((a, b) => a[0] - b[0]);
            found.forEach(([from, end, what]) => slices.push(from, end, what));
            interrupts.set(name, slices);
        }
        return interrupts;
    }

    /** What an event carries, as `tracer-user read` shows it. @param {Marks} marks @param {number} index */
    wordsOf(marks, index) {
        const column = new Column(this.words, 0);
        column.at = marks.words[index];
        const length = column.next();
        return new TextDecoder().decode(column.bytes.subarray(column.at, column.at + length));
    }

    /** A thread that an event names. @param {number} task from 1 on; 0 is nobody */
    taskWords(task) {
        if (task === 0) {
            return "a thread that is not named";
        }
        const [pid, tid, name] = this.header.tasks[task - 1];
        return threadWords(pid, tid, name);
    }

    /** The row of a thread that an event names. @param {number} task @returns {ThreadRow | undefined} */
    rowOfTask(task) {
        const [pid, tid] = this.header.tasks[task - 1] ?? [0, 0];
        return this.rowOf(pid, tid);
    }

    /** @param {number} pid @param {number} tid @returns {ThreadRow | undefined} */
    rowOf(pid, tid) {
        return this.byId.get(`${pid}/${tid}`);
    }
}
