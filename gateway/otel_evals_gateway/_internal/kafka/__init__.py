"""A source of spans and log records in Kafka, as the Collector's Kafka exporter writes them."""
