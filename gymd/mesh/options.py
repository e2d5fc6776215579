"""Channel and server options, each with its reason; the only place that names them."""

from __future__ import annotations

__all__ = ["CHANNEL_OPTIONS", "MAX_MESSAGE_BYTES", "SERVER_OPTIONS"]

# gRPC's default is 4 MiB; one rollout with 32k tokens and logprobs is 0.3 MiB, and frames batch many.
MAX_MESSAGE_BYTES = 64 * 1024 * 1024

_KEEPALIVE_MS = 30_000
_HEADER_BYTES = 64 * 1024

CHANNEL_OPTIONS: list[tuple[str, int | str]] = [
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    # A status travels in headers, with its text percent-encoded; beyond gRPC's 8 KiB the call would end as
    # RESOURCE_EXHAUSTED without it.
    ("grpc.max_metadata_size", _HEADER_BYTES),
    ("grpc.absolute_max_metadata_size", _HEADER_BYTES),
    # A dead peer behind a silent network is noticed within a minute; links are idle for long.
    ("grpc.keepalive_time_ms", _KEEPALIVE_MS),
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    # Every channel its own connection: channels to the same address must not share one HTTP/2 window.
    ("grpc.use_local_subchannel_pool", 1),
    # A restarted host is dialled again within a second, not after grpc's backoff of up to two minutes.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    # HTTP proxies of the environment are for the world outside, not for peers of the mesh.
    ("grpc.enable_http_proxy", 0),
]

SERVER_OPTIONS: list[tuple[str, int | str]] = [
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    # Two servers on one port would silently share its connections; a taken port must be an error.
    ("grpc.so_reuseport", 0),
    # Default limits cancel bursts above 1,000 calls that are not accepted yet, at random.
    ("grpc.server.max_pending_requests", 1_000_000),
    ("grpc.server.max_pending_requests_hard_limit", 1_000_000),
    ("grpc.server_max_unrequested_time_in_server", 3_600),
    # Accept the keepalive above; the default minimum of five minutes would kill such streams.
    ("grpc.http2.min_ping_interval_without_data_ms", _KEEPALIVE_MS // 2),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", _KEEPALIVE_MS // 2),
    ("grpc.keepalive_permit_without_calls", 1),
]
