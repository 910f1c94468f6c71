// A Mastra agent, scored by a gateway.
import { Agent } from '@mastra/core/agent';
import { Mastra } from '@mastra/core/mastra';
import { createTool } from '@mastra/core/tools';
import { Observability } from '@mastra/observability';
import { OtelExporter } from '@mastra/otel-exporter';
import { z } from 'zod';

const endpoint = `${process.env.OTEL_EXPORTER_OTLP_ENDPOINT}/v1/traces`;
const exporter = new OtelExporter({ provider: { custom: { endpoint, protocol: 'http/protobuf' } } });
const observability = new Observability({ configs: { otel: { serviceName: 'shop', exporters: [exporter] } } });

const ORDERS = {
  'A-1001': { status: 'shipped', carrier: 'ACME', arrives: '2026-11-25' },
  'A-1002': { status: 'shipped', carrier: 'ACME', arrives: '2026-11-27' },
};

const lookup_order = createTool({
  id: 'lookup_order',
  description: 'Look up an order.',
  inputSchema: z.object({ order_id: z.string() }),
  execute: async ({ order_id }) => ORDERS[order_id],
});

const support = new Agent({
  id: 'support',
  name: 'support',
  instructions: 'Answer customers.',
  model: { id: 'openai/gpt-5-mini', url: process.env.OPENAI_BASE_URL, apiKey: process.env.OPENAI_API_KEY },
  tools: { lookup_order },
});
const mastra = new Mastra({ agents: { support }, observability });

for (const order of Object.keys(ORDERS)) {
  await mastra.getAgent('support').generate(`When does order ${order} arrive?`);
}
await mastra.shutdown();
