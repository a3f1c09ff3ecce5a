// Every way of the npm client to authenticate, and what it reports when it is refused.
import assert from "node:assert/strict";
import test from "node:test";
import { connect, ErrorCode, Events, nkeyAuthenticator } from "nats";

const { BROKER_URL: several, TOKEN_URL: withToken, USER_SEED: seed } = process.env;
const quick = { timeout: 60_000 };
const { TLS_CA: caFile, TLS_CERT: certFile, TLS_KEY: keyFile } = process.env;
const tls = caFile ? { tls: { caFile, certFile, keyFile } } : {};
const once = { servers: several, reconnect: false, timeout: 30_000, ...tls };
const bytes = (text) => new TextEncoder().encode(text);

async function works(client) {
  const subscription = client.subscribe("a.works", { max: 1 });
  client.publish("a.works", "yes");
  for await (const message of subscription) assert.equal(message.string(), "yes");
  await client.close();
}

const rights = {
  "a plain password": { user: "plain", pass: "plain" },
  "a hashed password": { user: "hashed", pass: "hidden" },
  "a user with permissions": { user: "some", pass: "some" },
  "an nkey": { authenticator: nkeyAuthenticator(bytes(seed)) },
  "a token": { servers: withToken, token: "t0ken" },
};
for (const [name, options] of Object.entries(rights)) {
  test(`let in with ${name}`, quick, async () => works(await connect({ ...once, ...options })));
}

const wrongs = {
  nothing: {},
  "a wrong password": { user: "plain", pass: "wrong" },
  "a wrong password, hashed": { user: "hashed", pass: "wrong" },
  "an unknown user": { user: "nobody", pass: "plain" },
  "a token, where there is none": { token: "plain" },
  "a wrong token": { servers: withToken, token: "wrong" },
};
for (const [name, options] of Object.entries(wrongs)) {
  test(`refused with ${name}`, quick, () =>
    assert.rejects(connect({ ...once, ...options }), { code: ErrorCode.AuthorizationViolation }));
}

// What the client reports besides what it rejects, up to `count` errors.
async function reported(client, count) {
  const found = [];
  for await (const status of client.status()) {
    if (status.type !== Events.Error) continue;
    found.push(status);
    if (found.length === count) return found;
  }
  return found;
}

test("no right to publish", quick, async () => {
  const client = await connect({ ...once, user: "some", pass: "some" });
  const errors = reported(client, 2);
  client.publish("other", "x");
  client.publish("a.no", "x");
  const found = await errors;
  for (const status of found) {
    assert.equal(status.data, ErrorCode.PermissionsViolation);
    assert.equal(status.permissionContext.operation, "publish");
  }
  assert.deepEqual(
    found.map((status) => status.permissionContext.subject),
    ["other", "a.no"],
  );
  await works(client);
});

test("no right to subscribe", quick, async () => {
  const client = await connect({ ...once, user: "some", pass: "some" });
  for (const subject of ["other", ">", "a.secret"]) {
    const subscription = client.subscribe(subject);
    await assert.rejects(
      (async () => {
        for await (const message of subscription) assert.fail(message.subject);
      })(),
      { code: ErrorCode.PermissionsViolation },
    );
  }
  await works(client);
});

test("a service that may only respond", quick, async () => {
  const service = await connect({ ...once, user: "service", pass: "service" });
  const asker = await connect({ ...once, user: "some", pass: "some" });
  service.subscribe("a.service", {
    callback: (_, message) => message.respond(`pong ${message.string()}`),
  });
  await service.flush();
  for (let number = 0; number < 20; number += 1) {
    const answer = await asker.request("a.service", `${number}`, { timeout: 30_000 });
    assert.equal(answer.string(), `pong ${number}`);
  }
  await service.close();
  await asker.close();
});
