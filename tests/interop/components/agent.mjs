// An agent in JavaScript: the Vercel AI SDK with a tool, the OpenTelemetry SDK, OTLP/HTTP (sent in chunks, without a
// Content-Length). Arguments: the URL of an OTLP endpoint, the URL of an OpenAI-compatible server, a number of runs.
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-proto';
import { BatchSpanProcessor, NodeTracerProvider } from '@opentelemetry/sdk-trace-node';
import { generateText, stepCountIs, tool } from 'ai';
import { z } from 'zod';

const [endpoint, llm, runs] = process.argv.slice(2);
const exporter = new OTLPTraceExporter({ url: `${endpoint}/v1/traces` });
const provider = new NodeTracerProvider({
  spanProcessors: [new BatchSpanProcessor(exporter, { scheduledDelayMillis: 100 })],
});
provider.register();
const model = createOpenAICompatible({ name: 'stub', baseURL: llm, apiKey: 'none' })('any');
const lookup_order = tool({
  description: 'Looks up an order',
  inputSchema: z.object({ order_id: z.string() }),
  execute: async () => ({ eta: '2026-11-25' }),
});
for (let run = 0; run < Number(runs); run++) {
  const { text } = await generateText({
    model,
    tools: { lookup_order },
    stopWhen: stepCountIs(3),
    prompt: 'Where is order A-1001?',
    experimental_telemetry: { isEnabled: true, functionId: 'support' },
  });
  console.log(text);
}
await provider.shutdown();
