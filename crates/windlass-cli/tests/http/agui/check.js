// Validates the server's streams with AG-UI's own packages: `schemas` validates each line of a file, `talk` is a client.
'use strict';

const fs = require('fs');
const path = require('path');
const { createRequire } = require('module');

const load = createRequire(path.join(process.env.AG_UI, 'package.json'));
const { EventSchemas } = load('@ag-ui/core/schemas');
const { HttpAgent, verifyEvents } = load('@ag-ui/client');
const { from, lastValueFrom } = load('rxjs');
const { toArray } = load('rxjs/operators');

// Sorts the members, so that a comparison shows which ones a schema has removed.
function sorted(value) {
  if (Array.isArray(value)) return value.map(sorted);
  if (value === null || typeof value !== 'object') return value;
  return Object.fromEntries(Object.keys(value).sort().map((name) => [name, sorted(value[name])]));
}

// Validates a file in which each line is the JSON of a stream's events.
async function schemas(file) {
  const streams = fs.readFileSync(file, 'utf8').trim().split('\n').map((line) => JSON.parse(line));
  const types = new Set();
  for (const events of streams) {
    for (const event of events) {
      const read = EventSchemas.safeParse(event);
      if (!read.success) throw new Error(`${JSON.stringify(event)}: ${read.error}`);
      const [is, was] = [JSON.stringify(sorted(read.data)), JSON.stringify(sorted(event))];
      if (is !== was) throw new Error(`the schema has no place for all of ${was}: ${is}`);
      types.add(event.type);
    }
    await lastValueFrom(from(events).pipe(verifyEvents(), toArray()));
    const last = events[events.length - 1].type;
    if (!['RUN_FINISHED', 'RUN_ERROR'].includes(last)) throw new Error(`the last event is ${last}`);
  }
  console.log(JSON.stringify([...types].sort()));
}

// Sends a message, approves all interrupts, and prints the outcomes.
async function talk(url, key, threadId, content) {
  const headers = { Authorization: `Bearer ${key}` };
  const agent = new HttpAgent({ url, headers, threadId });
  const outcomes = [];
  const subscriber = {
    onRunFinishedEvent: ({ event }) => { outcomes.push(event.outcome.type); },
    onRunErrorEvent: ({ event }) => { outcomes.push(event.message); },
  };
  agent.addMessage({ id: `${threadId}-m1`, role: 'user', content });
  await agent.runAgent({}, subscriber);
  while (agent.pendingInterrupts.length > 0) {
    const resume = agent.pendingInterrupts.map(({ id }) =>
      ({ interruptId: id, status: 'resolved', payload: { approved: true } }));
    await agent.runAgent({ resume }, subscriber);
  }
  console.log(JSON.stringify({ outcomes, messages: agent.messages }));
}

const [command, ...rest] = process.argv.slice(2);
const warnings = [];
console.warn = (...words) => warnings.push(words.join(' '));
({ schemas, talk })[command](...rest).then(
  () => { if (warnings.length > 0) { console.error(warnings.join('\n')); process.exit(1); } process.exit(0); },
  (error) => { console.error(error); process.exit(1); },
);
