"""The daemon: who is alive, what runs where, and the streams of rollouts.

The modules here are domain code and import no gRPC; `services/` is the thin wire shell around them, and `app`
puts the parts together.
"""
