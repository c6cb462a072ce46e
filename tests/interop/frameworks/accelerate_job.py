"""Trains with Accelerate. Rank 0 prints losses."""
import os

import torch
from accelerate import Accelerator

accelerator = Accelerator(cpu=True)
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
inputs = torch.randn(128, 8)
dataset = torch.utils.data.TensorDataset(inputs, inputs.sum(1, keepdim=True))
loader = torch.utils.data.DataLoader(dataset, batch_size=8)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for epoch in range(3):
    for batch, target in loader:
        loss = torch.nn.functional.mse_loss(model(batch), target)
        optimizer.zero_grad()
        accelerator.backward(loss)
        optimizer.step()
    total = accelerator.reduce(loss.detach(), "mean").item()
    if accelerator.is_main_process:
        print(f"epoch {epoch}: {total!r}")
    if epoch == 1 and os.environ.get("FAILS") == os.environ["RANK"]:
        raise SystemExit(3)
accelerator.wait_for_everyone()
accelerator.end_training()
