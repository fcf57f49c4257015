// Sends mutations and a record by KafkaJS, and writes its observations as lines of JSON.
//
// Arguments: NAME ADDRESS FIRST_USER.
const { Kafka, logLevel } = require("kafkajs");

const [side, address, first] = process.argv.slice(2);
const topic = (name) => `${side}-kafkajs-${name}`;
const now = () => performance.now();

function connected(number) {
  const user = `${side}-${String(Number(first) + number).padStart(3, "0")}`;
  const sasl = { mechanism: "plain", username: user, password: `${user}-secret` };
  return new Kafka({ brokers: [address], clientId: "app", sasl, requestTimeout: 60000, logLevel: logLevel.NOTHING });
}

async function observe(name, step, send) {
  const sent = now();
  let seen;
  try {
    seen = String(await send());
  } catch (error) {
    const cause = error.errors?.[0] ?? error;
    seen = `${cause.type ?? cause.name} ${cause.message}`;
  }
  console.log(JSON.stringify({ case: name, step, seen, sent, received: now(), throttle_ms: null }));
}

async function mutations(number, name, steps) {
  const admin = connected(number).admin();
  await admin.connect();
  const list = async (client) => `${(await client.describeCluster()).brokers.length} broker`;
  for (const [step, send] of [["connect", list], ...steps]) await observe(name, step, () => (send ?? list)(admin));
  await admin.disconnect();
}

const create = (name, numPartitions) => (admin) => admin.createTopics({ topics: [{ topic: topic(name), numPartitions }], timeout: 30000 });
const grow = (name, count) => (admin) => admin.createPartitions({ topicPartitions: [{ topic: topic(name), count }], timeout: 30000 });
const remove = (name) => (admin) => admin.deleteTopics({ topics: [topic(name)], timeout: 30000 });

async function records(number) {
  const kafka = connected(number);
  const [producer, admin] = [kafka.producer(), kafka.admin()];
  await Promise.all([producer.connect(), admin.connect()]);
  const messages = [{ value: "hello" }];
  await observe("records", "produce", async () => (await producer.send({ topic: topic("data"), messages }))[0].baseOffset);
  await observe("records", "offsets", async () => JSON.stringify(await admin.fetchTopicOffsets(topic("data"))));
  await Promise.all([producer.disconnect(), admin.disconnect()]);
}

Promise.all([
  mutations(0, "create", [
    ["overdrawn by 8", create("a", 11)],
    ["in debt", create("b", 1)],
    ["another call of this client", null],
    ["exists", create("a", 1)],
  ]),
  mutations(1, "grow", [["overdrawn by 8", grow("grown-a", 12)], ["in debt", grow("grown-b", 2)]]),
  mutations(2, "delete", [["overdrawn by 8", remove("deleted-a")], ["in debt", remove("deleted-b")]]),
  records(3),
]).catch((error) => {
  console.error(error);
  process.exit(1);
});
