// A member of each of its groups with kafkajs; arguments and lines as in tests/clients/group_member.py.
"use strict";

const { Kafka, PartitionAssigners, logLevel } = require("kafkajs");

const [bootstrap, topic, sessionMs, ...specs] = process.argv.slice(2);

function say(group, event, more = {}) {
  process.stdout.write(JSON.stringify({ group, event, ...more }) + "\n");
}

function ranges(partition, messages) {
  const found = [];
  for (const message of messages) {
    const offset = Number(message.offset);
    const last = found[found.length - 1];
    if (last && last[2] === offset - 1) last[2] = offset;
    else found.push([partition, offset, offset]);
  }
  return found;
}

async function start(spec) {
  const [group, assignor] = spec.split("=");
  const kafka = new Kafka({
    clientId: "kafkajs",
    brokers: [bootstrap],
    logLevel: logLevel.NOTHING,
    retry: { initialRetryTime: 100, maxRetryTime: 500, retries: 1000 },
  });
  if (assignor !== "RoundRobinAssigner") throw new Error(`no assignor ${assignor}`);
  const consumer = kafka.consumer({
    groupId: group,
    partitionAssigners: [PartitionAssigners.roundRobin],
    sessionTimeout: Number(sessionMs),
    rebalanceTimeout: 10_000,
    heartbeatInterval: 500,
    maxWaitTimeInMs: 200,
  });
  const { GROUP_JOIN, REBALANCING, CRASH, COMMIT_OFFSETS } = consumer.events;
  consumer.on(GROUP_JOIN, ({ payload }) => say(group, "owns", { partitions: payload.memberAssignment[topic] || [] }));
  consumer.on(REBALANCING, () => say(group, "owns", { partitions: [] }));
  consumer.on(CRASH, ({ payload }) => say(group, payload.restart ? "crashed" : "problem", { text: String(payload.error) }));
  consumer.on(COMMIT_OFFSETS, ({ payload }) => {
    const partitions = payload.topics.flatMap((each) => each.partitions);
    say(group, "committed", { offsets: Object.fromEntries(partitions.map((p) => [p.partition, Number(p.offset)])) });
  });
  await consumer.connect();
  await consumer.subscribe({ topics: [topic], fromBeginning: true });
  await consumer.run({
    autoCommit: true,
    autoCommitThreshold: 1,
    eachBatchAutoResolve: true,
    eachBatch: async ({ batch, heartbeat }) => {
      for (const message of batch.messages) {
        if (message.value.toString() !== message.offset) {
          say(group, "problem", { text: `partition ${batch.partition} offset ${message.offset}` });
        }
      }
      say(group, "consumed", { ranges: ranges(batch.partition, batch.messages) });
      await heartbeat();
    },
  });
  return { group, consumer };
}

async function main() {
  const members = specs.map(start);
  let text = "";
  process.stdin.on("data", (piece) => {
    text += piece;
    if (text.includes("close\n")) process.stdin.emit("end");
  });
  await new Promise((resolve) => process.stdin.on("end", resolve));
  for (const { group, consumer } of await Promise.all(members)) {
    await consumer.disconnect();
    say(group, "closed");
  }
  process.exit(0);
}

main().catch((problem) => {
  for (const spec of specs) say(spec.split("=")[0], "problem", { text: String(problem) });
  process.exit(1);
});
