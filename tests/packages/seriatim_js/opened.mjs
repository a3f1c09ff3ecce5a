// Clients of the broker under test, made in every way that the package knows.
import { Client, connect } from "seriatim";
import { connect as connectNats } from "nats";
import { connect as connectNatsIo } from "@nats-io/transport-node";

const quick = { reconnectTimeWait: 10, reconnectJitter: 0, maxReconnectAttempts: -1 };

const over = (connectWith) => async (urls, options) => {
  const connection = await connectWith({ servers: urls.split(","), ...quick, ...options });
  return new Client(connection, { closesConnection: true });
};

// How a client is made, by the name that a test gives; servers are given with commas.
export const ways = {
  nats: over(connectNats),
  "nats-io": over(connectNatsIo),
  connect: (urls, options) => connect({ servers: urls.split(","), ...quick, ...options }),
};
