import assert from "node:assert/strict";
import { test } from "node:test";
import { deflateRawSync } from "node:zlib";
import { Column, Texts, bytesOf, decode } from "../decode.js";

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
