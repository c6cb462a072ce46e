"""Trains with DeepSpeed's ZeRO stage 1 on CPUs. Rank 0 prints losses."""
import os

import deepspeed
import torch
import torch.distributed as dist

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
deepspeed.ops.__compatible_ops__ = {}  # without compiling DeepSpeed's own collectives
settings = {"train_micro_batch_size_per_gpu": 8, "zero_optimization": {"stage": 1}}
deepspeed.init_distributed("gloo", verbose=False)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=settings)
inputs = torch.randn(128, 8).chunk(dist.get_world_size())[dist.get_rank()]
for epoch in range(3):
    for batch in inputs.split(8):
        loss = torch.nn.functional.mse_loss(engine(batch), batch.sum(1, keepdim=True))
        engine.backward(loss)
        engine.step()
    total = loss.detach().clone()
    dist.all_reduce(total)
    if dist.get_rank() == 0:
        print(f"epoch {epoch}: {total.item()!r}")
    if epoch == 1 and os.environ.get("FAILS") == os.environ["RANK"]:
        raise SystemExit(3)
dist.barrier()
dist.destroy_process_group()
