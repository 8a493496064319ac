// Which events carry a text, of many.

import { Model } from "./rows.js";
import { firstAfter } from "./slices.js";

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
