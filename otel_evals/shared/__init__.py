"""What several processes share over a network: a Redis or Valkey server."""

from otel_evals.shared.redis_server import RedisServer, is_address, redis_server, servers

__all__ = ["RedisServer", "is_address", "redis_server", "servers"]
