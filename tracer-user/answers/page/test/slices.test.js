import assert from "node:assert/strict";
import { test } from "node:test";
import { Growing, STATES, Slices, Track, firstAfter } from "../slices.js";

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
