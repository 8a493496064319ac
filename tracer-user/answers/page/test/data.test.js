import assert from "node:assert/strict";
import { test } from "node:test";
import { deflateRawSync } from "node:zlib";
import { Column, Texts, bytesOf, decode } from "../decode.js";
import { Growing, STATES, Slices, Track, firstAfter } from "../slices.js";

/** Bytes as letters, by the arithmetic of the format alone. */
function letters(bytes) {
    let [bits, count, text] = [0n, 0n, ""];
    const all = Array.from({ length: 94 }, (_, index) => String.fromCharCode(33 + index)).filter((letter) => letter !== "<");
    const push = (value) => {
        text += all[value % 93n] + all[value / 93n];
    };
    for (const byte of bytes) {
        bits |= BigInt(byte) << count;
        count += 8n;
        if (count >= 14n) {
            const taken = bits % 8192n < 457n ? 14n : 13n;
            push(bits & ((1n << taken) - 1n));
            bits >>= taken;
            count -= taken;
        }
    }
    if (count > 0n) {
        push(bits);
    }
    return text;
}

test("integers are read as they are written, each byte of them from its plane", () => {
    const column = new Column([Uint8Array.of(0, 127, 0x80, 0xac, 1, 2, 127), Uint8Array.of(1, 2)], 7);
    for (const _ of [0, 1]) {
        assert.deepEqual([column.next(), column.next(), column.next(), column.next()], [0, 127, 128, 300]);
        assert.deepEqual([column.nextSigned(), column.nextSigned(), column.nextSigned()], [-1, 1, -64]);
        column.rewind();
    }
    const large = new Column([...Array(7).fill(Uint8Array.of(0x80)), Uint8Array.of(4)], 1);
    assert.equal(large.next(), 2 ** 51);
});

test("texts are where they begin", () => {
    const long = "x".repeat(300);
    const texts = new Texts(Uint8Array.of(2, 97, 98, 0));
    assert.deepEqual([texts.skip(), texts.skip()], [0, 3]);
    const bytes = Uint8Array.from([0xac, 2, ...new TextEncoder().encode(long), 1, 65]);
    const longer = new Texts(bytes);
    assert.deepEqual([longer.skip(), longer.skip()], [0, 302]);
    assert.equal(new TextDecoder().decode(longer.textAt(0)), long);
    assert.equal(new TextDecoder().decode(longer.textAt(302)), "A");
});

test("letters are bytes again", () => {
    for (let length = 0; length < 700; length++) {
        const bytes = Uint8Array.from({ length }, (_, index) => (index * index * 37 + length) & 255);
        assert.deepEqual([...bytesOf(letters(bytes)).subarray(0, length)], [...bytes]);
    }
});

test("columns come as the header says, and one that is damaged is no column", async () => {
    const planes = [Uint8Array.of(1, 2, 0x83), Uint8Array.of(1), Uint8Array.of(9), Uint8Array.of(1, 65)];
    const data = (bytes) => {
        const deflated = planes.map((plane) => deflateRawSync(plane));
        const size = (index, length) => [length, deflated[index].length];
        const header = deflateRawSync(JSON.stringify({
            columns: [
                { name: "a", count: 3, has_texts: false, planes: [size(0, bytes), size(1, 1)] },
                { name: "b", count: 1, has_texts: false, planes: [size(2, 1)] },
                { name: "c", count: 1, has_texts: true, planes: [size(3, 2)] },
            ],
        }));
        const length = Buffer.alloc(4);
        length.writeUInt32LE(header.length);
        return letters(Buffer.concat([length, header, ...deflated]));
    };
    const { columns, words } = await decode(data(3));
    const [a, b] = [columns.get("a"), columns.get("b")];
    assert.deepEqual([a.next(), a.next(), a.next(), b.next()], [1, 2, 131, 9]);
    assert.deepEqual([...words.textAt(0)], [65]);
    await assert.rejects(decode(data(4)), /3 bytes of 4/);
});

/** Of 1000 intervals some are apart from the one before. */
function track() {
    const made = new Track(1000);
    let at = 5;
    for (let index = 0; index < 1000; index++) {
        const from = at + (index % 7 === 0 ? 13 : 0);
        at = from + 1 + ((index * 31) % 17);
        made.push(from, at, index % STATES.length);
    }
    made.sum(Uint8Array.from(STATES, (_, index) => index));
    return made;
}

test("totals of any part are those of its intervals, to the nanosecond", () => {
    const made = track();
    const end = made.to[999] + 10;
    for (const [from, to] of [[0, end], [0, 1], [17, 18], [100, 5000], [777, 778], [4000, 4001], [end - 11, end]]) {
        const expected = new Float64Array(STATES.length);
        for (let index = 0; index < made.count; index++) {
            expected[made.what[index]] += Math.max(Math.min(made.to[index], to) - Math.max(made.from[index], from), 0);
        }
        assert.deepEqual([...made.between(from, to)], [...expected], `${from} to ${to}`);
    }
});

test("an empty track has done nothing", () => {
    const empty = new Track(0);
    empty.sum(new Uint8Array(0));
    assert.deepEqual([...empty.between(0, 100)], STATES.map(() => 0));
});

test("what is at a time is found", () => {
    assert.deepEqual([0, 1, 2, 3, 4].map((at) => firstAfter(Float64Array.of(1, 1, 3), at)), [0, 2, 2, 3, 3]);
    const slices = new Slices(2);
    slices.push(10, 20, 0);
    slices.push(30, 40, 0);
    assert.deepEqual([5, 10, 19, 20, 30, 40].map((at) => slices.find(at)), [-1, 0, 0, -1, 1, -1]);
});

test("slices that come in any order are by their beginnings, however many", () => {
    for (const isInOrder of [true, false]) {
        const growing = new Growing();
        for (let index = 0; index < 5000; index++) {
            const from = isInOrder ? index : (index * 7) % 5000;
            growing.push(from, from + 1, from + 2);
        }
        const slices = growing.inOrder();
        assert.equal(slices.count, 5000);
        assert.equal(slices.from.length, 5000);
        for (const at of [0, 1, 1023, 1024, 4999]) {
            assert.deepEqual([slices.from[at], slices.to[at], slices.what[at]], [at, at + 1, at + 2]);
        }
    }
});
