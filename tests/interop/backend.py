"""The backend of a test program's groups."""
import os

BACKEND = os.environ.get("BACKEND", "gloo")
if BACKEND == "ddprun":
    import ddprun.torch
