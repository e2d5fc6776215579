"""Channels by name: in-process, link or plain gRPC, chosen by where the peer lives."""

from gymd.mesh.aborts import cancel_all, on_cancel
from gymd.mesh.directory import Directory, Peer
from gymd.mesh.local import SERVER_KEY, CallContext, LocalServers
from gymd.mesh.mesh import Mesh
from gymd.mesh.options import CHANNEL_OPTIONS, MAX_MESSAGE_BYTES, SERVER_OPTIONS
from gymd.mesh.plain import dial
from gymd.mesh.server import MeshServer, build_server

__all__ = [
    "CHANNEL_OPTIONS",
    "MAX_MESSAGE_BYTES",
    "SERVER_KEY",
    "SERVER_OPTIONS",
    "CallContext",
    "Directory",
    "LocalServers",
    "Mesh",
    "MeshServer",
    "Peer",
    "build_server",
    "cancel_all",
    "dial",
    "on_cancel",
]
