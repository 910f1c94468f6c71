"""Budgets, rates and answers of judges in Redis or Valkey, shared by all processes that name the server.

Methods raise StoreError if the server is away, unless they say otherwise.
"""

from __future__ import annotations

import json
from uuid import uuid4

from otel_evals._internal.redis_server import RedisServer
from otel_evals.errors import StoreError

_NANO = 1_000_000_000
_DAYS_2 = 2 * 86_400

_ONCE_SECONDS = 60
"""Seconds for which a repeated change, after a lost answer, is recognised."""

_RESERVE = """
if redis.call('EXISTS', KEYS[2]) == 1 then return 1 end
local usd = tonumber(redis.call('HGET', KEYS[1], 'usd') or '0')
local tokens = tonumber(redis.call('HGET', KEYS[1], 'tokens') or '0')
if ARGV[3] ~= '' and usd + tonumber(ARGV[1]) > tonumber(ARGV[3]) then return 0 end
if ARGV[4] ~= '' and tokens + tonumber(ARGV[2]) > tonumber(ARGV[4]) then return 0 end
redis.call('HINCRBY', KEYS[1], 'usd', ARGV[1])
redis.call('HINCRBY', KEYS[1], 'tokens', ARGV[2])
redis.call('EXPIRE', KEYS[1], ARGV[5])
redis.call('SET', KEYS[2], 1, 'EX', ARGV[6])
return 1
"""
_GIVE_BACK = """
if redis.call('EXISTS', KEYS[1]) == 1 and redis.call('SET', KEYS[2], 1, 'NX', 'EX', ARGV[3]) then
    redis.call('HINCRBY', KEYS[1], 'usd', ARGV[1])
    redis.call('HINCRBY', KEYS[1], 'tokens', ARGV[2])
end
"""


class SharedBudgetLedger:
    """Sums by key, in billionths of a dollar and in tokens; a day's sums are kept for two days."""

    def __init__(self, server: RedisServer) -> None:
        self._server = server

    def reserve(
        self, key: str, usd: float, tokens: int, most_usd: float | None, most_tokens: int | None
    ) -> bool:
        most = [
            "" if most_usd is None else round(most_usd * _NANO),
            "" if most_tokens is None else most_tokens,
        ]
        arguments = [round(usd * _NANO), tokens, *most, _DAYS_2, _ONCE_SECONDS]
        return bool(self._server.run(_RESERVE, _change_of(key), arguments))

    def give_back(self, key: str, usd: float, tokens: int) -> None:
        arguments = [-round(usd * _NANO), -tokens, _ONCE_SECONDS]
        self._server.run(_GIVE_BACK, _change_of(key), arguments)

    def read(self, key: str) -> tuple[float, int]:
        found = self._server.run(
            "return redis.call('HMGET', KEYS[1], 'usd', 'tokens')", [f"budget:{key}"], []
        )
        return int(found[0] or 0) / _NANO, int(found[1] or 0)


def _change_of(key: str) -> list[str]:
    return [f"budget:{key}", f"change:{uuid4().hex}"]


# Of each window there are the reservations' ends (a sorted set) and amounts (a hash, with their sum).
_TAKE = """
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local wait = 0
for i = 1, #KEYS, 2 do
    local window = (i - 1) / 2 * 3 + 2
    local limit, amount = tonumber(ARGV[window]), tonumber(ARGV[window + 1])
    for _, id in ipairs(redis.call('ZRANGEBYSCORE', KEYS[i], '-inf', now)) do
        redis.call('HINCRBY', KEYS[i + 1], 'sum', 0 - (redis.call('HGET', KEYS[i + 1], id) or 0))
        redis.call('HDEL', KEYS[i + 1], id)
        redis.call('ZREM', KEYS[i], id)
    end
    local first = redis.call('ZRANGE', KEYS[i], 0, 0, 'WITHSCORES')
    if #first == 0 then
        redis.call('DEL', KEYS[i + 1])
    elseif (redis.call('HGET', KEYS[i + 1], 'sum') or 0) + amount > limit then
        wait = math.max(wait, first[2] - now, 1)
    end
end
if wait > 0 then return wait end
for i = 1, #KEYS, 2 do
    local window = (i - 1) / 2 * 3 + 2
    redis.call('ZADD', KEYS[i], now + ARGV[window + 2], ARGV[1])
    redis.call('HSET', KEYS[i + 1], ARGV[1], ARGV[window + 1])
    redis.call('HINCRBY', KEYS[i + 1], 'sum', ARGV[window + 1])
    redis.call('PEXPIRE', KEYS[i], ARGV[window + 2] * 2)
    redis.call('PEXPIRE', KEYS[i + 1], ARGV[window + 2] * 2)
end
return 0
"""
_END = """
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
for i = 1, #KEYS, 2 do
    local window = (i - 1) + 2
    local before = redis.call('HGET', KEYS[i + 1], ARGV[1])
    if before then
        redis.call('HINCRBY', KEYS[i + 1], 'sum', ARGV[window] - before)
        redis.call('HSET', KEYS[i + 1], ARGV[1], ARGV[window])
        redis.call('ZADD', KEYS[i], 'XX', 'LT', now + ARGV[window + 1], ARGV[1])
    end
end
"""
_UNKNOWN_SECONDS = 60.0
"""Seconds within which a request surely arrives at the provider."""


class SharedWindows:
    """Rate limits shared by processes; without effect while the server is away."""

    def __init__(self, server: RedisServer, name: str, rates: dict[str, tuple[int, float]]) -> None:
        self._server = server
        self._rates = rates
        self._keys = [f"limits:{name}:{what}:{part}" for what in rates for part in ("ends", "amounts")]

    def take(self, id: str, wanted: dict[str, int]) -> float:
        """Take room in every window for a call, or return the seconds until there may be some."""
        arguments: list[object] = [id]
        for what, (limit, length) in self._rates.items():
            lasts = length + max(length / 4, _UNKNOWN_SECONDS)
            arguments += [limit, min(wanted[what], limit), round(lasts * 1000)]
        try:
            return int(self._server.run(_TAKE, self._keys, arguments)) / 1000
        except StoreError:
            return 0.0

    def end(self, id: str, used: dict[str, int]) -> None:
        arguments: list[object] = [id]
        for what, (_, length) in self._rates.items():
            arguments += [used[what], round(length * 1000)]
        try:
            self._server.run(_END, self._keys, arguments)
        except StoreError:
            return  # its room is free again by itself


_GET = """
local found = redis.call('HGET', KEYS[1], ARGV[1])
if found then redis.call('ZADD', KEYS[2], redis.call('INCR', KEYS[3]), ARGV[1]) end
return found
"""
_PUT = """
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
redis.call('ZADD', KEYS[2], redis.call('INCR', KEYS[3]), ARGV[1])
while redis.call('ZCARD', KEYS[2]) > tonumber(ARGV[3]) do
    redis.call('HDEL', KEYS[1], redis.call('ZPOPMIN', KEYS[2])[1])
end
"""


class SharedAnswers:
    """Answers by key; the least recently used go first."""

    def __init__(self, server: RedisServer, max_entries: int) -> None:
        self._server = server
        self._max_entries = max_entries
        self._keys = ["answers", "answers:used", "answers:uses"]

    def get(self, key: str) -> tuple[str, str] | None:
        found = self._server.run(_GET, self._keys, [key])
        if found is None:
            return None
        model, text = json.loads(found)
        return str(model), str(text)

    def put(self, key: str, model: str, text: str) -> None:
        self._server.run(_PUT, self._keys, [key, json.dumps([model, text]), self._max_entries])
