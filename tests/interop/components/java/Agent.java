// An agent with a tool, in Java: its spans by the SDK of OpenTelemetry, over OTLP/gRPC.

import io.opentelemetry.api.common.AttributeKey;
import io.opentelemetry.api.common.Attributes;
import io.opentelemetry.api.trace.Span;
import io.opentelemetry.api.trace.Tracer;
import io.opentelemetry.exporter.otlp.trace.OtlpGrpcSpanExporter;
import io.opentelemetry.sdk.resources.Resource;
import io.opentelemetry.sdk.trace.SdkTracerProvider;
import io.opentelemetry.sdk.trace.export.BatchSpanProcessor;
import java.util.concurrent.TimeUnit;

public class Agent {
  static final String QUESTION =
      "[{\"role\":\"user\",\"parts\":[{\"type\":\"text\",\"content\":\"Where is order A-1001?\"}]}]";
  static final String ANSWER =
      "[{\"role\":\"assistant\",\"parts\":[{\"type\":\"text\",\"content\":\"It arrives on 2026-11-25.\"}],"
          + "\"finish_reason\":\"stop\"}]";

  public static void main(String[] arguments) {
    var exporter = OtlpGrpcSpanExporter.builder().setEndpoint(arguments[0]).build();
    var provider =
        SdkTracerProvider.builder()
            .setResource(Resource.create(Attributes.of(AttributeKey.stringKey("service.name"), "shop")))
            .addSpanProcessor(BatchSpanProcessor.builder(exporter).build())
            .build();
    for (int run = 0; run < Integer.parseInt(arguments[1]); run++) {
      run(provider.get("shop/agent"));
    }
    provider.shutdown().join(20, TimeUnit.SECONDS);
  }

  static void run(Tracer tracer) {
    var agent =
        tracer.spanBuilder("invoke_agent support")
            .setAttribute("gen_ai.operation.name", "invoke_agent")
            .setAttribute("gen_ai.agent.name", "support")
            .setAttribute("gen_ai.input.messages", QUESTION)
            .setAttribute("gen_ai.output.messages", ANSWER)
            .startSpan();
    try (var scope = agent.makeCurrent()) {
      Span tool =
          tracer.spanBuilder("execute_tool lookup_order")
              .setAttribute("gen_ai.operation.name", "execute_tool")
              .setAttribute("gen_ai.tool.name", "lookup_order")
              .setAttribute("gen_ai.tool.call.id", "c1")
              .setAttribute("gen_ai.tool.call.arguments", "{\"order_id\":\"A-1001\"}")
              .setAttribute("gen_ai.tool.call.result", "{\"eta\":\"2026-11-25\"}")
              .startSpan();
      tool.end();
    }
    agent.end();
    System.out.println(agent.getSpanContext().getTraceId());
  }
}
