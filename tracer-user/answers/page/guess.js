// What an interval most likely says, by those before it: src/html_report/guess.rs stores only in
// what it differs.

/** Values that a list has at most. Half of them go at once. */
const MOST_RECENT = 64;

/** CPUs of which each is guessed by itself; the rest are as one. */
const MOST_CPUS = 4096;

/** Values, those that came last at the end. */
class Recent {
    constructor() {
        this.values = new Uint32Array(MOST_RECENT);
        this.count = 0;
    }

    /** Whether it is the last. @param {number} value */
    endsWith(value) {
        return this.count > 0 && this.values[this.count - 1] === value;
    }

    /** Takes out the value of a rank: 1 is the last. @param {number} rank */
    take(rank) {
        const value = this.values[this.count - rank];
        this.removeAt(this.count - rank);
        return value;
    }

    /** @param {number} value */
    remove(value) {
        let index = this.count - 1;
        while (index >= 0 && this.values[index] !== value) {
            index--;
        }
        if (index >= 0) {
            this.removeAt(index);
        }
    }

    /** @param {number} index */
    removeAt(index) {
        const { values } = this;
        this.count--;
        for (let next = index; next < this.count; next++) {
            values[next] = values[next + 1];
        }
    }

    /** @param {number} value */
    add(value) {
        if (this.count >= MOST_RECENT) {
            this.values.copyWithin(0, MOST_RECENT / 2);
            this.count = MOST_RECENT / 2;
        }
        this.values[this.count++] = value;
    }
}

/**
 * All by which is guessed. Threads and tasks are indices of the header's lists; a task of -1 is not
 * known.
 */
export class Guesses {
    /** @param {number} threads how many @param {number} tasks how many */
    constructor(threads, tasks) {
        /** The CPU of the last interval. */
        this.lastCpu = 0;
        /** What is known of each CPU. @type {Array<{on: number, before: number, woken: Recent}>} */
        this.cpus = [];
        /** The last CPU of each thread. */
        this.cpuOf = new Float64Array(threads).fill(-1);
        /** In which list each thread is. @type {Array<Recent | null>} */
        this.listOf = new Array(threads).fill(null);
        /** Who was woken after each thread by the same waker. */
        this.next = new Int32Array(threads).fill(-1);
        /** Threads that have no CPU, and were not woken yet. */
        this.off = new Recent();
        this.wakers = new Recent();
        /** The task that each task woke last. */
        this.woke = new Int32Array(tasks + 1).fill(-1);
    }

    /** @param {number} stored */
    cpu(stored) {
        if (stored !== 0) {
            this.lastCpu = stored - 1;
        }
        return this.lastCpu;
    }

    /** @param {number} stored @param {number} thread */
    cpuOfThread(stored, thread) {
        this.lastCpu = stored === 0 ? this.cpuOf[thread] : stored - 1;
        return this.lastCpu;
    }

    /** Which thread ran. @param {number} stored */
    ran(stored) {
        return stored === 0 ? this.here().on : stored - 1;
    }

    /** It leaves the CPU. @param {number} thread @param {number} task as which it is known, or -1 */
    left(thread, task) {
        const cpu = this.here();
        cpu.on = -1;
        cpu.before = task;
        this.list(thread, this.off);
    }

    /** Which thread got the CPU, or -1. @param {number} stored @param {boolean} isWoken */
    got(stored, isWoken) {
        return stored === 0 ? -1 : this.take(isWoken ? this.here().woken : this.off, stored);
    }

    /** It has the CPU. @param {number} thread */
    came(thread) {
        this.here().on = thread;
        this.list(thread, null);
    }

    /** Which task had the CPU before. @param {number} stored */
    before(stored) {
        return stored === 0 ? this.here().before : stored - 1;
    }

    /** Which task woke, or -1. @param {number} stored */
    waker(stored) {
        return stored === 0 ? -1 : this.wakers.take(stored);
    }

    /** The task may wake others soon. @param {number} task */
    ready(task) {
        const { wakers } = this;
        if (!wakers.endsWith(task)) {
            wakers.remove(task);
            wakers.add(task);
        }
    }

    /** Which thread was woken, or -1. @param {number} stored @param {number} waker */
    woken(stored, waker) {
        if (stored === 0) {
            return this.next[this.woke[waker]];
        }
        return stored === 1 ? -1 : this.take(this.off, stored - 1);
    }

    /** It was woken. @param {number} thread @param {number} waker */
    wokenBy(thread, waker) {
        const last = this.woke[waker];
        if (last >= 0) {
            this.next[last] = thread;
        }
        this.woke[waker] = thread;
    }

    /** It waits for the CPU. @param {number} thread */
    wait(thread) {
        this.list(thread, this.here().woken);
    }

    /** The CPU of this interval. */
    here() {
        const cpu = Math.min(this.lastCpu, MOST_CPUS);
        return this.cpus[cpu] ??= { on: -1, before: -1, woken: new Recent() };
    }

    /** Takes a thread of a rank out of its list. @param {Recent} list @param {number} rank */
    take(list, rank) {
        const thread = list.take(rank);
        this.listOf[thread] = null;
        return thread;
    }

    /** The thread is in this list, and in no other one. @param {number} thread @param {Recent | null} list */
    list(thread, list) {
        const before = this.listOf[thread];
        if (before !== null) {
            before.remove(thread);
        }
        if (list !== null) {
            list.add(thread);
        }
        this.listOf[thread] = list;
    }
}
