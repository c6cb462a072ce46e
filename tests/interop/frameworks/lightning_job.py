"""Trains with Lightning over the backend that BACKEND names. Rank 0 prints losses."""
import os

import lightning
import torch
import torch.distributed as dist
from lightning.pytorch.strategies import DDPStrategy

BACKEND = os.environ.get("BACKEND", "gloo")
if BACKEND == "ddprun":
    import ddprun.torch


class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Linear(8, 1)

    def training_step(self, batch, index):
        inputs, targets = batch
        loss = torch.nn.functional.mse_loss(self.net(inputs), targets)
        if index == 3 and os.environ.get("FAILS") == os.environ["RANK"]:
            raise SystemExit(3)
        return loss

    def on_train_epoch_end(self):
        norm = sum(parameter.square().sum() for parameter in self.parameters()).item()
        if self.global_rank == 0:
            print(f"epoch {self.current_epoch}: {norm!r}")

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.05)


lightning.seed_everything(1, verbose=False)
inputs = torch.randn(128, 8)
dataset = torch.utils.data.TensorDataset(inputs, inputs.sum(1, keepdim=True))
trainer = lightning.Trainer(accelerator="cpu", devices=int(os.environ["WORLD_SIZE"]), max_epochs=3,
                            strategy=DDPStrategy(process_group_backend=BACKEND), logger=False,
                            enable_checkpointing=False, enable_progress_bar=False,
                            enable_model_summary=False)
trainer.fit(Model(), torch.utils.data.DataLoader(dataset, batch_size=8))
dist.barrier()
dist.destroy_process_group()
