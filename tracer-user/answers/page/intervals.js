// What threads did, from its columns: src/html_report/intervals.rs writes them.

import { Column } from "./decode.js";
import { Guesses } from "./guess.js";

/** How an interval is stored: a thread that has a CPU, that waits for it, that is off it. */
const RUN = 0;
const GOT = 1;
const OFF = 2;

/**
 * An interval; the same object is used for all of them.
 * @typedef {object} Interval
 * @property {number} thread
 * @property {number} code
 * @property {number} to when it ends, in nanoseconds
 * @property {number} apart how long after the end of the one before of this thread it begins
 * @property {number} cpu or -1
 * @property {number} task that its end names: from 1 on; 0 is no task
 */

/**
 * Reads all intervals, in the order of the log.
 * @param {any} header
 * @param {(name: string) => Column} column
 * @param {(interval: Interval) => void} take
 */
export function readIntervals(header, column, take) {
    const codes = /** @type {any[]} */ (header.codes);
    const kinds = Uint8Array.from(codes, ({ state }) => ({ running: RUN, runnable: GOT }[/** @type {"running"} */ (state)] ?? OFF));
    const flags = (/** @type {(one: any) => boolean} */ of) => Uint8Array.from(codes, (one) => of(one) ? 1 : 0);
    const isApart = flags((one) => one.apart);
    const hasCpu = flags((one) => one.cpu);
    const hasTask = flags((one) => one.end === "thread" || one.end === "got_cpu");
    const isWoken = flags((one) => one.wait === "woken");
    const [code, from, thread, task] = ["code", "from", "thread", "task"].map((name) => column(`interval.${name}`));
    const cpus = ["run", "got", "off"].map((name) => column(`${name}.cpu`));
    const threads = ["run", "got", "off"].map((name) => column(`${name}.thread`));
    const ends = ["run", "got", "off"].map((name) => column(`${name}.to`));
    const [before, wakers] = [column("got.before"), column("off.waker")];

    const guesses = new Guesses(header.threads.length, header.tasks.length);
    const rows = new Map(header.threads.map((/** @type {any} */ [pid, tid], /** @type {number} */ index) => [`${pid}/${tid}`, index]));
    const rowOf = Int32Array.from([-1, ...header.tasks.map((/** @type {any} */ [pid, tid]) => rows.get(`${pid}/${tid}`) ?? -1)]);
    /** As which task each thread was named last. */
    const named = new Int32Array(header.threads.length).fill(-1);
    const name = (/** @type {number} */ of) => {
        if (rowOf[of] >= 0) {
            named[rowOf[of]] = of;
        }
    };

    /** @type {Interval} */
    const interval = { thread: 0, code: 0, to: 0, apart: 0, cpu: -1, task: 0 };
    for (let index = 0; index < code.count; index++) {
        const what = code.next();
        const kind = kinds[what];
        interval.code = what;
        interval.apart = isApart[what] === 1 ? from.nextSigned() : 0;
        interval.cpu = -1;
        interval.task = 0;
        const stored = threads[kind];
        if (kind === OFF) {
            if (hasTask[what] === 1) {
                const waker = guesses.waker(wakers.next());
                interval.task = waker < 0 ? task.next() : waker;
                name(interval.task);
                guesses.ready(interval.task);
            }
            const woken = guesses.woken(stored.next(), interval.task);
            interval.thread = woken < 0 ? thread.next() : woken;
            guesses.wokenBy(interval.thread, interval.task);
            if (hasCpu[what] === 1) {
                interval.cpu = guesses.cpuOfThread(cpus[kind].next(), interval.thread);
            }
            guesses.wait(interval.thread);
        } else {
            if (hasCpu[what] === 1) {
                interval.cpu = guesses.cpu(cpus[kind].next());
            }
            if (kind === RUN) {
                interval.thread = guesses.ran(stored.next());
                guesses.left(interval.thread, named[interval.thread]);
            } else {
                const got = guesses.got(stored.next(), isWoken[what] === 1);
                interval.thread = got < 0 ? thread.next() : got;
                guesses.came(interval.thread);
                if (hasTask[what] === 1) {
                    interval.task = guesses.before(before.next());
                    name(interval.task);
                }
                if (named[interval.thread] >= 0) {
                    guesses.ready(named[interval.thread]);
                }
            }
        }
        if (interval.cpu >= 0) {
            guesses.cpuOf[interval.thread] = interval.cpu;
        }
        interval.to += ends[kind].nextSigned();
        take(interval);
    }
}
