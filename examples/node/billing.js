// The consumer under test: bills each order once, and commits each order that it has billed.
'use strict'

const { Kafka, logLevel } = require('kafkajs')

class Billing {
  /** charge(order) sends the bill. It may take its time. */
  constructor(bootstrapServers, charge) {
    const kafka = new Kafka({
      clientId: 'billing',
      brokers: bootstrapServers.split(','),
      logLevel: logLevel.NOTHING,
      requestTimeout: 1000,
      retry: { initialRetryTime: 50 },
    })
    this.charge = charge
    this.consumer = kafka.consumer({ groupId: 'billing', heartbeatInterval: 100 })
  }

  async start() {
    await this.consumer.connect()
    await this.consumer.subscribe({ topic: 'orders', fromBeginning: true })
    await this.consumer.run({ autoCommit: false, eachMessage: message => this.bill(message) })
  }

  async bill({ topic, partition, message, heartbeat }) {
    await this.charge(message.value.toString())
    await this.consumer.commitOffsets([{ topic, partition, offset: String(Number(message.offset) + 1) }])
    await heartbeat()
  }

  stop() {
    return this.consumer.disconnect()
  }
}

module.exports = { Billing }
