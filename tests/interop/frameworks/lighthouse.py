"""Hosts torchft's lighthouse for two replica groups until its standard input is closed.

Prints its address.
"""
import sys

from torchft.coordination import LighthouseServer

server = LighthouseServer(bind="[::]:0", min_replicas=2, join_timeout_ms=100)
print(server.address(), flush=True)
sys.stdin.read()
server.shutdown()
