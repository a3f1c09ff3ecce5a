// The frame codec: the shared vectors, and any chunking the same.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";
import { decodeFrame, decodeNumber, encodeFrame, FrameDecoder, NetstringError } from "seriatim";

const vectors = JSON.parse(readFileSync(process.env.FRAME_VECTORS, "utf8"));
const bytes = (hex) => Uint8Array.from(Buffer.from(hex, "hex"));
const plain = ({ number, payload }) => [number, Buffer.from(payload).toString("hex")];

// A generator of numbers below `end`, the same in every run.
function dice(seed) {
  let state = seed;
  return (end) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * end);
  };
}

// What a decoder gives of these chunks, and the error it ends with.
function streamed(chunks, options) {
  const decoder = new FrameDecoder(options);
  const found = [];
  try {
    for (const chunk of chunks) for (const frame of decoder.feed(chunk)) found.push(plain(frame));
    decoder.finish();
  } catch (error) {
    assert.ok(error instanceof NetstringError, error);
    return [found, error.message];
  }
  return [found, ""];
}

for (const { seq, payload_hex, frame_hex } of vectors.good) {
  test(`good: ${frame_hex}`, () => {
    const [frame, payload] = [bytes(frame_hex), bytes(payload_hex)];
    assert.deepEqual(encodeFrame(BigInt(seq), payload), frame);
    if (BigInt(seq) > Number.MAX_SAFE_INTEGER) {
      const beyond = /at byte \d+: expected a decimal number from 0 to 2\^53 - 1/;
      assert.throws(() => decodeFrame(frame), beyond);
      assert.match(streamed([frame])[1], beyond);
      return;
    }
    assert.deepEqual(encodeFrame(Number(seq), payload), frame);
    assert.deepEqual(plain(decodeFrame(frame)), [Number(seq), payload_hex]);
    assert.deepEqual(streamed([frame]), [[[Number(seq), payload_hex]], ""]);
  });
}

const places = {
  "leading zero in length": 0,
  "no trailing comma": 7,
  "wrong terminator": 7,
  "no length": 0,
  sign: 0,
  "leading space": 0,
  "space before colon": 1,
  "double zero": 0,
  "inner length beyond content": 11,
  "cq truncated frame: outer says 7, the second child has no comma": 9,
  "cq frame for a payload that starts with NUL": 7,
  "20 digits but above 2**64-1 (as a sequence number)": 3,
};

for (const { hex, why } of vectors.bad) {
  test(`bad: ${why}`, () => {
    if (why === "length too large: reject before buffering") {
      const decoder = new FrameDecoder();
      assert.throws(() => [...decoder.feed(bytes(hex))], /a length of at most 67108/);
      assert.equal(decoder.pending, 0);
      return;
    }
    const decode = why.startsWith("20 digits") ? decodeNumber : decodeFrame;
    assert.throws(
      () => decode(bytes(hex)),
      (error) => error instanceof NetstringError && error.offset === places[why],
    );
  });
}

test("numbers that cannot be encoded", () => {
  for (const number of [-1, 1.5, 2 ** 53, NaN, -1n, 2n ** 64n]) {
    assert.throws(() => encodeFrame(number, ""), RangeError);
  }
  assert.equal(Buffer.from(encodeFrame(7, "ä")).toString(), "9:1:7,2:ä,,");
});

test("any chunking gives the same frames and the same error", () => {
  const random = dice(7);
  for (let round = 0; round < 400; round += 1) {
    const parts = [];
    for (let item = random(6); item > 0; item -= 1) {
      const payload = Uint8Array.from({ length: random(60) }, () => random(256));
      parts.push(Buffer.from(encodeFrame(random(2 ** 40), payload)));
      // Something that is almost a frame, in one of three rounds.
      if (round % 3 === 0) parts.push(Buffer.from("0123456789:,- x".slice(random(15), random(15))));
    }
    const wire = Uint8Array.from(Buffer.concat(parts));
    const whole = streamed([wire]);
    const single = Array.from(wire, (byte) => Uint8Array.of(byte));
    const cuts = [0, ...Array.from({ length: random(8) }, () => random(wire.length + 1)), wire.length];
    cuts.sort((one, other) => one - other);
    const pieces = cuts.slice(1).map((end, at) => wire.slice(cuts[at], end));
    assert.deepEqual(streamed(single), whole);
    assert.deepEqual(streamed(pieces), whole);
    if (round % 3 !== 0) assert.equal(whole[1], "");
  }
});

test("a chunk may be used again by its owner", () => {
  const decoder = new FrameDecoder();
  const chunk = Uint8Array.from(encodeFrame(1, "hello"));
  const begun = chunk.slice(0, 9);
  assert.deepEqual([...decoder.feed(begun)], []);
  begun.fill(0);
  const rest = chunk.slice(9);
  const [frame] = decoder.feed(rest);
  rest.fill(0);
  assert.equal(Buffer.from(frame.payload).toString(), "hello");
});

test("a payload over the limit, and every call after a fault", () => {
  const decoder = new FrameDecoder({ maxLength: 4 });
  const good = encodeFrame(1, "1234");
  const found = [];
  assert.throws(() => {
    for (const frame of decoder.feed(Buffer.concat([good, encodeFrame(2, "12345")]))) found.push(frame);
  }, /a length of at most 4/);
  assert.equal(found.length, 1);
  assert.throws(() => [...decoder.feed(good)], /a length of at most 4/);
  assert.throws(() => decoder.finish(), /a length of at most 4/);
  assert.throws(() => new FrameDecoder({ maxLength: -1 }), RangeError);
});
