// An agent with a tool, in Go: its spans by the SDK of OpenTelemetry, over OTLP/HTTP with gzip.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"strconv"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

const (
	question = `[{"role":"user","parts":[{"type":"text","content":"Where is order A-1001?"}]}]`
	found    = `[{"role":"tool","parts":[{"type":"tool_call_response","id":"c1","result":{"eta":"2026-11-25"}}]}]`
	answer   = `[{"role":"assistant","parts":[{"type":"text","content":"It arrives on 2026-11-25."}],"finish_reason":"stop"}]`
	call     = `[{"role":"assistant","parts":[{"type":"tool_call","id":"c1","name":"lookup_order","arguments":{"order_id":"A-1001"}}],"finish_reason":"tool_call"}]`
)

func main() {
	ctx := context.Background()
	exporter, err := otlptracehttp.New(ctx,
		otlptracehttp.WithEndpointURL(os.Args[1]+"/v1/traces"),
		otlptracehttp.WithCompression(otlptracehttp.GzipCompression))
	if err != nil {
		log.Fatal(err)
	}
	named := resource.NewSchemaless(attribute.String("service.name", "shop"))
	provider := sdk.NewTracerProvider(sdk.WithBatcher(exporter), sdk.WithResource(named))
	count, err := strconv.Atoi(os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	for range count {
		run(ctx, provider.Tracer("shop/agent"))
	}
	if err := provider.Shutdown(ctx); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, tracer trace.Tracer) {
	ctx, agent := tracer.Start(ctx, "invoke_agent support", trace.WithAttributes(
		attribute.String("gen_ai.operation.name", "invoke_agent"),
		attribute.String("gen_ai.agent.name", "support"),
		attribute.String("gen_ai.input.messages", question),
		attribute.String("gen_ai.output.messages", answer)))
	defer agent.End()
	chat(ctx, tracer, question, call)
	_, tool := tracer.Start(ctx, "execute_tool lookup_order", trace.WithAttributes(
		attribute.String("gen_ai.operation.name", "execute_tool"),
		attribute.String("gen_ai.tool.name", "lookup_order"),
		attribute.String("gen_ai.tool.call.id", "c1"),
		attribute.String("gen_ai.tool.call.arguments", `{"order_id":"A-1001"}`),
		attribute.String("gen_ai.tool.call.result", `{"eta":"2026-11-25"}`)))
	tool.End()
	chat(ctx, tracer, found, answer)
	fmt.Println(agent.SpanContext().TraceID())
}

func chat(ctx context.Context, tracer trace.Tracer, in, out string) {
	_, span := tracer.Start(ctx, "chat gpt-5-mini", trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
		attribute.String("gen_ai.operation.name", "chat"),
		attribute.String("gen_ai.request.model", "gpt-5-mini"),
		attribute.StringSlice("gen_ai.response.finish_reasons", []string{"stop"}),
		attribute.Int("gen_ai.usage.input_tokens", 120),
		attribute.String("gen_ai.input.messages", in),
		attribute.String("gen_ai.output.messages", out)))
	span.End()
}
