// From the text in the page to columns of integers, and to texts.

/**
 * A column of integers with seven bits a byte, the lowest first. The first bytes of all integers
 * are its first plane, the second ones its second, and so on. Each call goes on by one.
 */
export class Column {
    /** @param {Uint8Array[]} planes @param {number} count */
    constructor(planes, count) {
        this.planes = planes;
        this.count = count;
        this.first = planes[0] ?? new Uint8Array(0);
        /** How far each plane was read. */
        this.at = new Uint32Array(planes.length);
        this.index = 0;
    }

    /** An integer. @returns {number} */
    next() {
        const byte = this.first[this.index++];
        return byte < 128 ? byte : this.longer(byte);
    }

    /** One of more than one byte. @param {number} first @returns {number} */
    longer(first) {
        const { planes, at } = this;
        let value = first & 127;
        let factor = 128;
        let byte = 0;
        let plane = 1;
        do {
            byte = planes[plane][at[plane]++];
            value += (byte & 127) * factor;
            factor *= 128;
            plane++;
        } while (byte >= 128);
        return value;
    }

    /** An integer that may be negative: 0, -1, 1, -2 are stored as 0, 1, 2, 3. @returns {number} */
    nextSigned() {
        const value = this.next();
        return value % 2 === 0 ? value / 2 : -(value + 1) / 2;
    }

    /** Begins again. */
    rewind() {
        this.index = 0;
        this.at.fill(0);
    }
}

/** Texts, each with its length before it. */
export class Texts {
    /** @param {Uint8Array} bytes */
    constructor(bytes) {
        this.bytes = bytes;
        this.at = 0;
        this.next = 0;
    }

    /** Goes on by one: where it begins. @returns {number} */
    skip() {
        const begin = this.next;
        const length = this.lengthAt(begin);
        this.next = this.at + length;
        return begin;
    }

    /** The text that begins there, in UTF-8. @param {number} at @returns {Uint8Array} */
    textAt(at) {
        const length = this.lengthAt(at);
        return this.bytes.subarray(this.at, this.at + length);
    }

    /** Its length; what follows that is at `at` then. @param {number} begin @returns {number} */
    lengthAt(begin) {
        this.at = begin;
        let value = 0;
        let factor = 1;
        let byte = 0;
        do {
            byte = this.bytes[this.at++];
            value += (byte & 127) * factor;
            factor *= 128;
        } while (byte >= 128);
        return value;
    }
}

/** How many letters there are: all of ASCII that are visible, but `<`. */
const LETTERS = 93;

/** Two letters have that many values more than thirteen bits: so many have a fourteenth. */
const SPARE = LETTERS * LETTERS - 8192;

/**
 * The bytes of a text that src/html_report/letters.rs has written. There may be one more.
 * @param {string} text
 * @returns {Uint8Array}
 */
export function bytesOf(text) {
    const values = new Uint8Array(128);
    for (let value = 0; value < LETTERS; value++) {
        const letter = 33 + value;
        values[letter < 60 ? letter : letter + 1] = value;
    }
    const bytes = new Uint8Array(Math.ceil((text.length / 2) * (14 / 8)));
    let [bits, count, at] = [0, 0, 0];
    for (let index = 0; index + 1 < text.length; index += 2) {
        const two = values[text.charCodeAt(index)] + values[text.charCodeAt(index + 1)] * LETTERS;
        bits |= two << count;
        count += (two & 8191) < SPARE ? 14 : 13;
        while (count >= 8) {
            bytes[at++] = bits & 255;
            bits >>>= 8;
            count -= 8;
        }
    }
    return bytes.subarray(0, at);
}

/**
 * @param {Uint8Array} bytes
 * @returns {Promise<Uint8Array>}
 */
async function inflate(bytes) {
    const stream = new Blob([/** @type {BlobPart} */ (bytes)]).stream();
    const inflated = stream.pipeThrough(new DecompressionStream("deflate-raw"));
    return new Uint8Array(await new Response(inflated).arrayBuffer());
}

/**
 * The header, the columns, and what events carry.
 * @param {string} text
 * @returns {Promise<{header: any, columns: Map<string, Column>, words: Texts}>}
 */
export async function decode(text) {
    const bytes = bytesOf(text.trim());
    const length = new DataView(bytes.buffer).getUint32(0, true);
    const header = JSON.parse(new TextDecoder().decode(await inflate(bytes.subarray(4, 4 + length))));
    let at = 4 + length;
    const plane = async (/** @type {string} */ name, /** @type {number} */ size, /** @type {number} */ deflated) => {
        const part = bytes.subarray(at, at + deflated);
        at += deflated;
        const whole = await inflate(part);
        if (whole.length !== size) {
            throw new Error(`the column ${name} has ${whole.length} bytes of ${size}`);
        }
        return whole;
    };
    /** @type {Map<string, Column>} */
    const columns = new Map();
    let words = new Texts(new Uint8Array(0));
    const all = header.columns.map(async (/** @type {any} */ { name, count, has_texts, planes }) => {
        const whole = await Promise.all(planes.map((/** @type {[number, number]} */ [size, deflated]) => plane(name, size, deflated)));
        if (has_texts) {
            words = new Texts(whole[0]);
        } else {
            columns.set(name, new Column(whole, count));
        }
    });
    await Promise.all(all);
    return { header, columns, words };
}
