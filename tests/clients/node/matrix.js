// The story of tests/clients/story.py with kafkajs. Arguments: bootstrap, startMs.
// kafkajs has no `assign`: a group of one member, whose partitions are all of the topic's, comes nearest.
'use strict'

const { CompressionCodecs, CompressionTypes, Kafka, logLevel } = require('kafkajs')
const SnappyCodec = require('kafkajs-snappy')
const lz4 = require('lz4js')
const xxh = require('lz4js/xxh32.js')
const zstd = require('@bokuweb/zstd-wasm')

const RECORDS = 10000
const PARTITIONS = 3
const SEEK_RECORD = 6000

const [bootstrap, start] = process.argv.slice(2)
const startMs = Number(start)
const kafka = new Kafka({ clientId: 'matrix', brokers: [bootstrap], logLevel: logLevel.WARN })
const admin = kafka.admin()

CompressionCodecs[CompressionTypes.Snappy] = SnappyCodec
CompressionCodecs[CompressionTypes.LZ4] = () => ({
  compress: async encoder => blocksAreIndependent(Buffer.from(lz4.compress(encoder.buffer))),
  decompress: async buffer => Buffer.from(lz4.decompress(buffer)),
})
CompressionCodecs[CompressionTypes.ZSTD] = () => ({
  compress: async encoder => Buffer.from(zstd.compress(encoder.buffer, 3)),
  decompress: async buffer => Buffer.from(zstd.decompress(buffer)),
})

// Kafka reads only LZ4 frames whose header says that blocks do not depend on each other. lz4js does not say so, and
// does not need to as long as there is one block: the flag is set, and the checksum of the header made anew.
function blocksAreIndependent(frame) {
  frame[4] |= 0x20
  frame[6] = (xxh.hash(0, frame, 4, 2) >> 8) & 0xff
  return frame
}

const value = i => `value-${i}-${'kohort'.repeat(i % 8)}`

function check(holds, what) {
  if (!holds) throw new Error(what)
}

async function produce(topic, count, compression, acks, settings) {
  const producer = kafka.producer(settings)
  await producer.connect()
  for (let from = 0; from < count; from += 1000) {
    const messages = []
    for (let i = from; i < from + 1000; i++) {
      messages.push({ partition: i % PARTITIONS, key: `key-${i}`, value: value(i), timestamp: String(startMs + i) })
    }
    await producer.send({ topic, messages, compression, acks })
  }
  await producer.disconnect()
}

// Reads from the offsets in `next`, which move on with what is read, to the end.
async function consume(topic, count, next, seek) {
  let missing = count - next.reduce((sum, offset) => sum + offset, 0)
  const consumer = kafka.consumer({ groupId: `group-${topic}-${missing}` })
  await consumer.connect()
  await consumer.subscribe({ topic, fromBeginning: true })
  await new Promise((resolve, reject) => {
    consumer.on(consumer.events.CRASH, event => reject(event.payload.error))
    consumer
      .run({
        autoCommit: false,
        eachBatchAutoResolve: true,
        eachBatch: async ({ batch, isStale }) => {
          for (const message of batch.messages) {
            if (isStale()) break
            const offset = Number(message.offset)
            if (seek && offset < next[batch.partition]) continue
            const i = offset * PARTITIONS + batch.partition
            check(offset === next[batch.partition], `offset ${offset} in partition ${batch.partition}`)
            check(message.key.toString() === `key-${i}`, `key of record ${i}`)
            check(message.value.toString() === value(i), `value of record ${i}`)
            check(Number(message.timestamp) === startMs + i, `time of record ${i}`)
            next[batch.partition]++
            if (--missing === 0) resolve()
          }
        },
      })
      .catch(reject)
    if (seek) next.forEach((offset, partition) => consumer.seek({ topic, partition, offset: String(offset) }))
  })
  await consumer.disconnect()
}

async function story(topic, count, { compression, acks, settings } = {}) {
  await admin.createTopics({ topics: [{ topic, numPartitions: PARTITIONS, replicationFactor: 1 }], waitForLeaders: true })
  await produce(topic, count, compression, acks, settings)
  await consume(topic, count, new Array(PARTITIONS).fill(0), false)
  if (count === RECORDS) {
    const from = new Array(PARTITIONS)
    for (const found of await admin.fetchTopicOffsetsByTimestamp(topic, startMs + SEEK_RECORD)) {
      from[found.partition] = Number(found.offset)
    }
    for (let i = SEEK_RECORD; i < SEEK_RECORD + PARTITIONS; i++) {
      check(from[i % PARTITIONS] === Math.floor(i / PARTITIONS), `offset for the time of record ${i}`)
    }
    await consume(topic, count, from, true)
  }
  for (const end of await admin.fetchTopicOffsets(topic)) {
    check(Number(end.high) === Math.ceil((count - end.partition) / PARTITIONS), `end of partition ${end.partition}`)
  }
  await admin.deleteTopics({ topics: [topic] })
  check(!(await admin.listTopics()).includes(topic), 'the topic is still listed')
  console.log(`${topic} ok`)
}

async function main() {
  await zstd.init()
  await admin.connect()
  const types = { none: 'None', gzip: 'GZIP', snappy: 'Snappy', lz4: 'LZ4', zstd: 'ZSTD' }
  for (const [name, type] of Object.entries(types)) {
    await story(`node-${name}`, RECORDS, { compression: CompressionTypes[type] })
  }
  await story('node-idempotent', 3000, { settings: { idempotent: true } })
  await story('node-acks-0', 3000, { acks: 0 })
  await story('node-acks-1', 3000, { acks: 1 })
  await story('node-acks-all', 3000, { acks: -1 })
  await admin.disconnect()
}

main().catch(problem => {
  console.error(problem)
  process.exit(1)
})
