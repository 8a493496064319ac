// Which part of the time is shown, and how it is zoomed and moved.

/** The shortest time that is shown, in nanoseconds. */
const SHORTEST = 100;

/** A part of the time, from 0 to `end` at most. */
export class View {
    /** @param {number} end */
    constructor(end) {
        this.end = Math.max(end, SHORTEST);
        this.from = 0;
        this.to = this.end;
    }

    /** @returns {number} */
    get ns() {
        return this.to - this.from;
    }

    /**
     * Shows this part, as far as there is something.
     * @param {number} from
     * @param {number} to
     */
    show(from, to) {
        const ns = Math.min(Math.max(to - from, SHORTEST), this.end);
        const middle = (from + to) / 2;
        this.from = Math.min(Math.max(middle - ns / 2, 0), this.end - ns);
        this.to = this.from + ns;
    }

    /**
     * Zooms; the time at `at` stays where it is.
     * @param {number} factor less than 1 shows less
     * @param {number} at
     */
    zoom(factor, at) {
        const ns = Math.min(Math.max(this.ns * factor, SHORTEST), this.end);
        const part = (at - this.from) / this.ns;
        const from = at - part * ns;
        this.from = Math.min(Math.max(from, 0), this.end - ns);
        this.to = this.from + ns;
    }

    /** Moves by a part of what is shown. @param {number} part */
    move(part) {
        const { ns } = this;
        this.from = Math.min(Math.max(this.from + part * ns, 0), this.end - ns);
        this.to = this.from + ns;
    }

    /** A time as a position, 0 to `width`. @param {number} at @param {number} width */
    x(at, width) {
        return ((at - this.from) / this.ns) * width;
    }

    /** A position as a time. @param {number} x @param {number} width */
    time(x, width) {
        return this.from + (x / width) * this.ns;
    }
}

/**
 * Times for the marks of a ruler: about as many as there is space for.
 * @param {number} from
 * @param {number} to
 * @param {number} most
 * @returns {{times: number[], step: number}}
 */
export function ticks(from, to, most) {
    const least = (to - from) / Math.max(most, 1);
    let step = 1;
    while (step < least) {
        const digit = String(step)[0];
        step = digit === "2" ? step * 2.5 : step * 2;
    }
    const times = [];
    for (let at = Math.ceil(from / step) * step; at <= to; at += step) {
        times.push(at);
    }
    return { times, step };
}
