"use strict";

// Asks Perfetto's own engine about a trace: `node trace_processor.js ENGINE TRACE < queries`.
//
// ENGINE is the folder of the user interface as it is published, in which the engine is a web worker with a
// WebAssembly module. Each line of standard input is a query in SQL; each line that is printed is the JSON of its
// rows, in the same order.

const fs = require("fs");
const path = require("path");
const vm = require("vm");

/** The folder of the version that is there: the one that has the worker. */
function versionOf(folder) {
  const versions = fs.readdirSync(folder).map((name) => path.join(folder, name));
  const home = versions.find((version) => fs.existsSync(path.join(version, "engine_bundle.js")));
  if (!home) throw new Error(`no engine in ${folder}`);
  return home;
}

/** What the worker asks of a browser. */
function startWorker(home) {
  class XMLHttpRequest {
    open(_method, url) {
      this.file = path.join(home, path.basename(url));
    }
    send() {
      this.response = new Uint8Array(fs.readFileSync(this.file)).buffer;
    }
  }
  const complain = (...words) => process.stderr.write(`${words.join(" ")}\n`.slice(0, 4000));
  const scope = {
    console: { log() {}, warn: complain, error: complain },
    location: { href: "https://localhost/engine_bundle.js" },
    WorkerGlobalScope: class {},
    XMLHttpRequest,
    // Errors of the engine's own kinds are recognised by these.
    TypeError,
    WebAssembly,
    Uint8Array,
    TextDecoder,
    URL,
    crypto: globalThis.crypto ?? require("crypto").webcrypto,
    performance,
    setTimeout,
  };
  scope.self = scope;
  vm.createContext(scope);
  vm.runInContext(fs.readFileSync(path.join(home, "engine_bundle.js"), "utf8"), scope);
  return scope;
}

// What is spoken with the engine: `protos/perfetto/trace_processor/trace_processor.proto`.
const METHOD = { append: 1, finalize: 2, query: 3 };

function varint(value) {
  const bytes = [];
  for (; value > 127; value = Math.floor(value / 128)) bytes.push((value % 128) | 128);
  return Buffer.from([...bytes, value]);
}

function integerField(tag, value) {
  return Buffer.concat([varint(tag * 8), varint(value)]);
}

function bytesField(tag, bytes) {
  return Buffer.concat([varint(tag * 8 + 2), varint(bytes.length), bytes]);
}

/** The fields of a message: [tag, a BigInt or bytes]. */
function* fieldsOf(bytes) {
  const cursor = { bytes, at: 0 };
  while (cursor.at < bytes.length) {
    const key = Number(readVarint(cursor));
    const kind = key % 8;
    let length = { 1: 8, 5: 4 }[kind];
    if (kind === 0) {
      yield [key >> 3, readVarint(cursor)];
      continue;
    }
    if (kind === 2) length = Number(readVarint(cursor));
    yield [key >> 3, bytes.subarray(cursor.at, (cursor.at += length))];
  }
}

function readVarint(cursor) {
  let value = 0n;
  for (let shift = 0n; ; shift += 7n) {
    const byte = cursor.bytes[cursor.at++];
    value |= BigInt(byte & 127) << shift;
    if (byte < 128) return value;
  }
}

function* varintsOf(bytes) {
  const cursor = { bytes, at: 0 };
  while (cursor.at < bytes.length) yield readVarint(cursor);
}

class Engine {
  constructor(home) {
    this.replies = [];
    this.sequence = 0;
    this.port = { postMessage: (bytes) => this.replies.push(Buffer.from(bytes)) };
    const scope = startWorker(home);
    this.isReady = new Promise((resolve) => setTimeout(resolve, 0));
    scope.onmessage({ data: this.port });
  }

  /** Sends a request, and returns the fields of its replies. */
  ask(method, ...parts) {
    const request = Buffer.concat([integerField(1, this.sequence++), integerField(2, method), ...parts]);
    this.replies = [];
    this.port.onmessage({ data: new Uint8Array(bytesField(1, request)) });
    const fields = [];
    for (const [, message] of fieldsOf(Buffer.concat(this.replies))) fields.push(...fieldsOf(message));
    const fatal = fields.find(([tag]) => tag === 5);
    if (fatal) throw new Error(String(fatal[1]));
    return fields;
  }

  load(file) {
    const trace = fs.readFileSync(file);
    const STEP = 1 << 20;
    for (let at = 0; at < trace.length; at += STEP) {
      this.check(this.ask(METHOD.append, bytesField(101, trace.subarray(at, at + STEP))), 201, 2);
    }
    this.ask(METHOD.finalize);
  }

  check(fields, tag, errorTag) {
    for (const [, reply] of fields.filter(([found]) => found === tag)) {
      const error = [...fieldsOf(reply)].find(([found]) => found === errorTag);
      if (error && error[1].length > 0) throw new Error(String(error[1]));
    }
  }

  /** The rows that a query gives, each as an object. */
  rows(sql) {
    const query = bytesField(103, bytesField(1, Buffer.from(sql)));
    const replies = this.ask(METHOD.query, query).filter(([tag]) => tag === 203);
    this.check(replies, 203, 2);
    const columns = [];
    const cells = [];
    for (const [, result] of replies) {
      for (const [tag, value] of fieldsOf(result)) {
        if (tag === 1) columns.push(String(value));
        if (tag === 3) cells.push(...cellsOf(value));
      }
    }
    const rows = [];
    for (let at = 0; at < cells.length; at += columns.length) {
      rows.push(Object.fromEntries(columns.map((name, column) => [name, cells[at + column]])));
    }
    return rows;
  }
}

/** The values of a `CellsBatch`. */
function cellsOf(batch) {
  const parts = new Map(fieldsOf(batch));
  const bytesOf = (tag) => parts.get(tag) ?? Buffer.alloc(0);
  const values = varintsOf(bytesOf(2));
  const floats = bytesOf(3);
  const texts = String(bytesOf(5)).split("\0");
  let [float, text] = [0, 0];
  return [...varintsOf(bytesOf(1))].map((kind) => {
    switch (Number(kind)) {
      case 1:
        return null;
      case 2:
        return Number(BigInt.asIntN(64, values.next().value));
      case 3:
        return floats.readDoubleLE(8 * float++);
      case 4:
        return texts[text++];
      default:
        throw new Error(`a cell of kind ${kind}`);
    }
  });
}

async function main() {
  const [folder, trace] = process.argv.slice(2);
  const engine = new Engine(versionOf(folder));
  await engine.isReady;
  engine.load(trace);
  const queries = fs.readFileSync(0, "utf8").split("\n");
  for (const sql of queries.filter((line) => line.trim() !== "")) {
    process.stdout.write(`${JSON.stringify(engine.rows(sql))}\n`);
  }
}

main().catch((error) => {
  process.stderr.write(`${error.stack}\n`.slice(0, 4000));
  process.exitCode = 1;
});
