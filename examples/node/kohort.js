// Starts `kohort serve --test` for a test, and asks it for what the test needs. Copy this file into your project.
//
// The command is looked for on the PATH; the environment variable KOHORT can name another one. All controls are in
// docs/test-control.openapi.yaml: `get`, `post` and `delete` reach those that have no method of their own here.
'use strict'

const { spawn } = require('node:child_process')
const { createInterface } = require('node:readline')

class Kohort {
  /** settings: Kafka's names, for instance { 'num.partitions': 6 } */
  static async start(settings = {}) {
    const overrides = Object.entries(settings).flatMap(([name, value]) => ['--override', `${name}=${value}`])
    const command = ['serve', '--test', '--print-json', '--stop-with-stdin', '--log-level', 'warning', ...overrides]
    const child = spawn(process.env.KOHORT ?? 'kohort', command, { stdio: ['pipe', 'pipe', 'inherit'] })
    const addresses = await new Promise((resolve, reject) => {
      child.once('error', reject)
      child.once('exit', status => reject(new Error(`kohort ended with status ${status}`)))
      createInterface({ input: child.stdout }).once('line', line => resolve(JSON.parse(line)))
    })
    return new Kohort(child, addresses)
  }

  constructor(child, addresses) {
    this.child = child
    this.bootstrapServers = addresses.bootstrap_servers
    this.http = addresses.http
  }

  async stop() {
    const ended = new Promise(resolve => this.child.once('exit', resolve))
    this.child.stdin.end() // it stops when its standard input ends, so it also stops if this process is killed
    await ended
  }

  // --- topics
  createTopic = (topic, partitions = 1) => this.post('/test/topics', { topic, partitions })
  produce = (topic, ...values) =>
    this.post(`/test/topics/${encodeURIComponent(topic)}/records`, { records: values.map(value => ({ value })) })

  // --- groups
  group = group => this.get(`/test/groups/${encodeURIComponent(group)}`)
  commits = async group => (await this.get(`/test/groups/${encodeURIComponent(group)}/commits`)).commits
  wait = (group, what) => this.post(`/test/groups/${encodeURIComponent(group)}/wait`, what)
  rebalance = (group, reason) => this.post(`/test/groups/${encodeURIComponent(group)}/rebalance`, { reason })
  expire = (group, memberId) => this.post(`/test/groups/${encodeURIComponent(group)}/expire`, { member_id: memberId })

  // --- faults
  fault = what => this.post('/test/faults', what)

  get = path => this.ask('GET', path)
  post = (path, body = {}) => this.ask('POST', path, body)
  delete = path => this.ask('DELETE', path)

  async ask(method, path, body) {
    const answer = await fetch(this.http + path, {
      method,
      headers: body && { 'Content-Type': 'application/json' },
      body: body && JSON.stringify(body),
    })
    const found = await answer.json()
    if (!answer.ok) throw new Error(`${method} ${path}: ${found.error}`)
    return found
  }
}

module.exports = { Kohort }
