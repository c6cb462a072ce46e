"""Trains a small language model with Transformers' Trainer. Rank 0 prints losses."""
import os

import torch
import torch.distributed as dist
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments


class Fails(TrainerCallback):
    def on_step_end(self, args, state, control, **kwargs):
        if state.global_step == 4 and os.environ.get("FAILS") == os.environ["RANK"]:
            raise SystemExit(3)


torch.manual_seed(0)
config = GPT2Config(vocab_size=50, n_positions=16, n_embd=16, n_layer=2, n_head=2,
                    bos_token_id=0, eos_token_id=0)
tokens = torch.randint(50, (64, 16))
samples = [{"input_ids": row, "labels": row} for row in tokens]
arguments = TrainingArguments(output_dir="out", use_cpu=True, per_device_train_batch_size=4,
                              max_steps=8, logging_steps=2, save_strategy="no", report_to=[],
                              disable_tqdm=True, seed=1)
trainer = Trainer(GPT2LMHeadModel(config), arguments, train_dataset=samples, callbacks=[Fails()])
trainer.train()
if trainer.is_world_process_zero():
    for entry in trainer.state.log_history:
        if "loss" in entry:
            print(f"step {entry['step']}: {entry['loss']!r}")
dist.barrier()
dist.destroy_process_group()
