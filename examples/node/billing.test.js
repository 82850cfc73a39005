'use strict'

const assert = require('node:assert/strict')
const { afterEach, beforeEach, test } = require('node:test')
const { Billing } = require('./billing')
const { Kohort } = require('./kohort')

let kohort
let consumers

beforeEach(async () => {
  kohort = await Kohort.start()
  consumers = []
  await kohort.createTopic('orders')
})

afterEach(async () => {
  await Promise.all(consumers.map(each => each.stop()))
  await kohort.stop()
})

async function startBilling(charge) {
  const billing = new Billing(kohort.bootstrapServers, charge)
  consumers.push(billing)
  await billing.start()
}

const committed = offset => kohort.wait('billing', { committed: { orders: { 0: offset } } })

test('a rebalance during processing bills nothing twice', async () => {
  const billed = []
  await kohort.produce('orders', 'order 1', 'order 2', 'order 3')
  await startBilling(async order => {
    billed.push(order)
    if (order === 'order 2') await kohort.rebalance('billing', 'somebody deploys')
  })
  await kohort.wait('billing', { state: 'Stable', rebalances: 2 })
  await kohort.produce('orders', 'order 4')
  await committed(4)
  assert.deepEqual(billed, ['order 1', 'order 2', 'order 3', 'order 4'])
})

test("a zombie's commit is refused", { timeout: 10000 }, async () => {
  await kohort.produce('orders', 'order 1')
  let begin, wake
  const isBilling = new Promise(resolve => (begin = resolve))
  const pause = new Promise(resolve => (wake = resolve))
  await startBilling(() => {
    begin()
    return pause
  })
  await isBilling
  const [zombie] = (await kohort.group('billing')).members

  // The broker has not heard from the zombie for too long. Another consumer takes over, and goes on.
  await kohort.expire('billing', zombie.member_id)
  await startBilling(async () => {})
  await kohort.produce('orders', 'order 2')
  await committed(2)

  // Now the zombie goes on where it was. Its commit of order 1 would take the group back to order 2.
  wake()
  let refused = []
  while (refused.length === 0) {
    const { requests } = await kohort.get('/test/requests?api=OffsetCommit')
    refused = requests.filter(each => each.member_id === zombie.member_id && each.errors !== null)
  }
  assert.deepEqual(refused[0].errors, ['UNKNOWN_MEMBER_ID'])
  assert.equal((await kohort.group('billing')).committed.orders[0], 2)
})

test('a lost answer to a commit bills nothing twice', async () => {
  const billed = []
  await kohort.fault({ kind: 'lose_answer', api: 'OffsetCommit', group: 'billing', times: 1 })
  await kohort.produce('orders', 'order 1', 'order 2')
  await startBilling(async order => billed.push(order))
  await committed(2)
  assert.deepEqual(billed, ['order 1', 'order 2'])
  const offsets = (await kohort.commits('billing')).map(each => each.offset)
  assert.deepEqual(offsets, [1, 1, 2]) // the first commit was done, its answer lost, and the client sent it again
})
