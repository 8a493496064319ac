// How people read durations, times and shares: the same words as those of `tracer-user stat`.

/** @type {Array<[number, string]>} */
const UNITS = [[1e9, "s"], [1e6, "ms"], [1e3, "us"]];

/**
 * A duration with four digits at most that count: `999 ns`, `1.234 us`, `12345 s`.
 * @param {number | null | undefined} ns
 * @returns {string}
 */
export function duration(ns) {
    if (ns === null || ns === undefined) {
        return "-";
    }
    for (const [unit, name] of UNITS) {
        if (ns >= unit) {
            const whole = Math.floor(ns / unit);
            const digits = whole < 10 ? 3 : whole < 100 ? 2 : whole < 1000 ? 1 : 0;
            if (digits === 0) {
                return `${whole} ${name}`;
            }
            const part = Math.floor((ns % unit) / (unit / 10 ** digits));
            return `${whole}.${String(part).padStart(digits, "0")} ${name}`;
        }
    }
    return `${ns} ns`;
}

/**
 * A moment in seconds, with all digits, as `tracer-user read` shows it.
 * @param {number} ns
 * @returns {string}
 */
export function moment(ns) {
    const whole = Math.floor(ns / 1e9);
    return `${whole}.${String(Math.round(ns - whole * 1e9)).padStart(9, "0")}`;
}

/**
 * A share of a whole: `61 %`, `0.4 %`.
 * @param {number} part
 * @param {number} whole
 * @returns {string}
 */
export function share(part, whole) {
    if (whole === 0) {
        return "-";
    }
    const thousandths = Math.floor((part * 1000) / whole);
    return thousandths >= 10 ? `${Math.floor((thousandths + 5) / 10)} %` : `0.${thousandths} %`;
}

/**
 * Who a thread is: `nginx 4711`, `worker 4711/4713`.
 * @param {number} pid
 * @param {number} tid
 * @param {string} name
 * @returns {string}
 */
export function threadWords(pid, tid, name) {
    const ids = pid === tid ? String(pid) : `${pid}/${tid}`;
    return name === "" ? ids : `${name} ${ids}`;
}

/**
 * A text of others, in which nothing is invisible or turns the direction of what follows.
 * @param {string} text
 * @returns {string}
 */
export function visible(text) {
    const hidden = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;
    return text.replace(hidden, (found) => `\\u{${(found.codePointAt(0) ?? 0).toString(16)}}`);
}
