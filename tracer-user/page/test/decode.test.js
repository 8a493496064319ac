import assert from "node:assert/strict";
import { test } from "node:test";
import { deflateRawSync } from "node:zlib";
import { Column, bytesOf, decode } from "../decode.js";

test("integers are read as they are written", () => {
    const column = new Column(Uint8Array.of(0, 127, 0x80, 1, 0xac, 2, 1, 2, 127), 7);
    assert.deepEqual([column.next(), column.next(), column.next(), column.next()], [0, 127, 128, 300]);
    assert.deepEqual([column.nextSigned(), column.nextSigned(), column.nextSigned()], [-1, 1, -64]);
    const large = new Column(Uint8Array.of(0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 4), 1);
    assert.equal(large.next(), 2 ** 51);
});

test("base64 is what others make of it", () => {
    for (let length = 0; length < 70; length++) {
        const bytes = Uint8Array.from({ length }, (_, index) => (index * 37 + length) & 255);
        assert.deepEqual([...bytesOf(Buffer.from(bytes).toString("base64"))], [...bytes]);
    }
});

test("columns come as the header says, and one that is damaged is no column", async () => {
    const first = Uint8Array.of(1, 2, 3);
    const second = Uint8Array.of(9);
    const data = (bytes) => {
        const deflated = [first, second].map((column) => deflateRawSync(column));
        const header = deflateRawSync(JSON.stringify({
            columns: [
                { name: "a", count: 3, bytes, deflated: deflated[0].length },
                { name: "b", count: 1, bytes: 1, deflated: deflated[1].length },
            ],
        }));
        const length = Buffer.alloc(4);
        length.writeUInt32LE(header.length);
        return Buffer.concat([length, header, ...deflated]).toString("base64");
    };
    const { columns } = await decode(data(3));
    assert.deepEqual([columns.get("a").next(), columns.get("a").next(), columns.get("b").next()], [1, 2, 9]);
    await assert.rejects(decode(data(4)), /3 bytes of 4/);
});
