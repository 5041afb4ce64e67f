// Follows one of Headrace's topics and prints what is new: a consumer in another team's hands, in Node.
//
//   npm install kafkajs
//   node consume.mjs trajectory-scored 127.0.0.1:9092
//
// Repeated records are recognised by their `ce_id`; offsets are committed after the effect, so a crash repeats records
// and loses none.
import { Kafka, logLevel } from "kafkajs";

const [event, bootstrap = "127.0.0.1:9092", group = "example-node", prefix = "headrace", count = "0"] =
  process.argv.slice(2);
if (!event) {
  console.error("usage: node consume.mjs EVENT [BOOTSTRAP] [GROUP] [PREFIX] [COUNT]");
  process.exit(2);
}

const kafka = new Kafka({ clientId: "example-node", brokers: bootstrap.split(","), logLevel: logLevel.ERROR });
const consumer = kafka.consumer({ groupId: group });
const seen = new Set();

await consumer.connect();
await consumer.subscribe({ topic: `${prefix}.${event}.v1`, fromBeginning: true });
await consumer.run({
  autoCommit: false,
  eachMessage: async ({ topic, partition, message }) => {
    const id = message.headers.ce_id.toString();
    if (!seen.has(id)) {
      seen.add(id);
      console.log(JSON.stringify({ id, time: message.headers.ce_time.toString(), ...JSON.parse(message.value) }));
    }
    await consumer.commitOffsets([{ topic, partition, offset: (BigInt(message.offset) + 1n).toString() }]);
    if (Number(count) && seen.size >= Number(count)) {
      setTimeout(async () => {
        await consumer.disconnect();
        process.exit(0);
      });
    }
  },
});
