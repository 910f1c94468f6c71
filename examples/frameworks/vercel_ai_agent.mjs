// An agent of the Vercel AI SDK, scored by a gateway.
import { openai } from '@ai-sdk/openai';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-proto';
import { BatchSpanProcessor, NodeTracerProvider } from '@opentelemetry/sdk-trace-node';
import { generateText, stepCountIs, tool } from 'ai';
import { z } from 'zod';

const provider = new NodeTracerProvider({ spanProcessors: [new BatchSpanProcessor(new OTLPTraceExporter())] });
provider.register();

const ORDERS = {
  'A-1001': { status: 'shipped', carrier: 'ACME', arrives: '2026-11-25' },
  'A-1002': { status: 'shipped', carrier: 'ACME', arrives: '2026-11-27' },
};

const lookup_order = tool({
  description: 'Look up an order.',
  inputSchema: z.object({ order_id: z.string() }),
  execute: async ({ order_id }) => ORDERS[order_id],
});

for (const order of Object.keys(ORDERS)) {
  await generateText({
    model: openai('gpt-5-mini'),
    tools: { lookup_order },
    stopWhen: stepCountIs(3),
    prompt: `When does order ${order} arrive?`,
    experimental_telemetry: { isEnabled: true, functionId: 'support' },
  });
}
await provider.shutdown();
