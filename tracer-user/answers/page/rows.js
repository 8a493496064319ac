// What the columns hold, by thread and by CPU, so that any part of the time is found quickly.

import { Column, Texts } from "./decode.js";
import { readIntervals } from "./intervals.js";
import { Growing, Marks, STATES, Slices, Track } from "./slices.js";
import { threadWords } from "./words.js";

/** How many rows the spans of a thread may take. */
const MOST_LEVELS = 12;

const DECODER = new TextDecoder();

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
 * @property {Marks} marks user events, and those of the kernel that have no row of their own
 * @property {Marks} faults page faults, of which there may be many
 */

/**
 * A node of robots: its callbacks, whichever threads they run in, and its messages.
 * @typedef {object} NodeLane
 * @property {string} label
 * @property {Slices[]} levels callbacks, below each other
 * @property {Int32Array[]} spans which span each of them is
 * @property {Marks} marks messages that it publishes and takes
 * @property {Uint32Array} threads the thread of each of those
 */

/**
 * Puts spans below each other that overlap.
 * @param {Pick<ThreadRow, "levels" | "spans">} row
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
    /** @param {any} header @param {Map<string, Column>} columns @param {Texts} words what events carry */
    constructor(header, columns, words) {
        this.header = header;
        this.end = Math.max(header.span_ns, 1);
        /** Times count from the first event; what is shown counts from the start of the log. */
        this.shift = header.first_ns;
        /** @param {string} name */
        this.column = (name) => columns.get(name) ?? new Column([], 0);
        /** The state of each code. */
        this.states = Uint8Array.from(header.codes, (/** @type {any} */ code) => STATES.indexOf(
            code.state === "blocked" && code.io_wait ? "device" : code.state));
        const calls = this.countByThread("call");
        /** Whether marks of a type are page faults. @type {boolean[]} */
        this.isFault = header.types.map((/** @type {any} */ [, family]) => family === "fault");
        const [marks, faults] = this.countMarks();
        /** @type {ThreadRow[]} */
        this.threads = header.threads.map((/** @type {any} */ thread, /** @type {number} */ index) => ({
            index,
            pid: thread[0],
            tid: thread[1],
            name: thread[2],
            label: thread[1] === 0 ? "the trace" : threadWords(thread[0], thread[1], thread[2]),
            track: new Track(thread[3]),
            calls: new Slices(calls[index]),
            returned: new Float64Array(calls[index]),
            levels: [],
            spans: [],
            marks: new Marks(marks[index]),
            faults: new Marks(faults[index]),
        }));
        /** Who had each CPU. */
        this.cpus = this.readStates();
        this.readCalls();
        /** All spans, in order of their ends. */
        this.spans = this.readSpans();
        /** What events carry. */
        this.words = words;
        this.readMarks();
        /** Nodes of robots. */
        this.nodes = this.readNodes();
        /** Interrupts, by kind and CPU. */
        this.interrupts = this.readInterrupts();
        /** The names of processes, and what they were started with. @type {Map<number, [string, string]>} */
        this.processes = new Map(header.processes.map((/** @type {any} */ [pid, name, command]) => [pid, [name, command]]));
        /** @type {Map<string, ThreadRow>} */
        this.byId = new Map(this.threads.map((row) => [`${row.pid}/${row.tid}`, row]));
        /** @type {Array<{from: number, to: number, isKernels: boolean}>} */
        this.gaps = header.gaps.map((/** @type {any} */ [from, to, isKernels]) => (
            { from, to: to === null ? this.end : Math.min(to, this.end), isKernels }));
    }

    /** The name of a process, whichever of its threads are seen; empty where it is not known. @param {number} pid */
    processName(pid) {
        return this.processes.get(pid)?.[0] ?? "";
    }

    /** What a process was started with; empty where that is not known. @param {number} pid */
    commandOf(pid) {
        return this.processes.get(pid)?.[1] ?? "";
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

    /** How many marks of threads are shown as events, and how many as page faults. */
    countMarks() {
        const counts = [new Uint32Array(this.header.threads.length), new Uint32Array(this.header.threads.length)];
        const [type, thread] = ["type", "thread"].map((name) => this.column(`mark.${name}`));
        for (let index = 0; index < type.count; index++) {
            counts[this.isFault[type.next()] ? 1 : 0][thread.next()]++;
        }
        type.rewind();
        thread.rewind();
        return counts;
    }

    readStates() {
        const { states } = this;
        const tracks = this.threads.map((row) => row.track);
        /** @type {Map<number, Growing>} */
        const onCpu = new Map();
        readIntervals(this.header, this.column, ({ thread, code, to, apart, cpu, task }) => {
            const track = tracks[thread];
            const at = track.count++;
            const from = (at > 0 ? track.to[at - 1] : 0) + apart;
            track.from[at] = from;
            track.to[at] = to;
            track.what[at] = code;
            track.cpu[at] = cpu;
            track.task[at] = task;
            if (cpu >= 0 && states[code] === 0) {
                const runs = onCpu.get(cpu) ?? new Growing();
                onCpu.set(cpu, runs);
                runs.push(from, to, thread);
            }
        });
        for (const track of tracks) {
            track.sum(states);
        }
        const cpus = [...onCpu].sort(([a], [b]) => a - b);
        return new Map(cpus.map(([id, runs]) => [id, runs.inOrder()]));
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
        const [type, thread, at] = ["type", "thread", "at"].map((name) => this.column(`mark.${name}`));
        let now = 0;
        for (let index = 0; index < type.count; index++) {
            const row = this.threads[thread.next()];
            const what = type.next();
            const marks = this.isFault[what] ? row.faults : row.marks;
            now += at.nextSigned();
            const to = marks.count++;
            marks.at[to] = now;
            marks.type[to] = what;
            marks.words[to] = this.words.skip();
        }
    }

    /** @returns {NodeLane[]} */
    readNodes() {
        const { header, spans } = this;
        /** @type {Array<[string, number, number[]]>} */
        const known = header.nodes ?? [];
        const [node, type, thread, at] = ["node", "type", "thread", "at"].map((name) => this.column(`message.${name}`));
        const counts = new Uint32Array(known.length);
        for (let index = 0; index < node.count; index++) {
            counts[node.next()]++;
        }
        node.rewind();
        const names = known.map(([name]) => name);
        const lanes = known.map(([name, pid], index) => ({
            label: names.indexOf(name) === names.lastIndexOf(name) ? name : `${name} of ${pid}`,
            levels: [],
            spans: [],
            marks: new Marks(counts[index]),
            threads: new Uint32Array(counts[index]),
        }));
        let now = 0;
        for (let index = 0; index < node.count; index++) {
            const { marks, threads } = lanes[node.next()];
            now += at.nextSigned();
            const to = marks.count++;
            marks.at[to] = now;
            marks.type[to] = type.next();
            threads[to] = thread.next();
        }
        /** Which lane a callback is in, by its process and its kind. @type {Map<string, number>} */
        const laneOf = new Map(known.flatMap(([, pid, kinds], lane) => kinds.map((kind) => [`${pid}/${kind}`, lane])));
        /** @type {number[][]} */
        const within = known.map(() => []);
        for (let index = 0; laneOf.size > 0 && index < spans.count; index++) {
            const lane = laneOf.get(`${this.threads[spans.thread[index]].pid}/${spans.kind[index]}`);
            if (lane !== undefined) {
                within[lane].push(index);
            }
        }
        within.forEach((indices, lane) => layOut(lanes[lane], spans, indices));
        return lanes;
    }

    readInterrupts() {
        const [cpu, key, to, ns] = ["cpu", "key", "to", "ns"].map((name) => this.column(`irq.${name}`));
        /** @type {Map<string, Growing>} */
        const rows = new Map();
        let now = 0;
        for (let index = 0; index < cpu.count; index++) {
            const [id, what] = [cpu.next(), key.next()];
            now += to.nextSigned();
            const name = `${this.header.interrupts[what][0] === "irq" ? "interrupts" : "soft interrupts"} ${id}`;
            const row = rows.get(name) ?? new Growing();
            rows.set(name, row);
            row.push(now - ns.next(), now, what);
        }
        return new Map([...rows].map(([name, row]) => [name, row.inOrder()]));
    }

    /** What an event carries, as `tracer-user read` shows it. @param {Marks} marks @param {number} index */
    wordsOf(marks, index) {
        return this.wordsAt(marks.words[index]);
    }

    /** The words that begin there. @param {number} at */
    wordsAt(at) {
        return DECODER.decode(this.words.textAt(at));
    }

    /** A thread that an event names. @param {number} task from 1 on; 0 is no thread */
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
