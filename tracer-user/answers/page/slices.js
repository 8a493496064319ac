// Intervals and moments in order of time, in which any part is found quickly.

/** The states of a thread, as totals count them. */
export const STATES = ["running", "runnable", "blocked", "device", "stopped", "unknown"];

/** Intervals between two sums that are stored. */
const BLOCK = 16;

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

/**
 * The same, where it is at `low` or after that, and near.
 * @param {Float64Array} values
 * @param {number} at
 * @param {number} low
 * @returns {number}
 */
export function firstAfterFrom(values, at, low) {
    let step = 1;
    let high = low;
    while (high < values.length && values[high] <= at) {
        low = high + 1;
        high += step;
        step *= 2;
    }
    high = Math.min(high, values.length);
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

/** Slices whose number is not known in advance. */
export class Growing {
    constructor() {
        this.slices = new Slices(1024);
        this.isInOrder = true;
    }

    /** @param {number} from @param {number} to @param {number} what */
    push(from, to, what) {
        let { slices } = this;
        const last = slices.count;
        if (last === slices.from.length) {
            const larger = new Slices(last * 2);
            larger.from.set(slices.from);
            larger.to.set(slices.to);
            larger.what.set(slices.what);
            larger.count = last;
            this.slices = slices = larger;
        }
        this.isInOrder &&= last === 0 || slices.from[last - 1] <= from;
        slices.push(from, to, what);
    }

    /** All of them, by their beginnings. @returns {Slices} */
    inOrder() {
        const { slices } = this;
        const { count } = slices;
        const of = new Slices(count);
        // They come by their ends: on one CPU that is the order of their beginnings too.
        if (this.isInOrder) {
            of.from.set(slices.from.subarray(0, count));
            of.to.set(slices.to.subarray(0, count));
            of.what.set(slices.what.subarray(0, count));
            of.count = count;
            return of;
        }
        const order = Uint32Array.from({ length: count }, (_, index) => index).sort((a, b) => slices.from[a] - slices.from[b]);
        order.forEach((index) => of.push(slices.from[index], slices.to[index], slices.what[index]));
        return of;
    }
}

/** What a thread did: intervals that follow each other. */
export class Track extends Slices {
    /** @param {number} count */
    constructor(count) {
        super(count);
        this.cpu = new Int32Array(count).fill(-1);
        this.task = new Uint32Array(count);
        /** Sums up to the first interval of each block, by state. */
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
        this.beforeIndex(at, firstAfter(this.from, at), out);
    }

    /**
     * The same, where it is known which is the first interval after `at`.
     * @param {number} at
     * @param {number} after
     * @param {Float64Array} out
     */
    beforeIndex(at, after, out) {
        const last = Math.max(after - 1, 0);
        const block = Math.floor(last / BLOCK);
        const { from, to, what, states, sums } = this;
        const base = block * STATES.length;
        for (let state = 0; state < STATES.length; state++) {
            out[state] = sums[base + state];
        }
        for (let index = block * BLOCK; index < after; index++) {
            const end = to[index];
            out[states[what[index]]] += (end < at ? end : at) - from[index];
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
