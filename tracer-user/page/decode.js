// From the text in the page to columns of integers.

/**
 * A column: integers with seven bits a byte, the lowest first, and texts with their length before
 * them. Each call goes on by one.
 */
export class Column {
    /** @param {Uint8Array} bytes @param {number} count */
    constructor(bytes, count) {
        this.bytes = bytes;
        this.count = count;
        this.at = 0;
    }

    /** An integer. @returns {number} */
    next() {
        const bytes = this.bytes;
        let byte = bytes[this.at++];
        if (byte < 128) {
            return byte;
        }
        let value = byte & 127;
        let factor = 128;
        do {
            byte = bytes[this.at++];
            value += (byte & 127) * factor;
            factor *= 128;
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
        this.at = 0;
    }
}

/**
 * The bytes of a text in base64.
 * @param {string} text
 * @returns {Uint8Array}
 */
export function bytesOf(text) {
    const codes = new Uint8Array(128);
    const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (let index = 0; index < 64; index++) {
        codes[letters.charCodeAt(index)] = index;
    }
    let length = text.length;
    while (length > 0 && text[length - 1] === "=") {
        length--;
    }
    const bytes = new Uint8Array(Math.floor((length * 3) / 4));
    let at = 0;
    for (let index = 0; index < length; index += 4) {
        const four = (codes[text.charCodeAt(index)] << 18) | (codes[text.charCodeAt(index + 1)] << 12)
            | ((codes[text.charCodeAt(index + 2)] ?? 0) << 6) | (codes[text.charCodeAt(index + 3)] ?? 0);
        bytes[at++] = four >> 16;
        bytes[at++] = (four >> 8) & 255;
        bytes[at++] = four & 255;
    }
    return bytes;
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
 * The header and the columns.
 * @param {string} text
 * @returns {Promise<{header: any, columns: Map<string, Column>}>}
 */
export async function decode(text) {
    const bytes = bytesOf(text.trim());
    const length = new DataView(bytes.buffer).getUint32(0, true);
    const header = JSON.parse(new TextDecoder().decode(await inflate(bytes.subarray(4, 4 + length))));
    let at = 4 + length;
    const inflated = header.columns.map(async (/** @type {any} */ column) => {
        const deflated = bytes.subarray(at, at + column.deflated);
        at += column.deflated;
        const whole = await inflate(deflated);
        if (whole.length !== column.bytes) {
            throw new Error(`the column ${column.name} has ${whole.length} bytes of ${column.bytes}`);
        }
        return [column.name, new Column(whole, column.count)];
    });
    return { header, columns: new Map(await Promise.all(inflated)) };
}
