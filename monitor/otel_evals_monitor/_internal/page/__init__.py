"""The page of `otel-evals monitor`, rendered on the server, and the HTML file of `otel-evals report`."""
