// What a user with few permissions gets, and what a server without numbers says.
import assert from "node:assert/strict";
import test from "node:test";
import { NotSeriatim, Refused } from "seriatim";
import { ways } from "./opened.mjs";

const quick = { timeout: 60_000 };
const user = { user: "some", pass: "some" };

for (const [way, open] of Object.entries(ways)) {
  test(`a user who may not (${way})`, quick, async () => {
    const client = await open(process.env.BROKER_URL, user);
    const isRefused = (subject) => (error) => {
      assert.ok(error instanceof Refused, error);
      assert.equal(error.subject, subject);
      return true;
    };
    try {
      assert.ok((await client.publish("own.a", "x")) > 0);
      await assert.rejects(client.publish("other.a", "x"), isRefused("other.a"));
      await assert.rejects(client.publish("half.a", "x"), isRefused("half.a"));
      await assert.rejects(client.read("other.>").next(), isRefused("other.>"));
      await assert.rejects(client.read("own.>", { last: true }).next(), isRefused("own.>"));
      await assert.rejects(client.get(1), isRefused("number 1"));
      assert.equal((await client.read("own.>").next()).value.text(), "x");
      assert.equal((await client.info()).restricted, true);
    } finally {
      await client.close();
    }
  });

  test(`a user who may not ask what there is (${way})`, quick, async () => {
    const client = await open(process.env.BROKER_URL, { user: "dumb", pass: "dumb" });
    try {
      await assert.rejects(client.read("own.>").next(), Refused);
      await assert.rejects(client.info(), Refused);
    } finally {
      await client.close();
    }
  });

  test(`a server without numbers (${way})`, quick, async () => {
    const client = await open(process.env.NATS_URL);
    try {
      await assert.rejects(client.publish("a", "x"), NotSeriatim);
      await assert.rejects(client.read("a").next(), NotSeriatim);
      await assert.rejects(client.info(), NotSeriatim);
    } finally {
      await client.close();
    }
  });
}
